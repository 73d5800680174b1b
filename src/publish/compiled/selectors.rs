//! Label selectors as manifests have them.

use serde_json::{Value, json};

use crate::publish::problem::{Part, Problem};
use crate::publish::types::LabelSelector;
use kube_lang::selector::{Selector, SelectorError};

/// Checks each requirement separately, so that the problem names the requirement.
pub(super) fn check_selector(field: &str, selector: &LabelSelector, problems: &mut Vec<Problem>) {
    let before = problems.len();
    for (key, value) in &selector.match_labels {
        check_label(format!("{field}.matchLabels.{key}"), key, value, problems);
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let mut alone = json!(requirement);
        // An operator that is wrong too must not hide it.
        if let Err(error) = compile(&expression(
            &json!({"key": requirement.key, "operator": "Exists"}),
        )) {
            problems.push(Problem::new(format!("{field}.key"), error));
            alone["key"] = "key".into();
        }
        if let Err(error) = compile(&expression(&alone)) {
            problems.push(Problem::new(field, error));
        }
    }
    if let (Err(error), true) = (compile(&json!(selector)), problems.len() == before) {
        problems.push(Problem::new(field, error));
    }
}

/// A selector with one requirement.
fn expression(requirement: &Value) -> Value {
    json!({"matchExpressions": [requirement]})
}

fn compile(selector: &Value) -> Result<(), SelectorError> {
    Selector::from_value(selector).map(drop)
}

/// Checks one label.
pub(super) fn check_label(field: String, key: &str, value: &str, problems: &mut Vec<Problem>) {
    if let Err(error) = compile(&json!({"matchLabels": {key: value}})) {
        let part = match error {
            SelectorError::Key { .. } => Part::Key,
            _ => Part::Value,
        };
        problems.push(Problem::new(field, error).at(part));
    }
}
