//! One version of a definition: its schema, subresources, columns and selectable fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read::{self, Column, flag, text};
use crate::field::{FieldError, Path};
use crate::schema::Schema;

const MAX_SELECTABLE: usize = 8;

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the definition"
)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    pub schema: Schema,
    /// The schema as written, for documents that describe the API.
    pub schema_document: Value,
    /// True if there is a status subresource.
    pub status: bool,
    /// The scale subresource as written.
    pub scale: Option<Value>,
    /// Paths such as `.spec.color` by which objects can be selected.
    pub selectable_fields: Vec<String>,
    pub columns: Vec<Column>,
}

pub(super) fn compiled(version: &Value, schema: Schema, document: &Value) -> Version {
    let subresources = version.get("subresources").unwrap_or(&Value::Null);
    let given = |name: &str| subresources.get(name).filter(|v| !v.is_null()).cloned();
    Version {
        name: text(version, "name").to_owned(),
        served: flag(version, "served"),
        storage: flag(version, "storage"),
        deprecated: flag(version, "deprecated"),
        deprecation_warning: version
            .get("deprecationWarning")
            .and_then(Value::as_str)
            .map(str::to_owned),
        schema,
        schema_document: document.clone(),
        status: given("status").is_some(),
        scale: given("scale"),
        selectable_fields: read::selectable_fields(version),
        columns: read::columns(version),
    }
}

/// Keywords that a root may not have beside a status subresource. The status is checked by its own part of the schema.
const NOT_AT_ROOT: [&str; 15] = [
    "enum",
    "default",
    "maxProperties",
    "minProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "additionalProperties",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

pub(super) fn schema(
    schema: Option<&Value>,
    version: &Value,
    at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Schema> {
    let schema = schema?;
    let status = version
        .get("subresources")
        .and_then(|s| s.get("status"))
        .is_some_and(|status| !status.is_null());
    if status {
        let kind = text(schema, "type");
        if !kind.is_empty() && kind != "object" {
            errors.push(FieldError::invalid(
                at.field("type"),
                kind,
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
            ));
        } else if NOT_AT_ROOT.iter().any(|keyword| {
            schema
                .get(keyword)
                .is_some_and(|v| v != &Value::Bool(false))
        }) {
            errors.push(FieldError::invalid(
                at,
                schema.clone(),
                "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled",
            ));
        }
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(
            at.field("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    match Schema::compile(schema, at) {
        Ok(schema) => Some(schema),
        Err(found) => {
            errors.extend(found);
            None
        }
    }
}

/// A path from the root of an object, with dots.
fn simple_path(path: &str, at: &str, prefixes: &[&str], errors: &mut Vec<FieldError>) {
    if !path.starts_with('.') {
        errors.push(FieldError::invalid(
            at,
            path,
            "must be a simple json path starting with .",
        ));
    } else if !prefixes.is_empty() && !prefixes.iter().any(|prefix| path.starts_with(prefix)) {
        let detail = match prefixes {
            [one] => format!("should be a json path under {}", one.trim_end_matches('.')),
            _ => "should be a json path under either .spec or .status".to_owned(),
        };
        errors.push(FieldError::invalid(at, path, &detail));
    }
}

pub(super) fn check_scale(version: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(scale) = version
        .get("subresources")
        .and_then(|s| s.get("scale"))
        .filter(|scale| !scale.is_null())
    else {
        return;
    };
    for (name, prefix) in [
        ("specReplicasPath", ".spec."),
        ("statusReplicasPath", ".status."),
    ] {
        let at = format!("{at}.scale.{name}");
        match text(scale, name) {
            "" => errors.push(FieldError::required(at, "")),
            path => simple_path(path, &at, &[prefix], errors),
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() {
        let at = format!("{at}.scale.labelSelectorPath");
        simple_path(selector, &at, &[".spec.", ".status."], errors);
    }
}

pub(super) fn check_columns(version: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (nth, column) in read::columns(version).iter().enumerate() {
        let at = at.index(nth);
        if column.name.is_empty() {
            errors.push(FieldError::required(at.field("name"), ""));
        }
        let types = format!("must be one of {}", TYPES.join(","));
        if column.kind.is_empty() {
            errors.push(FieldError::required(at.field("type"), &types));
        } else if !TYPES.contains(&column.kind.as_str()) {
            errors.push(FieldError::invalid(
                at.field("type"),
                column.kind.as_str(),
                &types,
            ));
        }
        if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
            errors.push(FieldError::invalid(
                at.field("format"),
                column.format.as_str(),
                &format!("must be one of {}", FORMATS.join(",")),
            ));
        }
        let path = at.field("JSONPath");
        if column.json_path.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else {
            simple_path(&column.json_path, &path.to_string(), &[], errors);
        }
    }
}

pub(super) fn check_selectable(
    version: &Value,
    schema: Option<&Value>,
    at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut seen = BTreeSet::new();
    for (nth, field) in read::selectable_fields(version).iter().enumerate() {
        let item = at.index(nth);
        let at = item.field("jsonPath");
        if field.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let mut found = schema;
        for step in field.trim_start_matches('.').split('.') {
            found = found
                .and_then(|schema| schema.get("properties"))
                .and_then(|properties| properties.get(step));
        }
        let Some(found) = found.filter(|_| field.starts_with('.')) else {
            errors.push(FieldError::invalid(
                at,
                field.as_str(),
                "is an invalid path: does not refer to a valid field",
            ));
            continue;
        };
        if field == ".metadata" || field.starts_with(".metadata.") {
            errors.push(FieldError::invalid(
                at,
                field.as_str(),
                "must not point to fields in metadata",
            ));
        }
        if !["string", "boolean", "integer"].contains(&text(found, "type")) {
            errors.push(FieldError::invalid(
                at,
                field.as_str(),
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ));
        }
        if !seen.insert(field.clone()) {
            errors.push(FieldError::duplicate(at, field.as_str().into()));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(
            at,
            seen.len() as u64,
            MAX_SELECTABLE as u64,
        ));
    }
}

pub(super) fn check_deprecation(version: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid(
            at.field("deprecationWarning"),
            warning,
            detail,
        ));
    };
    if !flag(version, "deprecated") {
        wrong("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        wrong("must be <= 256 characters long");
    }
    if warning.is_empty() {
        wrong("must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        wrong(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}
