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
    for way in [WriteDirection::Spec, WriteDirection::Status] {
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
    assert!(pause.holds(WriteDirection::Status, now));
    assert!(!pause.holds(WriteDirection::Spec, now));
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

#[test]
fn a_pause_of_a_consumer_that_would_last_too_long_is_none() {
    let object = object(&complete());
    let of_consumer = |now| Pause::of_consumer(&object, LONGEST_OF_CONSUMERS, at(now));
    let problem = of_consumer("2029-12-30T23:59:59Z").unwrap_err();
    assert_eq!(problem, PauseProblem::TooLong(LONGEST_OF_CONSUMERS));
    assert!(problem.to_string().ends_with("within 24h from now"));
    assert!(of_consumer("2029-12-31T00:00:00Z").unwrap().is_some());
    // The owner's has no such limit.
    assert!(Pause::of(&object).unwrap().is_some());
}

#[test]
fn an_original_is_overdue_a_while_after_its_deletion() {
    let in_deletion = |at: Value| {
        let mut object = object(&json!({})).as_value().clone();
        object["metadata"]["deletionTimestamp"] = at;
        Object::new(object).unwrap()
    };
    let now = at("2029-01-02T00:00:00Z");
    let is_overdue = |at: Value| is_overdue(&in_deletion(at), LONGEST_OF_CONSUMERS, now);
    assert!(is_overdue("2029-01-01T00:00:00Z".into()));
    assert!(!is_overdue("2029-01-01T00:00:01Z".into()));
    assert!(!is_overdue(Value::Null) && !is_overdue("soon".into()));
}
