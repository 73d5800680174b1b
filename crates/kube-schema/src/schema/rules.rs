//! Rules in CEL (`x-kubernetes-validations`): checked and compiled with their schema, and evaluated over objects
//! without other errors.
//!
//! A schema without rules costs nothing here. The cost of an evaluation is bounded for each expression and for the
//! whole object; the depth is bounded when the rule is compiled. Unlike the server, this module does not estimate costs
//! in advance, and so refuses no rule as too expensive.

use std::{collections::BTreeMap, sync::Arc};

use kube_cel::{Shape, with_stack};
use serde_json::Value;

use super::{keyword_value, list, properties, text};
use crate::field::{FieldError, Path};

mod compile;
mod correlation;
mod field_path;
mod judge;
mod shape;
#[cfg(test)]
mod tests;

pub(super) use self::compile::check;
use self::{compile::Rule, shape::Root};

/// The rules of a schema, compiled.
#[derive(Clone, Debug)]
pub(super) struct Rules(Arc<RuleNode>);

/// One level of a schema, if there are rules at it or below.
#[derive(Debug)]
struct RuleNode {
    /// The name of the value in errors.
    kind: String,
    shape: Arc<Shape>,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
    /// The keys by which items of an old list are found.
    keys: Option<Vec<String>>,
    has_deep_rules: bool,
}

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

impl RuleNode {
    fn of(schema: &Value, shape: &Arc<Shape>) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        // Built only for levels with rules, which are few and small.
        let below = |schema: &Value| Self::of(schema, &shape::shape(schema, Root::of(schema)));
        let rules = compile::rules(schema, shape);
        let properties: BTreeMap<String, Self> = properties(schema)
            .filter_map(|(name, property)| Some((name.to_owned(), below(property)?)))
            .collect();
        let inner = |keyword: &str| {
            keyword_value(schema, keyword)
                .filter(|inner| inner.is_object())
                .and_then(below)
                .map(Box::new)
        };
        let keys = (text(schema, "x-kubernetes-list-type") == "map").then(|| {
            list(schema, "x-kubernetes-list-map-keys")
                .iter()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect()
        });
        Some(Self {
            kind: text(schema, "type").to_owned(),
            shape: Arc::clone(shape),
            has_deep_rules: rules.iter().any(Rule::is_deep),
            rules,
            properties,
            additional: inner("additionalProperties"),
            items: inner("items"),
            keys,
        })
    }

    fn is_deep(&self) -> bool {
        self.has_deep_rules
            || self.properties.values().any(Self::is_deep)
            || self.additional.as_deref().is_some_and(Self::is_deep)
            || self.items.as_deref().is_some_and(Self::is_deep)
    }
}

/// Whether a schema has the field that a rule names in its `fieldPath`.
pub(super) fn has_path(schema: &Value, path: &str) -> bool {
    field_path::resolve(path, schema).is_some()
}

/// Whether a schema has rules, at its top or below.
fn has_rules(schema: &Value) -> bool {
    !list(schema, "x-kubernetes-validations").is_empty()
        || properties(schema).any(|(_, property)| has_rules(property))
        || ["items", "additionalProperties"]
            .iter()
            .any(|keyword| keyword_value(schema, keyword).is_some_and(has_rules))
}
