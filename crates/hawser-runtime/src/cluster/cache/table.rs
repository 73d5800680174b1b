//! One table: the objects of a kind that one source shows.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memchr::memmem::Finder;
use parking_lot::RwLock;
use serde_json::{Value, json};

use hawser_sync::subject::Labels;
use hawser_sync::{Found, Key, Print, Scope, Seen, Side};
use kube_lang::object::{Gvk, Object};

mod places;
mod size;

use places::{Labelled, Places};
pub use size::Size;

/// Deletions that are remembered; older ones are settled long since.
const GRAVES: usize = 20_000;

/// Which part of a kind a table is told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Only objects that carry this label,
    pub labelled: Option<Arc<str>>,
    /// with this value; with any where there is none.
    pub value: Option<Arc<str>>,
    pub namespace: Option<Arc<str>>,
    /// Objects are found by these labels without looking at every one.
    pub indexed: Vec<Arc<str>>,
    /// So many bytes are kept of objects that nobody has asked for; of the others of these no more is
    /// kept than tells whose they are. Without it, everything is.
    pub idle: Option<usize>,
}

impl Coverage {
    fn accepts(&self, key: &Key, object: &Object) -> bool {
        let fits = |label: &Arc<str>| match (object.label(label), &self.value) {
            (Some(found), Some(only)) => found == &**only,
            (found, _) => found.is_some(),
        };
        self.labelled.as_ref().is_none_or(fits) && self.reaches(key)
    }

    /// Where something with these labels stands in the index.
    fn place<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> Option<u64> {
        if self.indexed.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for name in &self.indexed {
            label(name)?.hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    fn reaches(&self, key: &Key) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|only| key.namespace.as_ref() == Some(only))
    }
}

/// An object as a list or an event shows it.
pub struct Listed {
    pub key: Key,
    pub version: u64,
    pub object: Object,
}

/// What became different, told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: Key,
    /// As it is now, or as it was last seen.
    pub object: Arc<Object>,
    pub what: What,
}

impl Change {
    fn of(key: &Key, object: Arc<Object>, what: What) -> Self {
        let key = key.clone();
        Self { key, object, what }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Part of the first list.
    Initial,
    Changed,
    Gone,
}

/// How a list ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub gone: Vec<Change>,
    /// It was the first one of the table: nobody has been told of anything yet.
    pub first: bool,
}

struct Entry {
    version: u64,
    uid: Box<str>,
    print: Print,
    in_deletion: bool,
    /// Where it stands in the index.
    indexed: Option<u64>,
    /// Where it stands by the labels that were looked for.
    labelled: Box<[Labelled]>,
    body: Box<[u8]>,
    extent: Extent,
    /// Somebody asked for it: it stays whole.
    asked: AtomicBool,
    /// Answers told of it, and the source itself has not: nobody will tell what becomes of it.
    answered: bool,
}

/// How much of an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// All that can be read of it.
    Fragment,
    /// Only what tells whose it is, since nobody asked for it.
    Cut,
}

struct Grave {
    uid: Box<str>,
    /// States up to this version are from before the deletion.
    version: u64,
    /// The event of the deletion was seen, or the answer that reported it.
    witnessed: bool,
    /// It was in deletion then, or had no finalizer.
    ended: bool,
    /// An answer reported it, which tells no version: states of this uid may still come from before it.
    undated: bool,
}

/// Objects that nobody asked for, in the order in which they came.
#[derive(Default)]
struct Idle {
    order: VecDeque<(Key, usize)>,
    known: HashMap<Key, usize>,
    bytes: usize,
}

#[derive(Default)]
struct State {
    complete: bool,
    entries: HashMap<Key, Entry>,
    bytes: usize,
    fragments: usize,
    /// Keys by the values of the indexed labels, hashed, where an object has all of them.
    index: HashMap<u64, Vec<Key>>,
    places: Places,
    graves: HashMap<Key, Grave>,
    buried: VecDeque<Key>,
    idle: Idle,
}

/// See [`Cache`](super::Cache).
pub struct Table {
    side: Side,
    kind: Arc<Gvk>,
    coverage: Coverage,
    /// How much is kept of what nobody asked for.
    idle: AtomicUsize,
    state: RwLock<State>,
    /// How many objects were looked at to find some.
    #[cfg(test)]
    pub(super) visits: AtomicUsize,
}

impl Table {
    pub(super) fn new(side: &Side, kind: &Arc<Gvk>, coverage: Coverage) -> Self {
        Self {
            side: side.clone(),
            kind: Arc::clone(kind),
            idle: AtomicUsize::new(coverage.idle.unwrap_or(usize::MAX)),
            coverage,
            state: RwLock::default(),
            #[cfg(test)]
            visits: AtomicUsize::default(),
        }
    }

