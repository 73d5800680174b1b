//! List types: a `set` has each value once, a `map` each combination of its keys.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::{ListType, SchemaNode};
use crate::field::{FieldError, Path};

pub(super) fn check(root: &SchemaNode, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, object, &Path::Root, &mut errors);
    errors
}

fn walk(node: &SchemaNode, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !node.has_lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(property) = node.properties.get(name) {
                    walk(property, value, &path.field(name), errors);
                } else if let Some(member) = node.member(name) {
                    walk(member, value, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => {
                    for nth in repeated(list) {
                        errors.push(FieldError::duplicate(path.index(nth), list[nth].clone()));
                    }
                }
                ListType::Map(keys) => map_list(keys, list, path, errors),
            }
            if let Some(items) = &node.items {
                for (nth, value) in list.iter().enumerate() {
                    walk(items, value, &path.index(nth), errors);
                }
            }
        }
        _ => {}
    }
}

fn map_list(keys: &[String], list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut entries = Vec::with_capacity(list.len());
    for (nth, value) in list.iter().enumerate() {
        let entry = match value {
            Value::Object(item) => keys
                .iter()
                .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                .collect::<Map<_, _>>(),
            Value::Null => Map::new(),
            _ => {
                errors.push(FieldError::invalid(
                    path.index(nth),
                    value.clone(),
                    "must be an object for an array of list-type map",
                ));
                return;
            }
        };
        entries.push(Value::Object(entry));
    }
    for nth in repeated(&entries) {
        errors.push(FieldError::duplicate(path.index(nth), entries[nth].clone()));
    }
}

/// The index of the second occurrence of each repeated value.
pub(super) fn repeated(list: &[Value]) -> Vec<usize> {
    let mut seen = HashMap::with_capacity(list.len());
    let mut again = Vec::new();
    for (nth, value) in list.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_insert(0_u32);
        *times += 1;
        if *times == 2 {
            again.push(nth);
        }
    }
    again
}
