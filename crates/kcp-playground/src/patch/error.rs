//! Why a patch is not applied, with the messages of the server.

use serde_json::Value;

/// The maximum number of operations in a JSON patch.
pub(crate) const MAX_OPERATIONS: usize = 10_000;

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

/// The error for a patch that is not a document of its kind, with the server's message.
pub(super) fn undecoded(found: &Value, wanted: &str) -> String {
    let found = go_type(found);
    format!("error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}")
}

pub(super) fn failed<T>(message: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Failed(message.into()))
}

/// The name of a value's type in the errors of Go's JSON decoder.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as Go prints it: `map[a:1 b:[x y]]`.
pub(crate) fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(name, value)| format!("{name}:{}", go(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}