    pub fn side(&self) -> &Side {
        &self.side
    }

    pub fn kind(&self) -> &Arc<Gvk> {
        &self.kind
    }

    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether a whole list has been taken in: only then is anything absent.
    pub fn is_complete(&self) -> bool {
        self.state.read().complete
    }

    pub fn len(&self) -> usize {
        self.state.read().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn size(&self) -> Size {
        let state = self.state.read();
        Size {
            entries: state.entries.len(),
            bytes: state.bytes,
            fragments: state.fragments,
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        self.state.read().entries.keys().cloned().collect()
    }

    /// The keys of a cluster, or of one namespace of it.
    pub fn keys_of(&self, cluster: &str, namespace: Option<&str>) -> Vec<Key> {
        let state = self.state.read();
        let scope = self.scope(cluster);
        let keys: Vec<Key> = match namespace {
            None => state.places.of_cluster(scope).collect(),
            Some(namespace) => state.places.of_namespace(scope, namespace).collect(),
        };
        self.visited(keys.len());
        keys
    }

    /// Every object, parsed one after the other.
    pub fn all(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.read();
        let parsed = |(key, entry): (&Key, &Entry)| Some((key.clone(), entry.object()?));
        state.entries.iter().filter_map(parsed).collect()
    }

    /// None where the table would never be told of this object.
    pub(super) fn get(&self, key: &Key) -> Option<Seen> {
        let state = self.state.read();
        if let Some(entry) = state.entries.get(key) {
            return Some(entry.whole().map_or(Seen::Unknown, Seen::Present));
        }
        let absent = if state.complete {
            Seen::Absent
        } else {
            Seen::Unknown
        };
        self.coverage.reaches(key).then_some(absent)
    }

    /// The print of what `get` answers: none for unknown, `Some(None)` where the table would never be
    /// told of this object.
    #[allow(
        clippy::option_option,
        reason = "not knowing and not being asked are two things"
    )]
    pub(super) fn print(&self, key: &Key) -> Option<Option<Print>> {
        let state = self.state.read();
        match state.entries.get(key) {
            Some(entry) => Some(Some(entry.print)),
            None if !self.coverage.reaches(key) => Some(None),
            None => state.complete.then_some(Some(Print::ABSENT)),
        }
    }

    /// How many bytes are kept of an object.
    pub(super) fn bytes(&self, key: &Key) -> usize {
        let state = self.state.read();
        state.entries.get(key).map_or(0, |entry| entry.body.len())
    }

