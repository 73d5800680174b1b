//! One table: the objects of a kind that one source shows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use hawser_sync::Labels;
use hawser_sync::{Found, Key, Scope, Seen, Side};
use kube_lang::object::{Gvk, Object};

use super::SourceId;

mod body;
mod coverage;
mod deletions;
mod entry;
mod fingerprints;
mod idle;
mod partition;
mod parts;
mod places;
mod shares;
mod show;
mod size;
mod state;
mod trees;

pub(super) use body::Body;
pub use body::ObjectSize;
use body::Packer;
pub use coverage::Coverage;
pub(super) use deletions::Outdated;
use deletions::{Tombstone, Tombstones};
use entry::{Completeness, Entry, PutOutcome, Uid};
use idle::UnreadObjects;
use partition::Parts;
pub(in crate::cluster) use partition::wanted_changed;
pub use partition::{KeptByAll, Partition, TenantMark, WantedParts};
use places::{KeysByHash, Places};
use shares::ClusterBudgets;
pub use size::Size;
use trees::Trees;

/// An object from a list or an event.
pub struct Listed {
    pub key: Key,
    pub version: u64,
    pub object: Arc<Object>,
}

/// A change, reported once.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: Key,
    /// The current object, or its last known state.
    pub object: Arc<Object>,
    pub what: ChangeType,
}

impl Change {
    fn of(key: &Key, object: Arc<Object>, what: ChangeType) -> Self {
        let key = key.clone();
        Self { key, object, what }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeType {
    /// Part of the first list.
    Initial,
    Changed,
    Gone,
}

/// The result of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub gone: Vec<Change>,
    /// This was the first list of the table: no change has been reported yet.
    pub first: bool,
}

#[derive(Default)]
struct TableState {
    complete: bool,
    /// The version of the last list.
    listed: u64,
    /// The number of changes.
    revision: u64,
    entries: HashMap<Key, Box<Entry>>,
    packer: Packer,
    bytes: usize,
    fragments: usize,
    shares: ClusterBudgets,
    /// Keys by the hashed values of the indexed labels, for objects that have all of them.
    index: KeysByHash,
    places: Places,
    tombstones: Tombstones,
    idle: UnreadObjects,
    trees: Trees,
}

/// See [`Cache`](super::Cache).
pub struct Table {
    side: Side,
    kind: Arc<Gvk>,
    source: SourceId,
    coverage: Coverage,
    /// The byte budget for bodies that have not been read.
    idle: AtomicUsize,
    state: RwLock<TableState>,
    /// Locked after the state.
    parts: RwLock<Parts>,
    /// The last time at which the server sent anything.
    last_activity: Mutex<Instant>,
    /// The number of objects that were examined to find others.
    #[cfg(test)]
    pub(super) visits: AtomicUsize,
    /// The number of objects that were parsed for passes and their questions.
    #[cfg(test)]
    pub(crate) parses: AtomicUsize,
}

impl Table {
    /// `most` is the number of bytes that are kept of a cluster.
    pub(super) fn new(
        side: &Side,
        kind: &Arc<Gvk>,
        source: &SourceId,
        coverage: Coverage,
        most: Option<usize>,
    ) -> Self {
        let state = TableState {
            shares: ClusterBudgets::new(most),
            ..TableState::default()
        };
        Self {
            side: side.clone(),
            kind: Arc::clone(kind),
            source: Arc::clone(source),
            idle: AtomicUsize::new(coverage.idle.unwrap_or(usize::MAX)),
            coverage,
            state: RwLock::new(state),
            parts: RwLock::default(),
            last_activity: Mutex::new(Instant::now()),
            #[cfg(test)]
            visits: AtomicUsize::default(),
            #[cfg(test)]
            parses: AtomicUsize::default(),
        }
    }

    pub fn side(&self) -> &Side {
        &self.side
    }

    pub fn kind(&self) -> &Arc<Gvk> {
        &self.kind
    }

