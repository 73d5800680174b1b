//! Differences between two objects, as merge patches. Pure.

use serde_json::{Map, Value};

use kube_lang::object::{Object, merge_patch, numbers};

/// The fields at the top level that are not content.
pub(super) const NOT_CONTENT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Adds the settings of a second patch to a first one. It removes nothing.
pub(super) fn add_settings(patch: &mut Map<String, Value>, second: Map<String, Value>) {
    for (field, value) in second {
        match (patch.get_mut(&field), value) {
            (Some(Value::Object(there)), Value::Object(more)) => add_settings(there, more),
            (_, value) => {
                patch.insert(field, value);
            }
        }
    }
}

/// The merge patch of what changed from one state of the source to another.
pub(super) fn merge(base: &Object, desired: &Object) -> Map<String, Value> {
    let content = |field: &str| !NOT_CONTENT.contains(&field);
    let mut patch = merge_patch::diff_of(base.root(), desired.root(), content);
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        // Compared as maps, even if one side has none: otherwise a missing map would become a null, which removes all
        // keys.
        let keys = merge_patch::diff(&string_map(base, field), &string_map(desired, field));
        if !keys.is_empty() {
            metadata.insert(field.into(), keys.into());
        }
    }
    if !metadata.is_empty() {
        patch.insert("metadata".into(), metadata.into());
    }
    patch
}

pub(super) fn string_map(object: &Object, field: &str) -> Map<String, Value> {
    let map = object.root().get("metadata").and_then(|m| m.get(field));
    map.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The merge patch of everything that the source has and the copy lacks: the source wins where they differ, and fields
/// that only the copy has stay.
pub(super) fn overwrite(live: &Object, desired: &Object) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, value) in desired.root() {
        if !NOT_CONTENT.contains(&field.as_str()) {
            missing(&mut patch, field, live.root().get(field), value);
        }
    }
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let desired = Value::Object(string_map(desired, field));
        let live = Value::Object(string_map(live, field));
        missing(&mut metadata, field, Some(&live), &desired);
    }
    if !metadata.is_empty() {
        patch.insert("metadata".into(), metadata.into());
    }
    patch
}

fn missing(patch: &mut Map<String, Value>, field: &str, live: Option<&Value>, want: &Value) {
    match (live, want) {
        // A merge patch cannot set a null, and an API server stores none.
        (_, Value::Null) => {}
        (Some(Value::Object(live)), Value::Object(want)) => {
            let mut inner = Map::new();
            for (field, want) in want {
                missing(&mut inner, field, live.get(field), want);
            }
            if !inner.is_empty() {
                patch.insert(field.to_owned(), inner.into());
            }
        }
        (Some(live), want) if numbers::same(live, want) => {}
        _ => {
            patch.insert(field.to_owned(), want.clone());
        }
    }
}

/// Whether a live object has the desired content and nothing else.
///
/// Labels and annotations that only the live object has do not count, nor does its status if none is desired.
pub(super) fn agrees(desired: &Object, live: &Object) -> bool {
    let beside = |field: &String| {
        field == "metadata" || field == "status" && !desired.root().contains_key("status")
    };
    overwrite(live, desired).is_empty() && overwrite(desired, live).keys().all(beside)
}

/// Whether an existing object is so similar to the desired one that its creator must know the desired content: both
/// agree and have content in common.
///
/// A value at the top level, such as a type, is not enough: many objects have the same.
pub fn equals(desired: &Object, live: &Object) -> bool {
    let mut fields = desired.root().iter();
    let content = |field: &str| !NOT_CONTENT.contains(&field) && field != "status";
    fields.any(|(field, value)| content(field) && !is_scalar(value) && is_nonempty(value))
        && agrees(desired, live)
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_))
}

fn is_nonempty(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => map.values().any(is_nonempty),
        Value::Array(list) => list.iter().any(is_nonempty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
