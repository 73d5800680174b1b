//! Reads the parts that both kinds of definition have.

use serde_json::Value;

use crate::field::{FieldError, Path};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

/// A column of a table, as `additionalPrinterColumns` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn flag(value: &Value, name: &str) -> bool {
    value.get(name) == Some(&Value::Bool(true))
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// A member, the description of its type, and a check of the type.
pub(super) type Member = (&'static str, &'static str, fn(&Value) -> bool);

/// Checks that members have the JSON types that the server would decode. Later code relies on that.
pub(super) fn check_types(
    value: &Value,
    path: &Path<'_>,
    members: &[Member],
    errors: &mut Vec<FieldError>,
) {
    if !value.is_object() {
        errors.push(FieldError::invalid(path, "", "must be an object"));
        return;
    }
    for (name, what, is) in members {
        if value.get(name).is_some_and(|v| !v.is_null() && !is(v)) {
            errors.push(FieldError::invalid(
                path.field(name),
                "",
                &format!("must be {what}"),
            ));
        }
    }
}

pub(super) fn is_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|list| list.iter().all(Value::is_string))
}

pub(super) fn is_objects(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|list| list.iter().all(Value::is_object))
}

pub(super) fn names(spec: &Value) -> Names {
    let names = spec.get("names").unwrap_or(&Value::Null);
    let text = |name| text(names, name).to_owned();
    Names {
        plural: text("plural"),
        singular: text("singular"),
        kind: text("kind"),
        list_kind: text("listKind"),
        short_names: texts(names, "shortNames"),
        categories: texts(names, "categories"),
    }
}

pub(super) fn columns(version: &Value) -> Vec<Column> {
    list(version, "additionalPrinterColumns")
        .iter()
        .map(|column| {
            let text = |name| text(column, name).to_owned();
            Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                description: text("description"),
                priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
                json_path: text("jsonPath"),
            }
        })
        .collect()
}

pub(super) fn selectable_fields(version: &Value) -> Vec<String> {
    list(version, "selectableFields")
        .iter()
        .map(|field| text(field, "jsonPath").to_owned())
        .collect()
}

/// Types of the members of a version, the same in both kinds of definition.
pub(super) const VERSION_TYPES: [Member; 9] = [
    ("name", "a string", Value::is_string),
    ("served", "a boolean", Value::is_boolean),
    ("storage", "a boolean", Value::is_boolean),
    ("deprecated", "a boolean", Value::is_boolean),
    ("deprecationWarning", "a string", Value::is_string),
    ("schema", "an object", Value::is_object),
    ("subresources", "an object", Value::is_object),
    ("additionalPrinterColumns", "a list of objects", is_objects),
    ("selectableFields", "a list of objects", is_objects),
];

pub(super) const SPEC_TYPES: [Member; 5] = [
    ("group", "a string", Value::is_string),
    ("names", "an object", Value::is_object),
    ("scope", "a string", Value::is_string),
    ("versions", "a list of objects", is_objects),
    ("conversion", "an object", Value::is_object),
];

pub(super) const NAMES_TYPES: [Member; 6] = [
    ("plural", "a string", Value::is_string),
    ("singular", "a string", Value::is_string),
    ("kind", "a string", Value::is_string),
    ("listKind", "a string", Value::is_string),
    ("shortNames", "a list of strings", is_texts),
    ("categories", "a list of strings", is_texts),
];

/// Checks the types of all members that are read later.
pub(super) fn check_spec_types(spec: &Value) -> Vec<FieldError> {
    let root = Path::Root;
    let path = root.field("spec");
    let mut errors = Vec::new();
    check_types(spec, &path, &SPEC_TYPES, &mut errors);
    if let Some(names) = spec.get("names") {
        check_types(names, &path.field("names"), &NAMES_TYPES, &mut errors);
    }
    let versions = path.field("versions");
    for (nth, version) in list(spec, "versions").iter().enumerate() {
        check_types(version, &versions.index(nth), &VERSION_TYPES, &mut errors);
    }
    errors
}
