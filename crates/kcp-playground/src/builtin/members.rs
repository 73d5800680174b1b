//! The members of the published types, and nothing else of the types, in a compact form: every write of a built-in kind
//! is checked against them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::openapi::builtin::{Types, referred, types};
use kube_schema::field::Path;

/// A type, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberType(u32);

/// The fields below are not described.
const ANYTHING: MemberType = MemberType(0);

#[derive(Debug)]
enum Members {
    Anything,
    /// Fields, sorted by name.
    Fields(Box<[(Box<str>, MemberType)]>),
    /// A map with any keys and one type of value.
    Values(MemberType),
    Items(MemberType),
    /// An object or a list, by the form of the value.
    Either {
        object: MemberType,
        array: MemberType,
    },
}

struct Known {
    types: Vec<Members>,
    names: BTreeMap<String, MemberType>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::all(types()));

/// The published type with a name.
pub(super) fn named(name: &str) -> Option<MemberType> {
    KNOWN.names.get(name).copied()
}

impl MemberType {
    /// Removes the fields that a type does not have, and returns their paths.
    pub(super) fn prune(self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        self.walk(object, &Path::Root, &mut dropped);
        dropped
    }

    fn walk(self, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
        match (&KNOWN.types[self.0 as usize], value) {
            (Members::Fields(fields), Value::Object(map)) => map.retain(|name, value| {
                let at = path.field(name);
                let found = fields.binary_search_by(|(field, _)| (**field).cmp(name));
                let Ok(place) = found else {
                    dropped.push(at.to_string());
                    return false;
                };
                fields[place].1.walk(value, &at, dropped);
                true
            }),
            (Members::Values(ANYTHING) | Members::Items(ANYTHING), _) => {}
            (Members::Values(kind), Value::Object(map)) => {
                for (name, value) in map {
                    kind.walk(value, &path.field(name), dropped);
                }
            }
            (Members::Items(kind), Value::Array(list)) => {
                for (nth, item) in list.iter_mut().enumerate() {
                    kind.walk(item, &path.index(nth), dropped);
                }
            }
            (Members::Either { object, .. }, value @ Value::Object(_)) => {
                object.walk(value, path, dropped);
            }
            (Members::Either { array, .. }, value @ Value::Array(_)) => {
                array.walk(value, path, dropped);
            }
            _ => {}
        }
    }
}

impl Known {
    fn all(published: &Types) -> Self {
        let mut known = Self {
            types: vec![Members::Anything],
            names: BTreeMap::new(),
        };
        // Types refer to each other in cycles, so each gets its index first.
        for name in published.names() {
            let place = known.add(Members::Anything);
            known.names.insert(name.to_owned(), place);
        }
        for name in published.names() {
            if let (Some(MemberType(place)), Some(definition)) =
                (known.names.get(name).copied(), published.get(name))
            {
                let members = known.members(&definition, published);
                known.types[place as usize] = members;
            }
        }
        known
    }

    fn add(&mut self, members: Members) -> MemberType {
        let place = self.types.len();
        self.types.push(members);
        MemberType(u32::try_from(place).expect("there are some hundred types"))
    }

    fn type_of(&mut self, schema: &Value, published: &Types) -> MemberType {
        if let Some(known) = referred(schema).and_then(|name| self.names.get(name)) {
            return *known;
        }
        match self.members(schema, published) {
            Members::Anything => ANYTHING,
            members => self.add(members),
        }
    }

    fn members(&mut self, schema: &Value, published: &Types) -> Members {
        if let Some(Value::Array(alternatives)) = schema.get("oneOf") {
            let mut of_form = |form: &str| {
                let found = alternatives
                    .iter()
                    .find(|schema| is(schema, form, published));
                found.map_or(ANYTHING, |schema| self.type_of(schema, published))
            };
            return Members::Either {
                object: of_form("object"),
                array: of_form("array"),
            };
        }
        if let Some(items) = schema.get("items") {
            return Members::Items(self.type_of(items, published));
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            return Members::Fields(self.fields(properties, published));
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => Members::Values(self.type_of(values, published)),
            _ => Members::Anything,
        }
    }

    fn fields(
        &mut self,
        properties: &Map<String, Value>,
        published: &Types,
    ) -> Box<[(Box<str>, MemberType)]> {
        let mut fields: Vec<(Box<str>, MemberType)> = properties
            .iter()
            .map(|(name, schema)| (name.as_str().into(), self.type_of(schema, published)))
            .collect();
        fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        fields.into()
    }
}

/// Whether a schema, or the one that it refers to, is of a type.
fn is(schema: &Value, form: &str, published: &Types) -> bool {
    let says = |schema: &Value| schema.get("type").is_some_and(|kind| kind == form);
    match referred(schema).and_then(|name| published.get(name)) {
        Some(definition) => says(&definition),
        None => says(schema),
    }
}
