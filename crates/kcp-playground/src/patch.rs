//! Patches of objects: JSON patch, JSON merge patch and, for built-in kinds, strategic merge patch.
//!
//! All three behave as in kube-apiserver, which differs from the RFCs: its JSON patch library adds a value if `replace`
//! finds none, and accepts negative indices; nulls within the values of a merge patch are dropped. This module does not
//! know versions, locks or status subresources.

use kube_schema::json;
use serde_json::Value;

mod json_patch;
mod merge;
mod strategic;
#[cfg(test)]
mod tests;

use super::fields::builtin::Struct;

/// The maximum number of operations in a JSON patch.
pub(crate) const MAX_OPERATIONS: usize = 10_000;

/// The maximum depth of a patched document, the same as that of a request.
const MAX_DEPTH: usize = json::MAX_LEVELS;

/// The reason why a patch is not applied, by its status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// 400: the patch is malformed.
    #[error("{0}")]
    Malformed(String),
    /// 413: too many operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {operations}")]
    TooLarge { operations: usize },
    /// 422: the patch does not fit this object, for example because a test fails.
    #[error("{0}")]
    Rejected(String),
    /// 500: the server's library has no better status for this.
    #[error("{0}")]
    Failed(String),
}

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

/// The error for a patch that is not a document of its kind, with the server's message.
fn undecoded(found: &Value, wanted: &str) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}")
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
