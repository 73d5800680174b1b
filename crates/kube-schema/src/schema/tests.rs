use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json::parse;
use fuzz;

fn golden() -> Vec<Value> {
    let golden = parse(include_bytes!("../../../../tests/data/schemas.json")).unwrap();
    golden.value["schemas"].as_array().unwrap().clone()
}

fn compile(schema: &Value) -> Result<Schema, Vec<FieldError>> {
    // The server names the schema of a single version by where older definitions had it.
    let root = Path::Root;
    let spec = root.field("spec");
    let validation = spec.field("validation");
    Schema::compile(schema, &validation.field("openAPIV3Schema"))
}

fn shown(errors: &[FieldError]) -> Vec<Value> {
    let mut shown: Vec<(String, Value)> = errors
        .iter()
        .map(|e| {
            (
                format!("{}{}", e.field, e.body()),
                json!({"reason": e.kind.reason(), "field": e.field, "message": e.body()}),
            )
        })
        .collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    shown.into_iter().map(|(_, error)| error).collect()
}

/// Only what a regular expression parser says differs, as ours is another one.
fn without_parser_words(errors: &[Value]) -> Vec<Value> {
    let mut errors = errors.to_vec();
    for error in &mut errors {
        let message = error["message"].as_str().unwrap();
        if let Some((before, _)) = message.split_once("error parsing regexp: ") {
            error["message"] = before.into();
        }
    }
    errors
}

#[track_caller]
fn check(id: &str, got: &[FieldError], want: &Value) {
    let got = without_parser_words(&shown(got));
    let want = without_parser_words(want.as_array().unwrap());
    assert_eq!(got, want, "{id}");
}

#[test]
fn every_golden_schema_has_the_errors_that_the_server_finds_in_it() {
    let cases = golden();
    assert!(cases.len() > 50);
    for case in cases {
        let errors = compile(&case["schema"]).err().unwrap_or_default();
        // Whether a nullable root is refused is decided where the definition is checked.
        if case["id"] != "root-nullable" {
            check(&case["id"].to_string(), &errors, &case["schema_errors"]);
        }
    }
}

#[test]
fn every_golden_object_is_pruned_defaulted_and_validated_as_the_server_does() {
    let mut checked = 0;
    for case in golden() {
        let Some(objects) = case["objects"].as_array() else {
            continue;
        };
        let schema = compile(&case["schema"]).unwrap();
        for (nth, entry) in objects.iter().enumerate() {
            let id = format!("{} #{nth}", case["id"]);
            let mut object = entry["object"].clone();
            let pruned = schema.prune(&mut object);
            assert_eq!(json!(pruned), entry["pruned"], "{id}");
            schema.default(&mut object);
            let mut stored = object.clone();
            crate::json::settle(&mut stored);
            assert_eq!(stored, entry["want"], "{id}");
            check(&id, &schema.validate(&object, None), &entry["errors"]);
            checked += 1;
        }
    }
    assert!(checked > 80, "{checked}");
}

#[test]
fn a_schema_without_rules_keeps_everything() {
    let schema = Schema::anything();
    let mut object = json!({"a": {"b": [null, {"c": 1}]}, "kind": 3});
    let before = object.clone();
    assert!(schema.prune(&mut object).is_empty());
    schema.default(&mut object);
    assert_eq!(object, before);
    assert!(schema.validate(&object, None).is_empty());
}

#[test]
fn a_schema_that_is_nested_too_deeply_or_has_no_shape_is_refused() {
    let mut deep = json!({"type": "object"});
    for _ in 0..MAX_DEPTH {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let errors = compile(&deep).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].detail.contains("deeper than 100"));
    for bad in [
        json!([]),
        json!({"type": 3}),
        json!({"type": "object", "properties": []}),
        json!({"type": "object", "properties": {"a": 1}}),
        json!({"type": "object", "required": [1]}),
        json!({"type": "object", "allOf": [1]}),
        json!({"type": "object", "not": true}),
        json!({"type": "object", "minLength": "x"}),
        json!({"type": "object", "x-kubernetes-validations": [1]}),
    ] {
        assert!(compile(&bad).is_err(), "{bad}");
    }
}

fn schemas() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "object", "string", "integer", "number", "boolean", "array", "",
    ]);
    let leaf =
        (kinds.clone(), any::<bool>(), any::<bool>()).prop_map(|(kind, nullable, default)| {
            let mut schema = json!({"type": kind, "nullable": nullable});
            if default {
                schema["default"] = match kind {
                    "object" => json!({}),
                    "array" => json!([]),
                    "string" => json!("x"),
                    "boolean" => json!(true),
                    _ => json!(7),
                };
            }
            schema
        });
    leaf.prop_recursive(5, 32, 4, move |inner| {
        let name = prop::sample::select(vec!["a", "b", "metadata", "spec", "kind"]);
        let keyword = prop::sample::select(vec![
            "items",
            "additionalProperties",
            "not",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ]);
        prop_oneof![
            prop::collection::vec((name, inner.clone()), 0..4).prop_map(|all| {
                let all: serde_json::Map<_, _> =
                    all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
                json!({"type": "object", "properties": all})
            }),
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items})),
            (inner, keyword, any::<bool>()).prop_map(|(mut schema, keyword, flag)| {
                let old = schema.clone();
                schema[keyword] = if flag || keyword.starts_with("x-") {
                    json!(flag)
                } else {
                    old
                };
                schema
            }),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "metadata", "spec", "kind"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name, inner), 0..4)
                .prop_map(|all| all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

#[test]
fn fuzz_schema() {
    let whole = schemas().prop_map(|spec| json!({"type": "object", "properties": {"spec": spec}}));
    fuzz::run(
        &(prop_oneof![schemas(), whole], objects()),
        |(schema, object)| {
            let Ok(schema) = compile(schema) else {
                return;
            };
            let mut once = object.clone();
            schema.prune(&mut once);
            schema.default(&mut once);
            let _ = schema.validate(&once, None);
            // What is stored and read again is not changed again.
            let mut twice = once.clone();
            assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
            schema.default(&mut twice);
            assert_eq!(twice, once);
        },
    );
}
