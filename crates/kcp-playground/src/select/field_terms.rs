//! Field selectors: `metadata.name=x,status.phase!=Active`, with `\` before `,`, `=` and `\` itself.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use super::{MAX_SELECTOR, SelectError};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// A conjunction of comparisons of fields with strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Parses the value of a `fieldSelector` parameter; an empty one selects everything.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectError> {
        if text.len() > MAX_SELECTOR {
            return Err(SelectError::TooLong { size: text.len() });
        }
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let (field, equal, value) = split_term(part).ok_or_else(|| {
                SelectError::Fields(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ))
            })?;
            terms.push(Term {
                field: field.to_owned(),
                value: unescape(value)?,
                equal,
            });
        }
        Ok(Self { terms })
    }

    /// Refuses fields that the resource cannot be selected by.
    pub(crate) fn check(&self, supported: impl Fn(&str) -> bool) -> Result<(), SelectError> {
        match self.terms.iter().find(|term| !supported(&term.field)) {
            Some(term) => Err(SelectError::UnsupportedField(term.field.clone())),
            None => Ok(()),
        }
    }

    /// Selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that a field must have to match, if the selector determines it. So a watch of a single object does not
    /// read others.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.field == field)
            .map(|term| term.value.as_str())
    }

    /// Matches against the string of each field; a missing field is the empty string.
    pub(crate) fn matches<'v>(&self, text: impl Fn(&str) -> Cow<'v, str>) -> bool {
        self.terms
            .iter()
            .all(|term| (text(&term.field) == term.value) == term.equal)
    }

    /// Matches an object. Each field is a dotted path in it, except for computed fields.
    pub(crate) fn matches_object_with<'v>(
        &self,
        object: &'v Value,
        made: impl Fn(&str) -> Option<&'v str>,
    ) -> bool {
        self.matches(|field| made(field).map_or_else(|| field_text(object, field), Cow::Borrowed))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, term) in self.terms.iter().enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// The string of the scalar at a dotted path, with or without a dot before it (as in `selectableFields[].jsonPath`);
/// anything else is the empty string.
pub(super) fn field_text<'v>(object: &'v Value, path: &str) -> Cow<'v, str> {
    let mut at = object;
    for step in path.trim_start_matches('.').split('.') {
        match at.get(step) {
            Some(value) => at = value,
            None => return "".into(),
        }
    }
    match at {
        Value::String(text) => text.into(),
        Value::Bool(_) | Value::Number(_) => at.to_string().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => "".into(),
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, SelectError> {
    let sequence = |s: &str| {
        SelectError::Fields(format!(
            "invalid field selector: invalid escape sequence: {s}"
        ))
    };
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(sequence(&format!("\\{c}"))),
                None => return Err(sequence("\\")),
            },
            ',' | '=' => {
                return Err(SelectError::Fields(format!(
                    "invalid field selector: unescaped character in value: {c}"
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
