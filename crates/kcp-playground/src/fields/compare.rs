//! The paths that were added, removed and modified between two values of a type.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::check::{self, TypeError};
use super::element::Element;
use super::set::{Branch, Set};
use super::types::{List, Map, Relation, Type, TypeShape};

/// The difference of two values. A path is in at most one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) removed: Set,
    pub(super) modified: Set,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldChange {
    Added,
    Removed,
    Modified,
}

/// The change of one value.
#[derive(Default)]
struct Found {
    /// The value itself changed.
    change: Option<FieldChange>,
    below: Comparison,
    /// The value is atomic.
    leaf: bool,
}

/// Compares two values, which must be of the type.
pub(super) fn compare(old: &Value, new: &Value, kind: &Type) -> Result<Comparison, TypeError> {
    Ok(walk(Some(old), Some(new), kind)?.below)
}

impl Comparison {
    /// Removes some paths, and everything below them.
    #[must_use]
    pub(super) fn without(mut self, paths: &Set) -> Self {
        for set in [&mut self.added, &mut self.removed, &mut self.modified] {
            set.subtract_whole(paths);
        }
        self
    }

    fn put(&mut self, element: &Element, found: Found) {
        let Found { change, below, .. } = found;
        for (set, below, kind) in [
            (&mut self.added, below.added, FieldChange::Added),
            (&mut self.removed, below.removed, FieldChange::Removed),
            (&mut self.modified, below.modified, FieldChange::Modified),
        ] {
            let member = change == Some(kind);
            if member || !below.is_empty() {
                set.add(element.clone(), Branch { member, below });
            }
        }
    }

    fn mark(&mut self, element: &Element, change: FieldChange) {
        let set = match change {
            FieldChange::Added => &mut self.added,
            FieldChange::Removed => &mut self.removed,
            FieldChange::Modified => &mut self.modified,
        };
        set.add(element.clone(), Branch::leaf());
    }
}

fn walk(old: Option<&Value>, new: Option<&Value>, kind: &Type) -> Result<Found, TypeError> {
    let atom = kind.atom();
    let before = atom.alternatives(old);
    let after = atom.alternatives(new);
    let mut found = if new.is_none() {
        shaped(old, new, atom.pick(before))?
    } else if old.is_none() || before == after {
        shaped(old, new, atom.pick(after))?
    } else {
        // The kind of value changed: all old fields are removed, all new ones added.
        let gone = shaped(old, new, atom.pick(before))?;
        let mut came = shaped(old, new, atom.pick(after))?;
        came.change = came.change.or(gone.change);
        came.below.added.extend(gone.below.added);
        came.below.removed.extend(gone.below.removed);
        came.below.modified.extend(gone.below.modified);
        came
    };
    if !found.leaf {
        found.change = match (old, new) {
            (None, _) => Some(FieldChange::Added),
            (_, None) => Some(FieldChange::Removed),
            _ => found.change,
        };
    }
    Ok(found)
}

fn shaped(
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Option<TypeShape<'_>>,
) -> Result<Found, TypeError> {
    match shape {
        None => Err(TypeError::new("schema error: invalid atom: inlined")),
        Some(TypeShape::Scalar(expected)) => {
            let wrong = |value: Option<&Value>| {
                value.is_some_and(|value| check::scalar(value, expected).is_err())
            };
            if wrong(old) && wrong(new) {
                check::scalar(new.unwrap_or(&Value::Null), expected)?;
            }
            Ok(leaf(old, new))
        }
        Some(TypeShape::List(list)) => {
            let (was, is) = (items(old), items(new));
            if list.relation == Relation::Atomic || (was.is_empty() && is.is_empty()) {
                return Ok(leaf(old, new));
            }
            let below = lists(was, is, list)?;
            Ok(Found {
                below,
                ..Found::default()
            })
        }
        Some(TypeShape::Map(map)) => {
            let (was, is) = (members(old), members(new));
            let empty = |map: Option<&Object<String, Value>>| map.is_none_or(Object::is_empty);
            if map.atomic || (empty(was) && empty(is)) {
                return Ok(leaf(old, new));
            }
            let below = maps(was, is, map)?;
            Ok(Found {
                below,
                ..Found::default()
            })
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn members(value: Option<&Value>) -> Option<&Object<String, Value>> {
    value.and_then(Value::as_object)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Found {
    let change = match (old, new) {
        (None, _) => Some(FieldChange::Added),
        (_, None) => Some(FieldChange::Removed),
        (Some(old), Some(new)) => (old != new).then_some(FieldChange::Modified),
    };
    Found {
        change,
        leaf: true,
        ..Found::default()
    }
}

fn maps(
    was: Option<&Object<String, Value>>,
    is: Option<&Object<String, Value>>,
    map: &Map,
) -> Result<Comparison, TypeError> {
    let mut result = Comparison::default();
    let mut visit = |name: &str, old: Option<&Value>, new: Option<&Value>| {
        // Most values are unchanged.
        if old == new {
            return Ok(());
        }
        let element = Element::field(name);
        let Some(kind) = map.member(name) else {
            return Err(TypeError::new("field not declared in schema").below(&element));
        };
        let found = walk(old, new, kind).map_err(|error| error.below(&element))?;
        result.put(&element, found);
        Ok(())
    };
    for (name, old) in was.into_iter().flatten() {
        visit(name, Some(old), is.and_then(|is| is.get(name)))?;
    }
    for (name, new) in is.into_iter().flatten() {
        if was.is_none_or(|was| !was.contains_key(name)) {
            visit(name, None, Some(new))?;
        }
    }
    Ok(result)
}

type ByElement<'v> = BTreeMap<Element, Vec<&'v Value>>;

fn by_element<'v>(items: &'v [Value], list: &List) -> Result<ByElement<'v>, TypeError> {
    let mut found = ByElement::new();
    for (index, item) in items.iter().enumerate() {
        let element = check::element(list, item)
            .map_err(|why| TypeError::new(format!("element {index}: {why}")))?;
        found.entry(element).or_default().push(item);
    }
    Ok(found)
}

fn lists(was: &[Value], is: &[Value], list: &List) -> Result<Comparison, TypeError> {
    let old = by_element(was, list)?;
    let new = by_element(is, list)?;
    let mut result = Comparison::default();
    let mut visit = |element: &Element, old: &[&Value], new: &[&Value]| {
        let mut one = |old: Option<&Value>, new: Option<&Value>| {
            let found = walk(old, new, &list.items).map_err(|error| error.below(element))?;
            result.put(element, found);
            Ok::<_, TypeError>(())
        };
        match (old, new) {
            (old, new) if old.len() <= 1 && new.len() <= 1 => {
                one(old.first().copied(), new.first().copied())?;
            }
            // Items with the same key count as one value.
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    result.mark(element, FieldChange::Modified);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    one(None, Some(new))?;
                }
                result.mark(element, FieldChange::Removed);
            }
            _ => {
                if let Some(old) = old.first() {
                    one(Some(old), None)?;
                }
                result.mark(element, FieldChange::Added);
            }
        }
        Ok::<_, TypeError>(())
    };
    for (element, was) in &old {
        visit(element, was, new.get(element).map_or(&[], Vec::as_slice))?;
    }
    for (element, is) in &new {
        if !old.contains_key(element) {
            visit(element, &[], is)?;
        }
    }
    Ok(result)
}
