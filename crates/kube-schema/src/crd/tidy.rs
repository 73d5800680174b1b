//! Schemas of definitions as a kube-apiserver stores them, without empty keywords, and its warnings about them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema;

/// Fields that are removed when they are empty.
const EMPTIED: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "description",
    "type",
    "format",
    "title",
    "pattern",
    "required",
    "enum",
    "allOf",
    "oneOf",
    "anyOf",
    "properties",
    "patternProperties",
    "definitions",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "uniqueItems",
    "nullable",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];
const SWITCHES: [&str; 2] = [
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];

/// Removes empty keywords from the schemas of a definition.
pub(super) fn tidy(crd: &mut Value) {
    let versions = crd.pointer_mut("/spec/versions");
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Object(schema)) = version.pointer_mut("/schema/openAPIV3Schema") {
            tidy_schema(schema);
        }
    }
}

fn tidy_schema(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, value| {
        let known = EMPTIED.contains(&&**keyword) || SWITCHES.contains(&&**keyword);
        !(value.is_null() || (known && is_empty(value)))
    });
    if let Some(Value::Array(rules)) = schema.get_mut("x-kubernetes-validations") {
        for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
            rule.retain(|field, value| field == "rule" || !(value.is_null() || *value == ""));
        }
    }
    for part in parts_mut(schema) {
        tidy_schema(part);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Number(_) => false,
    }
}

/// The schemas within a schema.
fn parts_mut(schema: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let parts = schema
        .iter_mut()
        .flat_map(|(keyword, value)| -> Vec<&mut Value> {
            match (&**keyword, value) {
                ("properties" | "patternProperties" | "definitions", Value::Object(map)) => {
                    map.values_mut().collect()
                }
                ("items" | "allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    list.iter_mut().collect()
                }
                ("items" | "not" | "additionalProperties" | "additionalItems", value) => {
                    vec![value]
                }
                _ => Vec::new(),
            }
        });
    parts.filter_map(Value::as_object_mut)
}

/// The names of formats in a definition that are not checked.
pub fn unknown_formats(crd: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    for version in versions.into_iter().flatten() {
        if let Some(Value::Object(schema)) = version.pointer("/schema/openAPIV3Schema") {
            collect(schema, &mut found);
        }
    }
    found
}

fn collect(schema: &Map<String, Value>, found: &mut BTreeSet<String>) {
    let text = |field: &str| schema.get(field).and_then(Value::as_str);
    if let Some(format) = text("format").filter(|format| !format.is_empty()) {
        let known = match text("type") {
            Some("integer") => matches!(format, "int32" | "int64"),
            Some("number") => matches!(format, "float" | "double"),
            Some("string") | None => schema::checks_format(format),
            Some(_) => false,
        };
        if !known {
            found.insert(format.to_owned());
        }
    }
    for (keyword, value) in schema {
        let parts: Vec<&Value> = match (&**keyword, value) {
            ("properties" | "patternProperties" | "definitions", Value::Object(map)) => {
                map.values().collect()
            }
            ("items" | "allOf" | "anyOf" | "oneOf", Value::Array(list)) => list.iter().collect(),
            ("items" | "not" | "additionalProperties" | "additionalItems", value) => vec![value],
            _ => Vec::new(),
        };
        for part in parts.into_iter().filter_map(Value::as_object) {
            collect(part, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
    }

    #[test]
    fn what_says_nothing_is_not_written_down() {
        let mut crd = definition(&json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": [], "default": null, "description": "", "nullable": false, "minLength": 0},
            "b": {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": false},
            "c": {"type": "array", "items": {"type": "string", "format": ""}, "default": []},
            "d": {"type": "object", "additionalProperties": {"not": {}},
                "x-kubernetes-validations": [{"rule": "", "message": "", "reason": null, "fieldPath": ".a"}]},
        }}));
        tidy(&mut crd);
        let wanted = definition(&json!({"type": "object", "properties": {
            "a": {"type": "string", "minLength": 0},
            "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": false},
            "c": {"type": "array", "items": {"type": "string"}, "default": []},
            "d": {"type": "object", "additionalProperties": {"not": {}},
                "x-kubernetes-validations": [{"rule": "", "fieldPath": ".a"}]},
        }}));
        assert_eq!(crd, wanted);
    }

    #[test]
    fn formats_that_nobody_checks_are_found_wherever_they_are() {
        let crd = definition(&json!({"type": "object", "properties": {
            "a": {"type": "string", "format": "date-time"},
            "b": {"type": "string", "format": "int32"},
            "c": {"type": "integer", "format": "int32"},
            "d": {"type": "number", "format": "double"},
            "e": {"type": "array", "items": {"type": "string", "format": "mine"}},
            "f": {"type": "object", "format": "yours", "anyOf": [{"properties": {"a": {"format": "theirs"}}}]},
            "g": {"type": "string", "format": "k8s-short-name"},
        }}));
        let found: Vec<String> = unknown_formats(&crd).into_iter().collect();
        assert_eq!(found, ["int32", "mine", "theirs", "yours"]);
    }
}
