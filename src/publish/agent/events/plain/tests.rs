//! What is told of refusals, with inputs that try to have more told.

use std::sync::Arc;

use proptest::prelude::*;

use serde_json::json;

use super::*;
use hawser_runtime::cluster::connection::Call;
use hawser_sync::{Failure, Scope, Side};
use kube_lang::object::Gvk;

fn key(group: &str, kind: &str, namespace: &str, name: &str) -> Key {
    let kind = Arc::new(Gvk::new(group, "v1", kind));
    Scope::new(&Side::new("service"), &kind, "").key(Some(namespace), name)
}

fn hidden() -> Hidden {
    let own = key("example.com", "Database", "default", "mine");
    let copy = key("pg.corp", "PgCluster", "ns-4711", "ab-mine");
    Hidden::of(&own, std::iter::once(&copy))
}

fn told(list: &str) -> Option<String> {
    let detail = format!(
        "create service PgCluster ns-4711/ab-mine: refused as invalid: PgCluster.pg.corp \
         \"ab-mine\" is invalid: {list}"
    );
    invalid(&detail, &hidden())
}

#[track_caller]
fn check(list: &str, expected: &str) {
    assert_eq!(told(list).as_deref().unwrap_or("-"), expected);
}

#[test]
fn each_kind_of_wrong_is_told_with_its_field_and_without_the_value() {
    check("spec.a: Required value", "spec.a: required value");
    check(
        "spec.a: Required value: must be set",
        "spec.a: required value: must be set",
    );
    check(
        "spec.size: Invalid value: 12: must be less than or equal to 10",
        "spec.size: invalid value: must be less than or equal to 10",
    );
    check(
        "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        "spec.size: invalid value: must be of type integer: \"string\"",
    );
    check(
        "spec.tier: Unsupported value: \"gold\": supported values: \"small\", \"large\"",
        "spec.tier: unsupported value: supported values: \"small\", \"large\"",
    );
    check(
        "spec.list[2]: Duplicate value: \"x\"",
        "spec.list[2]: duplicate value",
    );
    check("spec.ref: Not found: \"x\"", "spec.ref: not found");
    check(
        "spec.list: Too many: 9: must have at most 3 items",
        "spec.list: too many: must have at most 3 items",
    );
    check(
        "spec.a: Forbidden: is immutable",
        "spec.a: forbidden: is immutable",
    );
    check(
        "spec.cpu: Invalid value: 5Gi: too much",
        "spec.cpu: invalid value: too much",
    );
}

#[test]
fn values_of_every_form_are_left_out() {
    for value in [
        "\"a \\\" : quoted, text\"",
        "null",
        "-1.5",
        "true",
        "{\"a\":{\"b\":[1,\"}\"]}}",
        "[1,2]",
        "[]string{\"a\", \"b\"}",
        "map[string]interface {}{\"a\":\"b: c\"}",
        "<nil>",
    ] {
        let list = format!("spec.a: Invalid value: {value}: must be so, spec.b: Required value");
        check(
            &list,
            "spec.a: invalid value: must be so; spec.b: required value",
        );
    }
}

#[test]
fn a_list_of_fields_is_told_without_repetition_and_up_to_five() {
    check(
        "[spec.a: Required value, spec.b: Invalid value: 1: is odd, spec.a: Required value]",
        "spec.a: required value; spec.b: invalid value: is odd",
    );
    let fields: Vec<String> = (0..8)
        .map(|n| format!("spec.f{n}: Required value"))
        .collect();
    let told = told(&format!("[{}]", fields.join(", "))).unwrap();
    assert!(
        told.starts_with("spec.f0: required value; spec.f1"),
        "{told}"
    );
    assert!(
        told.ends_with("spec.f4: required value; and 3 more"),
        "{told}"
    );
}

#[test]
fn rules_over_the_whole_object_are_told_without_it() {
    check(
        "<nil>: Invalid value: {\"metadata\":{\"name\":\"ab-mine\"}}: size and tier do not fit",
        "invalid value: size and tier do not fit",
    );
    check("<nil>: Required value", "required value");
}