    pub(super) fn find(&self, cluster: &str, labels: &Labels) -> Found {
        self.seek(labels);
        let state = self.state.read();
        let Some(candidates) = self.candidates(&state, cluster, labels) else {
            return Found::Unknown;
        };
        let mut found = Vec::new();
        for (key, entry) in candidates {
            let Some(object) = entry.object() else {
                return Found::Unknown;
            };
            if labels.fit(&object) {
                let Some(whole) = entry.ask().then_some(object) else {
                    return Found::Unknown;
                };
                found.push((key, whole));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Found::All(found)
    }

    /// Of the objects with these labels.
    pub(super) fn print_of(&self, cluster: &str, labels: &Labels) -> Option<Print> {
        self.seek(labels);
        let state = self.state.read();
        let mut prints = Vec::new();
        for (_, entry) in self.candidates(&state, cluster, labels)? {
            let object = entry.object()?;
            if labels.fit(&object) {
                prints.push(entry.print);
            }
        }
        Some(Print::of_all(prints))
    }

    /// Finds objects by these labels from now on without looking at others.
    fn seek(&self, labels: &Labels) {
        let is_indexed = self.coverage.place(|label| labels.get(label)).is_some();
        if is_indexed || self.state.read().places.unsought(labels).is_empty() {
            return;
        }
        let mut state = self.state.write();
        let State {
            places, entries, ..
        } = &mut *state;
        let new = places.unsought(labels);
        let marks: Vec<_> = new.iter().map(|name| json!(name).to_string()).collect();
        let marks: Vec<_> = marks.iter().map(Finder::new).collect();
        places.seek(new);
        for (key, entry) in entries {
            if marks.iter().any(|mark| mark.find(&entry.body).is_some())
                && let Some(object) = entry.object()
            {
                entry.labelled = places.relabel(key, &entry.labelled, &object);
            }
        }
    }

    /// The objects among which everything with these labels is; none where that is not known.
    fn candidates<'s>(
        &'s self,
        state: &'s State,
        cluster: &'s str,
        labels: &Labels,
    ) -> Option<Box<dyn Iterator<Item = (Key, &'s Entry)> + 's>> {
        let labelled = self.coverage.labelled.as_ref();
        let covered = labelled.is_none_or(|label| labels.get(label).is_some());
        if !state.complete || !covered || self.coverage.namespace.is_some() {
            return None;
        }
        let entry = move |key: Key| {
            self.visited(1);
            let entry = state.entries.get(&key)?;
            Some((key, entry))
        };
        let values = self.coverage.place(|label| labels.get(label));
        if let Some(values) = values {
            let keys = state.index.get(&values).into_iter().flatten();
            let keys = keys.filter(move |key| *key.cluster == *cluster).cloned();
            return Some(Box::new(keys.filter_map(entry)));
        }
        if let Some(fewest) = state.places.fewest(cluster, labels) {
            let keys = fewest.into_iter().flatten().cloned();
            return Some(Box::new(keys.filter_map(entry)));
        }
        // Few of many objects have the labels: those whose text has not are not parsed.
        let marks = labels
            .iter()
            .map(|(key, value)| format!("{}:{}", json!(key), json!(value)));
        let marks: Vec<_> = marks.map(|mark| Finder::new(&mark).into_owned()).collect();
        let may_have =
            move |(_, entry): &(Key, &Entry)| marks.iter().all(|m| m.find(&entry.body).is_some());
        let all = state
            .places
            .of_cluster(self.scope(cluster))
            .filter_map(entry);
        Some(Box::new(all.filter(may_have)))
    }

    #[cfg(test)]
    fn visited(&self, objects: usize) {
        self.visits.fetch_add(objects, Ordering::Relaxed);
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "only tests count")]
    fn visited(&self, _: usize) {}

    pub(super) fn saw_deletion(&self, key: &Key) -> bool {
        let state = self.state.read();
        state.graves.get(key).is_some_and(|grave| grave.witnessed)
    }

    /// Whether an object was in deletion when it went, or had no finalizer.
    pub(super) fn saw_end(&self, key: &Key) -> bool {
        let state = self.state.read();
        state.graves.get(key).is_some_and(|grave| grave.ended)
    }

    /// Takes a state from an answer. No event will tell of it any more: what became different is
    /// answered, for everybody but the one who asked.
    pub(super) fn learn(&self, key: &Key, object: &Arc<Object>) -> Option<Change> {
        let version = version(object)?;
        if !self.coverage.accepts(key, object) {
            return None;
        }
        let mut state = self.state.write();
        let is_new = !state.complete && !state.entries.contains_key(key);
        let news = state.put(&self.coverage, key, version, object);
        // Whoever asks for it or writes it has a use for it.
        if let Some(entry) = state.entries.get_mut(key) {
            entry.asked.store(true, Ordering::Relaxed);
            entry.answered |= is_new;
        }
        // Of a first list all is told when it is whole.
        (state.complete && news == News::Different)
            .then(|| Change::of(key, Arc::clone(object), What::Changed))
    }

    /// Takes from an answer that an object does not exist; as with `learn`.
    pub(super) fn learn_gone(&self, key: &Key) -> Option<Change> {
        let mut state = self.state.write();
        let entry = state.take(key)?;
        let last = entry.object();
        let grave = Grave {
            uid: entry.uid,
            version: entry.version,
            witnessed: true,
            ended: entry.in_deletion,
            undated: true,
        };
        state.bury(key, grave);
        let last = last.filter(|_| state.complete)?;
        Some(Change::of(key, last, What::Gone))
    }

    /// Forgets what only answers told of, as long as the source has not told of everything: what is not
    /// watched may be another by now.
    pub fn forget_answers(&self) {
        let mut state = self.state.write();
        if state.complete {
            return;
        }
        let answered = state.entries.iter().filter(|(_, entry)| entry.answered);
        let keys: Vec<Key> = answered.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            state.take(key);
        }
    }

    /// Whether the table is told of this object, if its source shows what it was asked for.
    pub fn accepts(&self, listed: &Listed) -> bool {
        self.coverage.accepts(&listed.key, &listed.object)
    }

    /// Takes an event of an object that exists.
    pub fn upsert(&self, listed: &Listed) -> Option<Change> {
        let Listed {
            key,
            version,
            object,
        } = listed;
        let mut state = self.state.write();
        let news = state.put(&self.coverage, key, *version, object);
        if let Some(entry) = state.entries.get_mut(key) {
            entry.answered = false;
        }
        let most = self.idle.load(Ordering::Relaxed);
        if most < usize::MAX {
            state.rest(key, most);
        }
        drop(state);
        (news == News::Different).then(|| Change::of(key, Arc::new(object.clone()), What::Changed))
    }

