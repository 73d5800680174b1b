//! Patches of objects: JSON patch, JSON merge patch and, for built-in kinds, strategic merge patch.
//!
//! All three are what kube-apiserver makes of them, which is not always what the RFCs say: its JSON
//! patch library adds what `replace` does not find and takes negative indices, and nulls inside of
//! what a merge patch brings are dropped. Knows nothing of versions, locks or status subresources.

use kube_schema::json;
use serde_json::Value;

mod json_patch;
mod merge;
mod strategic;
#[cfg(test)]
mod tests;

use super::fields::builtin::Struct;

/// More operations in one JSON patch are refused.
pub(crate) const MAX_OPERATIONS: usize = 10_000;

/// No document gets deeper by patching than one can be that is sent.
const MAX_DEPTH: usize = json::MAX_LEVELS;

/// Why a patch is not applied, by the status that says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// 400: the patch is no patch of its kind.
    #[error("{0}")]
    Malformed(String),
    /// 413: too many operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {operations}")]
    TooLarge { operations: usize },
    /// 422: a patch that does not fit this object, such as one whose test fails.
    #[error("{0}")]
    Rejected(String),
    /// 500: what the server's library has no better word for.
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

/// What is said of a patch that is no document of its kind, in the words that people know.
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

/// Applies a strategic merge patch (`application/strategic-merge-patch+json`). What the table of
/// built-in kinds knows of the kind says which lists are merged; without that, all are replaced.
pub(crate) fn strategic(
    object: &Value,
    patch: &Value,
    kind: Option<&'static Struct>,
) -> Result<Value, PatchError> {
    strategic::apply(object, patch, kind)
}
