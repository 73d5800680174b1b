//! Writes that somebody else takes back each time: noticed, and slowed down.
//!
//! A write is repeated where every place that it changes was given the same value by an earlier write of
//! ours, and none of them another value since: somebody else has changed it. A few repetitions are nothing.
//! After that it is a contest, and the next repetition waits, each time twice as long. A write that changes
//! any other place, or to another value, is news and never waits.
//!
//! Pure: time comes from the caller. What is remembered is bounded, by age and by number.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use kube_lang::object::{Object, merge_patch};

use super::request::Request;
use super::subject::Key;

/// So many repetitions in a row are no contest yet.
const PATIENCE: u32 = 3;
/// How long the first repetition of a contest waits after the write before it, and each one at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// A write that was not repeated for so long is forgotten. Longer than every pause.
const KEPT: Duration = Duration::from_mins(15);
/// Objects that are remembered at most, twice.
const MOST: usize = 16_384;
/// A write that changes more places than this is taken as one that changes a single place.
const MOST_PLACES: usize = 32;

/// What is made of an object as a whole.
const THERE: &str = "there";
const GONE: &str = "gone";

/// A write that waits, because somebody else takes it back each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// One of the places, such as `status.phase`; empty where it is about the object being there at all.
    pub place: String,
    pub wait: Duration,
}

/// What a write makes of an object: places, each with the value that it is given.
#[derive(Clone, Debug)]
pub struct Imposed {
    key: Option<Key>,
    /// The incarnation; none where the write is about there being one.
    uid: Option<Arc<str>>,
    places: Vec<(String, u64)>,
}

/// What was written of late, over all passes.
#[derive(Debug, Default)]
pub struct Contests {
    recent: HashMap<Key, Written>,
    /// What was not written since `since`.
    older: HashMap<Key, Written>,
    since: Duration,
}

#[derive(Debug, Default)]
struct Written {
    existence: Option<Place>,
    uid: Option<Arc<str>>,
    places: Vec<(u64, Place)>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    value: u64,
    repeated: u32,
    last: Duration,
}

impl Place {
    /// How often this value was written again, where it would be so now once more.
    fn again(self, value: u64, now: Duration) -> Option<u32> {
        let known = self.value == value && now.saturating_sub(self.last) < KEPT;
        known.then_some(self.repeated)
    }
}

impl Contests {
    /// Whether a write may be sent to an object as it is known now. If it is, and succeeds, it is to be told
    /// with [`made`](Self::made).
    pub fn weigh(
        &mut self,
        request: &Request,
        live: Option<&Object>,
        now: Duration,
    ) -> Result<Imposed, Contest> {
        let imposed = imposed(request, live);
        let Some(written) = imposed.key.as_ref().and_then(|key| self.written(key)) else {
            return Ok(imposed);
        };
        let mut least: Option<(u32, &str, Duration)> = None;
        for (name, value) in &imposed.places {
            let place = written.place(&imposed, name);
            let Some(repeated) = place.and_then(|place| place.again(*value, now)) else {
                return Ok(imposed);
            };
            let last = place.map_or(now, |place| place.last);
            if least.is_none_or(|(so_far, ..)| repeated < so_far) {
                least = Some((repeated, name, last));
            }
        }
        if let Some((repeated, name, last)) = least
            && repeated >= PATIENCE
        {
            let wait = (last + pause(repeated)).saturating_sub(now);
            if !wait.is_zero() {
                let place = name.to_owned();
                return Err(Contest { place, wait });
            }
        }
        Ok(imposed)
    }

    /// A write was made.
    pub fn made(&mut self, imposed: Imposed, now: Duration) {
        let Imposed { key, uid, places } = imposed;
        let (Some(key), false) = (key, places.is_empty()) else {
            return;
        };
        self.turn(now);
        let known = self.older.remove(&key);
        let written = self.recent.entry(key).or_default();
        if let Some(known) = known {
            *written = known;
        }
        let next = |place: Option<Place>, value| Place {
            value,
            repeated: place
                .and_then(|place| place.again(value, now))
                .map_or(0, |repeated| repeated.saturating_add(1)),
            last: now,
        };
        if uid != written.uid {
            written.places.clear();
        }
        // What is written to is meant to be there.
        if uid.is_some() {
            written.existence = written.existence.filter(|known| known.value == hash(THERE));
        }
        written.uid = uid;
        for (name, value) in places {
            if written.uid.is_none() {
                written.existence = Some(next(written.existence, value));
                continue;
            }
            let name = hash(&name);
            match written.places.iter_mut().find(|(known, _)| *known == name) {
                Some((_, place)) => *place = next(Some(*place), value),
                None => written.places.push((name, next(None, value))),
            }
        }
        if written.places.len() > MOST_PLACES * 2 {
            written.places.sort_by_key(|(_, place)| place.last);
            written
                .places
                .drain(..written.places.len() - MOST_PLACES * 2);
        }
    }

    fn written(&self, key: &Key) -> Option<&Written> {
        self.recent.get(key).or_else(|| self.older.get(key))
    }

    /// Forgets what is old, or more than can be kept.
    fn turn(&mut self, now: Duration) {
        if now.saturating_sub(self.since) >= KEPT || self.recent.len() >= MOST {
            self.older = std::mem::take(&mut self.recent);
            self.since = now;
        }
    }
}

impl Written {
    fn place(&self, imposed: &Imposed, name: &str) -> Option<Place> {
        if imposed.uid.is_none() {
            return self.existence;
        }
        if self.uid != imposed.uid {
            return None;
        }
        let name = hash(&name);
        let mut places = self.places.iter();
        places
            .find(|(known, _)| *known == name)
            .map(|(_, place)| *place)
    }
}

/// How long the next repetition waits after so many.
fn pause(repeated: u32) -> Duration {
    let doublings = (repeated - PATIENCE.min(repeated)).min(16);
    PAUSES.0.saturating_mul(1 << doublings).min(PAUSES.1)
}

fn imposed(request: &Request, live: Option<&Object>) -> Imposed {
    let uid_of = |object: Option<&Object>| object.and_then(Object::uid).map(Arc::from);
    let (uid, places) = match request {
        Request::Read { .. } | Request::Find { .. } => (None, Vec::new()),
        Request::Create { .. } => (None, vec![(String::new(), hash(THERE))]),
        Request::Delete { .. } => (None, vec![(String::new(), hash(GONE))]),
        Request::Patch { patch, .. } => {
            let uid = patch["metadata"]["uid"].as_str().map(Arc::from);
            (uid.or_else(|| uid_of(live)), places(patch.as_object()))
        }
        Request::Replace { object, .. } => {
            let change = live.map(|live| changed(live, object, |_| true));
            (uid_of(Some(object)), places(change.as_ref()))
        }
        Request::ReplaceStatus { object, .. } => {
            let change = live.map(|live| changed(live, object, |field| field == "status"));
            (uid_of(Some(object)), places(change.as_ref()))
        }
    };
    // Of what has no uid it is not known whether it is the same object.
    let about_existence = matches!(request, Request::Create { .. } | Request::Delete { .. });
    let key = request
        .key()
        .filter(|_| uid.is_some() || about_existence)
        .cloned();
    Imposed { key, uid, places }
}

fn changed(live: &Object, object: &Object, keep: impl Fn(&str) -> bool) -> Map<String, Value> {
    merge_patch::diff_of(live.root(), object.root(), keep)
}

/// What of the metadata only servers set, or only says which object is meant.
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
