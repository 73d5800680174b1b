//! Embedded objects: a value under `x-kubernetes-embedded-resource` must look like a Kubernetes object.

use serde_json::{Map, Value};

use super::node::SchemaNode;
use crate::field::{FieldError, Path};
use crate::names::{self, MetadataRules, NameRule, Scope};

pub(super) fn check(root: &SchemaNode, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, object, &Path::Root, &mut errors);
    errors
}

fn walk(node: &SchemaNode, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !node.has_embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                object(map, path, errors);
            }
            for (name, value) in map {
                if let Some(property) = node.properties.get(name) {
                    walk(property, value, &path.field(name), errors);
                } else if let Some(member) = node.member(name) {
                    walk(member, value, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (nth, value) in list.iter().enumerate() {
                    walk(items, value, &path.index(nth), errors);
                }
            }
        }
        _ => {}
    }
}

/// Calls `f` with each embedded object within a value, the outer ones first.
pub(super) fn each(
    node: &SchemaNode,
    value: &mut Value,
    path: &Path<'_>,
    f: &mut dyn FnMut(&mut Map<String, Value>, &Path<'_>),
) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                f(map, path);
            }
            for (name, value) in map {
                if let Some(member) = node.member(name) {
                    each(member, value, &path.field(name), f);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (nth, value) in list.iter_mut().enumerate() {
                    each(items, value, &path.index(nth), f);
                }
            }
        }
        _ => {}
    }
}

fn object(map: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        let at = path.field(field);
        match map.get(field) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) if field == "kind" => {
                let complaints = names::dns1035_label(&text.to_lowercase());
                if !complaints.is_empty() {
                    errors.push(FieldError::invalid(
                        at,
                        text.as_str(),
                        &format!(
                            "may have mixed case, but should otherwise match: {}",
                            complaints.join(",")
                        ),
                    ));
                }
            }
            Some(Value::String(text)) => {
                if text.matches('/').count() > 1 {
                    errors.push(FieldError::invalid(
                        at,
                        text.as_str(),
                        &format!("unexpected GroupVersion string: {text}"),
                    ));
                }
            }
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    match map.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => self::metadata(metadata, path, errors),
        Some(other) => errors.push(FieldError::invalid(
            path.field("metadata"),
            other.clone(),
            "must be an object",
        )),
    }
}

fn metadata(metadata: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut metadata = metadata.clone();
    // A template need not have a name; the rest of its metadata is checked.
    if metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or("")
        .is_empty()
    {
        metadata.insert("name".into(), "fakename".into());
    }
    let namespaced = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .is_some_and(|namespace| !namespace.is_empty());
    let rules = MetadataRules {
        name: NameRule::PathSegment,
        scope: if namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
    };
    for mut error in names::check_metadata(&metadata, rules) {
        if !matches!(path, Path::Root) {
            error.field = format!("{path}.{}", error.field);
        }
        errors.push(error);
    }
}
