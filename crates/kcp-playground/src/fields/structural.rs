//! The types of custom objects, from the schema of their version.

use std::sync::Arc;

use serde_json::Value;

use super::builtin;
use super::types::{Atom, List, Map, Relation, ScalarType, StructField, Type};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The type of the objects of a version; `document` is the schema as it was written.
pub(crate) fn of_schema(document: &Value) -> Type {
    if !document.is_object() {
        return Type::Deduced;
    }
    let mut atom = atom(document, false);
    if let Some(map) = &mut atom.map {
        add_meta(map);
    }
    Type::Of(Arc::new(atom))
}

/// The fields that every object has, whatever its schema declares.
fn add_meta(map: &mut Map) {
    let text = || {
        Type::Of(Arc::new(Atom {
            scalar: Some(ScalarType::String),
            ..Atom::default()
        }))
    };
    let mut add = |name: &str, kind: Type| {
        let default = None;
        map.fields
            .insert(name.to_owned(), StructField { kind, default });
    };
    add("apiVersion", text());
    add("kind", text());
    add(
        "metadata",
        builtin::named("ObjectMeta").map_or(Type::Deduced, Type::Known),
    );
}

fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

fn text<'s>(schema: &'s Value, keyword: &str) -> &'s str {
    schema
        .get(keyword)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn reference(schema: &Value, preserve: bool) -> Type {
    Type::Of(Arc::new(atom(schema, preserve)))
}

/// `preserve` is inherited from the levels above.
fn atom(schema: &Value, preserve: bool) -> Atom {
    let preserve = preserve || flag(schema, PRESERVE);
    let of = |scalar| Atom {
        scalar: Some(scalar),
        ..Atom::default()
    };
    match text(schema, "type") {
        "object" => Atom {
            map: Some(map(schema, preserve)),
            ..Atom::default()
        },
        "array" => Atom {
            list: Some(list(schema, preserve)),
            ..Atom::default()
        },
        "integer" | "number" => of(ScalarType::Numeric),
        "boolean" => of(ScalarType::Boolean),
        "string" if matches!(text(schema, "format"), "" | "byte") => of(ScalarType::String),
        "string" => of(ScalarType::Untyped),
        _ => Atom {
            scalar: Some(ScalarType::Untyped),
            list: Some(list(schema, preserve)),
            map: Some(map(schema, preserve)),
        },
    }
}

fn map(schema: &Value, preserve: bool) -> Map {
    let mut fields = std::collections::BTreeMap::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let default = property.get("default").filter(|d| !d.is_null()).cloned();
        let kind = reference(property, preserve);
        fields.insert(name.clone(), StructField { kind, default });
    }
    let members = match schema.get("additionalProperties") {
        None | Some(Value::Null) => {
            let open = preserve || fields.is_empty();
            open.then_some(Type::Deduced)
        }
        Some(Value::Bool(false)) => None,
        Some(schema @ Value::Object(_)) => Some(reference(schema, preserve)),
        Some(_) => Some(Type::Deduced),
    };
    let mut map = Map {
        fields,
        members,
        atomic: text(schema, "x-kubernetes-map-type") == "atomic",
    };
    if flag(schema, "x-kubernetes-embedded-resource") {
        add_meta(&mut map);
    }
    map
}

fn list(schema: &Value, preserve: bool) -> List {
    let relation = match text(schema, "x-kubernetes-list-type") {
        "set" => Relation::Set,
        "map" => {
            let keys = schema
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            Relation::Keys(keys.map(str::to_owned).collect())
        }
        _ => Relation::Atomic,
    };
    let items = match schema.get("items") {
        Some(items @ Value::Object(_)) => reference(items, preserve),
        _ => Type::Untyped,
    };
    List { relation, items }
}
