use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn every_selector_of_the_contract_parses_prints_and_matches_as_recorded() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/data/selectors.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let got = match case["kind"].as_str().unwrap() {
            "string" => Selector::parse(case["selector"].as_str().unwrap()),
            _ => Selector::from_value(&case["selector"]),
        };
        if let Some(difference) = difference(&golden["labels"], case, got) {
            wrong.push(format!("{}: {difference}", case["id"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert_eq!(cases.len(), 108);
}

fn difference(
    labels: &Value,
    case: &Value,
    got: Result<Selector, SelectorError>,
) -> Option<String> {
    let selector = match (got, case["error"] == true) {
        (Err(_), true) => return None,
        (Ok(selector), true) => {
            return Some(format!("accepted as {selector}, but: {}", case["message"]));
        }
        (Err(error), false) => return Some(format!("refused: {error}")),
        (Ok(selector), false) => selector,
    };
    if selector.to_string() != case["string"] || selector.is_empty() != case["empty"] {
        return Some(format!(
            "printed '{selector}', empty {}",
            selector.is_empty()
        ));
    }
    labels
        .as_object()
        .unwrap()
        .iter()
        .find_map(|(name, labels)| {
            let labels = labels.as_object().unwrap();
            let labels = labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str().unwrap()));
            let matched = selector.matches(labels);
            (case["want"][name] != matched)
                .then(|| format!("'{selector}' matches {name}: {matched}"))
        })
}

#[test]
fn a_missing_object_matches_nothing_and_an_empty_one_everything() {
    let none: [(&str, &str); 0] = [];
    assert!(!Selector::from_object(None).unwrap().matches(none));
    assert!(
        Selector::from_object(Some(&LabelSelector::default()))
            .unwrap()
            .matches(none)
    );
}

#[test]
fn a_selector_too_long_for_any_server_is_refused_without_being_read() {
    assert_eq!(
        Selector::parse(&"a,".repeat(MAX_SELECTOR_BYTES)),
        Err(SelectorError::TooLong)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: fuzz::cases(), ..ProptestConfig::default() })]

    #[test]
    fn fuzz_selector(text in "([a-z./!=<>(), é]|in|notin|==|!=){0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            let printed = selector.to_string();
            let again = Selector::parse(&printed);
            prop_assert_eq!(again.map(|again| again.to_string()), Ok(printed));
        }
    }
}
