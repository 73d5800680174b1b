//! Old values for rules: members are found by name, items of a list of type map by their keys. Errors about unchanged
//! values do not fail an update.

use serde_json::Value;

/// A value with its old value.
#[derive(Clone, Copy)]
pub(super) struct Correlated<'a> {
    /// The old value, if it can be found.
    old: Option<&'a Value>,
    /// Whether the value, or an enclosing value with a known old value, has not changed.
    is_unchanged: bool,
}

impl<'a> Correlated<'a> {
    pub(super) fn new(value: &Value, old: Option<&'a Value>) -> Self {
        Self {
            old,
            is_unchanged: old == Some(value),
        }
    }

    pub(super) fn old(self) -> Option<&'a Value> {
        self.old
    }

    pub(super) fn is_unchanged(self) -> bool {
        self.is_unchanged
    }

    /// A part of the value, with its old value.
    pub(super) fn part(self, value: &Value, old: Option<&'a Value>) -> Self {
        Self {
            old,
            is_unchanged: self.is_unchanged || old.is_some_and(|old| old == value),
        }
    }
}

/// The item of an old list that has the same keys.
pub(super) fn same_keys<'a>(
    keys: &[String],
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let old = old?.as_array()?;
    let item = item.as_object()?;
    old.iter().find(|candidate| {
        candidate
            .as_object()
            .is_some_and(|candidate| keys.iter().all(|key| candidate.get(key) == item.get(key)))
    })
}
