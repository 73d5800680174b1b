//! The published schemas of custom resources: the structural schema of a definition, with the members that every object
//! has.

use serde_json::{Map, Value, json};

use super::builtin::{LIST_META, OBJECT_META, PREFIX, types};
use crate::catalog::{Flavour, Resource};

/// Descriptions of members, as in the generated types.
const STYLE: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";

/// Keywords that documents omit.
const DROPPED: [&str; 3] = ["example", "externalDocs", "id"];

/// The definition of a kind. `schema` is the schema of its definition, if there is one.
pub(super) fn kind(resource: &Resource, schema: Option<&Value>) -> Value {
    let mut object = schema.cloned().unwrap_or_else(|| json!({"type": "object"}));
    publish(&mut object);
    let version = member("apiVersion");
    let kind = member("kind");
    if let Some(properties) = properties(&mut object) {
        properties.insert("apiVersion".into(), version);
        properties.insert("kind".into(), kind);
        properties.insert("metadata".into(), described(METADATA, OBJECT_META));
    }
    identify(&mut object, resource, &resource.kind);
    object
}

/// The definition of a list of a kind.
pub(super) fn list(resource: &Resource, item: &str) -> Value {
    let mut list = json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": member("apiVersion"),
            "kind": member("kind"),
            "metadata": described(
                &format!("Standard list metadata. More info: {STYLE}#types-kinds"), LIST_META,
            ),
            "items": {
                "description": format!("List of {}. More info: {STYLE}", resource.plural),
                "type": "array",
                "items": {"$ref": format!("{PREFIX}{item}")},
            },
        },
    });
    identify(&mut list, resource, &resource.list_kind);
    list
}

fn identify(definition: &mut Value, resource: &Resource, kind: &str) {
    definition["x-kubernetes-group-version-kind"] = json!([
        {"group": &*resource.group, "kind": kind, "version": &*resource.version}
    ]);
    if resource.flavour == Flavour::Custom && !resource.selectable_fields.is_empty() {
        definition["x-kubernetes-selectable-fields"] = resource
            .selectable_fields
            .iter()
            .map(|path| json!({"fieldPath": &**path}))
            .collect();
    }
}

/// A member of every object, with the description of the built-in kinds.
fn member(name: &str) -> Value {
    let types = types();
    let any = types
        .name_of("", "v1", "ConfigMap")
        .and_then(|any| types.get(any));
    any.map_or_else(
        || json!({"type": "string"}),
        |any| any["properties"][name].clone(),
    )
}

fn described(description: &str, target: &str) -> Value {
    json!({"description": description, "$ref": format!("{PREFIX}{target}")})
}

fn properties(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    let schema = schema.as_object_mut()?;
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
}

/// Converts a schema, with all nested ones, to the published form.
fn publish(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    map.retain(|keyword, value| {
        let unset = value.is_null() || *value == json!(false) && keyword != "default";
        // `additionalProperties: false` has a meaning, so it stays.
        !DROPPED.contains(&keyword.as_str()) && (!unset || keyword == "additionalProperties")
    });
    let members = map.get_mut("properties").and_then(Value::as_object_mut);
    for (_, member) in members.into_iter().flatten() {
        publish(member);
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(inner) = map.get_mut(keyword) {
            publish(inner);
        }
    }
    let or = map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    if or
        && !["anyOf", "allOf"]
            .iter()
            .any(|keyword| map.contains_key(*keyword))
    {
        map.insert(
            "anyOf".into(),
            json!([{"type": "integer"}, {"type": "string"}]),
        );
    }
    if map.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        embed(schema);
    }
}

/// Adds the fields that an embedded object requires.
fn embed(schema: &mut Value) {
    if let Some(properties) = properties(schema) {
        let text = |description: &str| json!({"description": description, "type": "string"});
        properties.insert("apiVersion".into(), text(EMBEDDED_VERSION));
        properties.insert("kind".into(), text(EMBEDDED_KIND));
        properties.insert("metadata".into(), described(METADATA, OBJECT_META));
    }
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    let required = schema
        .entry("required")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(required) = required {
        for field in ["kind", "apiVersion"] {
            if !required.iter().any(|name| name == field) {
                required.push(field.into());
            }
        }
    }
}