#[test]
fn what_is_wrong_with_the_names_and_marks_of_the_copy_is_not_repeated() {
    check(
        "metadata.name: Invalid value: \"ab-mine\": must be no more than 63 characters",
        "metadata: invalid value",
    );
    check(
        "metadata.labels: Invalid value: \"ns-4711\": is wrong",
        "metadata: invalid value",
    );
}

#[test]
fn words_that_name_the_copy_or_a_machine_are_left_out_of_explanations() {
    check(
        "spec.a: Forbidden: PgCluster ab-mine in namespace ns-4711 of pgclusters.pg.corp says no",
        "spec.a: forbidden: … … in namespace … of … says no",
    );
    check(
        "spec.a: Forbidden: see https://10.0.0.1/x or db.ns.svc or 10.1.2.3:443 or fd00::1",
        "spec.a: forbidden: see … or … or … or …",
    );
    check(
        "spec.refs[ab-mine].x: Required value",
        "spec.refs[…].x: required value",
    );
    check(
        "spec.a: Forbidden: one\ntwo\u{7}three",
        "spec.a: forbidden: one two three",
    );
}

#[test]
fn what_both_sides_share_is_no_secret() {
    let own = key("a.b", "Thing", "default", "mine");
    let copy = key("a.b", "Thing", "ws", "mine");
    let hidden = Hidden::of(&own, std::iter::once(&copy));
    let detail = "patch service Thing ws/mine: refused as invalid: Thing.a.b \"mine\" is invalid: \
                  spec.x: Forbidden: Thing mine may not be in ws";
    assert_eq!(
        invalid(detail, &hidden).as_deref(),
        Some("spec.x: forbidden: Thing mine may not be in …"),
    );
}

#[test]
fn what_does_not_look_like_a_list_of_fields_is_not_repeated_at_all() {
    check("", "-");
    check("the object ab-mine is bad", "-");
    check("[]", "-");
    check("spec.a: Internal error: panic at 10.0.0.1", "-");
    check("see the log: Required value", "-");
    for detail in [
        "",
        "refused as invalid: ",
        "refused as invalid: admission webhook \"w.corp\" denied the request: no",
        "refused as invalid: things.a.b \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied",
        "refused as invalid: the policy \"p\" is invalid: spec.a: Forbidden: of the policy",
        "create service Thing a/b: forbidden: Thing.a \"b\" is invalid: spec.a: Required value",
    ] {
        assert_eq!(invalid(detail, &hidden()), None, "{detail}");
    }
}

#[test]
fn a_value_cannot_pretend_to_be_an_explanation() {
    // The quote is escaped, so all of it is the value.
    check(
        "spec.a: Invalid value: \"x\\\": visit ab-mine, spec.b: Forbidden: evil\": is wrong",
        "spec.a: invalid value: is wrong",
    );
    // Unbalanced: nothing can be told from the value, so nothing of it is told.
    check(
        "spec.a: Invalid value: {\"a\": ab-mine",
        "spec.a: invalid value",
    );
    check(
        "spec.a: Invalid value: two words: why",
        "spec.a: invalid value",
    );
    check(
        "spec.a: Invalid value: }: why",
        "spec.a: invalid value: why",
    );
}

