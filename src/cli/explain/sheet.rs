//! The form in which an object is explained, to its owner and to its consumer.

use std::fmt::{Display, Write as _};

use serde_json::{Value, json};

use hawser_runtime::overview::plain;
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
}

/// A line about an object, without characters that a terminal would obey.
pub(super) fn line(text: &mut String, label: &str, value: impl Display) {
    let _ = writeln!(text, "  {label:<14}{}", plain(&value.to_string()));
}

/// The name of an object, and where it is, unless that is clear.
pub(super) fn title(kind: &str, namespace: Option<&str>, name: &str, place: &str) -> String {
    let namespace = namespace.map(|name| format!("{name}/"));
    let namespace = namespace.unwrap_or_default();
    let title = plain(&format!("{kind} {namespace}{name} {place}"));
    title.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_that_is_printed_and_documents_have_it_as_it_is() {
        let reason = Reason::new(Code::Invalid, "\u{1b}[2J");
        let cause = Cause::of(&reason, |_| None);
        let document = cause.as_json();
        let head = SheetHead {
            in_sync: Some(false),
            cause,
        };
        let mut text = String::new();
        head.show(&mut text);
        text.push_str(&title("Kind", None, "\u{1b}name", ""));
        assert!(text.contains("[2J") && !text.contains('\u{1b}'), "{text:?}");
        let raw = document["explanation"].as_str().unwrap();
        assert!(raw.contains('\u{1b}'), "{raw:?}");
    }
}