    /// Keeps everything from now on: somebody came who asks for all of it.
    pub fn keep_all(&self) {
        self.idle.store(usize::MAX, Ordering::Relaxed);
    }

    /// Takes the event of a deletion, or of a label that was taken off.
    pub fn delete(&self, listed: &Listed) -> Option<Change> {
        let Listed {
            key,
            version,
            object,
        } = listed;
        let mut state = self.state.write();
        let known = state.entries.get(key);
        let uid = object.uid().unwrap_or_default();
        if known.is_some_and(|entry| entry.version > *version) {
            return None;
        }
        // Where a label is asked for, its removal looks like a deletion of the object, also of one that is
        // in deletion.
        let witnessed = self.coverage.labelled.is_none();
        let was_going = object.in_deletion() || known.is_some_and(|entry| entry.in_deletion);
        let known = state.take(key);
        let before = state
            .graves
            .get(key)
            .is_some_and(|grave| *grave.uid == *uid);
        let ended = was_going || object.finalizers().next().is_none();
        let (seen, seen_end) = match state.graves.get(key).filter(|_| before) {
            Some(grave) => (grave.witnessed, grave.ended),
            None => (false, false),
        };
        let grave = Grave {
            uid: uid.into(),
            version: *version,
            witnessed: witnessed || seen,
            ended: ended || seen_end,
            undated: false,
        };
        state.bury(key, grave);
        drop(state);
        (known.is_some() || !before).then(|| Change::of(key, Arc::new(object.clone()), What::Gone))
    }

    /// Ends a list whose objects were all upserted: what it lacked is gone, unless it is known to
    /// be newer than the list.
    pub fn finish(&self, listed: &HashSet<Key>, as_of: u64) -> Finished {
        let mut state = self.state.write();
        let older = |(key, entry): (&Key, &Entry)| {
            (!listed.contains(key) && entry.version <= as_of).then(|| key.clone())
        };
        let missing: Vec<Key> = state.entries.iter().filter_map(older).collect();
        let mut gone = Vec::new();
        for key in missing {
            if let Some(entry) = state.take(&key) {
                gone.extend(
                    entry
                        .object()
                        .map(|object| Change::of(&key, object, What::Gone)),
                );
                let grave = Grave {
                    uid: entry.uid,
                    version: as_of,
                    witnessed: false,
                    ended: entry.in_deletion,
                    undated: false,
                };
                state.bury(&key, grave);
            }
        }
        let first = !std::mem::replace(&mut state.complete, true);
        Finished { gone, first }
    }

    /// Tells of everything there is, as a first list does.
    pub fn tell_all(&self, mut tell: impl FnMut(Change)) {
        let keys: Vec<Key> = self.state.read().entries.keys().cloned().collect();
        for key in keys {
            let object = self.state.read().entries.get(&key).and_then(Entry::object);
            if let Some(object) = object {
                tell(Change {
                    key,
                    object,
                    what: What::Initial,
                });
            }
        }
    }

    /// Forgets the order of versions: the source began to count anew, as after it was restored
    /// from an older copy of its data.
    pub fn distrust_versions(&self) {
        let mut state = self.state.write();
        state.graves.clear();
        state.buried.clear();
        for entry in state.entries.values_mut() {
            entry.version = 0;
        }
    }

    /// The scope of a cluster in this table.
    pub fn scope(&self, cluster: &str) -> Scope {
        Scope::new(&self.side, &self.kind, cluster)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Different,
    /// Known, but for what changes with every write.
    Same,
    /// Something newer is known.
    Older,
}

impl State {
    fn put(&mut self, coverage: &Coverage, key: &Key, version: u64, object: &Object) -> News {
        let uid = object.uid().unwrap_or_default();
        if let Some(grave) = self.graves.get(key) {
            let dead = grave.undated && *grave.uid == *uid;
            if dead || version <= grave.version {
                return News::Older;
            }
        }
        let known = self.entries.get(key);
        if known.is_some_and(|entry| version < entry.version) {
            return News::Older;
        }
        let print = Print::of(object);
        let news = match known {
            Some(entry) if entry.print == print => News::Same,
            _ => News::Different,
        };
        let asked = known.is_some_and(|entry| entry.asked.load(Ordering::Relaxed));
        let answered = known.is_some_and(|entry| entry.answered);
        let indexed = coverage.place(|label| object.label(label));
        let before = known.and_then(|entry| entry.indexed);
        if indexed != before {
            self.unindex(before, key);
            if let Some(place) = indexed {
                // Nearly always the only one.
                let keys = self.index.entry(place);
                keys.or_insert_with(|| Vec::with_capacity(1))
                    .push(key.clone());
            }
        }
        let labelled = match self.entries.get(key) {
            Some(known) => self.places.relabel(key, &known.labelled, object),
            None => self.places.insert(key, object),
        };
        self.graves.remove(key);
        let entry = Entry {
            version,
            asked: asked.into(),
            answered,
            uid: uid.into(),
            print,
            in_deletion: object.in_deletion(),
            extent: if object.is_fragment() {
                Extent::Fragment
            } else {
                Extent::Whole
            },
            indexed,
            labelled,
            body: serde_json::to_vec(object.as_value())
                .expect("a JSON value has no keys but strings")
                .into(),
        };
        self.count(&entry);
        if let Some(before) = self.entries.insert(key.clone(), entry) {
            self.uncount(&before);
        }
        news
    }

