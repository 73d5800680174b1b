//! Changes of a copy that are remembered before they are made.
//!
//! A state that is written only after its change is lost if the process is killed in between: the change then looks
//! like a manual edit of the copy, and stays when the source reverts it. So the state is written first, together with
//! the places that are about to change and their values. While these values are still there, the change was not made;
//! once they are not, the state holds.
//!
//! Pure: over bodies of merge patches and objects.

use serde_json::{Map, Value, json};

use kube_lang::object::{Object, numbers, pointer};

use super::fingerprint::{ValueHash, value_hash};

/// A change that was about to be made when the state was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// JSON pointers of the places that change.
    pub places: Vec<String>,
    /// The hash of the earlier values in the copy.
    pub before: ValueHash,
}

/// The longest list of places that is announced, in bytes. Larger changes are made before they are remembered, to keep
/// the memory small.
const MAX_PLACES: usize = 8 * 1024;

impl PendingChange {
    /// The places that a merge patch changes in a copy; `None` if they are too many.
    pub(super) fn of(body: &Map<String, Value>, live: &Object) -> Option<Self> {
        let mut places = Vec::new();
        gather(body, "", &mut places);
        let told = places.iter().map(String::len).sum::<usize>() <= MAX_PLACES;
        told.then(|| Self {
            before: there(&places, live),
            places,
        })
    }

    /// Whether the copy has the earlier values in all these places.
    pub fn is_outstanding(&self, live: &Object) -> bool {
        there(&self.places, live) == self.before
    }

    /// Adds the desired values of all these places to a patch.
    pub(super) fn add_desired(&self, body: &mut Map<String, Value>, desired: &Object) {
        for place in &self.places {
            let value = desired.as_value().pointer(place);
            let names: Vec<_> = place.split('/').skip(1).map(pointer::unescape).collect();
            set(body, &names, value.unwrap_or(&Value::Null));
        }
    }
}

/// The part of a merge patch that changes an object. Maps that are new to the object count as a whole.
pub(super) fn effective(body: &Map<String, Value>, live: Option<&Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, want) in body {
        let found = live.and_then(|live| live.get(field));
        match (found, want) {
            (Some(Value::Object(_)), Value::Object(inner)) => {
                let inner = effective(inner, found);
                if !inner.is_empty() {
                    patch.insert(field.clone(), inner.into());
                }
            }
            (None | Some(Value::Null), Value::Null) => {}
            (Some(found), want) if numbers::same(found, want) => {}
            (_, want) => {
                patch.insert(field.clone(), want.clone());
            }
        }
    }
    patch
}

/// The places that a patch sets or removes.
fn gather(body: &Map<String, Value>, at: &str, places: &mut Vec<String>) {
    for (field, value) in body {
        let at = format!("{at}/{}", pointer::escape(field));
        match value {
            Value::Object(inner) if !inner.is_empty() => gather(inner, &at, places),
            _ => places.push(at),
        }
    }
}

fn there(places: &[String], live: &Object) -> ValueHash {
    let one = |place: &String| {
        let found = live.as_value().pointer(place).filter(|v| !v.is_null());
        let mut found = found.cloned();
        found.iter_mut().for_each(numbers::unify);
        json!([found.is_some(), found])
    };
    value_hash(&places.iter().map(one).collect())
}

/// Sets a value in a patch, unless the patch replaces or removes a parent of it.
pub(super) fn set(body: &mut Map<String, Value>, names: &[String], value: &Value) {
    let Some((name, rest)) = names.split_first() else {
        return;
    };
    if rest.is_empty() {
        body.insert(name.clone(), value.clone());
        return;
    }
    let inner = body.entry(name).or_insert_with(|| Map::new().into());
    if let Value::Object(inner) = inner {
        set(inner, rest, value);
    }
}

#[cfg(test)]
mod tests;
