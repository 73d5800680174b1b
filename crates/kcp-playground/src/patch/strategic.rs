//! Strategic merge patches of built-in kinds: merge patches that merge some lists as sets or maps.
//!
//! The table of built-in kinds names these lists. [`order`] orders their items.

use serde_json::{Map, Value};

use super::error::{PatchError, failed, go, undecoded};
use super::merge;
use crate::fields::builtin::{Patch, Struct};

mod order;

use order::{DIRECTIVE, id, in_order, split};

const RETAIN: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder/";

/// The known type of a field.
type KnownStruct = Option<&'static Struct>;
type JsonObject = Map<String, Value>;

pub(super) fn apply(object: &Value, patch: &Value, kind: KnownStruct) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        let message = undecoded(patch, "map[string]interface {}");
        return Err(PatchError::Malformed(message));
    };
    Ok(Value::Object(merge_map(object.clone(), patch, kind)?))
}

fn malformed<T>(of: &str) -> Result<T, PatchError> {
    Err(PatchError::Malformed(format!(
        "invalid patch format of {of}"
    )))
}

fn bad_directive<T>(directive: &Value, map: &JsonObject) -> Result<T, PatchError> {
    let map = go(&Value::Object(map.clone()));
    failed(format!(
        "unknown patch type: {} in map: {map}",
        go(directive)
    ))
}

fn merge_map(
    mut target: JsonObject,
    patch: &JsonObject,
    known: KnownStruct,
) -> Result<JsonObject, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                let mut patch = patch.clone();
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(JsonObject::new()),
            _ => bad_directive(directive, patch),
        };
    }
    retain(&mut target, patch)?;
    let mut ordered = Vec::new();
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix(ORDER_PREFIX) {
            merge_ordered(&mut target, (list, order), patch, known)?;
            ordered.push(list);
        }
    }
    for (name, value) in patch {
        let directive = name == RETAIN || name.starts_with(ORDER_PREFIX);
        if directive || ordered.contains(&name.as_str()) {
            continue;
        }
        match name.strip_prefix(DELETE_PREFIX) {
            Some(list) => delete_values(&mut target, list, value)?,
            None => merge_member(&mut target, name, value, known)?,
        }
    }
    Ok(target)
}

/// `$retainKeys`: removes the fields that it does not name; the patch must not set others.
fn retain(target: &mut JsonObject, patch: &JsonObject) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return malformed("retainKeys");
    };
    let kept = |name: &String| keys.iter().any(|key| key == name);
    let stray = patch.iter().any(|(name, value)| {
        let directive = [RETAIN, DELETE_PREFIX, ORDER_PREFIX]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        !directive && !value.is_null() && !kept(name)
    });
    if stray {
        return malformed("retainKeys");
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

/// `$deleteFromPrimitiveList`
fn delete_values(target: &mut JsonObject, name: &str, gone: &Value) -> Result<(), PatchError> {
    if gone.is_null() {
        target.remove(name);
        return Ok(());
    }
    if let (Some(Value::Array(list)), Value::Array(gone)) = (target.get_mut(name), gone) {
        if list.iter().chain(gone).any(Value::is_object) {
            return failed(format!("cannot merge lists without merge key for {name}"));
        }
        list.retain(|item| !gone.contains(item));
    }
    Ok(())
}

fn merge_member(
    target: &mut JsonObject,
    name: &str,
    value: &Value,
    known: KnownStruct,
) -> Result<(), PatchError> {
    let below = known.and_then(|known| known.below(name));
    let merged = match (target.remove(name), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(patch)) => {
            Some(Value::Object(merge_map(old, patch, below)?))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let strategy = known.and_then(|known| known.patch(name));
            Some(Value::Array(match strategy {
                None => patch.clone(),
                Some(strategy) => merge_list(old, patch, key(strategy), below)?,
            }))
        }
        (_, value) => new(value),
    };
    if let Some(merged) = merged {
        target.insert(name.to_owned(), merged);
    }
    Ok(())
}

fn key(strategy: Patch) -> Option<&'static str> {
    match strategy {
        Patch::Set => None,
        Patch::Key(key) => Some(key),
    }
}

