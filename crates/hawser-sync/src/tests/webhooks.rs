//! Admission webhooks that change what is written: it is noticed, and repaired once they are gone.

use super::*;
use crate::link::Content;

/// A pass under a webhook, and one after it.
#[track_caller]
fn repaired(stage: &Stage, front: &Front, key: &Key, change: &Value) {
    stage.world.admit_with(key, change.clone());
    let altered = |report: &Report| {
        let mut outcomes = report.outcomes.iter();
        outcomes.any(|outcome| outcome.reason.code == Code::StoredOtherwise)
    };
    for _ in 0..3 {
        stage.cache.deliver(&stage.world, |_| true);
        stage.world.take_log();
        let report = stage.pass(front);
        assert!(altered(&report), "{report:?}");
        assert_eq!(Settled::of(&report, 0), None, "it would be left alone");
        let log = stage.world.take_log();
        let writes = log.iter().filter(|request| request.key() == Some(key));
        assert!(writes.count() <= 2, "{log:?}");
    }
    stage.world.admit();
    stage.settle();
    assert_eq!(code(stage, front), Code::InStep);
}

fn field(stage: &Stage, key: &Key, pointer: &str) -> Option<Value> {
    let object = stage.world.get(key)?;
    object.as_value().pointer(pointer).cloned()
}

#[test]
fn a_status_that_a_webhook_changes_is_written_again() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .set_status(&front.copy_key(), json!({"phase": "ours"}));
    let theirs = json!({"status": {"phase": "theirs"}});
    repaired(&stage, &front, &front.source(), &theirs);
    let phase = field(&stage, &front.source(), "/status/phase");
    assert_eq!(phase, Some(json!("ours")));
}

#[test]
fn a_related_copy_that_a_webhook_changes_is_written_again() {
    let (stage, mut front, [_, _, config, copy]) = with_related();
    front.content = Content::Restore;
    stage.world.patch(&config, json!({"data": {"k": "ours"}}));
    let theirs = json!({"data": {"k": "theirs"}});
    repaired(&stage, &front, &copy, &theirs);
    assert_eq!(field(&stage, &copy, "/data/k"), Some(json!("ours")));
}

#[test]
fn a_mirrored_copy_that_a_webhook_changes_is_written_again() {
    let (stage, front) = with(|front| front.policy.content = Content::Exact);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    let theirs = json!({"spec": {"size": 3}});
    repaired(&stage, &front, &front.copy_key(), &theirs);
    assert_eq!(copy(&stage, &front)["spec"]["size"], 2);
}

#[test]
fn a_report_that_a_webhook_takes_away_is_written_again() {
    let (stage, front, [_, _, config, _]) = with_related();
    let source = front.source();
    stage.world.delete(&config);
    let theirs = json!({"metadata": {"annotations": {"t/related": "theirs"}}});
    repaired(&stage, &front, &source, &theirs);
    let told = field(&stage, &source, "/metadata/annotations/t~1related");
    assert_eq!(told, Some(json!("a-out")));
}

/// It is known by what was answered to the create, since it does not say what it should.
#[test]
fn a_related_copy_that_a_webhook_changes_when_it_is_made_is_ours() {
    let (stage, front) = with(|front| {
        front.related = true;
        front.content = Content::Restore;
    });
    let (config, copy) = front.config();
    stage.world.put(&config, &json!({"data": {"k": "ours"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    let theirs = json!({"data": {"k": "theirs"}});
    repaired(&stage, &front, &copy, &theirs);
    assert_eq!(field(&stage, &copy, "/data/k"), Some(json!("ours")));
}
