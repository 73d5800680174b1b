//! Contests: writes that another writer undoes each time. They are noticed and slowed down.
//!
//! A write is a repetition if an earlier write gave every place that it changes the same value, and no later write
//! another value: somebody else has changed them. A few repetitions are normal. After that it is a contest, and each
//! further repetition waits twice as long. A write that changes any other place, or to another value, is new and never
//! waits.
//!
//! Pure: the caller passes the time. The memory of writes is bounded, by age and by number. Each tenant has its own, and
//! if there are too many writes, those of the tenant with the most are forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use kube_lang::object::{Object, merge_patch};

use super::key::Key;
use super::request::Request;

/// This many consecutive repetitions are no contest yet.
const FREE_REPETITIONS: u32 = 3;
/// The wait before the first repetition of a contest, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// A write that was not repeated for this time is forgotten. Longer than every wait.
const KEPT: Duration = Duration::from_mins(15);
/// The number of objects that are remembered.
const MOST: usize = 32_768;
/// A write that changes more places than this counts as one that changes a single place.
const MOST_PLACES: usize = 32;

/// The place of a write that concerns the object as a whole, and its values.
const EXISTENCE: &str = "";
const THERE: &str = "there";
const GONE: &str = "gone";

/// A write that has to wait, because another writer undoes it each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteConflict {
    /// One of the places, such as `status.phase`; empty if it is the existence of the object.
    pub place: String,
    pub wait: Duration,
}

/// The places that a write sets, each with its value.
#[derive(Clone, Debug)]
pub struct WrittenFields {
    key: Option<Key>,
    /// The uid; `None` if the write creates the object.
    uid: Option<Arc<str>>,
    places: Vec<(String, u64)>,
}

/// Recent writes, over all passes. Keys, uids and places are kept as hashes.
#[derive(Debug, Default)]
pub struct WriteHistory {
    /// The writes of each tenant; none of a tenant is empty.
    tenants: HashMap<Option<Arc<str>>, RecentWrites>,
    /// The number of objects of all tenants.
    count: usize,
    /// The time of the last look for old writes of all tenants.
    swept: Duration,
    random: RandomState,
}

/// The recent writes of a tenant, in two generations.
#[derive(Debug, Default)]
struct RecentWrites {
    recent: HashMap<u64, Written>,
    /// Writes that are older than `since`.
    older: HashMap<u64, Written>,
    since: Duration,
}

/// The writes to one object: its existence is the place without a name.
#[derive(Debug, Default)]
struct Written {
    uid: Option<NonZeroU64>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    name: u64,
    value: u64,
    repeated: u32,
    last: Duration,
}

impl Place {
    /// The number of times that this value was written again, including a write now.
    fn again(self, value: u64, now: Duration) -> Option<u32> {
        let known = self.value == value && now.saturating_sub(self.last) < KEPT;
        known.then_some(self.repeated)
    }
}

impl WriteHistory {
    /// Decides whether a write for a tenant may be sent. One that succeeds has to be reported by [`made`](Self::made).
    pub fn judge(
        &self,
        tenant: Option<&Arc<str>>,
        imposed: &WrittenFields,
        now: Duration,
    ) -> Result<(), WriteConflict> {
        let key = imposed.key.as_ref();
        let written = key.and_then(|key| self.written(tenant, key));
        let Some(written) = written.filter(|written| written.is_about(self.uid(imposed))) else {
            return Ok(());
        };
        let mut least: Option<(u32, &str, Duration)> = None;
        for (name, value) in &imposed.places {
            let place = written.place(name);
            let Some(repeated) = place.and_then(|place| place.again(*value, now)) else {
                return Ok(());
            };
            let last = place.map_or(now, |place| place.last);
            if least.is_none_or(|(so_far, ..)| repeated < so_far) {
                least = Some((repeated, name, last));
            }
        }
        if let Some((repeated, name, last)) = least
            && repeated >= FREE_REPETITIONS
        {
            let wait = (last + pause(repeated)).saturating_sub(now);
            if !wait.is_zero() {
                let place = name.to_owned();
                return Err(WriteConflict { place, wait });
            }
        }
        Ok(())
    }

