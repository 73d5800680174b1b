//! Checks of keywords beyond structure: the keywords that may be used, and their combinations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    keywords::{Type, flag, keyword_value, list, properties, text},
    rules,
};
use crate::field::{FieldError, Path};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const RULES: &str = "x-kubernetes-validations";

/// The position of the walk, as far as the rules depend on it.
#[derive(Clone, Copy, Default)]
struct NodeContext {
    root: bool,
    /// In `apiVersion`, `kind` or `metadata` of an object.
    metadata: bool,
    /// The reason why no default is allowed here.
    no_default: Option<&'static str>,
}

pub(super) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let within = NodeContext {
        root: true,
        ..NodeContext::default()
    };
    walk(schema, path, within, &mut errors);
    errors
}

fn walk(schema: &Value, path: &Path<'_>, within: NodeContext, errors: &mut Vec<FieldError>) {
    keywords(schema, path, within, errors);
    let below = NodeContext {
        root: false,
        ..within
    };
    if let Some(additional) = keyword_value(schema, "additionalProperties") {
        let at = path.field("additionalProperties");
        if properties(schema).next().is_some() && additional != &Value::Bool(true) {
            errors.push(FieldError::forbidden(
                at,
                "additionalProperties and properties are mutual exclusive",
            ));
        }
        if additional.is_object() {
            let no_default = if within.metadata {
                Some("inside additionalProperties applying to object metadata")
            } else {
                below.no_default
            };
            let below = NodeContext {
                no_default,
                ..below
            };
            walk(additional, &at, below, errors);
        }
    }
    let all = path.field("properties");
    for (name, property) in properties(schema) {
        let mut below = below;
        if within.root || flag(schema, EMBEDDED) {
            let top = match name {
                "metadata" => Some("in top-level metadata"),
                "kind" => Some("in top-level kind"),
                "apiVersion" => Some("in top-level apiVersion"),
                _ => None,
            };
            below.metadata |= top.is_some();
            if within.root && top.is_some() {
                below.no_default = top;
            }
        }
        walk(property, &all.key(name), below, errors);
    }
    if let Some(not) = keyword_value(schema, "not") {
        walk(not, &path.field("not"), below, errors);
    }
    for keyword in ["allOf", "oneOf", "anyOf"] {
        let at = path.field(keyword);
        for (nth, inner) in list(schema, keyword).iter().enumerate() {
            walk(inner, &at.index(nth), below, errors);
        }
    }
    if let Some(items) = keyword_value(schema, "items").filter(|items| items.is_object()) {
        walk(items, &path.field("items"), below, errors);
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    rules_form(schema, path, errors);
}

fn keywords(schema: &Value, path: &Path<'_>, within: NodeContext, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && Type::parse(kind).is_none() {
        errors.push(FieldError::not_supported(
            path.field("type"),
            kind,
            Type::ALL.map(|(name, _)| name),
        ));
    }
    if let (Some(_), Some(why)) = (keyword_value(schema, "default"), within.no_default) {
        errors.push(FieldError::forbidden(
            path.field("default"),
            &format!("must not be set {why}"),
        ));
    }
    for keyword in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if keyword_value(schema, keyword).is_some_and(|v| v != "") {
            errors.push(FieldError::forbidden(
                path.field(keyword),
                &format!("{keyword} is not supported"),
            ));
        }
    }
    if kind == "null" {
        errors.push(FieldError::forbidden(
            path.field("type"),
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if keyword_value(schema, "items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            path.field("items"),
            "items must be a schema object and not an array",
        ));
    }
    if within.metadata && flag(schema, EMBEDDED) {
        errors.push(FieldError::forbidden(
            path.field(EMBEDDED),
            "must not be used inside of resource meta",
        ));
    }
    if flag(schema, "uniqueItems") {
        errors.push(FieldError::forbidden(
            path.field("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            path.field(PRESERVE),
            false,
            "must be true or undefined",
        ));
    }
}

/// Checks the type that a `x-kubernetes-…-type` requires.
fn needs_type(schema: &Value, path: &Path<'_>, kind: &str, keyword: &str) -> Option<FieldError> {
    let found = text(schema, "type");
    if keyword_value(schema, keyword).is_none() || found == kind {
        return None;
    }
    let detail = format!("must be {kind} if {keyword} is specified");
    let at = path.field("type");
    Some(if found.is_empty() {
        FieldError::required(at, &detail)
    } else {
        FieldError::invalid(at, found, &detail)
    })
}

fn map_type(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    errors.extend(needs_type(schema, path, "object", MAP_TYPE));
    let known = ["atomic", "granular"];
    if keyword_value(schema, MAP_TYPE).is_some() && !known.contains(&text(schema, MAP_TYPE)) {
        errors.push(FieldError::not_supported(
            path.field(MAP_TYPE),
            text(schema, MAP_TYPE),
            known,
        ));
    }
}

fn list_type(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let is = text(schema, LIST_TYPE);
    let given_type = keyword_value(schema, LIST_TYPE).is_some();
    let items = keyword_value(schema, "items").filter(|items| items.is_object());
    let wrong = needs_type(schema, path, "array", LIST_TYPE);
    if wrong.is_none()
        && is == "set"
        && let Some(items) = items
    {
        errors.extend(set_items(items, &path.field("items")));
    }
    errors.extend(wrong);
    let known = ["atomic", "set", "map"];
    if given_type && !known.contains(&is) {
        errors.push(FieldError::not_supported(path.field(LIST_TYPE), is, known));
    }
    if !list(schema, LIST_MAP_KEYS).is_empty() && is != "map" {
        let at = path.field(LIST_TYPE);
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if given_type {
            FieldError::invalid(at, is, detail)
        } else {
            FieldError::required(at, detail)
        });
    }
    if is == "map" {
        list_map(schema, items, path, errors);
    }
    if let Some(items) = items
        && (is == "set" || is == "map")
        && flag(items, "nullable")
    {
        errors.push(FieldError::forbidden(
            path.field("items").field("nullable"),
            &format!("cannot be nullable when x-kubernetes-list-type is {is}"),
        ));
    }
    if let Some(items) = items
        && is == "map"
    {
        keys_present(schema, items, path, errors);
    }
}

