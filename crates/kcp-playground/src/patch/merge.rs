//! Merge patches: members of the patch replace those of the object, null removes them.

use serde_json::{Map, Value};

/// If `patch` is not an object, it replaces the value.
pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = without_nulls(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            match target.get_mut(name) {
                Some(old) if old.is_object() => apply(old, value),
                _ => {
                    target.insert(name.clone(), without_nulls(value));
                }
            }
        }
    }
}

/// New values contain nothing to remove, so nulls are dropped, also within lists.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
