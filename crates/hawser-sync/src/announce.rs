//! Changes of a copy that are remembered before they are made.
//!
//! A state that is written after the change it tells of is lost with the process: what was changed
//! then looks as if somebody had changed the copy by hand, and stays when the source takes it back.
//! So the state comes first, together with where the copy is about to change and what stood there.
//! While that still stands there, the change was not made; once it does not, the state holds.
//!
//! Pure: over bodies of merge patches and objects.

use serde_json::{Map, Value, json};

use kube_lang::object::{Object, numbers, pointer};

use super::memory::{ValueHash, value_hash};

/// A change that was about to be made when the state was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// JSON pointers of what was to be changed.
    pub places: Vec<String>,
    /// The hash of what the copy had there.
    pub before: ValueHash,
}

/// How long the places of one announcement may be together. Changes that touch more are made before
/// they are remembered: the memory has to stay small.
const MAX_PLACES: usize = 8 * 1024;

impl Announced {
    /// What a merge patch is about to change in a copy; none where it touches too much to be told.
    pub(super) fn of(body: &Map<String, Value>, live: &Object) -> Option<Self> {
        let mut places = Vec::new();
        gather(body, "", &mut places);
        let told = places.iter().map(String::len).sum::<usize>() <= MAX_PLACES;
        told.then(|| Self {
            before: there(&places, live),
            places,
        })
    }

    /// Whether the copy has in all these places what it had before.
    pub fn is_outstanding(&self, live: &Object) -> bool {
        there(&self.places, live) == self.before
    }

    /// Adds to a patch what brings all these places in step.
    pub(super) fn lay_into(&self, body: &mut Map<String, Value>, desired: &Object) {
        for place in &self.places {
            let value = desired.as_value().pointer(place);
            let names: Vec<_> = place.split('/').skip(1).map(pointer::unescape).collect();
            set(body, &names, value.unwrap_or(&Value::Null));
        }
    }
}

/// The part of a merge patch that changes something in an object. Of maps that are new to the object
/// the whole counts.
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

/// The places that a patch sets or empties.
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

/// Sets a value in a patch, unless the patch replaces or removes something around it.
fn set(body: &mut Map<String, Value>, names: &[String], value: &Value) {
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