fn set_items(items: &Value, path: &Path<'_>) -> Option<FieldError> {
    let (keyword, atomic) = match text(items, "type") {
        "array" => (LIST_TYPE, matches!(text(items, LIST_TYPE), "" | "atomic")),
        "object" => (MAP_TYPE, text(items, MAP_TYPE) == "atomic"),
        _ => return None,
    };
    let found = keyword_value(items, LIST_TYPE).cloned().unwrap_or_default();
    (!atomic).then(|| {
        FieldError::invalid(
            path.field(keyword),
            found,
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        )
    })
}

fn list_map(schema: &Value, items: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys = list(schema, LIST_MAP_KEYS);
    if keys.is_empty() {
        errors.push(FieldError::required(
            path.field(LIST_MAP_KEYS),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let at = path.field("items");
    let Some(items) = items else {
        if keyword_value(schema, "items").is_none() {
            errors.push(FieldError::required(
                at,
                "must have a schema if x-kubernetes-list-type is map",
            ));
        }
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        errors.push(FieldError::invalid(
            at.field("type"),
            kind,
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in keys.iter().filter_map(Value::as_str) {
        let mut wrong = |detail: &str| {
            errors.push(FieldError::invalid(
                path.field(LIST_MAP_KEYS),
                Value::Array(keys.to_vec()),
                detail,
            ));
        };
        let property = items.get("properties").and_then(|all| all.get(key));
        if property.is_none() {
            wrong("entries must all be names of item properties");
        }
        if !seen.insert(key) {
            wrong("must not contain duplicate entries");
        }
        if property.is_some_and(|p| matches!(text(p, "type"), "array" | "object")) {
            errors.push(FieldError::invalid(
                at.field("properties").key(key).field("type"),
                kind,
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            ));
        }
    }
}

/// Checks that the keys of a list of type map are required in every item, or have a default.
fn keys_present(schema: &Value, items: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("items");
    let all = at.field("properties");
    for key in list(schema, LIST_MAP_KEYS).iter().filter_map(Value::as_str) {
        let Some(property) = items.get("properties").and_then(|all| all.get(key)) else {
            continue;
        };
        let required = list(items, "required").iter().any(|name| name == key);
        if !required && keyword_value(property, "default").is_none() {
            errors.push(FieldError::required(
                all.key(key).field("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if flag(property, "nullable") {
            errors.push(FieldError::forbidden(
                all.key(key).field("nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

/// Checks the form of rules. Their expressions are compiled only if there are no other errors.
fn rules_form(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let all = path.field(RULES);
    for (nth, rule) in list(schema, RULES).iter().enumerate() {
        let at = all.index(nth);
        let message = text(rule, "message");
        let lines = |text: &str| text.trim().contains(['\n', '\r']);
        if text(rule, "rule").trim().is_empty() {
            errors.push(FieldError::required(
                at.field("rule"),
                "rule is not specified",
            ));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                at.field("message"),
                message,
                "must be non-empty if specified",
            ));
        } else if lines(message) {
            errors.push(FieldError::invalid(
                at.field("message"),
                message,
                "must not contain line breaks",
            ));
        } else if lines(text(rule, "rule")) && message.is_empty() {
            errors.push(FieldError::required(
                at.field("message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.push(FieldError::required(
                at.field("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        field_path(text(rule, "fieldPath"), schema, &at, errors);
        let reason = text(rule, "reason");
        if keyword_value(rule, "reason").is_some() && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(
                at.field("reason"),
                reason,
                REASONS,
            ));
        }
    }
}

fn field_path(written: &str, schema: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if written.is_empty() {
        return;
    }
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid(at.field("fieldPath"), written, detail));
    };
    if written.trim().is_empty() {
        wrong("must be non-empty if specified");
    }
    if written.contains(['\n', '\r']) {
        wrong("must not contain line breaks");
    }
    if !rules::has_path(schema, written) {
        wrong("must be a valid path");
    }
}
