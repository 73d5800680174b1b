//! Defaults: put in from the top down, so that a default object gets its own members' defaults.

use serde_json::Value;

use super::{Node, prune, validate};
use crate::field::{FieldError, Path};

/// Removes members that are null where the schema wants a value and has no default for it.
pub(super) fn drop_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let member = node.and_then(|node| node.member(name));
            let meaningless =
                value.is_null() && member.is_some_and(|m| !m.nullable && m.default.is_none());
            if !meaningless {
                drop_nulls(member, value);
            }
            !meaningless
        }),
        Value::Array(list) => {
            let items = node.and_then(|node| node.items.as_deref());
            for value in list {
                drop_nulls(items, value);
            }
        }
        _ => {}
    }
}

pub(super) fn apply(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                let missing = match map.get(name) {
                    None => true,
                    Some(Value::Null) => !property.nullable,
                    Some(_) => false,
                };
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map {
                if let Some(member) = node.member(name) {
                    fill_null(member, value);
                    apply(member, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for value in list {
                    fill_null(items, value);
                    apply(items, value);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

/// Whether the defaults of a schema meet the schema themselves.
pub(super) fn check(root: &Node, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, path, Place::Object, &mut errors);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The root of an object, whose metadata is not the schema's.
    Object,
    Metadata,
    Content,
}

fn walk(node: &Node, path: &Path<'_>, place: Place, errors: &mut Vec<FieldError>) {
    let place = if node.embedded { Place::Object } else { place };
    if let Some(default) = &node.default {
        let at = path.field("default");
        let mut pruned = default.clone();
        if place != Place::Metadata && prune::value(node, &mut pruned) {
            errors.push(FieldError::invalid(
                at,
                default.clone(),
                "must not have unknown fields",
            ));
        }
        for mut error in validate::value(node, default) {
            error.field = if error.field == "<nil>" {
                at.to_string()
            } else {
                format!("{at}.{}", error.field)
            };
            errors.push(error);
        }
    }
    // Defaults inside of additionalProperties are the affair of the object that is defaulted.
    if let Some(items) = &node.items {
        let inside = if place == Place::Object {
            Place::Content
        } else {
            place
        };
        walk(items, &path.field("items"), inside, errors);
    }
    let all = path.field("properties");
    for (name, property) in &node.properties {
        let meta = prune::META.contains(&name.as_str());
        let inside = match place {
            Place::Object if meta => Place::Metadata,
            Place::Object => Place::Content,
            other => other,
        };
        walk(property, &all.key(name), inside, errors);
    }
}
