//! Field errors: the field, the kind of the problem, and the message of a kube-apiserver. They become the causes of a
//! `Status` with reason `Invalid`.
//!
//! This module does not know HTTP or the meaning of a rule.

use std::{borrow::Cow, fmt};

use kube_lang::go_text::{float_text, quote};
use serde_json::Value;

/// The class of a field error. Clients classify by its [`reason`](ErrorKind::reason).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    TypeInvalid,
    Internal,
}

impl ErrorKind {
    /// The `reason` of a status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::Internal
        )
    }
}

/// One problem of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: ErrorKind,
    /// `spec.versions[0].name`; `<nil>` for the root.
    pub field: String,
    /// The offending value; some kinds do not show it.
    pub bad_value: Value,
    /// The text of the rule; may be empty.
    pub detail: String,
    /// The text that is shown in place of the value.
    instead: Option<String>,
}

impl FieldError {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the path in the call"
    )]
    pub fn new(kind: ErrorKind, field: impl ToString, bad_value: Value, detail: &str) -> Self {
        Self {
            kind,
            field: field.to_string(),
            bad_value,
            detail: detail.to_owned(),
            instead: None,
        }
    }

    /// An invalid object that is shown with its members in a given order.
    pub(crate) fn invalid_shown(field: impl ToString, json: String, detail: &str) -> Self {
        Self {
            instead: Some(json),
            ..Self::new(ErrorKind::Invalid, field, Value::Null, detail)
        }
    }

    /// An error of any kind that does not show the value.
    pub(crate) fn without_value(kind: ErrorKind, field: impl ToString, detail: &str) -> Self {
        Self {
            instead: Some(String::new()),
            ..Self::new(kind, field, Value::Null, detail)
        }
    }

    pub fn invalid(field: impl ToString, bad_value: impl Into<Value>, detail: &str) -> Self {
        Self::new(ErrorKind::Invalid, field, bad_value.into(), detail)
    }

    pub fn required(field: impl ToString, detail: &str) -> Self {
        Self::new(ErrorKind::Required, field, "".into(), detail)
    }

    pub fn forbidden(field: impl ToString, detail: &str) -> Self {
        Self::new(ErrorKind::Forbidden, field, "".into(), detail)
    }

    pub fn duplicate(field: impl ToString, bad_value: Value) -> Self {
        Self::new(ErrorKind::Duplicate, field, bad_value, "")
    }

    pub fn not_supported<'a>(
        field: impl ToString,
        bad_value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(quote).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, field, bad_value.into(), &detail)
    }

    /// A value with more bytes than allowed; the value itself is not repeated.
    pub fn too_long(field: impl ToString, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            ErrorKind::TooLong,
            field,
            "<value omitted>".into(),
            &format!("may not be more than {max} {unit}"),
        )
    }

    pub fn too_many(field: impl ToString, actual: u64, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            ErrorKind::TooMany,
            field,
            actual.into(),
            &format!("must have at most {max} {unit}"),
        )
    }

    /// The message without the field name: the `message` of a status cause.
    pub fn body(&self) -> String {
        let mut text = self.kind.label().to_owned();
        if self.kind.shows_value() {
            let shown = match &self.instead {
                Some(json) => escape_html(json).into(),
                None => show(&self.bad_value),
            };
            if !shown.is_empty() {
                text.push_str(": ");
                text.push_str(&shown);
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// All errors as one text, as in the message of an `Invalid` status: each distinct message once, several in brackets.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A place in a document, built on the stack while walking. It is written out only for an error.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    Root,
    /// `.name`
    Field(&'a Self, &'a str),
    /// `[3]`
    Index(&'a Self, usize),
    /// `[name]`: a member of a map
    Key(&'a Self, &'a str),
}

impl<'a> Path<'a> {
    #[must_use]
    pub const fn field(&'a self, name: &'a str) -> Self {
        Path::Field(self, name)
    }

    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Path::Index(self, index)
    }

    #[must_use]
    pub const fn key(&'a self, name: &'a str) -> Self {
        Path::Key(self, name)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut at = self;
        loop {
            let parent = match at {
                Path::Root => break,
                Path::Field(parent, _) | Path::Index(parent, _) | Path::Key(parent, _) => parent,
            };
            steps.push(at);
            at = parent;
        }
        if steps.is_empty() {
            return f.write_str("<nil>");
        }
        for (nth, step) in steps.iter().rev().enumerate() {
            match step {
                Path::Root => {}
                Path::Field(_, name) if nth == 0 => f.write_str(name)?,
                Path::Field(_, name) => write!(f, ".{name}")?,
                Path::Index(_, index) => write!(f, "[{index}]")?,
                Path::Key(_, name) => write!(f, "[{name}]")?,
            }
        }
        Ok(())
    }
}

/// A value as an error shows it: numbers plain, strings quoted, others as JSON.
fn show(value: &Value) -> Cow<'static, str> {
    match value {
        Value::String(text) => quote(text).into(),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(float)) => float_text(float).into(),
            _ => number.to_string().into(),
        },
        Value::Bool(_) | Value::Null => value.to_string().into(),
        Value::Array(_) | Value::Object(_) => escape_html(&value.to_string()).into(),
    }
}

/// Escapes the characters that Go's JSON encoder escapes, because its output is part of messages.
fn escape_html(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_written_as_the_server_writes_them() {
        let root = Path::Root;
        assert_eq!(root.to_string(), "<nil>");
        let spec = root.field("spec");
        let versions = spec.field("versions");
        let first = versions.index(0);
        let labels = first.field("labels");
        assert_eq!(
            labels.key("a.b/c").to_string(),
            "spec.versions[0].labels[a.b/c]"
        );
    }

    #[test]
    fn a_body_shows_values_by_their_type() {
        let body = |value| FieldError::invalid("f", value, "why").body();
        assert_eq!(body(json!("a\"b\n")), r#"Invalid value: "a\"b\n": why"#);
        assert_eq!(body(json!(3)), "Invalid value: 3: why");
        assert_eq!(body(json!(1.5)), "Invalid value: 1.5: why");
        assert_eq!(body(json!(1e21)), "Invalid value: 1e+21: why");
        assert_eq!(body(json!(999_999.5)), "Invalid value: 999999.5: why");
        assert_eq!(
            body(json!(2_147_483_648.0)),
            "Invalid value: 2.147483648e+09: why"
        );
        assert_eq!(body(json!(1.5e-7)), "Invalid value: 1.5e-07: why");
        assert_eq!(
            body(json!({"b": "<", "a": 1})),
            r#"Invalid value: {"a":1,"b":"\u003c"}: why"#
        );
        assert_eq!(FieldError::required("f", "").body(), "Required value");
        assert_eq!(
            FieldError::not_supported("f", "x", ["a", "b"]).to_string(),
            r#"f: Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(
            FieldError::too_long("f", 1).body(),
            "Too long: may not be more than 1 byte"
        );
    }

    #[test]
    fn aggregating_drops_repeated_messages_and_brackets_several() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
        assert_eq!(
            aggregate(&[one, two]),
            "[a: Required value, b: Required value]"
        );
    }
}
