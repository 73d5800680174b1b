use proptest::prelude::*;
use serde_json::json;

use super::error::MAX_OPERATIONS;
use super::json_patch::MAX_DEPTH;
use super::*;
use kube_schema::json::parse;

fn cases(text: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(text).unwrap();
    golden["cases"].as_array().unwrap().clone()
}

fn text<'a>(case: &'a Value, member: &str) -> &'a [u8] {
    case[member].as_str().unwrap().as_bytes()
}

#[test]
fn every_golden_json_patch_has_the_result_of_the_servers_library() {
    let cases = cases(include_str!("../../../../tests/data/json_patch_v4.json"));
    assert!(cases.len() > 40);
    for case in cases {
        let id = &case["id"];
        let document = parse(text(&case, "doc")).unwrap().value;
        let got = match parse(text(&case, "patch")) {
            Ok(patch) => json(&document, &patch.value),
            Err(_) => Err(PatchError::Malformed(String::new())),
        };
        if case["panic"] == true {
            assert!(got.is_err(), "{id}");
        } else if case["error"] == true {
            match (got.unwrap_err(), case["phase"].as_str().unwrap()) {
                (PatchError::Malformed(_), "decode") => {}
                (PatchError::Rejected(message), "apply") => {
                    assert_eq!(json!(message), case["message"], "{id}");
                }
                (error, phase) => panic!("{id}: {error:?} in {phase}"),
            }
        } else {
            // Compared as the server stores it: 1.50 and 1e2 have no text of their own.
            let want = parse(case["want"].to_string().as_bytes()).unwrap().value;
            assert_eq!(got.unwrap(), want, "{id}");
        }
    }
}

#[test]
fn every_golden_merge_patch_of_objects_has_the_result_of_the_servers_library() {
    let mut checked = 0;
    for case in cases(include_str!("../../../../tests/data/merge_patch.json")) {
        let usable = case["op"] == "apply" && case["error"] != true && case["panic"] != true;
        if !usable || case["unportable"] == true {
            continue;
        }
        let document = parse(text(&case, "original")).unwrap().value;
        let patch = parse(text(&case, "patch")).unwrap().value;
        if !document.is_object() || !patch.is_object() {
            continue;
        }
        let want = parse(case["want"].to_string().as_bytes()).unwrap().value;
        assert_eq!(merge(&document, &patch).unwrap(), want, "{}", case["id"]);
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn a_failing_test_is_rejected_and_what_is_no_patch_is_malformed() {
    let object = json!({"a": 1});
    let failing = json!([{"op": "test", "path": "/a", "value": 2}]);
    assert_eq!(
        json(&object, &failing),
        Err(PatchError::Rejected(
            "testing value /a failed: test failed".to_owned()
        ))
    );
    assert!(matches!(
        merge(&object, &json!([])),
        Err(PatchError::Malformed(_))
    ));
    assert!(matches!(
        json(&object, &json!([1])),
        Err(PatchError::Malformed(_))
    ));
    let many = Value::Array(vec![json!({}); MAX_OPERATIONS + 1]);
    assert_eq!(
        json(&object, &many),
        Err(PatchError::TooLarge {
            operations: MAX_OPERATIONS + 1
        })
    );
}

#[test]
fn moving_takes_a_value_from_one_place_to_another() {
    let object = json!({"a": {"x": [1, 2]}, "b": {}});
    let patch = json!([{"op": "move", "from": "/a/x/0", "path": "/b/y"}]);
    assert_eq!(
        json(&object, &patch).unwrap(),
        json!({"a": {"x": [2]}, "b": {"y": 1}})
    );
    let lost = json!([{"op": "move", "from": "/a/z", "path": "/b/y"}]);
    assert!(matches!(json(&object, &lost), Err(PatchError::Rejected(_))));
}

#[test]
fn copies_cannot_blow_up_a_document_in_size_or_depth() {
    let object = json!({"a": "x".repeat(1000), "d": {}});
    let copy = |from: &str, path: &str| json!({"op": "copy", "from": from, "path": path});
    let wide: Value = (0..9000).map(|i| copy("/a", &format!("/b{i}"))).collect();
    assert!(matches!(json(&object, &wide), Err(PatchError::Rejected(_))));
    let deepest = move |levels: usize| {
        let mut object = json!({});
        for _ in 0..levels {
            // The macro would copy all that is below.
            object = Value::Object([("d".to_owned(), object)].into_iter().collect());
        }
        json(&object, &json!([copy("/d", "/d/d")]))
    };
    // As deep as this, documents are handled on large stacks.
    let tests = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || {
            assert!(deepest(MAX_DEPTH - 10).is_ok());
            assert!(matches!(deepest(MAX_DEPTH), Err(PatchError::Rejected(_))));
        });
    tests.unwrap().join().unwrap();
}

#[test]
fn insertions_into_a_long_list_are_bounded() {
    let object = json!({"a": vec![0; 200_000]});
    let first = json!({"op": "add", "path": "/a/0", "value": 1});
    let patch = Value::Array(vec![first; MAX_OPERATIONS]);
    assert!(matches!(
        json(&object, &patch),
        Err(PatchError::Rejected(_))
    ));
}

fn known(group: &str, kind: &str) -> Option<&'static Struct> {
    crate::fields::builtin::kind(group, kind)?.structure()
}