    /// Reports a write that was made.
    pub fn made(&mut self, tenant: Option<&Arc<str>>, imposed: WrittenFields, now: Duration) {
        let uid = self.uid(&imposed);
        let WrittenFields { key, places, .. } = imposed;
        let (Some(key), false) = (key, places.is_empty()) else {
            return;
        };
        self.sweep(now);
        let key = self.random.hash_one(key);
        let writes = self.tenants.entry(tenant.cloned());
        let writes = writes.or_insert_with(|| RecentWrites {
            since: now,
            ..RecentWrites::default()
        });
        let before = writes.len();
        if now.saturating_sub(writes.since) >= KEPT {
            writes.turn(now);
        }
        let known = writes.older.remove(&key);
        let written = writes.recent.entry(key).or_default();
        if let Some(known) = known {
            *written = known;
        }
        let (existence, there) = (hash(EXISTENCE), hash(THERE));
        if uid != written.uid {
            written.places.retain(|place| place.name == existence);
        }
        // A write to an existing object implies that it should exist.
        if uid.is_some() {
            let meant = |place: &Place| place.name != existence || place.value == there;
            written.places.retain(meant);
        }
        written.uid = uid;
        if written.places.is_empty() {
            written.places.reserve_exact(places.len());
        }
        for (name, value) in places {
            let name = hash(&*name);
            let place = Place {
                name,
                value,
                repeated: 0,
                last: now,
            };
            match written.places.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    let again = known.again(value, now);
                    let repeated = again.map_or(0, |repeated| repeated.saturating_add(1));
                    *known = Place { repeated, ..place };
                }
                None => written.places.push(place),
            }
        }
        if written.places.len() > MOST_PLACES * 2 {
            written.places.sort_by_key(|place| place.last);
            written
                .places
                .drain(..written.places.len() - MOST_PLACES * 2);
        }
        self.count = self.count - before + writes.len();
        while self.count > MOST {
            self.shorten();
        }
    }

    fn uid(&self, imposed: &WrittenFields) -> Option<NonZeroU64> {
        let uid = imposed.uid.as_ref()?;
        NonZeroU64::new(self.random.hash_one(uid))
    }

    fn written(&self, tenant: Option<&Arc<str>>, key: &Key) -> Option<&Written> {
        let writes = self.tenants.get(&tenant.cloned())?;
        let key = self.random.hash_one(key);
        writes.recent.get(&key).or_else(|| writes.older.get(&key))
    }

    /// Forgets writes that are old, also of tenants that no longer write.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < KEPT {
            return;
        }
        self.swept = now;
        self.tenants.retain(|_, writes| {
            if now.saturating_sub(writes.since) >= KEPT {
                writes.turn(now);
            }
            writes.len() > 0
        });
        self.count = self.tenants.values().map(RecentWrites::len).sum();
    }

    /// Makes the tenant with the most writes forget some of them.
    fn shorten(&mut self) {
        let Some(most) = self.tenants.values_mut().max_by_key(|writes| writes.len()) else {
            return;
        };
        let before = most.len();
        most.shorten();
        self.count = self.count - before + most.len();
    }
}

impl RecentWrites {
    fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    /// Forgets the older writes, or half of those that are not.
    fn shorten(&mut self) {
        if !self.older.is_empty() {
            self.older = HashMap::new();
            return;
        }
        let mut keep = true;
        self.recent.retain(|_, _| {
            keep = !keep;
            keep
        });
    }

    /// Begins a generation, and forgets the one before the last.
    fn turn(&mut self, now: Duration) {
        self.older = std::mem::take(&mut self.recent);
        self.since = now;
    }
}

impl Written {
    /// Whether the record concerns a write to this object, or to its existence.
    fn is_about(&self, uid: Option<NonZeroU64>) -> bool {
        uid.is_none() || self.uid == uid
    }

    fn place(&self, name: &str) -> Option<Place> {
        let name = hash(name);
        self.places.iter().find(|known| known.name == name).copied()
    }
}

/// The wait before the next repetition after this many.
fn pause(repeated: u32) -> Duration {
    let doublings = (repeated - FREE_REPETITIONS.min(repeated)).min(16);
    PAUSES.0.saturating_mul(1 << doublings).min(PAUSES.1)
}

impl WrittenFields {
    /// The places that a write sets. `live` reads the known object, if that is needed to determine them.
    pub fn of(request: &Request, live: impl FnOnce() -> Option<Arc<Object>>) -> Self {
        let (uid, places) = match request {
            Request::Read { .. } | Request::Find { .. } => (None, Vec::new()),
            Request::Create { .. } => (None, vec![(EXISTENCE.to_owned(), hash(THERE))]),
            Request::Delete { .. } => (None, vec![(EXISTENCE.to_owned(), hash(GONE))]),
            Request::Patch { patch, .. } => {
                let uid = patch["metadata"]["uid"].as_str().map(Arc::from);
                let uid = uid.or_else(|| live()?.uid().map(Arc::from));
                (uid, places(patch.as_object()))
            }
            Request::Replace { object, .. } => replacing(live().as_deref(), object, |_| true),
            Request::ReplaceStatus { object, .. } => {
                replacing(live().as_deref(), object, |field| field == "status")
            }
        };
        // Without a uid, it is unknown whether this is the same object.
        let about_existence = matches!(request, Request::Create { .. } | Request::Delete { .. });
        let key = request
            .key()
            .filter(|_| uid.is_some() || about_existence)
            .cloned();
        Self { key, uid, places }
    }
}

/// The uid and the places of an update. Rendered content may have no uid: then it is for the known object.
fn replacing(
    live: Option<&Object>,
    object: &Object,
    keep: impl Fn(&str) -> bool,
) -> (Option<Arc<str>>, Vec<(String, u64)>) {
    let uid = object.uid().or_else(|| live?.uid());
    let change = live.map(|live| merge_patch::diff_of(live.root(), object.root(), keep));
    (uid.map(Arc::from), places(change.as_ref()))
}

/// The metadata that only servers set, or that identifies the object.
const NOT_CONTENT: [&str; 4] = ["uid", "resourceVersion", "generation", "managedFields"];

fn places(change: Option<&Map<String, Value>>) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for (field, value) in change.into_iter().flatten() {
        match value {
            Value::Object(metadata) if field == "metadata" => {
                for (name, value) in metadata {
                    if !NOT_CONTENT.contains(&name.as_str()) {
                        leaves(&format!("metadata.{name}"), value, &mut all);
                    }
                }
            }
            value => leaves(field, value, &mut all),
        }
    }
    if all.len() > MOST_PLACES {
        let value = hash(&all);
        return vec![("…".to_owned(), value)];
    }
    all
}

fn leaves(path: &str, value: &Value, all: &mut Vec<(String, u64)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let inner = if name.contains(['.', '/']) {
                    format!("{path}[{name}]")
                } else {
                    format!("{path}.{name}")
                };
                leaves(&inner, value, all);
            }
        }
        value => all.push((path.to_owned(), hash(value))),
    }
}

fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
