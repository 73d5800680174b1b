//! The part of a schema that rules can see, built only for schemas that have rules.

use std::{collections::BTreeMap, sync::Arc};

use kube_cel::{Content, Format, Listing, Member, Shape, escape};
use serde_json::Value;

use crate::schema::keywords::{flag, keyword_value, list, properties, text};

/// Whether an object has `apiVersion`, `kind` and the names in `metadata`, declared or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Resource,
    Field,
}

impl Root {
    /// The kind of a nested schema.
    pub(super) fn of(schema: &Value) -> Self {
        if flag(schema, "x-kubernetes-embedded-resource") {
            Self::Resource
        } else {
            Self::Field
        }
    }
}

pub(super) fn shape(schema: &Value, root: Root) -> Arc<Shape> {
    Arc::new(build(schema, "selfType".to_owned(), root))
}

fn build(schema: &Value, name: String, root: Root) -> Shape {
    let is = what(schema, &name, root);
    Shape {
        name,
        is,
        nullable: flag(schema, "nullable"),
    }
}

fn what(schema: &Value, name: &str, root: Root) -> Content {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Content::IntOrString;
    }
    let below = |schema: &Value, step: &str| {
        Arc::new(build(schema, format!("{name}.{step}"), Root::of(schema)))
    };
    match text(schema, "type") {
        "object" => {
            let additional =
                keyword_value(schema, "additionalProperties").filter(|a| a.is_object());
            if let (Some(additional), Root::Field) = (additional, root) {
                return Content::Map(below(additional, "@elem"));
            }
            let mut members = BTreeMap::new();
            for (written, property) in properties(schema) {
                let shape = below(property, written);
                insert(&mut members, written, shape);
            }
            if root == Root::Resource {
                with_names(&mut members, name);
            }
            Content::Object(members)
        }
        "array" => match keyword_value(schema, "items") {
            Some(items) => Content::List(below(items, "@idx"), listing(schema)),
            None => Content::Unknown,
        },
        "string" => Content::Text(match text(schema, "format") {
            "byte" => Format::Bytes,
            "duration" => Format::Duration,
            "date" => Format::Date,
            "date-time" => Format::DateTime,
            _ => Format::Plain,
        }),
        "number" => Content::Number,
        "integer" => Content::Integer,
        "boolean" => Content::Boolean,
        _ => Content::Unknown,
    }
}

fn listing(schema: &Value) -> Listing {
    match text(schema, "x-kubernetes-list-type") {
        "set" => Listing::Set,
        "map" => Listing::Keyed(
            list(schema, "x-kubernetes-list-map-keys")
                .iter()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect(),
        ),
        _ => Listing::Plain,
    }
}

fn insert(members: &mut BTreeMap<String, Member>, written: &str, shape: Arc<Shape>) {
    if let Some(name) = escape(written) {
        let written = written.to_owned();
        members.insert(name, Member { written, shape });
    }
}

/// Adds the fields that every resource has, whatever its schema declares.
fn with_names(members: &mut BTreeMap<String, Member>, name: &str) {
    let text = |step: &str| {
        Arc::new(Shape {
            name: format!("{name}.{step}"),
            is: Content::Text(Format::Plain),
            nullable: false,
        })
    };
    for field in ["apiVersion", "kind"] {
        insert(members, field, text(field));
    }
    let mut names = BTreeMap::new();
    if let Some(metadata) = members.remove("metadata")
        && let Content::Object(known) = &metadata.shape.is
    {
        for member in known.values() {
            insert(&mut names, &member.written, Arc::clone(&member.shape));
        }
    }
    for field in ["name", "generateName"] {
        insert(&mut names, field, text(&format!("metadata.{field}")));
    }
    let metadata = Shape {
        name: format!("{name}.metadata"),
        is: Content::Object(names),
        nullable: false,
    };
    insert(members, "metadata", Arc::new(metadata));
}
