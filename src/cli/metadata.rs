//! Checks of an object's metadata that every API server makes, with messages for authors of YAML.

use serde_json::Value;

use crate::publish::problem::Problem;
use kube_lang::object::json_type;

/// The hint about words that YAML reads as booleans.
const BOOLEANS: &str = "YAML reads y, n, yes, no, on and off as booleans: put the value in quotes";

/// Fields of a wrong type in the metadata of an object.
pub(super) fn problems(object: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for field in ["apiVersion", "kind"] {
        text(field, object.get(field), &mut problems);
    }
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return problems,
        Some(Value::Object(metadata)) => metadata,
        Some(other) => {
            problems.push(wrong("metadata", "an object", other));
            return problems;
        }
    };
    for field in ["name", "generateName", "namespace"] {
        let path = format!("metadata.{field}");
        text(&path, metadata.get(field), &mut problems);
    }
    for field in ["labels", "annotations"] {
        let path = format!("metadata.{field}");
        match metadata.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    text(&format!("{path}.{key}"), Some(value), &mut problems);
                }
            }
            Some(other) => problems.push(wrong(&path, "a map of strings", other)),
        }
    }
    problems
}

/// Whether the object has a name or a `generateName`.
pub(super) fn is_named(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let given = |field: &str| !matches!(metadata[field].as_str(), None | Some(""));
    given("name") || given("generateName")
}

/// The hint where a string is wanted and something else was read.
pub(super) fn quoting(found: &Value) -> Option<&'static str> {
    match found {
        Value::Bool(_) => Some(BOOLEANS),
        Value::Number(_) => Some("put the value in quotes"),
        _ => None,
    }
}

fn text(field: &str, value: Option<&Value>, problems: &mut Vec<Problem>) {
    match value {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => problems.push(wrong(field, "a string", other)),
    }
}

fn wrong(field: &str, wanted: &str, found: &Value) -> Problem {
    let message = format!("must be {wanted}, found {}", json_type(found));
    let problem = Problem::new(field, message);
    match quoting(found) {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: &Value, wanted: &[&str]) {
        let found: Vec<String> = problems(object).iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_yaml_made_of_a_text_is_told_with_its_field() {
        check(
            &json!({"kind": true, "metadata": {"name": true, "namespace": 1}}),
            &[
                "kind: must be a string, found a boolean",
                "metadata.name: must be a string, found a boolean",
                "metadata.namespace: must be a string, found a number",
            ],
        );
        check(
            &json!({"metadata": {"labels": {"a": "b", "c": false}, "annotations": []}}),
            &[
                "metadata.labels.c: must be a string, found a boolean",
                "metadata.annotations: must be a map of strings, found a list",
            ],
        );
        check(
            &json!({"metadata": []}),
            &["metadata: must be an object, found a list"],
        );
        let hint = problems(&json!({"metadata": {"name": true}}))[0]
            .hint
            .clone();
        assert_eq!(hint.as_deref(), Some(BOOLEANS));
    }

    #[test]
    fn what_is_right_or_left_out_is_not_told_of() {
        check(&json!({}), &[]);
        check(
            &json!({"kind": "A", "metadata": {"name": "a", "labels": null, "annotations": {"a": "b"}}}),
            &[],
        );
    }

    #[test]
    fn a_name_may_be_left_to_the_server() {
        assert!(is_named(&json!({"metadata": {"generateName": "a-"}})));
        assert!(is_named(&json!({"metadata": {"name": "a"}})));
        assert!(!is_named(&json!({"metadata": {"name": ""}})));
        assert!(!is_named(&json!({})));
    }
}