#[tokio::test]
async fn what_a_server_says_of_a_custom_resource_is_understood() {
    let ground = hawser_runtime::cluster::ground::Ground::start().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "pgclusters.pg.corp" },
        "spec": {
            "group": "pg.corp", "scope": "Namespaced",
            "names": { "plural": "pgclusters", "kind": "PgCluster" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                    "type": "object", "required": ["tier"],
                    "properties": {
                        "tier": { "type": "string", "enum": ["small", "large"] },
                        "size": { "type": "integer", "maximum": 10 },
                        "cron": { "type": "string", "pattern": "^a$" },
                        "refs": { "type": "array", "maxItems": 1, "items": { "type": "string" } },
                    },
                }}},
            }}],
        },
    });
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let post = |path, body: &serde_json::Value| ground.service.call(Call::post(path, body));
    assert_eq!(post(all, &definition).await.unwrap().status, 201);
    let objects = "/apis/pg.corp/v1/namespaces/default/pgclusters";
    for (spec, expected) in [
        (json!({}), "spec.tier: required value"),
        (
            json!({ "tier": "gold", "size": 11, "cron": "b\", spec.x: Forbidden: c" }),
            "spec.cron: invalid value: should match '^a$'; spec.size: invalid value: should be less \
             than or equal to 10; spec.tier: unsupported value: supported values: \"small\", \"large\"",
        ),
        (
            json!({ "tier": "small", "size": "ab-mine" }),
            "spec.size: invalid value: must be of type integer: \"string\"",
        ),
        (
            json!({ "tier": "small", "refs": ["ab-mine", "b"] }),
            "spec.refs: too many: must have at most 1 item",
        ),
    ] {
        let object = json!({
            "apiVersion": "pg.corp/v1", "kind": "PgCluster",
            "metadata": { "name": "ab-mine" }, "spec": spec,
        });
        let refused = async {
            // The definition is served a moment after it was made.
            loop {
                let refusal = post(objects, &object).await.unwrap().refusal();
                if refusal.code != 404 {
                    return refusal;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let soon = std::time::Duration::from_mins(1);
        let refusal = tokio::time::timeout(soon, refused).await.unwrap();
        assert_eq!(refusal.code, 422, "{refusal}");
        let detail = format!("create x: {}", Failure::Invalid(refusal.message));
        let mut told: Vec<_> = invalid(&detail, &hidden())
            .unwrap_or_default()
            .split("; ")
            .map(str::to_owned)
            .filter(|told| !told.contains("some validation rules were not checked"))
            .collect();
        told.sort();
        assert_eq!(told.join("; "), expected, "{detail}");
    }
}

#[test]
fn long_messages_end_in_time_and_are_cut() {
    let path = format!("spec.{}", "x".repeat(200));
    let told = told(&format!("{path}: Forbidden: {}", "y ".repeat(100_000))).unwrap();
    assert!(told.chars().count() < 320, "{}", told.chars().count());
    for piece in [
        ", ",
        ": ",
        "[",
        "{",
        "\"",
        "\\\"",
        "a: Forbidden, ",
        "spec.a: Invalid value: ",
    ] {
        let list = format!("spec.a: Invalid value: {}", piece.repeat(300_000));
        let told = self::told(&list).unwrap();
        assert!(told.chars().count() < 2000);
    }
}

proptest! {
    #[test]
    fn no_message_makes_it_say_what_is_hidden(
        pieces in prop::collection::vec(prop_oneof![
            Just("spec.a".to_owned()), Just(": ".to_owned()), Just(", ".to_owned()),
            Just("Invalid value".to_owned()), Just("Forbidden".to_owned()),
            Just("ab-mine".to_owned()), Just("AB-Mine".to_owned()), Just("ns-4711".to_owned()),
            Just("pg.corp".to_owned()), Just("PgCluster".to_owned()), Just("\"".to_owned()),
            Just("[".to_owned()), Just("]".to_owned()), Just("{".to_owned()),
            Just("}".to_owned()), Just("\\".to_owned()), Just(" ".to_owned()),
            any::<char>().prop_map(String::from), ".{0,4}",
        ], 0..30),
    ) {
        if let Some(told) = told(&pieces.concat()) {
            let lower = told.to_lowercase();
            for word in ["ab-mine", "ns-4711", "pg.corp", "pgcluster"] {
                prop_assert!(!lower.contains(word), "{}", told);
            }
            prop_assert!(!told.chars().any(char::is_control));
        }
    }

    #[test]
    fn no_detail_panics(detail in ".{0,200}", name in "[a-z.-]{0,8}") {
        let own = key("a", "Thing", "x", "y");
        let copy = key("b", "Other", &name, &name);
        invalid(&detail, &Hidden::of(&own, std::iter::once(&copy)));
    }
}
