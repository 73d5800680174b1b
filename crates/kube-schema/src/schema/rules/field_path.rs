//! The `fieldPath` of a rule: the member of the value that an error names, `.spec.a['b.c']`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::schema::keywords::{keyword_value, properties};

/// The path as in errors; `None` if the schema has no such field.
pub(super) fn resolve(path: &str, schema: &Value) -> Option<String> {
    let mut rest = path;
    let mut schema = schema;
    let mut out = String::new();
    if rest.is_empty() {
        return Some(out);
    }
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        if let Some((_, property)) = properties(schema).find(|(known, _)| **known == name) {
            schema = property;
            let _ = write!(out, ".{name}");
        } else if let Some(additional) =
            keyword_value(schema, "additionalProperties").filter(|a| a.is_object())
        {
            schema = additional;
            let _ = write!(out, "[{name}]");
        } else {
            return None;
        }
    }
    Some(out)
}

/// The first step, and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let rest = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '\'' => return rest[at + 1..].strip_prefix(']').map(|rest| (name, rest)),
            c => name.push(c),
        }
    }
    None
}
