//! Decoding of schemas: each keyword has its JSON type, as a server checks while decoding, so that later code reads
//! keywords without checking again.

use serde_json::Value;

use super::keywords::{keyword_value, list, properties};
use crate::field::{FieldError, Path};

/// The maximum depth of a schema; the JSON parser has a similar limit.
pub const MAX_DEPTH: usize = 100;

const TEXTS: [&str; 8] = [
    "type",
    "format",
    "title",
    "description",
    "pattern",
    "id",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];
const FLAGS: [&str; 7] = [
    "nullable",
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];
const COUNTS: [&str; 6] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];
const NUMBERS: [&str; 3] = ["minimum", "maximum", "multipleOf"];
const LISTS: [&str; 2] = ["enum", "x-kubernetes-validations"];
const TEXT_LISTS: [&str; 2] = ["required", "x-kubernetes-list-map-keys"];
const SCHEMA_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const RULE_TEXTS: [&str; 5] = [
    "rule",
    "message",
    "messageExpression",
    "reason",
    "fieldPath",
];

pub(super) fn check(schema: &Value, path: &Path<'_>) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    walk(schema, path, MAX_DEPTH, &mut errors);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn walk(schema: &Value, path: &Path<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    if depth == 0 {
        errors.push(FieldError::forbidden(
            path,
            &format!("must not be nested deeper than {MAX_DEPTH} levels"),
        ));
        return;
    }
    if !schema.is_object() {
        errors.push(FieldError::invalid(path, "", "must be a schema object"));
        return;
    }
    let mut expect = |keywords: &[&str], what: &str, is: fn(&Value) -> bool| {
        for keyword in keywords {
            if keyword_value(schema, keyword).is_some_and(|value| !is(value)) {
                errors.push(FieldError::invalid(
                    path.field(keyword),
                    "",
                    &format!("must be {what}"),
                ));
            }
        }
    };
    expect(&TEXTS, "a string", Value::is_string);
    expect(&FLAGS, "a boolean", Value::is_boolean);
    expect(&COUNTS, "an integer", Value::is_i64);
    expect(&NUMBERS, "a number", Value::is_number);
    expect(&LISTS, "a list", Value::is_array);
    expect(&SCHEMA_LISTS, "a list", Value::is_array);
    expect(&TEXT_LISTS, "a list of strings", |v| {
        v.as_array().is_some_and(|l| l.iter().all(Value::is_string))
    });
    expect(&["properties"], "an object", Value::is_object);
    expect(&["items"], "a schema object", |v| {
        v.is_object() || v.is_array()
    });
    expect(&["additionalProperties"], "a schema or a boolean", |v| {
        v.is_object() || v.is_boolean()
    });
    expect(&["x-kubernetes-validations"], "a list of rules", |v| {
        v.as_array().is_some_and(|rules| rules.iter().all(is_rule))
    });
    nested(schema, path, depth, errors);
}

fn is_rule(rule: &Value) -> bool {
    rule.is_object()
        && RULE_TEXTS
            .iter()
            .all(|field| keyword_value(rule, field).is_none_or(Value::is_string))
}

fn nested(schema: &Value, path: &Path<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    for (name, property) in properties(schema) {
        walk(
            property,
            &path.field("properties").key(name),
            depth - 1,
            errors,
        );
    }
    for keyword in ["items", "additionalProperties", "not"] {
        match keyword_value(schema, keyword) {
            None | Some(Value::Bool(_) | Value::Array(_)) if keyword != "not" => {}
            None => {}
            Some(inner) => walk(inner, &path.field(keyword), depth - 1, errors),
        }
    }
    for keyword in SCHEMA_LISTS {
        for (nth, inner) in list(schema, keyword).iter().enumerate() {
            walk(inner, &path.field(keyword).index(nth), depth - 1, errors);
        }
    }
}
