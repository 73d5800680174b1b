//! Defaults, applied from the top down, so that a default object gets its own members' defaults.

use serde_json::Value;

use super::{node::SchemaNode, prune, validate};
use crate::field::{FieldError, Path};

/// Removes nulls if the schema wants a value and has no default for it.
pub(super) fn drop_nulls(node: Option<&SchemaNode>, value: &mut Value) {
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

pub(super) fn apply(node: &SchemaNode, value: &mut Value) {
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

fn fill_null(node: &SchemaNode, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

/// Checks the defaults of a schema against the schema.
pub(super) fn check(root: &SchemaNode, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, path, DefaultPosition::Object, &mut errors);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DefaultPosition {
    /// The root of an object, whose metadata is not defined by the schema.
    Object,
    Metadata,
    Content,
}

fn walk(node: &SchemaNode, path: &Path<'_>, place: DefaultPosition, errors: &mut Vec<FieldError>) {
    let place = if node.embedded {
        DefaultPosition::Object
    } else {
        place
    };
    if let Some(default) = &node.default {
        let at = path.field("default");
        let mut pruned = default.clone();
        if place != DefaultPosition::Metadata && prune::value(node, &mut pruned) {
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
    // Defaults within additionalProperties are checked with the object that they are applied to.
    if let Some(items) = &node.items {
        let inside = if place == DefaultPosition::Object {
            DefaultPosition::Content
        } else {
            place
        };
        walk(items, &path.field("items"), inside, errors);
    }
    let all = path.field("properties");
    for (name, property) in &node.properties {
        let meta = prune::META.contains(&name.as_str());
        let inside = match place {
            DefaultPosition::Object if meta => DefaultPosition::Metadata,
            DefaultPosition::Object => DefaultPosition::Content,
            other => other,
        };
        walk(property, &all.key(name), inside, errors);
    }
}
