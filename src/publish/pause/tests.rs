use serde_json::{Value, json};

use super::*;

fn object(annotations: &Value) -> Object {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "annotations": annotations},
    });
    Object::new(object).unwrap()
}

fn complete() -> Value {
    json!({UNTIL: "2030-01-01T00:00:00Z", BY: "anna", REASON: "mission"})
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_pause_ends_by_itself() {
    let pause = Pause::of(&object(&complete())).unwrap().unwrap();
    for way in [Way::Spec, Way::Status] {
        assert!(pause.holds(way, at("2029-12-31T23:59:59Z")));
        assert!(!pause.holds(way, at("2030-01-01T00:00:00Z")));
    }
    assert_eq!(
        pause.to_string(),
        "until 2030-01-01T00:00:00Z by anna: mission"
    );
}

#[test]
fn a_pause_of_one_direction_leaves_the_other_alone() {
    let mut annotations = complete();
    annotations[DIRECTION] = "status".into();
    let pause = Pause::of(&object(&annotations)).unwrap().unwrap();
    let now = at("2029-01-01T00:00:00Z");
    assert!(pause.holds(Way::Status, now));
    assert!(!pause.holds(Way::Spec, now));
}

#[test]
fn a_pause_without_author_reason_or_end_is_none() {
    for missing in [UNTIL, BY, REASON] {
        let mut annotations = complete();
        annotations[missing] = " ".into();
        assert_eq!(
            Pause::of(&object(&annotations)),
            Err(PauseProblem::Missing(missing))
        );
    }
    for (name, problem) in [
        (UNTIL, PauseProblem::Until),
        (DIRECTION, PauseProblem::Direction),
    ] {
        let mut annotations = complete();
        annotations[name] = "forever".into();
        assert_eq!(Pause::of(&object(&annotations)), Err(problem));
    }
    assert_eq!(Pause::of(&object(&json!({}))), Ok(None));
}

#[test]
fn long_words_are_cut_and_lines_joined() {
    let mut annotations = complete();
    annotations[REASON] = format!("a\nb{}", "ä".repeat(300)).into();
    let pause = Pause::of(&object(&annotations)).unwrap().unwrap();
    assert_eq!(pause.reason.chars().count(), SHOWN);
    assert!(pause.reason.starts_with("abä"));
}
