//! Structural schemas: every field has a type outside of `allOf`, `anyOf`, `oneOf` and `not`, and those contain
//! restrictions only.

use kube_lang::go_regex::GoRegex;
use serde_json::Value;

use super::keywords::{flag, keyword_value, list, properties, text};
use crate::field::{FieldError, Path};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    Item,
    Field,
}

/// All reasons why a schema is not structural, sorted by message as in the server.
pub(super) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_beyond(schema) {
        // The checks of keywords report each of them.
        return errors;
    }
    invariants(schema, SchemaPosition::Root, path, &mut errors);
    complete_values(schema, schema, path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Whether a schema uses a keyword that structural schemas may not have.
pub(super) fn is_beyond(schema: &Value) -> bool {
    const KEYWORDS: [&str; 7] = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    let says_something = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    KEYWORDS
        .iter()
        .any(|keyword| keyword_value(schema, keyword).is_some_and(says_something))
        || schema.get(PRESERVE) == Some(&Value::Bool(false))
        || keyword_value(schema, "items").is_some_and(Value::is_array)
        || properties(schema).any(|(_, property)| is_beyond(property))
        || ["items", "additionalProperties", "not"]
            .iter()
            .any(|keyword| keyword_value(schema, keyword).is_some_and(is_beyond))
        || ["allOf", "anyOf", "oneOf"]
            .iter()
            .any(|keyword| list(schema, keyword).iter().any(is_beyond))
}

fn invariants(
    schema: &Value,
    level: SchemaPosition,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let kind = text(schema, "type");
    let items = keyword_value(schema, "items").filter(|items| items.is_object());
    if kind == "array" && items.is_none() {
        errors.push(FieldError::required(
            path.field("items"),
            "must be specified",
        ));
    }
    if let Some(items) = items {
        invariants(items, SchemaPosition::Item, &path.field("items"), errors);
    }
    for (name, property) in properties(schema) {
        let at = path.field("properties");
        invariants(property, SchemaPosition::Field, &at.key(name), errors);
    }
    if let Some(additional) = keyword_value(schema, "additionalProperties") {
        let at = path.field("additionalProperties");
        if level == SchemaPosition::Root {
            errors.push(FieldError::forbidden(at, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, SchemaPosition::Field, &at, errors);
        }
    }
    extensions(schema, path, errors);
    value_rules(schema, path, Skip::of(schema), errors);
    types(schema, level, path, errors);
    metadata(schema, level, path, errors);
}

fn extensions(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !flag(schema, INT_OR_STRING) {
        return;
    }
    for keyword in [PRESERVE, EMBEDDED] {
        if flag(schema, keyword) {
            errors.push(FieldError::invalid(
                path.field(keyword),
                true,
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }
}

fn types(schema: &Value, level: SchemaPosition, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let embedded = flag(schema, EMBEDDED);
    let preserve = flag(schema, PRESERVE);
    let at = path.field("type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at, detail)
        } else {
            FieldError::invalid(at, kind, detail)
        });
    } else if kind.is_empty() && !flag(schema, INT_OR_STRING) && !preserve {
        let what = match level {
            SchemaPosition::Root => "must not be empty at the root",
            SchemaPosition::Item => "must not be empty for specified array items",
            SchemaPosition::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at, what));
    }
    if embedded && keyword_value(schema, "additionalProperties").is_some() {
        errors.push(FieldError::forbidden(
            path.field("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == SchemaPosition::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(at, kind, "must be object at the root"));
    }
    if embedded && !preserve && properties(schema).next().is_none() {
        errors.push(FieldError::required(
            path.field("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Checks what a schema says about `apiVersion`, `kind` and `metadata`.
fn metadata(schema: &Value, level: SchemaPosition, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let checked = level == SchemaPosition::Root || flag(schema, EMBEDDED);
    let all = path.field("properties");
    for (name, property) in properties(schema) {
        let at = all.key(name);
        let kind = text(property, "type");
        match name {
            "kind" | "apiVersion" if checked && kind != "string" => {
                errors.push(FieldError::invalid(
                    at.field("type"),
                    kind,
                    "must be string",
                ));
            }
            "metadata" => {
                if checked && kind != "object" {
                    errors.push(FieldError::invalid(
                        at.field("type"),
                        kind,
                        "must be object",
                    ));
                }
                if level == SchemaPosition::Root && !restricts_names_only(property) {
                    errors.push(FieldError::forbidden(
                        at,
                        "must not specify anything other than name and generateName, but metadata is implicitly specified",
                    ));
                }
            }
            _ => {}
        }
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    let names = properties(metadata).all(|(name, _)| matches!(name, "name" | "generateName"));
    let rest = metadata.as_object().is_some_and(|keywords| {
        keywords.iter().all(|(keyword, value)| {
            matches!(keyword.as_str(), "type" | "default" | "properties")
                || value.is_null()
                || value == &Value::Bool(false)
                || value == ""
        })
    });
    names && rest
}

/// The `anyOf` of an int-or-string is allowed to name types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skip {
    Nothing,
    AnyOf,
    FirstAllOf,
}

impl Skip {
    fn of(schema: &Value) -> Self {
        if is_int_or_string(list(schema, "anyOf")) {
            Self::AnyOf
        } else if list(schema, "allOf")
            .first()
            .is_some_and(|first| is_int_or_string(list(first, "anyOf")))
        {
            Self::FirstAllOf
        } else {
            Self::Nothing
        }
    }
}

fn is_int_or_string(any_of: &[Value]) -> bool {
    let only_type = |schema: &Value, kind: &str| {
        text(schema, "type") == kind && schema.as_object().is_some_and(|s| s.len() == 1)
    };
    matches!(any_of, [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

fn value_rules(schema: &Value, path: &Path<'_>, skip: Skip, errors: &mut Vec<FieldError>) {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        if keyword == "anyOf" && skip == Skip::AnyOf {
            continue;
        }
        let at = path.field(keyword);
        for (nth, inner) in list(schema, keyword).iter().enumerate() {
            let skip = if keyword == "allOf" && nth == 0 && skip == Skip::FirstAllOf {
                Skip::AnyOf
            } else {
                Skip::Nothing
            };
            nested(inner, &at.index(nth), skip, errors);
        }
    }
    if let Some(not) = keyword_value(schema, "not") {
        let at = path.field("not");
        nested(not, &at, Skip::Nothing, errors);
    }
    let expression = text(schema, "pattern");
    if let Err(error) = GoRegex::compile(expression) {
        errors.push(FieldError::invalid(
            path.field("pattern"),
            expression,
            &format!(
                "must be a valid regular expression, but isn't: error parsing regexp: {error}"
            ),
        ));
    }
}

fn nested(schema: &Value, path: &Path<'_>, skip: Skip, errors: &mut Vec<FieldError>) {
    value_rules(schema, path, skip, errors);
    if let Some(items) = keyword_value(schema, "items").filter(|items| items.is_object()) {
        nested(items, &path.field("items"), Skip::Nothing, errors);
    }
    let all = path.field("properties");
    for (name, property) in properties(schema) {
        nested(property, &all.key(name), Skip::Nothing, errors);
    }
    let mut forbid = |is: bool, keyword: &str, detail: &str| {
        if is {
            errors.push(FieldError::forbidden(path.field(keyword), detail));
        }
    };
    for keyword in ["type", "title", "description"] {
        forbid(
            !text(schema, keyword).is_empty(),
            keyword,
            "must be empty to be structural",
        );
    }
    for (keyword, detail) in [
        ("default", "must be undefined to be structural"),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
    ] {
        forbid(keyword_value(schema, keyword).is_some(), keyword, detail);
    }
    forbid(
        keyword_value(schema, "additionalProperties").is_some_and(|v| v != &Value::Bool(false)),
        "additionalProperties",
        "must be undefined to be structural",
    );
    for keyword in ["nullable", PRESERVE, EMBEDDED, INT_OR_STRING] {
        forbid(
            flag(schema, keyword),
            keyword,
            "must be false to be structural",
        );
    }
    for keyword in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        forbid(
            !list(schema, keyword).is_empty(),
            keyword,
            "must be empty to be structural",
        );
    }
    if properties(schema).any(|(name, _)| name == "metadata") {
        errors.push(FieldError::forbidden(
            all.key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// Checks that the outer schema declares every field that a nested schema restricts.
fn complete_values(
    nested: &Value,
    outer: &Value,
    outer_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = keyword_value(nested, "not") {
        complete(not, Some(outer), outer_path, &path.field("not"), errors);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let at = path.field(keyword);
        for (nth, inner) in list(nested, keyword).iter().enumerate() {
            complete(inner, Some(outer), outer_path, &at.index(nth), errors);
        }
    }
}

fn complete(
    nested: &Value,
    outer: Option<&Value>,
    outer_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(outer) = outer else {
        errors.push(FieldError::required(
            outer_path,
            &format!("because it is defined in {path}"),
        ));
        return;
    };
    complete_values(nested, outer, outer_path, path, errors);
    if let Some(items) = keyword_value(nested, "items") {
        let at = path.field("items");
        let outer_items = keyword_value(outer, "items");
        complete(items, outer_items, &outer_path.field("items"), &at, errors);
    }
    let all = path.field("properties");
    let outer_all = outer_path.field("properties");
    for (name, property) in properties(nested) {
        let known = outer.get("properties").and_then(|all| all.get(name));
        complete(
            property,
            known,
            &outer_all.key(name),
            &all.key(name),
            errors,
        );
    }
}
