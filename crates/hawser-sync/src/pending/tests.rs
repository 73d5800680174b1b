//! Changes that a process did not live to finish, and what came of them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::Key;
use crate::model::{Fault, Front, Stage};
use crate::settled::Settled;

/// A stage with an object and what goes along with it, in step.
fn in_sync(content: &Value) -> (Stage, Front) {
    let front = Front {
        related: true,
        ..Front::new("c1", "a")
    };
    let stage = Stage::new(vec![front.clone()]);
    stage.world.put(&front.config().0, content);
    stage.world.put(&front.source(), content);
    stage.settle();
    (stage, front)
}

/// What of an object is content.
fn content(stage: &Stage, key: &Key) -> Value {
    let object = stage.world.get(key).unwrap();
    let labels = object.labels().filter(|(name, _)| !name.starts_with("t/"));
    json!([object.as_value()["spec"], labels.collect::<Vec<_>>()])
}

/// The source is changed, and before the next process looks at it changed back.
#[track_caller]
fn check(there: &Value, change: &Value, back: &Value) {
    for fault in [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::LostBefore,
        Fault::LostAfter,
    ] {
        for n in 0..4 {
            let (stage, front) = in_sync(there);
            let ends = [front.config(), (front.source(), front.copy_key())];
            let before = ends.each_ref().map(|(_, copy)| content(&stage, copy));
            for (source, _) in &ends {
                stage.world.patch(source, change.clone());
            }
            stage.cache.deliver(&stage.world, |_| true);
            let at = stage.world.sent() + n;
            stage.world.plan_faults(HashMap::from([(at, fault)]));
            stage.pass(&front);
            stage.world.plan_faults(HashMap::new());
            for (source, _) in &ends {
                stage.world.patch(source, back.clone());
            }
            stage.cache.restart(&stage.world, 0);
            stage.settle();
            let after = ends.each_ref().map(|(_, copy)| content(&stage, copy));
            assert_eq!(after, before, "{fault:?} at request {n}");
        }
    }
}

#[test]
fn a_change_that_is_taken_back_after_a_crash_leaves_nothing_on_the_copy() {
    let there = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"n": 1, "m": {"k": "v"}}});
    check(
        &there,
        &json!({"spec": {"n": 2}}),
        &json!({"spec": {"n": 1}}),
    );
    check(
        &there,
        &json!({"spec": {"n": null}}),
        &json!({"spec": {"n": 1}}),
    );
    check(
        &there,
        &json!({"spec": {"o": {"p": 1}}}),
        &json!({"spec": {"o": null}}),
    );
    check(
        &there,
        &json!({"spec": {"m": null, "n": [1]}}),
        &json!({"spec": {"m": {"k": "v"}, "n": 1}}),
    );
    let label = |value: Value| json!({"metadata": {"labels": {"l": value}}});
    check(&there, &label("2".into()), &label("1".into()));
    check(&there, &label(Value::Null), &label("1".into()));
    let more = |value: Value| json!({"metadata": {"labels": {"a/b~c": value}}});
    check(&there, &more("2".into()), &more(Value::Null));
}

/// A stage in which the change of one field was announced, and the process killed before it was made.
fn killed_before_the_change() -> (Stage, Front) {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1, "color": "red"}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.cache.deliver(&stage.world, |_| true);
    let at = stage.world.sent() + 1;
    stage
        .world
        .plan_faults(HashMap::from([(at, Fault::CrashBefore)]));
    stage.pass(&front);
    stage.world.plan_faults(HashMap::new());
    assert_eq!(stage.world.sent(), at + 1);
    stage.cache.restart(&stage.world, 0);
    (stage, front)
}

fn size(stage: &Stage, front: &Front) -> Value {
    let copy = stage.world.get(&front.copy_key()).unwrap();
    copy.as_value()["spec"]["size"].clone()
}

fn local(stage: &Stage, front: &Front, size: u64) {
    stage
        .world
        .patch(&front.copy_key(), json!({"spec": {"size": size}}));
}

#[test]
fn what_was_announced_and_not_made_is_made_by_the_next_process() {
    let (stage, front) = killed_before_the_change();
    assert_eq!(size(&stage, &front), 1);
    stage
        .world
        .patch(&front.copy_key(), json!({"spec": {"color": "blue"}}));
    assert_eq!(
        stage.writes(&front),
        ["get Thing", "patch Thing", "update State"],
        "and then it is known to be made"
    );
    assert_eq!(size(&stage, &front), 2);
    let copy = stage.world.get(&front.copy_key()).unwrap();
    assert_eq!(copy.as_value()["spec"]["color"], "blue");
    assert_eq!(stage.writes(&front), [""; 0]);
}

#[test]
fn what_was_announced_and_not_made_goes_with_the_next_change() {
    let (stage, front) = killed_before_the_change();
    stage
        .world
        .patch(&front.source(), json!({"spec": {"color": "blue"}}));
    assert_eq!(
        stage.writes(&front),
        ["get Thing", "update State", "patch Thing"]
    );
    let copy = stage.world.get(&front.copy_key()).unwrap();
    assert_eq!(copy.as_value()["spec"], json!({"size": 2, "color": "blue"}));
}

#[test]
fn what_was_announced_is_not_made_a_third_time() {
    let (stage, front) = killed_before_the_change();
    stage.settle();
    local(&stage, &front, 1);
    stage.settle();
    assert_eq!(size(&stage, &front), 1, "the local change stays");
    stage.cache.restart(&stage.world, 0);
    stage.settle();
    assert_eq!(size(&stage, &front), 1);
}

#[test]
fn a_local_change_back_to_the_old_value_stays_where_the_process_knows_better() {
    let (stage, mut front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.settle();
    front.rested = Settled::of(&stage.pass(&front), 0);
    local(&stage, &front, 1);
    assert_eq!(stage.writes(&front), ["update State"]);
    stage.cache.restart(&stage.world, 0);
    front.rested = None;
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(size(&stage, &front), 1);
}

#[test]
fn a_local_change_to_another_value_stays() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.settle();
    local(&stage, &front, 3);
    stage.cache.restart(&stage.world, 0);
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(size(&stage, &front), 3);
}

#[test]
fn a_state_that_cannot_be_written_does_not_keep_the_content_back() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.cache.deliver(&stage.world, |_| true);
    let at = stage.world.sent();
    stage
        .world
        .plan_faults([0, 2].map(|n| (at + n, Fault::TooLarge)).into());
    stage.pass(&front);
    assert_eq!(size(&stage, &front), 2);
}

#[test]
fn a_patch_that_changes_nothing_is_known() {
    let live = json!({"spec": {"a": 1, "b": {"c": 1}, "l": [1]}});
    let left = |body: Value| effective(body.as_object().unwrap(), Some(&live));
    let patch = json!({"spec": {"a": 1.0, "b": {"c": 1, "d": null}, "l": [1], "x": null}});
    assert_eq!(left(patch), Map::new());
    let patch = json!({"spec": {"a": null, "b": {"c": 2}, "n": {"m": {}}}});
    assert_eq!(Value::Object(left(patch.clone())), patch);
}

#[test]
fn what_touches_too_much_is_not_announced() {
    let fields = (0..2000).map(|n| (format!("field-{n}"), Value::from(n)));
    let body = Map::from_iter([("spec".to_owned(), Value::Object(fields.collect()))]);
    let live = Object::empty(&kube_lang::object::Gvk::new("", "v1", "Thing"), None, "a");
    assert_eq!(PendingChange::of(&body, &live), None);
}
