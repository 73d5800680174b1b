//! Patches of objects: JSON patch, JSON merge patch and, for built-in kinds, strategic merge patch.
//!
//! All three behave as in kube-apiserver, which differs from the RFCs: its JSON patch library adds a value if `replace`
//! finds none, and accepts negative indices; nulls within the values of a merge patch are dropped. This module does not
//! know versions, locks or status subresources.

use serde_json::Value;

mod error;
mod json_patch;
mod merge;
mod strategic;
#[cfg(test)]
mod tests;

pub(crate) use error::{PatchError, go, go_type};

use super::fields::builtin::Struct;
use error::undecoded;

/// Applies a JSON patch (`application/json-patch+json`).
pub(crate) fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    json_patch::apply(object, patch)
}

/// Applies a merge patch (`application/merge-patch+json`).
pub(crate) fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        let message = undecoded(patch, "map[string]interface {}");
        return Err(PatchError::Malformed(message));
    }
    let mut object = object.clone();
    merge::apply(&mut object, patch);
    Ok(object)
}

/// Applies a strategic merge patch (`application/strategic-merge-patch+json`). The table of built-in kinds determines
/// which lists are merged; without a type, all lists are replaced.
pub(crate) fn strategic(
    object: &Value,
    patch: &Value,
    kind: Option<&'static Struct>,
) -> Result<Value, PatchError> {
    strategic::apply(object, patch, kind)
}
