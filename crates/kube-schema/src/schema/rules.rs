//! Rules in CEL (`x-kubernetes-validations`): checked and compiled with their schema, and evaluated over objects
//! without other errors.
//!
//! A schema without rules costs nothing here. The cost of an evaluation is bounded for each expression and for the
//! whole object; the depth is bounded when the rule is compiled. Unlike the server, this module does not estimate costs
//! in advance, and so refuses no rule as too expensive.

use std::sync::Arc;

use kube_cel::with_stack;
use serde_json::Value;

use crate::field::{FieldError, Path};

mod compile;
mod correlation;
mod field_path;
mod judge;
mod shape;
#[cfg(test)]
mod tests;

pub(super) use self::compile::check;
use self::{compile::RuleNode, shape::Root};

/// The rules of a schema, compiled.
#[derive(Clone, Debug)]
pub(super) struct Rules(Arc<RuleNode>);

impl Rules {
    /// The rules of a schema that was checked; `None` if it has none.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let shape = shape::shape(schema, Root::Resource);
        RuleNode::of(schema, &shape).map(|level| Self(Arc::new(level)))
    }

    /// Evaluates all rules over an object. `old` is the object that it replaces.
    pub(super) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if self.0.is_deep() {
            let judged = with_stack(|| judge::judge(&self.0, object, old));
            return judged.unwrap_or_else(|| {
                vec![FieldError::invalid(
                    Path::Root,
                    "object",
                    "rule evaluation was abandoned",
                )]
            });
        }
        judge::judge(&self.0, object, old)
    }
}

/// Whether a schema has the field that a rule names in its `fieldPath`.
pub(super) fn has_path(schema: &Value, path: &str) -> bool {
    field_path::resolve(path, schema).is_some()
}