    /// The source of the objects.
    pub fn source(&self) -> &SourceId {
        &self.source
    }

    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether a whole list has been taken in. Before that, no object is absent.
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
            left_out: state.shares.left_out(),
            largest: state.shares.largest(),
            silence: self.last_activity.lock().elapsed(),
        }
    }

    /// Notes that the server sent something, even if nothing has changed.
    pub fn note_activity(&self) {
        *self.last_activity.lock() = Instant::now();
    }

    pub fn keys(&self) -> Vec<Key> {
        self.state.read().entries.keys().cloned().collect()
    }

    /// The number of objects of a cluster, and the number of clusters that have objects.
    pub fn share_of(&self, cluster: &str) -> (usize, usize) {
        let places = &self.state.read().places;
        (places.count(cluster), places.clusters())
    }

    /// The number of objects and of clusters, of those clusters that are meant.
    pub fn share_where(&self, is_meant: impl Fn(&str) -> bool) -> (usize, usize) {
        let places = &self.state.read().places;
        let meant = places.names().filter(|cluster| is_meant(cluster));
        meant.fold((0, 0), |(objects, clusters), cluster| {
            (objects + places.count(cluster), clusters + 1)
        })
    }

    /// The keys of a cluster, or of one namespace in it.
    pub fn keys_of(&self, cluster: &str, namespace: Option<&str>) -> Vec<Key> {
        let state = self.state.read();
        let places = &state.places;
        let keys: Vec<Key> = match namespace {
            None => places.of_cluster(cluster).cloned().collect(),
            Some(namespace) => places.of_namespace(cluster, namespace).cloned().collect(),
        };
        self.visited(keys.len());
        keys
    }

    /// Counts the changes of the table.
    pub fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// All objects, parsed one after the other.
    pub fn all(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.read();
        let entries = state.entries.iter();
        entries
            .filter_map(|(key, entry)| Some((key.clone(), entry.object()?)))
            .collect()
    }

    /// Reads an object. `None` if the table does not cover it.
    pub(super) fn get(&self, key: &Key) -> Option<Seen> {
        let state = self.state.read();
        if let Some(entry) = state.entries.get(key) {
            let is_kept = entry.ask() && state.shares.settles(key, entry);
            let kept = is_kept.then(|| self.parsed(&state, key, entry)).flatten();
            return Some(kept.map_or(Seen::Unknown, Seen::Present));
        }
        if !self.knows_part_of(key) {
            return None;
        }
        let absent = if state.complete {
            Seen::Absent
        } else {
            Seen::Unknown
        };
        self.coverage.reaches(key).then_some(absent)
    }

    pub(super) fn object_size(&self, key: &Key) -> ObjectSize {
        let state = self.state.read();
        let entry = state.entries.get(key);
        entry.map_or_else(ObjectSize::default, |entry| entry.body.size())
    }

    /// `keep` decides by its size whether an object is read whole.
    pub(super) fn find(
        &self,
        cluster: &str,
        labels: &Labels,
        keep: &dyn Fn(ObjectSize) -> bool,
    ) -> Found {
        self.index_labels(labels);
        let state = self.state.read();
        let Some(candidates) = self.candidates(&state, cluster, labels) else {
            return Found::Unknown;
        };
        let mut found = Vec::new();
        for (key, entry) in candidates {
            let Some(object) = self.parsed(&state, key, entry) else {
                return Found::Unknown;
            };
            if labels.fit(&object) {
                if !entry.ask() || !state.shares.settles(key, entry) {
                    return Found::Unknown;
                }
                let is_kept = keep(entry.body.size());
                let object = if is_kept {
                    object
                } else {
                    object.left_out().into()
                };
                found.push((key.clone(), object));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Found::All(found)
    }

    /// The keys of the objects that may have these labels; `None` if these are more than `most`.
    pub(super) fn keys_of_few(
        &self,
        cluster: &str,
        labels: &Labels,
        most: usize,
    ) -> Option<Vec<Key>> {
        let state = self.state.read();
        let candidates = self.candidates(&state, cluster, labels).into_iter();
        let keys = candidates.flatten().map(|(key, _)| key.clone());
        let keys: Vec<Key> = keys.take(most + 1).collect();
        (keys.len() <= most).then_some(keys)
    }

    /// Indexes labels from now on, so that other objects are not examined.
    fn index_labels(&self, labels: &Labels) {
        let is_indexed = self.coverage.place(|label| labels.get(label)).is_some();
        let has_none = labels.iter().next().is_none();
        if is_indexed || has_none || self.state.read().places.has_labels() {
            return;
        }
        let mut state = self.state.write();
        let TableState {
            places, entries, ..
        } = &mut *state;
        places.index_labels();
        for (key, entry) in entries {
            if let Some(object) = entry.object() {
                entry.labelled = places.relabel(key, &entry.labelled, Some(&object));
            }
        }
    }

    /// The candidates for objects with these labels; `None` if these labels are not indexed.
    fn candidates<'s>(
        &'s self,
        state: &'s TableState,
        cluster: &'s str,
        labels: &Labels,
    ) -> Option<Box<dyn Iterator<Item = (&'s Key, &'s Entry)> + 's>> {
        let labelled = self.coverage.labelled.as_ref();
        let covered = labelled.is_none_or(|label| labels.get(label).is_some());
        let known = state.complete
            && self.knows_part_with(cluster, labels)
            && state.shares.knows_labels(cluster);
        if !known || !covered || self.coverage.namespace.is_some() {
            return None;
        }
        let entry = move |key: &'s Key| {
            self.visited(1);
            let entry = state.entries.get(key)?;
            Some((key, &**entry))
        };
        let values = self.coverage.place(|label| labels.get(label));
        if let Some(values) = values {
            let keys = state.index.get(values.get());
            let keys = keys.filter(move |key| *key.cluster == *cluster);
            return Some(Box::new(keys.filter_map(entry)));
        }
        if let Some(fewest) = state.places.fewest(cluster, labels) {
            return Some(Box::new(fewest.filter_map(entry)));
        }
        let all = state.places.of_cluster(cluster);
        Some(Box::new(all.filter_map(entry)))
    }

    #[cfg(test)]
    pub(super) fn indexed_labels(&self) -> usize {
        self.state.read().places.indexed_labels()
    }

    #[cfg(test)]
    fn visited(&self, objects: usize) {
        self.visits.fetch_add(objects, Ordering::Relaxed);
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "only tests count")]
    fn visited(&self, _: usize) {}

    /// The kept part of an object. It is parsed unless somebody holds it.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "only tests count"))]
    fn parsed(&self, state: &TableState, key: &Key, entry: &Entry) -> Option<Arc<Object>> {
        if let Some(tree) = state.trees.get(key) {
            return Some(tree);
        }
        #[cfg(test)]
        self.parses.fetch_add(1, Ordering::Relaxed);
        let object = entry.object()?;
        state.trees.note(key, &object);
        Some(object)
    }

    pub(super) fn saw_deletion(&self, key: &Key) -> bool {
        let tombstones = &self.state.read().tombstones;
        let tombstone = tombstones.get(key);
        tombstone.is_some_and(|tombstone| tombstone.witnessed)
    }

    /// Whether an object was in deletion when it went, or had no finalizer.
    pub(super) fn saw_end(&self, key: &Key) -> bool {
        let tombstones = &self.state.read().tombstones;
        let tombstone = tombstones.get(key);
        tombstone.is_some_and(|tombstone| tombstone.ended)
    }

    /// Stores the state of an object from an answer. No event will report it again, so the change is returned, for all
    /// handlers except the caller.
    pub(super) fn learn(
        &self,
        key: &Key,
        object: &Arc<Object>,
    ) -> Result<Option<Change>, Outdated> {
        let is_kept = || self.coverage.accepts(key, object) && self.keeps(key, object);
        let covered = version(object).filter(|_| is_kept());
        let Some(version) = covered else {
            return Ok(None);
        };
        let mut state = self.state.write();
        if self.knows_part_of(key) && state.has_missed(key, version, object) {
            return Err(Outdated);
        }
        let is_new = !state.complete && !state.entries.contains_key(key);
        let news = state.put(&self.coverage, key, version, object);
        // The object was read or written, so it is in use.
        if let Some(entry) = state.entries.get_mut(key) {
            entry.asked.store(true, Ordering::Relaxed);
            entry.answered |= is_new;
            if news != PutOutcome::Older && entry.extent == Completeness::Whole {
                state.trees.note(key, object);
            }
        }
        // Changes are reported once the first list is complete.
        let is_news = state.complete && news == PutOutcome::Different;
        Ok(is_news.then(|| Change::of(key, Arc::clone(object), ChangeType::Changed)))
    }

    /// The key of the table, and the version of the object.
    pub(in crate::cluster) fn known(&self, key: &Key) -> Option<(Key, u64)> {
        let state = self.state.read();
        let known = state.entries.get_key_value(key);
        known.map(|(key, entry)| (key.clone(), entry.version))
    }

    /// The object with the newest version.
    pub(in crate::cluster) fn newest(&self) -> Option<(Key, u64)> {
        let state = self.state.read();
        let versions = state
            .entries
            .iter()
            .map(|(key, entry)| (key, entry.version));
        let newest = versions.max_by_key(|(_, version)| *version);
        newest.map(|(key, version)| (key.clone(), version))
    }

    pub(in crate::cluster) fn known_version(&self, key: &Key) -> Option<u64> {
        Some(self.state.read().entries.get(key)?.version)
    }

    /// Stores from an answer that an object does not exist; otherwise like `learn`. A version that came to be known
    /// after the request was sent may be newer than the answer. It stays: if it is older, its deletion is reported.
    pub(super) fn learn_gone(&self, key: &Key, known: Option<u64>) -> Option<Change> {
        let mut state = self.state.write();
        if Some(state.entries.get(key)?.version) > known {
            return None;
        }
        let (key, entry) = state.take(key)?;
        let last = entry.object();
        let tombstone = Tombstone {
            uid: entry.uid,
            version: entry.version,
            witnessed: true,
            ended: entry.in_deletion,
            undated: true,
        };
        state.tombstones.record(&key, tombstone);
        let last = last.filter(|_| state.complete);
        last.map(|last| Change::of(&key, last, ChangeType::Gone))
    }

    /// Marks a deletion as uncertain: an object of this name may exist.
    pub(super) fn doubt_deletion(&self, key: &Key) {
        if let Some(tombstone) = self.state.write().tombstones.get_mut(key) {
            tombstone.witnessed = false;
            tombstone.ended = false;
        }
    }

    /// Whether the object is left out, because too much is kept of its cluster.
    pub(super) fn leaves_out(&self, key: &Key) -> bool {
        let entries = &self.state.read().entries;
        entries.get(key).is_some_and(|entry| entry.is_left_out())
    }

    /// Forgets objects that are known from answers only, until the source has been listed completely: without a watch,
    /// they may have changed.
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

    /// Notes that a list or an event shows an object anew. If an answer said that it is gone, later events are newer.
    pub fn show_anew(&self, key: &Key) {
        if let Some(tombstone) = self.state.write().tombstones.get_mut(key) {
            tombstone.undated = false;
        }
    }

    /// Stores the event of an object that exists. The event of a write whose answer is stored shows nothing new.
    pub fn observe(&self, event: &Listed) -> Option<Change> {
        let mut state = self.state.write();
        if let Some(entry) = state.entries.get_mut(&event.key)
            && entry.extent == Completeness::Whole
            && entry.is_state(event.version, &event.object)
        {
            entry.answered = false;
            return None;
        }
        drop(state);
        self.upsert(event)
    }

    /// Stores an object of a list. It may differ from a known object of the same version: servers read objects by the
    /// schema of the time.
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
        (news == PutOutcome::Different)
            .then(|| Change::of(key, Arc::clone(object), ChangeType::Changed))
    }

    /// Keeps all bodies from now on: a reader of the whole table has come.
    pub(crate) fn keep_all(&self) {
        self.idle.store(usize::MAX, Ordering::Relaxed);
    }

    /// Stores the event of a deletion, or of a removed label.
    pub fn delete(&self, listed: &Listed) -> Option<Change> {
        let Listed {
            key,
            version,
            object,
        } = listed;
        let mut state = self.state.write();
        let known = state.entries.get(key);
        let uid = Uid::from(object.uid().unwrap_or_default());
        if known.is_some_and(|entry| entry.version > *version) {
            return None;
        }
        // In a watch with a label selector, removing the label looks like a deletion, even for an object in deletion.
        let witnessed = self.coverage.labelled.is_none();
        let was_going = object.in_deletion() || known.is_some_and(|entry| entry.in_deletion);
        let known = state.take(key);
        let key = known.as_ref().map_or(key, |(key, _)| key);
        let before = state
            .tombstones
            .get(key)
            .is_some_and(|tombstone| tombstone.uid == uid);
        let ended = was_going || object.finalizers().next().is_none();
        let (seen, seen_end) = match state.tombstones.get(key).filter(|_| before) {
            Some(tombstone) => (tombstone.witnessed, tombstone.ended),
            None => (false, false),
        };
        let tombstone = Tombstone {
            uid,
            version: *version,
            witnessed: witnessed || seen,
            ended: ended || seen_end,
            undated: false,
        };
        state.tombstones.record(key, tombstone);
        drop(state);
        (known.is_some() || !before).then(|| Change::of(key, Arc::clone(object), ChangeType::Gone))
    }

    /// Ends a list whose objects were all upserted. Objects that the list lacks are gone, unless they are known to be
    /// newer than the list.
    pub fn finish(&self, listed: &HashSet<Key>, as_of: u64) -> Finished {
        let mut state = self.state.write();
        let older = state
            .entries
            .iter()
            .filter(|(key, entry)| !listed.contains(*key) && entry.version <= as_of);
        let missing: Vec<Key> = older.map(|(key, _)| key.clone()).collect();
        let mut gone = Vec::new();
        for key in missing {
            if let Some((_, entry)) = state.take(&key) {
                gone.extend(
                    entry
                        .object()
                        .map(|object| Change::of(&key, object, ChangeType::Gone)),
                );
                let tombstone = Tombstone {
                    uid: entry.uid,
                    version: as_of,
                    witnessed: false,
                    ended: entry.in_deletion,
                    undated: false,
                };
                state.tombstones.record(&key, tombstone);
            }
        }
        state.listed = as_of;
        let first = !std::mem::replace(&mut state.complete, true);
        Finished { gone, first }
    }

    /// Reports every object, as a first list does.
    pub fn replay(&self, mut report: impl FnMut(Change)) {
        let keys: Vec<Key> = self.state.read().entries.keys().cloned().collect();
        for key in keys {
            let object = self
                .state
                .read()
                .entries
                .get(&key)
                .and_then(|entry| entry.object());
            if let Some(object) = object {
                report(Change {
                    key,
                    object,
                    what: ChangeType::Initial,
                });
            }
        }
    }

    /// Forgets the order of versions, because the source counts from the beginning, as after a restore from a backup.
    pub(crate) fn reset_version_order(&self) {
        let mut state = self.state.write();
        state.listed = 0;
        state.tombstones.clear();
        for entry in state.entries.values_mut() {
            entry.version = 0;
        }
    }

    /// The scope of a cluster in this table.
    pub fn scope(&self, cluster: &str) -> Scope {
        Scope::new(&self.side, &self.kind, cluster)
    }
}

/// The version of an object as a number, as API servers make it.
pub fn version(object: &Object) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
