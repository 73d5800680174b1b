//! Merges an applied configuration into an object: values of the configuration win, and nothing is removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map as Object, Value};

use super::check::{self, Duplicates, TypeError};
use super::element::Element;
use super::types::{List, Map, Relation, Type, TypeShape};

/// Merges a configuration into a live value. Both must be of the type.
pub(super) fn merge(live: &Value, config: &Value, kind: &Type) -> Result<Value, TypeError> {
    Ok(walk(Some(live), Some(config), kind)?.unwrap_or(Value::Null))
}

fn walk(
    live: Option<&Value>,
    config: Option<&Value>,
    kind: &Type,
) -> Result<Option<Value>, TypeError> {
    let atom = kind.atom();
    // If the kind of value differs, the configuration replaces it.
    let alternatives = match config {
        None => atom.alternatives(live),
        Some(_) => atom.alternatives(config),
    };
    let kept = || config.or(live).cloned();
    match atom.pick(alternatives) {
        None => Err(TypeError::new("schema error: invalid atom: inlined")),
        Some(TypeShape::Scalar(_)) => Ok(kept()),
        Some(TypeShape::List(list)) => {
            let (was, is) = (items(live), items(config));
            if list.relation == Relation::Atomic || (was.is_empty() && is.is_empty()) {
                return Ok(kept());
            }
            lists(was, is, list)
        }
        Some(TypeShape::Map(map)) => {
            let (was, is) = (members(live), members(config));
            let empty = |map: Option<&Object<String, Value>>| map.is_none_or(Object::is_empty);
            if map.atomic || (empty(was) && empty(is)) {
                return Ok(kept());
            }
            maps(was, is, map)
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn members(value: Option<&Value>) -> Option<&Object<String, Value>> {
    value.and_then(Value::as_object)
}

fn maps(
    was: Option<&Object<String, Value>>,
    is: Option<&Object<String, Value>>,
    map: &Map,
) -> Result<Option<Value>, TypeError> {
    let mut out = Object::new();
    let mut visit = |name: &str, live: Option<&Value>, config: Option<&Value>| {
        let element = Element::field(name);
        let Some(kind) = map.member(name) else {
            return Err(TypeError::new("field not declared in schema").below(&element));
        };
        let merged = walk(live, config, kind).map_err(|error| error.below(&element))?;
        if let Some(merged) = merged {
            out.insert(name.to_owned(), merged);
        }
        Ok(())
    };
    for (name, live) in was.into_iter().flatten() {
        visit(name, Some(live), is.and_then(|is| is.get(name)))?;
    }
    for (name, config) in is.into_iter().flatten() {
        if was.is_none_or(|was| !was.contains_key(name)) {
            visit(name, None, Some(config))?;
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// The items of a list in order, with their keys.
struct Indexed<'v> {
    order: Vec<(Element, &'v Value)>,
    by_element: BTreeMap<Element, &'v Value>,
}

fn index<'v>(
    items: &'v [Value],
    list: &List,
    duplicates: Duplicates,
) -> Result<Indexed<'v>, TypeError> {
    let mut order = Vec::with_capacity(items.len());
    let mut by_element = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let element = check::element(list, item)
            .map_err(|why| TypeError::new(format!("element {index}: {why}")))?;
        if by_element.contains_key(&element) {
            if duplicates == Duplicates::Refused {
                let message = format!("duplicate entries for key {element}");
                return Err(TypeError::new(message));
            }
            // Items with the same key are not merged.
            by_element.insert(element.clone(), &Value::Null);
        } else {
            by_element.insert(element.clone(), item);
        }
        order.push((element, item));
    }
    Ok(Indexed { order, by_element })
}

/// Items on one side only keep their place between the items on both sides, which have the order of the configuration.
fn lists(was: &[Value], is: &[Value], list: &List) -> Result<Option<Value>, TypeError> {
    let config = index(is, list, Duplicates::Refused)?;
    let live = index(was, list, Duplicates::Allowed)?;
    let mut out = Vec::with_capacity(was.len().max(is.len()));
    let mut take = |element: &Element, live: Option<&Value>, config: Option<&Value>| {
        let merged = walk(live, config, &list.items).map_err(|error| error.below(element))?;
        out.extend(merged);
        Ok::<_, TypeError>(())
    };
    let mut shared: VecDeque<&Element> = config
        .order
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live.by_element.contains_key(element))
        .collect();
    let mut next_shared = shared.pop_front();
    let mut merged = BTreeSet::new();
    let (mut left, mut right) = (0, 0);
    while left < live.order.len() || right < config.order.len() {
        if let (Some((element, _)), Some((wanted, _))) =
            (live.order.get(left), config.order.get(right))
        {
            if element == wanted {
                merged.insert(element);
                let old = live.by_element.get(element).copied();
                take(element, old, config.by_element.get(element).copied())?;
                left += 1;
                right += 1;
                next_shared = shared.pop_front();
                continue;
            }
            let in_config = config.by_element.contains_key(element);
            if in_config && next_shared.is_some_and(|next| next != element) {
                // This item follows at its place in the configuration.
                left += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.order.get(left) {
            if !config.by_element.contains_key(element) {
                take(element, Some(item), None)?;
                left += 1;
                continue;
            }
            if merged.contains(element) {
                left += 1;
            }
        }
        if let Some((element, _)) = config.order.get(right) {
            merged.insert(element);
            let old = live.by_element.get(element).copied();
            take(element, old, config.by_element.get(element).copied())?;
            right += 1;
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}
