//! Values as Go prints them in messages.

use serde_json::Value;

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
