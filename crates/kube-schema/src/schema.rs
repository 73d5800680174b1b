//! Structural schemas: the processing of a custom object by the server before it is stored.
//!
//! A schema is checked and compiled once, when its definition is written. Objects are then pruned, defaulted and
//! validated by it, including rules in CEL (`x-kubernetes-validations`). This module does not know storage, versions or
//! requests.
//!
//! Recursion is bounded: a schema has at most [`MAX_DEPTH`] levels and no references. An object is followed only as
//! deep as its schema, or as its parser allows.

use serde_json::{Map, Value};

use super::field::{ErrorKind, FieldError, Path};

mod compile;
mod defaults;
mod embedded;
mod formats;
mod keywords;
mod lists;
mod node;
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

pub use shape::MAX_DEPTH;

use node::SchemaNode;
use validate::MAX_ERRORS;

/// A compiled structural schema.
#[derive(Clone, Debug)]
pub struct Schema {
    root: SchemaNode,
    rules: Option<rules::Rules>,
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
