use serde_json::json;

use super::*;
use fuzz;

#[track_caller]
fn check(body: &str, want: &Value, duplicates: &[&str]) {
    let got = parse(body.as_bytes()).unwrap();
    assert_eq!(got.value, *want);
    assert_eq!(got.duplicates, duplicates);
}

#[test]
fn integers_are_exact_and_larger_ones_are_doubles() {
    check("9223372036854775807", &json!(i64::MAX), &[]);
    check("-9223372036854775808", &json!(i64::MIN), &[]);
    check("9223372036854775808", &json!(I64_EDGE), &[]);
    check("1e30", &json!(1e30), &[]);
    check("2.0", &json!(2.0), &[]);
    check("1e3", &json!(1000.0), &[]);
    check("2.5", &json!(2.5), &[]);
}

#[test]
fn the_size_of_a_document_is_that_of_its_text() {
    for value in [json!(null), json!({"a": [1, 2.5, "x\n\u{e9}"], "b": {}})] {
        assert_eq!(size(&value), value.to_string().len());
    }
}

#[test]
fn doubles_without_a_fraction_are_integers_once_they_are_stored() {
    let settled = |text: &str| {
        let mut value = parse(text.as_bytes()).unwrap().value;
        (settle(&mut value), value.to_string())
    };
    let was = |any: bool, text: &str| (any, text.to_owned());
    assert_eq!(settled("[1,{\"a\":2.0}]"), was(true, "[1,{\"a\":2}]"));
    assert_eq!(settled("[-0.0,1e3,1.5]"), was(true, "[0,1000,1.5]"));
    assert_eq!(settled("[1,2.5,\"3.0\"]"), was(false, "[1,2.5,\"3.0\"]"));
    assert!(!settled("9223372036854775808").0);
    assert!(!settled("-9223372036854775809").0);
}

/// A reader that is off by the last bit would see a change in every write of what was read.
#[test]
fn floats_are_read_to_the_last_bit() {
    let document = parse(b"2.50922337203685477").unwrap();
    let again = parse(document.value.to_string().as_bytes()).unwrap();
    assert_eq!(again, document);
    assert_eq!(document.value.to_string(), "2.5092233720368546");
}

#[test]
fn repeated_keys_are_named_once_and_the_last_wins() {
    check(
        r#"{"spec":{"x":1,"x":2,"x":3,"l":[{"a":1,"a":2}]},"spec2":{"x":1}}"#,
        &json!({"spec": {"x": 3, "l": [{"a": 2}]}, "spec2": {"x": 1}}),
        &["spec.x", "spec.l[0].a"],
    );
    assert_eq!(duplicate_field("spec.x"), r#"duplicate field "spec.x""#);
    assert_eq!(
        strict_error(&[unknown_field("spec.y"), duplicate_field("a")]).unwrap(),
        r#"strict decoding error: unknown field "spec.y", duplicate field "a""#
    );
    assert_eq!(strict_error(&[]), None);
}

#[test]
fn what_is_not_one_json_document_is_refused() {
    for body in [
        "",
        "{",
        "{} {}",
        "nul",
        "{\"a\":1,}",
        "[1 2]",
        "1e999",
        "\"\\ud800\"",
        "'a'",
        "NaN",
    ] {
        let got = parse(body.as_bytes());
        assert!(matches!(got, Err(JsonError::Malformed(_))), "{body}");
    }
    assert!(matches!(parse(b"\"\xff\""), Err(JsonError::NotUtf8(_))));
    let deep = "[".repeat(100_000);
    assert!(matches!(
        parse(deep.as_bytes()),
        Err(JsonError::Malformed(_))
    ));
    let size = MAX_BODY + 1;
    assert_eq!(parse(&vec![b' '; size]), Err(JsonError::TooLarge { size }));
}

#[test]
fn fuzz_json() {
    let seeds = [
        r#"{"apiVersion":"v1","kind":"X","metadata":{"name":"a","labels":{"a":"b"}},"n":1e308}"#
            .to_owned(),
        r#"[1,2.50,-0,9223372036854775807,9223372036854775808,"\u00e9\u0000"]"#.to_owned(),
        "[".repeat(200) + &"]".repeat(200),
        r#"{"a":"#.repeat(120),
        r#"{"a":1,"a":2}"#.repeat(20),
    ];
    let seeds = seeds.into_iter().map(String::into_bytes).collect();
    fuzz::run(&fuzz::mutated(seeds), |body| {
        if let Ok(document) = parse(body) {
            let again = parse(document.value.to_string().as_bytes()).unwrap();
            assert_eq!(again.value, document.value);
            assert!(again.duplicates.is_empty());
        }
    });
}
