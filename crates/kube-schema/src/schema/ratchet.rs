//! Ratcheting of updates: errors about values that have not changed do not fail an update. Members are found by name, items
//! of a list of type map by their keys, other lists only as a whole.

use serde_json::Value;

use super::node::{ListType, SchemaNode};
use crate::field::{FieldError, Path};

/// Drops the errors about unchanged values.
pub(super) fn drop_unchanged(
    errors: &mut Vec<FieldError>,
    root: &SchemaNode,
    object: &Value,
    old: &Value,
) {
    if errors.is_empty() {
        return;
    }
    let mut unchanged = Vec::new();
    walk(root, (object, old), &Path::Root, &mut unchanged);
    errors.retain(|error| {
        !unchanged.iter().any(|place| {
            error
                .field
                .strip_prefix(place.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    });
}

fn walk(
    node: &SchemaNode,
    (value, old): (&Value, &Value),
    path: &Path<'_>,
    unchanged: &mut Vec<String>,
) {
    if value == old {
        unchanged.push(path.to_string());
        return;
    }
    match (value, old) {
        (Value::Object(map), Value::Object(before)) => {
            for (name, value) in map {
                if let (Some(member), Some(old)) = (node.member(name), before.get(name)) {
                    walk(member, (value, old), &path.field(name), unchanged);
                }
            }
        }
        (Value::Array(list), Value::Array(before)) => {
            let (Some(items), ListType::Map(keys)) = (&node.items, &node.list) else {
                return;
            };
            for (nth, item) in list.iter().enumerate() {
                let same = before
                    .iter()
                    .find(|old| keys.iter().all(|key| old.get(key) == item.get(key)));
                if let Some(old) = same {
                    walk(items, (item, old), &path.index(nth), unchanged);
                }
            }
        }
        _ => {}
    }
}