    /// Counts an object that nobody asked for; where these are too many bytes, those that lay there for
    /// longest are cut.
    fn rest(&mut self, key: &Key, most: usize) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        if entry.extent != Extent::Whole || entry.asked.load(Ordering::Relaxed) {
            return;
        }
        self.idle.push(key, entry.body.len());
        while self.idle.bytes > most
            && let Some(oldest) = self.idle.pop()
        {
            if let Some(entry) = self.entries.get_mut(&oldest) {
                let before = entry.body.len();
                entry.shrink();
                self.bytes = self.bytes + entry.body.len() - before;
            }
        }
    }

    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.uncount(&entry);
        self.unindex(entry.indexed, key);
        self.places.remove(key, &entry.labelled);
        Some(entry)
    }

    fn count(&mut self, entry: &Entry) {
        self.bytes += entry.body.len();
        self.fragments += usize::from(entry.extent == Extent::Fragment);
    }

    fn uncount(&mut self, entry: &Entry) {
        self.bytes -= entry.body.len();
        self.fragments -= usize::from(entry.extent == Extent::Fragment);
    }

    fn unindex(&mut self, place: Option<u64>, key: &Key) {
        if let Some(place) = place
            && let Slot::Occupied(mut slot) = self.index.entry(place)
        {
            slot.get_mut().retain(|other| other != key);
            if slot.get().is_empty() {
                slot.remove();
            }
        }
    }

    fn bury(&mut self, key: &Key, grave: Grave) {
        if self.graves.insert(key.clone(), grave).is_none() {
            self.buried.push_back(key.clone());
        }
        while self.buried.len() > GRAVES {
            if let Some(oldest) = self.buried.pop_front() {
                self.graves.remove(&oldest);
            }
        }
    }
}

impl Idle {
    fn push(&mut self, key: &Key, bytes: usize) {
        let known = self.known.get(key).copied().unwrap_or_default();
        // What grows counts anew: only the sum of all that is queued is a bound.
        if bytes > known {
            self.known.insert(key.clone(), bytes);
            self.bytes += bytes + Self::EACH;
            self.order.push_back((key.clone(), bytes));
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let (key, bytes) = self.order.pop_front()?;
        self.bytes -= bytes + Self::EACH;
        if self.known.get(&key) == Some(&bytes) {
            self.known.remove(&key);
        }
        Some(key)
    }

    /// What is counted of an object beside its body.
    const EACH: usize = 256;
}

impl Entry {
    /// Notes that somebody has a use for it; whether it is there whole.
    fn ask(&self) -> bool {
        self.asked.store(true, Ordering::Relaxed);
        self.extent != Extent::Cut
    }

    fn whole(&self) -> Option<Arc<Object>> {
        self.ask().then(|| self.object()).flatten()
    }

    /// Leaves no more of it than tells whose it is.
    fn shrink(&mut self) {
        if self.extent != Extent::Whole || self.asked.load(Ordering::Relaxed) {
            return;
        }
        let Some(object) = self.object() else {
            return;
        };
        let mut root = object.root().clone();
        root.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
        if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !["annotations", "managedFields"].contains(&field.as_str()));
        }
        if let Ok(body) = serde_json::to_vec(&root) {
            self.body = body.into();
            self.extent = Extent::Cut;
        }
    }

    /// What is kept of it.
    fn object(&self) -> Option<Arc<Object>> {
        let value: Value = serde_json::from_slice(&self.body).ok()?;
        let object = if self.extent == Extent::Fragment {
            Object::fragment(value)
        } else {
            Object::new(value)
        };
        object.ok().map(Arc::new)
    }
}

/// The version of an object as a number, which servers of this kind make it.
pub fn version(object: &Object) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
