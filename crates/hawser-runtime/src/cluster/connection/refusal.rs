//! The refusal of a request by a server.

use std::fmt;

use serde_json::Value;

/// A `Status` document, or the parts of it that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// The name of the object; empty if the path itself is unknown.
    pub name: String,
    pub causes: Vec<StatusCause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    pub field: String,
    pub reason: String,
    pub message: String,
}

/// The longest part of a response without `Status` that is quoted.
const QUOTED: usize = 200;
/// The longest text of a `Status` that is kept, in bytes.
const LONGEST: usize = 16 << 10;

impl Refusal {
    pub(super) fn read(code: u16, body: &[u8]) -> Self {
        let document: Option<Value> = serde_json::from_slice(body).ok();
        let status = document.filter(|d| d.get("kind").and_then(Value::as_str) == Some("Status"));
        let Some(status) = status else {
            let text: String = String::from_utf8_lossy(body).chars().take(QUOTED).collect();
            return Self {
                code,
                message: text.trim().to_owned(),
                ..Self::default()
            };
        };
        let details = status.get("details").unwrap_or(&Value::Null);
        let causes = details.get("causes").and_then(Value::as_array);
        let cause = |cause: &Value| StatusCause {
            field: text(cause, "field"),
            reason: text(cause, "reason"),
            message: text(cause, "message"),
        };
        Self {
            code,
            reason: text(&status, "reason"),
            message: text(&status, "message"),
            name: text(details, "name"),
            causes: causes.into_iter().flatten().map(cause).collect(),
        }
    }

    pub(super) fn not_json(code: u16, error: &serde_json::Error) -> Self {
        Self {
            code,
            message: format!("the response is not JSON: {error}"),
            ..Self::default()
        }
    }
}

fn text(value: &Value, field: &str) -> String {
    let text = value.get(field).and_then(Value::as_str);
    let text = text.unwrap_or_default();
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.code)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
