//! The form in which an object is explained, to its owner and to its consumer.

use std::fmt::{Display, Write as _};

use serde_json::{Value, json};

use hawser_sync::reason::Class;
use hawser_sync::{Code, Reason};

/// The next step for a reason, in the words of a dialect.
pub(super) type Advice = fn(Code) -> Option<&'static str>;

/// The first lines about an object: whether it is in sync, why, and what to do.
pub(super) struct SheetHead<'a> {
    /// `None` if it cannot be known.
    pub(super) in_sync: Option<bool>,
    pub(super) cause: Cause<'a>,
}

/// A reason, and what can be done about it.
pub(super) struct Cause<'a> {
    pub(super) code: &'a str,
    pub(super) class: Class,
    pub(super) explanation: String,
    pub(super) advice: Option<&'a str>,
}

impl Cause<'_> {
    /// As an owner may know it.
    pub(super) fn of(reason: &Reason, advice: Advice) -> Self {
        Self {
            code: reason.code.as_str(),
            class: reason.code.class(),
            explanation: reason.to_string(),
            advice: advice(reason.code),
        }
    }

    pub(super) fn in_words(&self) -> String {
        format!("{}: {}", self.code, self.explanation)
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "code": self.code,
            "class": self.class.as_str(),
            "explanation": self.explanation,
            "advice": self.advice,
        })
    }
}

impl SheetHead<'_> {
    pub(super) fn show(&self, text: &mut String) {
        let answer = match self.in_sync {
            Some(true) => "yes",
            Some(false) => "no",
            None => "cannot be known from here",
        };
        line(text, "in sync", answer);
        line(text, "reason", self.cause.in_words());
        if let Some(advice) = self.cause.advice {
            line(text, "what to do", advice);
        }
    }

    /// Adds the fields to an object of the document.
    pub(super) fn put(&self, object: &mut Value) {
        object["inStep"] = json!(self.in_sync);
        object["reason"] = self.cause.as_json();
    }
}

/// A line about an object.
pub(super) fn line(text: &mut String, label: &str, value: impl Display) {
    let _ = writeln!(text, "  {label:<14}{value}");
}

/// The name of an object, and where it is.
pub(super) fn title(kind: &str, namespace: Option<&str>, name: &str, workspace: &str) -> String {
    let namespace = namespace.map(|name| format!("{name}/"));
    let namespace = namespace.unwrap_or_default();
    format!("{kind} {namespace}{name} in workspace {workspace}")
}