/// The value of a new field, without nulls and directives, which affect only existing values.
fn new(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            let kept = kept.filter_map(|(name, value)| Some((name.clone(), new(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => Some(Value::Array(list.iter().filter_map(new).collect())),
        other => Some(other.clone()),
    }
}

/// Refuses lists of lists, and lists that contain both maps and scalars.
fn check_items(lists: [&[Value]; 2]) -> Result<(), PatchError> {
    let items = || lists.into_iter().flatten();
    if items().any(Value::is_array) {
        let why = "lists of lists are not supported";
        return Err(PatchError::Rejected(why.to_owned()));
    }
    let maps = items().filter(|item| item.is_object()).count();
    if maps > 0 && maps < items().count() {
        return failed("list element types are not identical");
    }
    Ok(())
}

fn merge_list(
    mut old: Vec<Value>,
    patch: &[Value],
    key: Option<&str>,
    below: KnownStruct,
) -> Result<Vec<Value>, PatchError> {
    if old.is_empty() && patch.is_empty() {
        return Ok(old);
    }
    check_items([&old, patch])?;
    let Some(key) = key else {
        let before = old.clone();
        for item in patch {
            if !old.contains(item) {
                old.push(item.clone());
            }
        }
        let (named, others) = split(old, patch, None)?;
        return Ok(in_order(named, others, patch, &before, None));
    };
    if !old.iter().chain(patch).all(Value::is_object) {
        return Ok(patch.to_vec());
    }
    let mut plain = Vec::new();
    let mut replaces = false;
    for item in patch.iter().filter_map(Value::as_object) {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(Value::Object(item.clone()));
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let id = id(item, key)?;
                old.retain(|there| there.get(key) != Some(id));
            }
            Some("replace") => replaces = true,
            Some("merge") => return failed("merging lists cannot yet be specified in the patch"),
            _ => return bad_directive(directive, item),
        }
    }
    if replaces {
        return Ok(plain);
    }
    let before = old.clone();
    for item in plain.iter().filter_map(Value::as_object) {
        let id = id(item, key)?;
        match old.iter_mut().find(|there| there.get(key) == Some(id)) {
            Some(there) => {
                if let Value::Object(map) = std::mem::take(there) {
                    *there = Value::Object(merge_map(map, item, below)?);
                }
            }
            None => old.push(merge::without_nulls(&Value::Object(item.clone()))),
        }
    }
    let (named, others) = split(old, &plain, Some(key))?;
    Ok(in_order(named, others, &plain, &before, Some(key)))
}

/// Merges a list, and sorts it by `$setElementOrder`.
fn merge_ordered(
    target: &mut JsonObject,
    (name, order): (&str, &Value),
    patch: &JsonObject,
    known: KnownStruct,
) -> Result<(), PatchError> {
    let Value::Array(order) = order else {
        return malformed("setElementOrder list");
    };
    let old = match target.get(name) {
        None => None,
        Some(Value::Array(old)) => Some(old.clone()),
        Some(other) => {
            let found = kube_lang::object::json_type(other);
            return failed(format!("expected a list, but received {found}"));
        }
    };
    let given = match patch.get(name) {
        None => None,
        Some(Value::Array(given)) => Some(given.as_slice()),
        Some(_) => return malformed("setElementOrder list"),
    };
    let strategy = known.and_then(|known| known.patch(name));
    let key = strategy.and_then(key);
    if let Some(given) = given {
        order::check(given, order, key)?;
    }
    let merged = match (&old, given) {
        (None, None) => return Ok(()),
        (Some(old), None) => old.clone(),
        (None, Some(given)) => given.iter().filter_map(new).collect(),
        (Some(_), Some(given)) if strategy.is_none() => given.to_vec(),
        (Some(old), Some(given)) => {
            let below = known.and_then(|known| known.below(name));
            merge_list(old.clone(), given, key, below)?
        }
    };
    let (named, others) = split(merged, order, key)?;
    let before = old.unwrap_or_default();
    let sorted = in_order(named, others, order, &before, key);
    target.insert(name.to_owned(), Value::Array(sorted));
    Ok(())
}
