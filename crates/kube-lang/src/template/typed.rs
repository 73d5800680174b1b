//! Values that Go gives a type of its own, which the engine has not: times and versions.
//!
//! A time is the text that it prints, a version the map of its parts. Which ones they are is remembered for one rendering by where
//! they lie in memory, so that no text or map of an object is ever taken for one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gotmpl::Value;

use super::limits::spend;

/// The work that remembering one value takes.
const COST: u64 = 16;

/// The Go type of a value that is represented by another one here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// With the text that JSON has for it.
    Time { json: Arc<str> },
    /// With the text that it prints.
    Version { text: Arc<str> },
    /// A list that was never made: it is empty, and null in JSON.
    NoList,
}

thread_local! {
    /// By address; each keeps its value, so that no other can come to lie there.
    static KNOWN: RefCell<HashMap<usize, (Typed, Value)>> = RefCell::new(HashMap::new());
}

/// A time by the text that it prints, and the one that it has in JSON.
pub(super) fn time(printed: &str, json: &str) -> Result<Value, String> {
    let value = Value::String(printed.into());
    remember(value, Typed::Time { json: json.into() })
}

/// A version by its parts, and the text that it prints.
pub(super) fn version(parts: BTreeMap<Arc<str>, Value>, text: &str) -> Result<Value, String> {
    let value = Value::Map(Arc::new(parts));
    remember(value, Typed::Version { text: text.into() })
}

/// A list that was never made.
pub(super) fn no_list() -> Result<Value, String> {
    remember(Value::List(Vec::new().into()), Typed::NoList)
}

/// The Go type of a value, if it is one of these.
pub(super) fn of(value: &Value) -> Option<Typed> {
    let address = address(value)?;
    KNOWN.with_borrow(|known| known.get(&address).map(|(typed, _)| typed.clone()))
}

/// Forgets all of a rendering.
pub(super) fn forget() {
    KNOWN.with_borrow_mut(HashMap::clear);
}

fn remember(value: Value, typed: Typed) -> Result<Value, String> {
    spend(COST)?;
    if let Some(address) = address(&value) {
        KNOWN.with_borrow_mut(|known| known.insert(address, (typed, value.clone())));
    }
    Ok(value)
}

fn address(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(Arc::as_ptr(text).cast::<u8>().addr()),
        Value::Map(fields) => Some(Arc::as_ptr(fields).addr()),
        Value::List(items) if items.is_empty() => Some(Arc::as_ptr(items).cast::<u8>().addr()),
        _ => None,
    }
}