#[track_caller]
fn check_strategic(kind: &str, object: &Value, patch: &Value, want: &Value) {
    let got = strategic(object, patch, known("", kind)).unwrap();
    assert_eq!(got, *want);
}

#[test]
fn strategic_patches_merge_lists_by_key_and_replace_others() {
    check_strategic(
        "ServiceAccount",
        &json!({"secrets": [{"name": "a", "x": 1}, {"name": "b"}]}),
        &json!({"secrets": [{"name": "c"}, {"name": "a", "y": 2}]}),
        &json!({"secrets": [{"name": "c"}, {"name": "a", "x": 1, "y": 2}, {"name": "b"}]}),
    );
    check_strategic(
        "ServiceAccount",
        &json!({"secrets": [{"name": "a"}, {"name": "b"}]}),
        &json!({"secrets": [{"name": "a", "$patch": "delete"}]}),
        &json!({"secrets": [{"name": "b"}]}),
    );
    check_strategic(
        "ServiceAccount",
        &json!({"secrets": [{"name": "a"}, {"name": "b"}]}),
        &json!({"secrets": [{"$patch": "replace"}, {"name": "z"}]}),
        &json!({"secrets": [{"name": "z"}]}),
    );
    check_strategic(
        "ServiceAccount",
        &json!({"secrets": [{"name": "a"}, {"name": "b"}]}),
        &json!({
            "$setElementOrder/secrets": [{"name": "c"}, {"name": "a"}],
            "secrets": [{"name": "c"}],
        }),
        &json!({"secrets": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
    );
    check_strategic(
        "Role",
        &json!({"rules": [1, 2], "metadata": {"finalizers": ["a", "b"]}}),
        &json!({"rules": [3], "metadata": {"finalizers": ["b", "c"]}}),
        &json!({"rules": [3], "metadata": {"finalizers": ["a", "b", "c"]}}),
    );
}

#[test]
fn directives_of_strategic_patches_do_what_they_say() {
    check_strategic(
        "Secret",
        &json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}}}),
        &json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "labels": {"$patch": "replace", "z": "3"},
        }}),
        &json!({"metadata": {"finalizers": ["b"], "labels": {"z": "3"}}}),
    );
    check_strategic(
        "Secret",
        &json!({"data": {"a": "1", "b": "2"}, "type": "t"}),
        &json!({"data": {"$retainKeys": ["a"], "a": "3"}, "type": null}),
        &json!({"data": {"a": "3"}}),
    );
    check_strategic(
        "Secret",
        &json!({"data": {"a": "1"}, "x": 1}),
        &json!({"data": {"$patch": "delete"}}),
        &json!({"data": {}, "x": 1}),
    );
    let object = json!({"data": {}, "secrets": []});
    for bad in [
        json!({"data": {"$patch": "explode"}}),
        json!({"data": {"$retainKeys": ["a"], "b": 1}}),
        json!({"secrets": [{"no": "name"}]}),
        json!({"$setElementOrder/secrets": 1}),
        json!([]),
    ] {
        let got = strategic(&object, &bad, known("", "ServiceAccount"));
        assert!(
            matches!(got, Err(PatchError::Malformed(_) | PatchError::Failed(_))),
            "{bad}"
        );
    }
}

