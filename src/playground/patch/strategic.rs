//! Strategic merge patches of built-in kinds: merge patches that know which lists are sets or maps.

use serde_json::{Map, Value};

use super::{PatchError, merge};

/// How a list is merged; a list without a rule is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// Items are objects with a key.
    ByKey(&'static str),
    /// Items are scalars, each once.
    Set,
}

/// The lists of a kind that are merged, by path.
#[derive(Clone, Copy, Debug)]
pub struct Rules(&'static [(&'static str, List)]);

const METADATA: [(&str, List); 2] = [
    ("metadata.ownerReferences", List::ByKey("uid")),
    ("metadata.finalizers", List::Set),
];
const NAMESPACE: &[(&str, List)] = &[
    METADATA[0],
    METADATA[1],
    ("status.conditions", List::ByKey("type")),
];
const SERVICE_ACCOUNT: &[(&str, List)] = &[
    METADATA[0],
    METADATA[1],
    ("secrets", List::ByKey("name")),
    ("imagePullSecrets", List::ByKey("name")),
];

impl Rules {
    /// The rules of a built-in kind. Whether a kind is built in is for the caller to know: custom
    /// objects take no such patches.
    pub fn of(group: &str, kind: &str) -> Self {
        Self(match (group, kind) {
            ("", "Namespace") => NAMESPACE,
            ("", "ServiceAccount") => SERVICE_ACCOUNT,
            _ => &METADATA,
        })
    }

    fn list(&self, path: &str) -> Option<List> {
        self.0
            .iter()
            .find(|(at, _)| *at == path)
            .map(|(_, list)| *list)
    }
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder/";

pub(super) fn apply(object: &Value, patch: &Value, rules: &Rules) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(PatchError::Malformed(
            "error decoding patch: a strategic merge patch must be a JSON object".to_owned(),
        ));
    };
    let mut object = object.clone();
    merge_map(&mut object, patch, "", rules)?;
    Ok(Value::Object(object))
}

fn malformed(message: String) -> PatchError {
    PatchError::Malformed(message)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn merge_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &str,
    rules: &Rules,
) -> Result<(), PatchError> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            *target = plain(patch);
            return Ok(());
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(_) => {
            return Err(malformed(format!(
                "Unknown patch type: {} found in a map",
                patch[DIRECTIVE]
            )));
        }
    }
    retain(target, patch)?;
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN {
            continue;
        }
        if let Some(name) = name.strip_prefix(DELETE_PREFIX) {
            let gone = items(value, name)?;
            if let Some(Value::Array(list)) = target.get_mut(name) {
                list.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with(ORDER_PREFIX) {
            items(value, name)?;
        } else if value.is_null() {
            target.remove(name);
        } else {
            merge_member(target, name, value, &join(path, name), rules)?;
        }
    }
    for (name, order) in patch {
        if let Some(name) = name.strip_prefix(ORDER_PREFIX)
            && let Some(Value::Array(list)) = target.get_mut(name)
        {
            reorder(list, items(order, name)?, rules.list(&join(path, name)));
        }
    }
    Ok(())
}

fn items<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], PatchError> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| malformed(format!("the directive for {name} must be a list")))
}

/// `$retainKeys`: members that are not named go; all that the patch sets must be named.
fn retain(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN) else {
        return Ok(());
    };
    let keys = items(keys, RETAIN)?;
    let kept = |name: &String| keys.iter().any(|key| key == name);
    let stray = patch
        .iter()
        .any(|(name, value)| !name.starts_with('$') && !value.is_null() && !kept(name));
    if stray {
        return Err(malformed(
            "retainKeys directive must be a superset of the fields in the patch".to_owned(),
        ));
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

fn merge_member(
    target: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    path: &str,
    rules: &Rules,
) -> Result<(), PatchError> {
    match value {
        Value::Object(patch) => {
            let slot = target.entry(name).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(member) = slot {
                merge_map(member, patch, path, rules)?;
                if patch.get(DIRECTIVE).is_some_and(|d| d == "delete") {
                    target.remove(name);
                }
            }
        }
        Value::Array(patch) => {
            let old = match target.remove(name) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            let merged = match rules.list(path) {
                None => patch.iter().map(merge::without_nulls).collect(),
                Some(List::Set) => merge_set(old, patch),
                Some(List::ByKey(key)) => merge_by_key(old, patch, key, path, rules)?,
            };
            target.insert(name.to_owned(), Value::Array(merged));
        }
        scalar => {
            target.insert(name.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

fn merge_set(mut list: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    for item in patch {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
    list
}

fn merge_by_key(
    mut list: Vec<Value>,
    patch: &[Value],
    key: &str,
    path: &str,
    rules: &Rules,
) -> Result<Vec<Value>, PatchError> {
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        let is_marker = |item: &Value| directive(item).as_deref() == Some("replace");
        return Ok(patch
            .iter()
            .filter(|item| !is_marker(item))
            .map(merge::without_nulls)
            .collect());
    }
    for item in patch {
        let (Some(id), Value::Object(fields)) = (item.get(key), item) else {
            return Err(malformed(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        let place = list.iter().position(|old| old.get(key) == Some(id));
        match (directive(item).as_deref(), place) {
            (Some("delete"), _) => list.retain(|old| old.get(key) != Some(id)),
            (None | Some("merge"), Some(place)) => {
                if let Some(Value::Object(old)) = list.get_mut(place) {
                    merge_map(old, fields, path, rules)?;
                }
            }
            (None | Some("merge"), None) => list.push(Value::Object(plain(fields))),
            (Some(other), _) => {
                return Err(malformed(format!(
                    "Unknown patch type: {other} found in a list"
                )));
            }
        }
    }
    Ok(list)
}

/// What is new, without the directives and the nulls that only mean something to what is old.
fn plain(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
        .map(|(name, value)| {
            let value = match value {
                Value::Object(inner) => Value::Object(plain(inner)),
                other => merge::without_nulls(other),
            };
            (name.clone(), value)
        })
        .collect()
}

/// Puts the items that an order names into that order, in the places that they hold together; items
/// that it does not name stay where they are.
fn reorder(list: &mut [Value], order: &[Value], rule: Option<List>) {
    let rank = |item: &Value| {
        order.iter().position(|wanted| match rule {
            Some(List::ByKey(key)) => item.get(key).is_some() && item.get(key) == wanted.get(key),
            _ => item == wanted,
        })
    };
    let mut named: Vec<(usize, Value)> = list
        .iter()
        .filter_map(|item| Some((rank(item)?, item.clone())))
        .collect();
    named.sort_by_key(|(rank, _)| *rank);
    let mut named = named.into_iter();
    for slot in list {
        if rank(slot).is_some()
            && let Some((_, item)) = named.next()
        {
            *slot = item;
        }
    }
}
