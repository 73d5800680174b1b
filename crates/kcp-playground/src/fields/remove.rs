//! Removes fields from a value, and adds the declared parents of a set's fields.

use serde_json::{Map as Object, Value};

use super::check;
use super::element::Element;
use super::set::{Branch, Set};
use super::types::{List, Map, Relation, Type, TypeShape};

/// Removes the fields of a set from a value. A value that is empty afterwards becomes null, and so does an atomic value
/// of which a part is removed.
pub(super) fn remove(value: &Value, fields: &Set, kind: &Type) -> Value {
    match (kind.shape(Some(value)), value) {
        (Some(TypeShape::Map(map)), Value::Object(members)) if !map.atomic => {
            without_members(members, fields, map)
        }
        (Some(TypeShape::List(list)), Value::Array(items)) if list.relation != Relation::Atomic => {
            without_items(items, fields, list)
        }
        (Some(TypeShape::Scalar(_)), scalar) => scalar.clone(),
        _ => Value::Null,
    }
}

fn without_members(members: &Object<String, Value>, fields: &Set, map: &Map) -> Value {
    let mut kept = Object::new();
    for (name, member) in members {
        let value = match (fields.get(&Element::field(name)), map.member(name)) {
            (Some(branch), _) if branch.member => continue,
            (Some(branch), Some(kind)) => remove(member, &branch.below, kind),
            _ => member.clone(),
        };
        kept.insert(name.clone(), value);
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Object(kept)
    }
}

fn without_items(items: &[Value], fields: &Set, list: &List) -> Value {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let element = check::element(list, item).ok();
        match element.and_then(|element| fields.get(&element)) {
            Some(branch) if branch.member => {}
            Some(branch) => kept.push(remove(item, &branch.below, &list.items)),
            None => kept.push(item.clone()),
        }
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Array(kept)
    }
}

/// The set with all declared fields above its members.
pub(super) fn with_named_fields(set: &Set, kind: Option<&Type>) -> Set {
    let atom = kind.map(Type::atom);
    let map = atom.and_then(|atom| atom.map.as_ref());
    let list = atom.and_then(|atom| atom.list.as_ref());
    let mut all = Set::default();
    for (element, branch) in set.iter() {
        let (declared, below) = match element {
            Element::Field(name) => (
                map.is_some_and(|map| map.fields.contains_key(&**name)),
                map.and_then(|map| map.member(name)),
            ),
            Element::Key(_) => (false, list.map(|list| &list.items)),
            Element::Value(_) | Element::Index(_) => (false, None),
        };
        let leads = declared && !branch.below.is_empty();
        let branch = Branch {
            member: branch.member || leads,
            below: with_named_fields(&branch.below, below),
        };
        all.add(element.clone(), branch);
    }
    all
}
