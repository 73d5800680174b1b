use serde_json::{Value, json};

use crate::playground::{field::Path, schema::Schema};

fn compile(schema: &Value) -> Result<Schema, Vec<String>> {
    Schema::compile(schema, &Path::Root)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// A schema with rules on `spec`.
fn with_rules(properties: &Value, rules: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": rules,
    }}})
}

fn properties() -> Value {
    json!({
        "a": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "d": {"type": "string", "format": "date-time"},
        "dur": {"type": "string", "format": "duration"},
        "ios": {"x-kubernetes-int-or-string": true},
        "a-b.c": {"type": "integer"},
    })
}

#[track_caller]
fn judge(rule: &str, spec: &Value) -> Vec<String> {
    let schema = with_rules(&properties(), &json!([{"rule": rule}]));
    let schema = compile(&schema).unwrap_or_else(|errors| panic!("{rule}: {errors:?}"));
    let object = json!({"spec": spec});
    let errors = schema.validate(&object, None);
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn holds(rule: &str, spec: &Value) {
    assert_eq!(judge(rule, spec), Vec::<String>::new(), "{rule}");
}

#[track_caller]
fn breaks(rule: &str, spec: &Value, why: &str) {
    assert_eq!(
        judge(rule, spec),
        [format!("spec: Invalid value: {why}")],
        "{rule}"
    );
}

#[track_caller]
fn refused(rule: &str, why: &str) {
    let errors = compile(&with_rules(&properties(), &json!([{"rule": rule}]))).unwrap_err();
    assert!(errors[0].contains(why), "{rule}: {errors:?}");
}

#[test]
fn rules_that_hold_say_nothing_and_others_say_which() {
    holds("self.a > 1", &json!({"a": 2}));
    breaks(
        "self.a > 1",
        &json!({"a": 1}),
        "\"object\": failed rule: self.a > 1",
    );
    breaks(
        "self.a > 1",
        &json!({}),
        "\"object\": no such key: a evaluating rule: self.a > 1",
    );
}

#[test]
fn expressions_know_their_types() {
    refused("self.nope == 1", "undefined field 'nope'");
    refused(
        "self.a + self.s == ''",
        "found no matching overload for '_+_' applied to '(int, string)'",
    );
    refused("self.a", "cel expression must evaluate to a bool");
    refused(
        "self.a >",
        "Syntax error: mismatched input '<EOF>' expecting",
    );
    holds("self.a__dash__b__dot__c == 1", &json!({"a-b.c": 1}));
}
