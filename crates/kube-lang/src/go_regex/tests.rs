use proptest::prelude::*;
use serde_json::Value;

use super::*;

const LIMIT: usize = 1 << 20;

#[test]
fn every_replacement_of_the_contract_comes_out_as_recorded() {
    check_all(include_str!("../../../../tests/data/regex.json"), 58);
}

#[test]
fn every_further_pattern_tried_with_go_is_refused_or_replaces_the_same() {
    check_all(include_str!("../../../../tests/data/regex_more.json"), 900);
}

#[track_caller]
fn check_all(golden: &str, count: usize) {
    let golden: Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), count);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case["id"], difference(case)?)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn difference(case: &Value) -> Option<String> {
    let text = |name: &str| case[name].as_str().unwrap();
    match (GoRegex::compile(text("pattern")), case["error"] == true) {
        (Err(_), true) => None,
        (Ok(_), true) => Some(format!("accepted, but: {}", case["message"])),
        (Err(error), false) => Some(format!("refused: {error}")),
        (Ok(regex), false) => {
            let got = regex
                .replace_all(text("input"), text("replacement"), LIMIT)
                .unwrap();
            (got != text("want")).then(|| format!("got {got:?}, want {}", case["want"]))
        }
    }
}

#[test]
fn an_error_says_where_in_the_pattern_it_is() {
    let check = |pattern: &str, offset: usize| {
        assert_eq!(GoRegex::compile(pattern).unwrap_err().offset, offset);
    };
    check("ab)", 2);
    check("ab(?=c)", 2);
    check("a++", 2);
    check("abc[d", 3);
}

#[test]
fn a_pattern_that_grows_without_measure_is_refused() {
    assert!(GoRegex::compile(r"(((\p{L}{100}){100}){100}){100}").is_err());
    assert!(GoRegex::compile(&"(".repeat(100_000)).is_err());
}

#[test]
fn a_replacement_that_outgrows_its_limit_is_stopped() {
    let regex = GoRegex::compile("").unwrap();
    assert_eq!(
        regex.replace_all(&"a".repeat(1000), &"b".repeat(1000), 10_000),
        Err(TooLong)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: fuzz::cases(), ..ProptestConfig::default() })]

    #[test]
    fn fuzz_regex(
        pattern in r"([a-cé\\\[\](){}?*+|.^$:<>=!,0-9-]|\\[a-zA-Z]|\(\?[a-zA-Z]|\[:[a-z]{0,5}:\]){0,16}",
        text in "[a-cé0-9 \n]{0,40}",
        replacement in "([a-c$0-9{}_]){0,8}",
    ) {
        if let Ok(regex) = GoRegex::compile(&pattern)
            && let Ok(out) = regex.replace_all(&text, &replacement, LIMIT) {
            prop_assert!(out.len() <= LIMIT);
        }
    }
}
