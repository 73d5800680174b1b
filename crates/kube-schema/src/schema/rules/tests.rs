use serde_json::{Value, json};

use crate::field::Path;
use crate::schema::Schema;

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
    breaks("self.a > 1", &json!({"a": 1}), "failed rule: self.a > 1");
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

#[test]
fn transitions_are_judged_where_the_old_value_can_be_found() {
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"},
        "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
    }});
    let schema = compile(&json!({"type": "object", "properties": {"l": {
        "type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    }}}))
    .unwrap();
    let old = json!({"l": [{"k": "a", "v": 2}, {"k": "b", "v": 2}]});
    let new = json!({"l": [{"k": "b", "v": 1}, {"k": "c", "v": 1}]});
    let errors = schema.validate(&new, Some(&old));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        errors[0].to_string(),
        "l[0].v: Invalid value: 1: failed rule: self >= oldSelf"
    );
    assert!(schema.validate(&new, None).is_empty());
}

#[test]
fn what_an_update_leaves_as_it_is_may_stay_wrong() {
    let schema = compile(&json!({"type": "object", "properties": {
        "a": {"type": "integer", "maximum": 5, "x-kubernetes-validations": [{"rule": "self != 3"}]},
        "b": {"type": "integer"},
    }}))
    .unwrap();
    let errors = |object: Value, old: Value| schema.validate(&object, Some(&old)).len();
    assert_eq!(errors(json!({"a": 3, "b": 2}), json!({"a": 3, "b": 1})), 0);
    assert_eq!(errors(json!({"a": 9, "b": 2}), json!({"a": 9, "b": 1})), 0);
    assert_eq!(errors(json!({"a": 3, "b": 2}), json!({"a": 2, "b": 2})), 1);
    assert_eq!(errors(json!({"a": 9, "b": 2}), json!({"a": 8, "b": 2})), 1);
}

#[test]
fn an_expensive_rule_ends_and_says_so() {
    let list: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    let errors = judge(
        "self.l.all(x, self.l.all(y, self.l.all(z, x != y || y != z || true)))",
        &json!({"l": list}),
    );
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("cost limit exceeded"), "{errors:?}");
}

#[test]
fn deep_rules_are_refused_before_they_reach_a_stack() {
    for rule in [
        format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("self.a == {}1", "1 + ".repeat(5_000)),
        format!("self.l{} == []", ".map(x, x)".repeat(500)),
    ] {
        let errors = compile(&with_rules(&properties(), &json!([{"rule": rule}])));
        assert!(errors.is_err());
    }
}

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 34] = [
        "self",
        "oldSelf",
        ".a",
        ".s",
        ".l",
        ".m",
        ".d",
        ".dur",
        ".ios",
        "[0]",
        "['k']",
        " == ",
        " + ",
        " < ",
        " && ",
        " || ",
        "!",
        "(",
        ")",
        "1",
        "-9223372036854775808",
        "'x'",
        "1.5",
        "null",
        ".size()",
        ".all(x, x",
        ".map(x, ",
        ".split('')",
        ".substring(1, 9)",
        "duration('1h')",
        "dyn(",
        ".format([",
        "has(",
        ".?a",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Neither words in any order nor noise bring anything down.
        #[test]
        fn fuzz_no_rule_and_no_object_panics(
            words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 1..14),
            noise in "\\PC{0,12}",
            number in any::<i64>(),
            text in "\\PC{0,12}",
        ) {
            for rule in [words.concat(), format!("{}{noise}", words.concat()), noise.clone()] {
                let schema = compile(&with_rules(&properties(), &json!([{"rule": rule}])));
                if let Ok(schema) = schema {
                    for spec in [
                        json!({}),
                        json!({"a": number, "s": text, "l": [text], "m": {"k": number}, "ios": number}),
                        json!({"a": 1.5, "s": 1, "l": {}, "m": [], "d": "x", "dur": text, "ios": text}),
                    ] {
                        let object = json!({"spec": spec});
                        let _ = schema.validate(&object, Some(&json!({"spec": {"a": 1}})));
                    }
                }
            }
        }
    }
}