#[track_caller]
fn refused(patch: &Value, why: &PatchError) {
    let object = json!({"data": {}, "secrets": [{"name": "a"}]});
    let got = strategic(&object, patch, known("", "ServiceAccount"));
    assert_eq!(got.as_ref().unwrap_err(), why, "{patch}");
}

#[test]
fn strategic_patches_are_refused_in_the_words_of_the_servers_library() {
    let failed = |why: &str| PatchError::Failed(why.to_owned());
    refused(
        &json!({"secrets": [{"kind": "k", "list": [1, 2]}]}),
        &failed("map: map[kind:k list:[1 2]] does not contain declared merge key: name"),
    );
    refused(
        &json!({"secrets": [{"$patch": "merge", "name": "a"}]}),
        &failed("merging lists cannot yet be specified in the patch"),
    );
    refused(
        &json!({"$patch": "explode"}),
        &failed("unknown patch type: explode in map: map[$patch:explode]"),
    );
    refused(
        &json!({"data": {"$retainKeys": ["a"], "b": 1}}),
        &PatchError::Malformed("invalid patch format of retainKeys".to_owned()),
    );
    refused(
        &json!({"secrets": [[1]]}),
        &PatchError::Rejected("lists of lists are not supported".to_owned()),
    );
}

#[test]
fn merged_lists_are_in_the_order_of_the_patch_with_the_rest_between() {
    let object = json!({"secrets": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    let names = |patch: Value| {
        let got = strategic(&object, &patch, known("", "ServiceAccount")).unwrap();
        let names = got["secrets"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|item| item["name"].as_str().unwrap()).collect();
        names.join("")
    };
    assert_eq!(names(json!({"secrets": [{"name": "d"}]})), "dabc");
    assert_eq!(
        names(json!({"secrets": [{"name": "c"}, {"name": "a"}]})),
        "bca"
    );
    let order = |order: &str| {
        let order = order.chars().map(|name| json!({"name": name.to_string()}));
        Value::Array(order.collect())
    };
    let patch = json!({"$setElementOrder/secrets": order("cda"), "secrets": [{"name": "d"}]});
    assert_eq!(names(patch), "bcda");
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "-", "$patch", "replace", "delete"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = prop::sample::select(vec![
            "a",
            "metadata",
            "finalizers",
            "secrets",
            "name",
            "$patch",
            "$retainKeys",
            "$deleteFromPrimitiveList/finalizers",
            "$setElementOrder/secrets",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names, inner), 0..4)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn operations() -> impl Strategy<Value = Value> {
    let path = prop::collection::vec(
        prop::sample::select(vec![
            "/a",
            "/metadata",
            "/0",
            "/-",
            "/-1",
            "/~0",
            "/~1",
            "/",
            "x",
            "/9999999999999999999",
        ]),
        0..5,
    )
    .prop_map(|steps| steps.concat());
    let name = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", ""]);
    let one = (name, path.clone(), path, documents()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    );
    prop::collection::vec(one, 0..12).prop_map(Value::Array)
}

#[test]
fn fuzz_patch() {
    fuzz::run(
        &(documents(), documents(), operations()),
        |(object, patch, operations)| {
            if let Ok(patched) = merge(object, patch) {
                assert_eq!(merge(&patched, patch).unwrap(), patched);
            }
            let _ = json(object, operations).map(|v| v.to_string());
            let _ = json(object, patch);
            for kind in ["ServiceAccount", "Namespace", "Secret"] {
                let _ = strategic(object, patch, known("", kind));
            }
        },
    );
}
