//! Type checks of values, and the keys of list items.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::element::{Element, Scalar};
use super::golang;
use super::types::{List, Map, Relation, ScalarType, Type, TypeShape};

/// Whether a list may contain an item twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// The type errors of a value, one line for each place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeError(Vec<(String, String)>);

impl TypeError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(vec![(String::new(), message.into())])
    }

    /// The same errors, one path element further up.
    pub(super) fn below(mut self, step: &impl fmt::Display) -> Self {
        let step = step.to_string();
        for (path, _) in &mut self.0 {
            path.insert_str(0, &step);
        }
        self
    }

    fn or_none(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    fn take(&mut self, result: Result<(), Self>) {
        if let Err(error) = result {
            self.0.extend(error.0);
        }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(path, message): &(String, String)| {
            if path.is_empty() {
                message.clone()
            } else {
                format!("{path}: {message}")
            }
        };
        match self.0.as_slice() {
            [one] => f.write_str(&line(one)),
            many => {
                f.write_str("errors:")?;
                many.iter()
                    .try_for_each(|error| write!(f, "\n  {}", line(error)))
            }
        }
    }
}

impl std::error::Error for TypeError {}

/// Checks a whole value.
pub(super) fn value(value: &Value, kind: &Type, duplicates: Duplicates) -> Result<(), TypeError> {
    match kind.shape(Some(value)) {
        Some(TypeShape::Map(map)) => members(value, map, duplicates),
        Some(TypeShape::List(list)) => items(value, list, duplicates),
        Some(TypeShape::Scalar(expected)) => scalar(value, expected),
        None => Err(TypeError::new("schema error: invalid atom: inlined")),
    }
}

fn members(value: &Value, map: &Map, duplicates: Duplicates) -> Result<(), TypeError> {
    let members = match value {
        Value::Null => return Ok(()),
        Value::Object(members) => members,
        other => return Err(unexpected("map", other)),
    };
    let mut errors = TypeError::default();
    for (name, member) in members {
        let element = Element::field(name);
        let result = match map.member(name) {
            Some(kind) => self::value(member, kind, duplicates),
            None => Err(TypeError::new("field not declared in schema")),
        };
        errors.take(result.map_err(|error| error.below(&element)));
    }
    errors.or_none()
}

fn items(value: &Value, list: &List, duplicates: Duplicates) -> Result<(), TypeError> {
    let items = match value {
        Value::Null => return Ok(()),
        Value::Array(items) => items,
        other => return Err(unexpected("list", other)),
    };
    let mut errors = TypeError::default();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if list.relation == Relation::Atomic {
            Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            let element = element(list, item)
                .map_err(|why| TypeError::new(format!("element {index}: {why}")))?;
            if !seen.insert(element.clone()) && duplicates == Duplicates::Refused {
                let message = format!("duplicate entries for key {element}");
                errors.take(Err(TypeError::new(message)));
            }
            element
        };
        let result = self::value(item, &list.items, duplicates);
        errors.take(result.map_err(|error| error.below(&element)));
    }
    errors.or_none()
}

/// Whether a value is a scalar of this type; null always is.
pub(super) fn scalar(value: &Value, expected: ScalarType) -> Result<(), TypeError> {
    let (fits, name) = match expected {
        ScalarType::Numeric => (value.is_number(), "numeric (int or float)"),
        ScalarType::String => (value.is_string(), "string"),
        ScalarType::Boolean => (value.is_boolean(), "boolean"),
        ScalarType::Untyped => (!value.is_array() && !value.is_object(), "any scalar"),
    };
    if fits || value.is_null() {
        return Ok(());
    }
    Err(match expected {
        ScalarType::Numeric => {
            TypeError::new(format!("expected {name}, got {}", golang::kind(value)))
        }
        ScalarType::String => TypeError::new(format!(
            "expected {name}, got &value.valueUnstructured{{Value:{}}}",
            golang::syntax(value)
        )),
        ScalarType::Boolean | ScalarType::Untyped => unexpected(name, value),
    })
}

fn unexpected(what: &str, found: &Value) -> TypeError {
    TypeError::new(format!(
        "expected {what}, got &{{{}}}",
        golang::plain(found)
    ))
}

/// The key of an item in a list that is not atomic.
pub(super) fn element(list: &List, item: &Value) -> Result<Element, String> {
    match (&list.relation, item) {
        (Relation::Atomic, _) => Err("invalid indexing of non-associative list".to_owned()),
        (Relation::Set, Value::Object(_)) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        (Relation::Set, Value::Array(_)) => {
            Err("not supported: associative list with lists as elements".to_owned())
        }
        (Relation::Set, Value::Null) => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        (Relation::Set, scalar) => Ok(Element::value(scalar)),
        (Relation::Keys(_), Value::Null) => {
            Err("associative list with keys may not have a null element".to_owned())
        }
        (Relation::Keys(keys), Value::Object(item)) => {
            let map = list.items.atom().map.as_ref();
            let default = |key: &str| map.and_then(|map| map.fields.get(key)?.default.as_ref());
            let mut found: Vec<(Box<str>, Scalar)> = keys
                .iter()
                .filter_map(|key| {
                    let value = item.get(key).or_else(|| default(key))?;
                    Some((key.as_str().into(), Scalar(value.clone())))
                })
                .collect();
            if found.is_empty() && !keys.is_empty() {
                let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    names.join(" ")
                ));
            }
            found.sort();
            Ok(Element::Key(found))
        }
        (Relation::Keys(_), _) => {
            Err("associative list with keys may not have non-map elements".to_owned())
        }
    }
}
