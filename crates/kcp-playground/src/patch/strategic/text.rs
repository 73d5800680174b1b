//! Errors with the messages of the server, and values as Go prints them there.

use serde_json::Value;

use super::super::PatchError;

/// `map[a:1 b:[x y]]`
pub(super) fn go(value: &Value) -> String {
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

pub(super) fn failed<T>(message: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Failed(message.into()))
}
