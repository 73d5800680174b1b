//! Structural schemas: the processing of a custom object by the server before it is stored.
//!
//! A schema is checked and compiled once, when its definition is written. Objects are then pruned, defaulted and
//! validated by it, including rules in CEL (`x-kubernetes-validations`). This module does not know storage, versions or
//! requests.
//!
//! Recursion is bounded: a schema has at most [`MAX_DEPTH`] levels and no references. An object is followed only as
//! deep as its schema, or as its parser allows.

use std::collections::BTreeMap;

use kube_lang::go_regex::GoRegex;
use serde_json::{Map, Value};

use super::field::{ErrorKind, FieldError, Path};

mod compile;
mod defaults;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod openapi;
mod prune;
mod ratchet;
mod rules;
mod shape;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

/// The maximum depth of a schema; the JSON parser has a similar limit.
pub const MAX_DEPTH: usize = 100;

/// The maximum number of errors that are reported for an object.
const MAX_ERRORS: usize = 500;

/// A compiled structural schema.
#[derive(Clone, Debug)]
pub struct Schema {
    root: SchemaNode,
    rules: Option<rules::Rules>,
}

/// The types of values that a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    const ALL: [(&'static str, Self); 6] = [
        ("array", Self::Array),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("object", Self::Object),
        ("string", Self::String),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

#[derive(Clone, Debug)]
enum Additional {
    Anything,
    Nothing,
    Schema(Box<SchemaNode>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// One level of a schema.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own"
)]
struct SchemaNode {
    /// Empty for any type; two types for an int-or-string.
    types: Vec<Type>,
    format: Option<formats::Format>,
    nullable: bool,
    preserve: bool,
    embedded: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Self>,
    additional: Option<Additional>,
    items: Option<Box<Self>>,
    list: ListType,
    required: Vec<String>,
    allowed: Vec<Value>,
    min_length: Option<i64>,
    max_length: Option<i64>,
    pattern: Option<GoRegex>,
    min_items: Option<i64>,
    max_items: Option<i64>,
    unique_items: bool,
    min_properties: Option<i64>,
    max_properties: Option<i64>,
    numbers: numbers::Bounds,
    all_of: Vec<Self>,
    any_of: Vec<Self>,
    one_of: Vec<Self>,
    not: Option<Box<Self>>,
    /// Whether it, or a part of it, is embedded.
    has_embedded: bool,
    /// Whether it is a list that is not atomic, or contains one.
    has_lists: bool,
}

impl SchemaNode {
    /// The schemas of members and items.
    fn members(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Some(Additional::Schema(node)) => Some(&**node),
            _ => None,
        };
        let items = self.items.as_deref();
        self.properties.values().chain(additional).chain(items)
    }

    /// The schema of a member of an object.
    fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            (None, _) => None,
        }
    }
}

/// Whether strings of this format are checked.
pub(crate) fn checks_format(name: &str) -> bool {
    formats::checks(name)
}

impl Schema {
    /// Checks a schema as the server checks that of a CRD version, and compiles it. `path` is its place in the
    /// definition; paths in errors begin with it.
    pub fn compile(schema: &Value, path: &Path<'_>) -> Result<Self, Vec<FieldError>> {
        shape::check(schema, path)?;
        let mut errors = structural::check(schema, path);
        // Defaults are checked only against a structural schema.
        if errors.is_empty() && !structural::is_beyond(schema) {
            let strict = compile::node(schema, formats::Formats::Written);
            errors.extend(defaults::check(&strict, path));
        }
        errors.extend(openapi::check(schema, path));
        // Rules are checked only without other errors, because otherwise the types may be unclear.
        if errors.is_empty() {
            errors = rules::check(schema, path);
        }
        if errors.is_empty() {
            let root = compile::node(schema, formats::Formats::Meaningful);
            let rules = rules::Rules::of(schema);
            Ok(Self { root, rules })
        } else {
            Err(errors)
        }
    }

    /// The schema of a kind without a schema: it accepts everything and changes nothing.
    pub fn anything() -> Self {
        Self {
            root: SchemaNode {
                preserve: true,
                ..SchemaNode::default()
            },
            rules: None,
        }
    }

    /// Removes unknown fields and returns their paths, sorted: `spec.a[0].b`. `apiVersion`, `kind` and `metadata` of
    /// the object stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::object(&self.root, object)
    }

    /// Calls `f` with each embedded object in an object, and its path.
    pub fn each_embedded(
        &self,
        object: &mut Value,
        f: &mut dyn FnMut(&mut Map<String, Value>, &Path<'_>),
    ) {
        embedded::each(&self.root, object, &Path::Root, f);
    }

    /// Removes nulls where the schema wants a value, then sets defaults for missing values.
    pub fn default(&self, object: &mut Value) {
        defaults::drop_nulls(Some(&self.root), object);
        defaults::apply(&self.root, object);
    }

    /// Sets defaults for missing values, and keeps nulls.
    pub fn fill(&self, object: &mut Value) {
        defaults::apply(&self.root, object);
    }

    /// All problems of an object: types and values, embedded objects, list types, then rules. For a definition with a
    /// status subresource, the caller passes the object that will be stored. `old` is the stored object that it
    /// replaces.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.finish(validate::value(&self.root, object), object, old)
    }

    /// Like [`validate`](Self::validate), for a write of the status only: its values are checked on their own, and
    /// messages name fields relative to the status.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let node = self.root.properties.get("status");
        let values = match (node, object.get("status")) {
            (Some(node), Some(status)) => {
                let mut errors = validate::value(node, status);
                for error in &mut errors {
                    error.field = match error.field.as_str() {
                        "" | "<nil>" => "status".to_owned(),
                        field => format!("status.{field}"),
                    };
                }
                errors
            }
            _ => Vec::new(),
        };
        self.finish(values, object, old)
    }

    fn finish(
        &self,
        mut errors: Vec<FieldError>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        if let Some(old) = old {
            ratchet::drop_unchanged(&mut errors, &self.root, object, old);
        }
        errors.extend(embedded::check(&self.root, object));
        let doubled = lists::check(&self.root, object);
        // Duplicates that the old object already has are allowed.
        if doubled.is_empty() || old.is_none_or(|old| lists::check(&self.root, old).is_empty()) {
            errors.extend(doubled);
        }
        if let Some(rules) = &self.rules {
            if errors.iter().any(keeps_rules_from_being_checked) {
                errors.push(FieldError::invalid(
                    Path::Root,
                    Value::Null,
                    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                ));
            } else {
                errors.extend(rules.validate(object, old));
            }
        }
        errors.truncate(MAX_ERRORS);
        errors
    }
}

/// Whether the rules are not evaluated after this error.
fn keeps_rules_from_being_checked(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}

/// A string member of a raw schema, empty if it is missing.
fn text<'a>(schema: &'a Value, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or("")
}

fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// A list member of a raw schema, empty if it is missing.
fn list<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    schema
        .get(keyword)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A member that is present and not null.
fn keyword_value<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Value> {
    schema.get(keyword).filter(|v| !v.is_null())
}

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.as_str(), schema))
}
