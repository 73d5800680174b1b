use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn every_golden_selector_gets_the_answer_of_apimachinery() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/data/selectors.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 100);
    // Those of objects are for `kube_lang`.
    for case in cases.iter().filter(|case| case["kind"] == "string") {
        let id = &case["id"];
        let got = LabelSelector::parse(case["selector"].as_str().unwrap());
        if case["error"] == true {
            let message = got.expect_err(&format!("{id}")).to_string();
            assert_eq!(json!(message), case["message"], "{id}");
            continue;
        }
        let got = got.unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(json!(got.to_string()), case["string"], "{id}");
        assert_eq!(json!(got.is_empty()), case["empty"], "{id}");
        for (name, labels) in golden["labels"].as_object().unwrap() {
            let matches = got.matches_by(|key| labels.get(key)?.as_str());
            assert_eq!(json!(matches), case["want"][name], "{id} on {name}");
        }
    }
}

#[test]
fn an_object_without_labels_is_matched_by_negations_only() {
    let bare = |selector: &str| {
        let selector = LabelSelector::parse(selector).unwrap();
        selector.matches_by(|_| None)
    };
    assert!(bare("!a,b!=c"));
    assert!(!bare("a"));
    assert!(bare(""));
}

#[track_caller]
fn check_field(selector: &str, want: bool) {
    let object = json!({
        "metadata": {"name": "x,y=z\\", "namespace": "n"},
        "spec": {"on": true, "size": 3, "list": [1]},
    });
    let got = FieldSelector::parse(selector).unwrap();
    let found = got.matches_object_with(&object, |_| None);
    assert_eq!(found, want, "{selector}");
    let again = FieldSelector::parse(&got.to_string()).unwrap();
    assert_eq!(again, got);
}

#[test]
fn field_selectors_compare_texts() {
    check_field("", true);
    check_field("metadata.namespace=n", true);
    check_field("metadata.namespace==n,,", true);
    check_field("metadata.namespace!=n", false);
    check_field(r"metadata.name=x\,y\=z\\", true);
    check_field(".spec.on=true,spec.size=3", true);
    check_field("spec.missing=", true);
    check_field("spec.missing!=", false);
    check_field("spec.list=", true);
}

#[test]
fn bad_field_selectors_say_what_is_wrong() {
    let error = |s: &str| FieldSelector::parse(s).unwrap_err().to_string();
    assert_eq!(
        error("metadata.name"),
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
    );
    assert!(error("a=b=c").contains("unescaped character in value: ="));
    assert!(error(r"a=\x").contains(r"invalid escape sequence: \x"));
    assert!(error(r"a=\").contains(r"invalid escape sequence: \"));
    let selector = FieldSelector::parse("metadata.name=a,spec.x!=b").unwrap();
    assert_eq!(selector.exact("metadata.name"), Some("a"));
    assert_eq!(selector.exact("spec.x"), None);
    assert_eq!(
        selector
            .check(|field| field.starts_with("metadata."))
            .unwrap_err()
            .to_string(),
        "field label not supported: spec.x"
    );
}

fn hostile() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a",
        "app",
        "in",
        "notin",
        "(",
        ")",
        ",",
        "=",
        "==",
        "!=",
        "!",
        ">",
        "<",
        " ",
        "\t",
        "\\",
        "\\,",
        "\0",
        "é",
        "x.y/z",
        "9",
        "-",
        "metadata.name",
        "",
    ]);
    prop_oneof![
        prop::collection::vec(word, 0..40).prop_map(|words| words.concat()),
        any::<String>(),
    ]
}

#[test]
fn fuzz_label_selector() {
    fuzz::run(&hostile(), |text| {
        if let Ok(selector) = LabelSelector::parse(text) {
            let again = LabelSelector::parse(&selector.to_string()).unwrap();
            assert_eq!(again, selector, "{text:?}");
        }
    });
    let long = "a,".repeat(MAX_SELECTOR);
    assert!(LabelSelector::parse(&long).is_err());
}

#[test]
fn fuzz_field_selector() {
    fuzz::run(&hostile(), |text| {
        if let Ok(selector) = FieldSelector::parse(text) {
            let again = FieldSelector::parse(&selector.to_string()).unwrap();
            assert_eq!(again, selector, "{text:?}");
        }
    });
}
