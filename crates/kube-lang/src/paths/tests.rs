use proptest::prelude::*;
use serde_json::json;

use super::limits::MAX_ELEMENTS;
use super::*;

/// A document that has a member twice: objects of a cluster have not, ours neither.
const DUPLICATE_KEYS: &str = "dup";

/// "The first member that matches" of a document whose members are not sorted. Ours always are, as are those the
/// original applies its paths to.
const UNSORTED: [&str; 2] = ["set-main-055 spec.*", "set-main-057 spec.?"];

#[test]
fn every_path_of_the_contract_reads_and_writes_as_recorded() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/data/paths.json")).unwrap();
    assert_eq!(golden["cases"].as_array().unwrap().len(), 314);
    check_all(&golden);
}

#[test]
fn every_further_path_tried_with_the_libraries_reads_and_writes_the_same() {
    check_all(
        &serde_json::from_str(include_str!("../../../../tests/data/paths_more.json")).unwrap(),
    );
}

#[track_caller]
fn check_all(golden: &Value) {
    let cases = golden["cases"].as_array().unwrap();
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            Some(format!(
                "{}: {}",
                case["id"],
                difference(&golden["docs"], case)?
            ))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn difference(docs: &Value, case: &Value) -> Option<String> {
    let text = docs[case["doc"].as_str().unwrap()].as_str().unwrap();
    let path = case["path"].as_str().unwrap();
    if case["op"] == "get" {
        return read_difference(text, path, case);
    }
    if case["doc"] == DUPLICATE_KEYS || UNSORTED.contains(&case["id"].as_str().unwrap()) {
        return None;
    }
    let mut doc: Value = serde_json::from_str(text).unwrap_or_default();
    let result = match case["op"].as_str().unwrap() {
        "delete" => delete(&mut doc, path),
        "set" => set(&mut doc, path, case["new"].clone()),
        _ => set(
            &mut doc,
            path,
            serde_json::from_str(case["new_raw"].as_str().unwrap()).unwrap(),
        ),
    };
    // Where the library panics or leaves something behind that is no JSON, an error is the better answer.
    if case["error"] == true || case["panic"] == true || case["valid_json"] == false {
        let tolerated = result.is_err() || case["want_raw"] == text;
        return (!tolerated).then(|| format!("accepted, but: {}; doc {doc}", case["message"]));
    }
    if let Err(error) = result {
        return Some(format!("refused: {error}"));
    }
    let want: Value = serde_json::from_str(case["want_raw"].as_str().unwrap()).unwrap();
    (!same(&doc, &want)).then(|| format!("got {doc}\n    want {want}"))
}

fn read_difference(text: &str, path: &str, case: &Value) -> Option<String> {
    let got = match get_text(text, path) {
        Ok(got) => got,
        Err(_) if case["panic"] == true => return None,
        Err(error) => return Some(format!("refused: {error}")),
    };
    let want = &case["want"];
    let agrees = got.exists() == want["exists"]
        && got.type_name() == want["type"]
        && got.raw == want["raw"].as_str().unwrap()
        && got.text == want["string"].as_str().unwrap()
        && same(&got.value(), &want["value"]);
    (!agrees).then(|| format!("got {got:?}\n    want {want}"))
}

/// Equal up to the notation of numbers.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[track_caller]
fn check_set(mut doc: Value, path: &str, want: &Value) {
    set(&mut doc, path, json!("N")).unwrap();
    assert_eq!(&doc, want, "{path}");
}

#[test]
fn a_wildcard_replaces_the_first_member_in_the_order_of_the_keys() {
    check_set(json!({"b": 1, "a": 2}), "*", &json!({"b": 1, "a": "N"}));
    check_set(
        json!({"s": {"b": 1, "a": 2}}),
        "s.?",
        &json!({"s": {"b": 1, "a": "N"}}),
    );
}

#[test]
fn a_path_with_a_star_in_brackets_stands_for_each_element() {
    let doc = json!({"a": [{"b": [1, 2]}, {"b": []}, {"b": [3]}], "k[*]": 1, "x": {}});
    let check = |path: &str, want: &[&str]| assert_eq!(expand(&doc, path).unwrap(), want, "{path}");
    check("a[*].b", &["a.0.b", "a.1.b", "a.2.b"]);
    check("a[*].b[*]", &["a.0.b.0", "a.0.b.1", "a.2.b.0"]);
    check("a[*]", &["a.0", "a.1", "a.2"]);
    check("x[*].y", &[]);
    check("missing[*]", &[]);
    check("a[0]", &["a[0]"]);
    check("k\\[*]", &["k\\[*]"]);
    check("a.#(b[*])", &["a.#(b[*])"]);
}

#[test]
fn what_cannot_work_is_refused_before_there_is_a_document() {
    assert_eq!(validate("", Use::Write), Err(PathError::Empty));
    assert_eq!(
        validate("a.#.b", Use::Delete),
        Err(PathError::ComplexDelete)
    );
    assert_eq!(validate("a.#.b", Use::Write), Ok(()));
    assert_eq!(validate("a[*].b", Use::Delete), Ok(()));
    assert_eq!(
        validate(&"a".repeat(MAX_PATH_BYTES + 1), Use::Read),
        Err(PathError::TooLong)
    );
    assert!(matches!(
        validate("a.#.b[*].c", Use::Write),
        Err(PathError::EachOfComplex { .. })
    ));
}

#[test]
fn a_path_that_multiplies_its_text_is_stopped() {
    let bomb = "[@this,@this,@this,@this,@this,@this,@this,@this]|".repeat(40) + "@this";
    assert_eq!(
        get(&json!({"a": "x".repeat(1000)}), &bomb),
        Err(PathError::TooMuchWork)
    );
    assert_eq!(
        get(&json!({}), &"@this|".repeat(300)),
        Err(PathError::TooDeep)
    );
}

#[test]
fn a_write_far_beyond_the_end_of_a_list_is_refused() {
    let mut doc = json!({"a": []});
    assert_eq!(
        set(&mut doc, "a.4000000000", json!(1)),
        Err(PathError::TooFarBeyond {
            index: 4_000_000_000
        })
    );
    assert!(set(&mut doc, "b.99999999999999999999999", json!(1)).is_err());
    assert_eq!(doc, json!({"a": []}));
}

#[test]
fn a_path_of_keys_has_no_empty_key_and_nothing_that_only_reading_understands() {
    let keys_of = |path: &str| keys(path).map(|keys| keys.join(" "));
    assert_eq!(keys_of("spec.size").unwrap(), "spec size");
    assert_eq!(
        keys_of(r"metadata.labels.app\.kubernetes\.io/name").unwrap(),
        "metadata labels app.kubernetes.io/name"
    );
    assert_eq!(keys_of("spec.map.:0.1").unwrap(), "spec map 0 1");
    assert_eq!(keys_of(""), Err(PathError::Empty));
    assert_eq!(keys_of(&"a".repeat(5000)), Err(PathError::TooLong));
    for path in [
        ".",
        "a.",
        ".a",
        "a..b",
        "a.*",
        "a.#",
        "a.#(b==1).c",
        "a[*].b",
        "a|b",
        "@this",
        "a.?",
    ] {
        assert_eq!(
            keys_of(path),
            Err(PathError::NotKeys { path: path.into() }),
            "{path}"
        );
    }
}

const PIECES: &str = concat!(
    r"(a|b|spec|items|name|0|1|-1|01|:1|\*|\?|#|\.|\.\.|\||@this|@reverse|@keys|@values|@flatten|@join|@tostr|@fromstr",
    r"|@group|@dig:a|@pretty|@ugly|@valid|!1|!\{|\[|\]|\{|\}|\(|\)|==|!=|<|>=|%|~true|,|:|\\|\x22|é|\[\*\]|#\(a==1\)#)",
);

proptest! {
    #![proptest_config(ProptestConfig { cases: fuzz::cases(), ..ProptestConfig::default() })]

    #[test]
    fn fuzz_paths(pieces in prop::collection::vec(PIECES, 0..14)) {
        let path = pieces.concat();
        let doc = json!({"a": [{"a": 1, "b": "x\"é"}, {"a": [1, [2]]}, null, "{\"a\":1}"], "spec": {"items": [{"name": "n"}]}, "": 0});
        let found = get(&doc, &path);
        if let Ok(found) = &found {
            prop_assert!(found.raw.len() < 1 << 20);
            let elements = found.elements();
            prop_assert!(elements.len() <= found.raw.len());
        }
        let _ = (validate(&path, Use::Write), validate(&path, Use::Delete));
        let mut written = doc.clone();
        if set(&mut written, &path, json!("new")).is_err() {
            prop_assert_eq!(&written, &doc);
        }
        let mut deleted = doc.clone();
        if delete(&mut deleted, &path).is_err() {
            prop_assert_eq!(&deleted, &doc);
        }
        if let Ok(targets) = expand(&doc, &path) {
            prop_assert!(targets.len() <= MAX_ELEMENTS);
        }
        let _ = get_text(&path, "a.#(a==1)#|@keys");
    }

    #[test]
    fn the_path_of_keys_leads_to_what_they_name(wanted in prop::collection::vec("[a:.!|#@*?{}\\[\\]\\\\/]{1,3}", 1..5)) {
        let path = of_keys(wanted.iter().map(String::as_str));
        prop_assert_eq!(keys(&path), Ok(wanted.clone()));
        let nested = wanted.iter().rfold(json!(1), |inner, key| json!({key: inner}));
        prop_assert_eq!(get(&nested, &path).unwrap().text, "1");
    }

    #[test]
    fn reading_by_keys_agrees_with_reading_the_text(keys in prop::collection::vec("(a|b|spec|items|name|0|1|01|-1|\\\\a|)", 1..5)) {
        let path = keys.join(".");
        let doc = json!({"a": [{"a": 1, "b": "x"}, {"a": [1, [2]]}], "spec": {"items": [{"name": "n"}], "0": 1}, "": {"": 2}});
        prop_assert_eq!(get(&doc, &path), get_text(&compact(&doc), &path));
    }
}
