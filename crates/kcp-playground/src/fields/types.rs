//! How values are merged: which values are atomic, and which have fields with managers of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Of(Arc<Atom>),
    /// A type in the table of built-in kinds.
    Known(TypeId),
    /// Undeclared: maps have fields, lists are atomic.
    Deduced,
    /// Undeclared and atomic.
    Untyped,
}

/// A type in the table of built-in kinds: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(pub(super) usize);

/// The kinds of values that a type allows, each with its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(super) scalar: Option<ScalarType>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) relation: Relation,
    pub(super) items: Type,
}

/// The identity of list items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// None: the list is atomic.
    Atomic,
    /// The items themselves.
    Set,
    Keys(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) fields: BTreeMap<String, StructField>,
    /// The type of members that are not declared; without it, none are allowed.
    pub(super) members: Option<Type>,
    /// The map is atomic.
    pub(super) atomic: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StructField {
    pub(super) kind: Type,
    pub(super) default: Option<Value>,
}

/// The kinds of values that a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alternatives {
    scalar: bool,
    list: bool,
    map: bool,
}

/// The alternative that applies to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypeShape<'a> {
    Map(&'a Map),
    Scalar(ScalarType),
    List(&'a List),
}

impl Atom {
    pub(super) fn alternatives(&self, value: Option<&Value>) -> Alternatives {
        let all = Alternatives {
            scalar: self.scalar.is_some(),
            list: self.list.is_some(),
            map: self.map.is_some(),
        };
        let none = Alternatives {
            scalar: false,
            list: false,
            map: false,
        };
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if all.scalar => {
                Alternatives {
                    scalar: true,
                    ..none
                }
            }
            Some(Value::Array(_)) if all.list => Alternatives { list: true, ..none },
            Some(Value::Object(_)) if all.map => Alternatives { map: true, ..none },
            _ => all,
        }
    }

    pub(super) fn pick(&self, alternatives: Alternatives) -> Option<TypeShape<'_>> {
        match self {
            Self { map: Some(map), .. } if alternatives.map => Some(TypeShape::Map(map)),
            Self {
                scalar: Some(scalar),
                ..
            } if alternatives.scalar => Some(TypeShape::Scalar(*scalar)),
            Self {
                list: Some(list), ..
            } if alternatives.list => Some(TypeShape::List(list)),
            _ => None,
        }
    }
}

impl Map {
    pub(super) fn member(&self, name: &str) -> Option<&Type> {
        match self.fields.get(name) {
            Some(field) => Some(&field.kind),
            None => self.members.as_ref(),
        }
    }
}
