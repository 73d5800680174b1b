//! What rules can see of a schema: members by the names that expressions call them by, without what
//! no expression can reach. Built only for schemas that have rules.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    escape::{escape, is_reserved},
    types::Type,
};
use crate::schema::{flag, given, list, properties, text};

/// One level of what is visible.
#[derive(Debug)]
pub(super) struct Shape {
    /// What messages call it, if it is an object: `selfType.spec`.
    pub(super) name: String,
    pub(super) is: Is,
    pub(super) nullable: bool,
}

#[derive(Debug)]
pub(super) enum Is {
    IntOrString,
    /// By escaped name: the written one, and what it is.
    Object(BTreeMap<String, Member>),
    Map(Arc<Shape>),
    List(Arc<Shape>, Listing),
    Text(Format),
    Number,
    Integer,
    Boolean,
    /// Fields that are kept without being known; expressions cannot name them.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) written: String,
    pub(super) shape: Arc<Shape>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Plain,
    Set,
    Keyed(Arc<[String]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// Whether an object has `apiVersion`, `kind` and the names in `metadata`, said or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Resource,
    Field,
}

impl Shape {
    pub(super) fn of(schema: &Value, root: Root) -> Arc<Self> {
        Arc::new(Self::build(schema, "selfType".to_owned(), root))
    }

    fn build(schema: &Value, name: String, root: Root) -> Self {
        let is = Self::what(schema, &name, root);
        Self {
            name,
            is,
            nullable: flag(schema, "nullable"),
        }
    }

    fn what(schema: &Value, name: &str, root: Root) -> Is {
        if flag(schema, "x-kubernetes-int-or-string") {
            return Is::IntOrString;
        }
        let below = |schema: &Value, step: &str| {
            let root = if flag(schema, "x-kubernetes-embedded-resource") {
                Root::Resource
            } else {
                Root::Field
            };
            Arc::new(Self::build(schema, format!("{name}.{step}"), root))
        };
        match text(schema, "type") {
            "object" => {
                let additional = given(schema, "additionalProperties").filter(|a| a.is_object());
                if let (Some(additional), Root::Field) = (additional, root) {
                    return Is::Map(below(additional, "@elem"));
                }
                let mut members = BTreeMap::new();
                for (written, property) in properties(schema) {
                    let shape = below(property, written);
                    insert(&mut members, written, shape);
                }
                if root == Root::Resource {
                    with_names(&mut members, name);
                }
                Is::Object(members)
            }
            "array" => match given(schema, "items") {
                Some(items) => Is::List(below(items, "@idx"), Listing::of(schema)),
                None => Is::Unknown,
            },
            "string" => Is::Text(match text(schema, "format") {
                "byte" => Format::Bytes,
                "duration" => Format::Duration,
                "date" => Format::Date,
                "date-time" => Format::DateTime,
                _ => Format::Plain,
            }),
            "number" => Is::Number,
            "integer" => Is::Integer,
            "boolean" => Is::Boolean,
            _ => Is::Unknown,
        }
    }

    /// The type of its values, `None` for what expressions cannot name.
    pub(super) fn type_of(self: &Arc<Self>) -> Option<Type> {
        Some(match &self.is {
            Is::IntOrString => Type::Dyn,
            Is::Object(_) => Type::Object(Arc::clone(self)),
            Is::Map(values) => Type::map(Type::Text, values.type_of()?),
            Is::List(items, _) => Type::list(items.type_of()?),
            Is::Text(Format::Plain) => Type::Text,
            Is::Text(Format::Bytes) => Type::Bytes,
            Is::Text(Format::Duration) => Type::Duration,
            Is::Text(Format::Date | Format::DateTime) => Type::Time,
            Is::Number => Type::Double,
            Is::Integer => Type::Int,
            Is::Boolean => Type::Bool,
            Is::Unknown => return None,
        })
    }

    /// What messages call the type of a value here, as the server writes it into `Invalid value`.
    pub(super) fn member(&self, field: &str) -> Option<&Member> {
        match &self.is {
            Is::Object(members) => member(members, field),
            _ => None,
        }
    }
}

impl Listing {
    pub(super) fn of(schema: &Value) -> Self {
        match text(schema, "x-kubernetes-list-type") {
            "set" => Self::Set,
            "map" => Self::Keyed(
                list(schema, "x-kubernetes-list-map-keys")
                    .iter()
                    .filter_map(|key| key.as_str().map(str::to_owned))
                    .collect(),
            ),
            _ => Self::Plain,
        }
    }
}

/// A member by the name that an expression uses. Words that the language keeps for later are names, too,
/// where it can read them as such.
pub(super) fn member<'m>(members: &'m BTreeMap<String, Member>, name: &str) -> Option<&'m Member> {
    let found = members.get(name);
    found.or_else(|| members.get(&escape(name).filter(|_| is_reserved(name))?))
}

fn insert(members: &mut BTreeMap<String, Member>, written: &str, shape: Arc<Shape>) {
    if let Some(name) = escape(written) {
        let written = written.to_owned();
        members.insert(name, Member { written, shape });
    }
}

/// Every resource has these, whatever its schema says of them.
fn with_names(members: &mut BTreeMap<String, Member>, name: &str) {
    let text = |step: &str| {
        Arc::new(Shape {
            name: format!("{name}.{step}"),
            is: Is::Text(Format::Plain),
            nullable: false,
        })
    };
    for field in ["apiVersion", "kind"] {
        insert(members, field, text(field));
    }
    let mut names = BTreeMap::new();
    if let Some(metadata) = members.remove("metadata")
        && let Is::Object(known) = &metadata.shape.is
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
        is: Is::Object(names),
        nullable: false,
    };
    insert(members, "metadata", Arc::new(metadata));
}
