//! The set of fields of a value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::{self, TypeError};
use super::element::Element;
use super::set::{Branch, Set};
use super::types::{List, Map, Relation, Type, TypeShape};

/// The parts of a value that a manager can own.
struct Extracted {
    /// The value is owned as a whole.
    leaf: bool,
    below: Set,
}

/// The fields of a value: its leaves, the items of its lists, and undeclared members.
pub(super) fn fields(value: &Value, kind: &Type) -> Result<Set, TypeError> {
    Ok(walk(value, kind)?.below)
}

fn walk(value: &Value, kind: &Type) -> Result<Extracted, TypeError> {
    let leaf = Extracted {
        leaf: true,
        below: Set::default(),
    };
    let below = match kind.shape(Some(value)) {
        None => return Err(TypeError::new("schema error: invalid atom: inlined")),
        Some(TypeShape::Scalar(_)) => return Ok(leaf),
        Some(TypeShape::List(list)) if list.relation == Relation::Atomic => return Ok(leaf),
        Some(TypeShape::Map(map)) if map.atomic => return Ok(leaf),
        Some(TypeShape::List(list)) => items(value, list)?,
        Some(TypeShape::Map(map)) => members(value, map)?,
    };
    Ok(Extracted { leaf: false, below })
}

fn members(value: &Value, map: &Map) -> Result<Set, TypeError> {
    let mut set = Set::default();
    for (name, member) in value.as_object().into_iter().flatten() {
        let element = Element::field(name);
        let Some(kind) = map.member(name) else {
            return Err(TypeError::new("field not declared in schema").below(&element));
        };
        let found = walk(member, kind).map_err(|error| error.below(&element))?;
        let empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
        let branch = Branch {
            member: found.leaf || empty || !map.fields.contains_key(name),
            below: found.below,
        };
        set.add(element, branch);
    }
    Ok(set)
}

fn items(value: &Value, list: &List) -> Result<Set, TypeError> {
    let mut by_element: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let element = check::element(list, item)
            .map_err(|why| TypeError::new(format!("element {index}: {why}")))?;
        by_element.entry(element).or_default().push(item);
    }
    let mut set = Set::default();
    for (element, items) in by_element {
        let below = match items.as_slice() {
            [item] => {
                let found = walk(item, &list.items).map_err(|error| error.below(&element))?;
                found.below
            }
            // Items with the same key are owned as a whole.
            _ => Set::default(),
        };
        let member = true;
        set.add(element, Branch { member, below });
    }
    Ok(set)
}
