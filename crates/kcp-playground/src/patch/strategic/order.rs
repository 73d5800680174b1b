//! The identity of list items, and their order after a strategic merge: items in the patch have the order of the patch,
//! the others keep their place between them.

use serde_json::{Map, Value};

use super::super::error::{PatchError, failed, go};

/// The field of an item that says what the patch does with it.
pub(super) const DIRECTIVE: &str = "$patch";

/// Whether two items have the same identity.
fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        None => a == b,
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
    }
}

/// The merge key of an item.
/// The identity of an item: the value of its merge key.
pub(super) fn id<'v>(item: &'v Map<String, Value>, key: &str) -> Result<&'v Value, PatchError> {
    item.get(key).map_or_else(
        || {
            let item = go(&Value::Object(item.clone()));
            failed(format!(
                "map: {item} does not contain declared merge key: {key}"
            ))
        },
        Ok,
    )
}

fn place(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| same(other, item, key))
}

/// The items that a list names, and the others.
pub(super) fn split(
    items: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if let Some(key) = key {
        for item in items.iter().filter_map(Value::as_object) {
            id(item, key)?;
        }
    }
    let named = |item: &Value| place(by, item, key).is_some();
    Ok(items.into_iter().partition(named))
}

/// Sorts the named items by the patch and keeps the order of the others. Another item comes before the first named item
/// that it was before.
pub(super) fn in_order(
    mut named: Vec<Value>,
    mut others: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    named.sort_by_key(|item| place(order, item, key).unwrap_or(usize::MAX));
    others.sort_by_key(|item| place(before, item, key).unwrap_or(usize::MAX));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let here = place(before, &item, key);
        while let Some(other) = others.next_if(|other| {
            let there = place(before, other, key);
            there.is_some() && here.is_some() && there < here
        }) {
            sorted.push(other);
        }
        sorted.push(item);
    }
    sorted.extend(others);
    sorted
}

/// Whether the items of a patch have the order that the patch itself specifies.
pub(super) fn check(given: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if given.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for item in given.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if let (Some(key), Value::Object(item)) = (key, item) {
            id(item, key)?;
        }
        if !order_left.any(|wanted| same(wanted, item, key)) {
            let lists = [given, order].map(|list| go(&Value::Array(list.to_vec())));
            return failed(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                lists[0], lists[1]
            ));
        }
    }
    Ok(())
}
