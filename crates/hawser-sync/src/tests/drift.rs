//! Fields of copies that other writers changed: kept, reverted or reported, by path.

use super::*;
use crate::drift::{Differences, DriftMode, DriftRules};
use crate::link::DriftPolicy;
use crate::reason::Reason;
use DriftMode::{Keep, Report as Tell, Revert};

const OWN: &str = "own";

fn policy(rules: &[(&str, DriftMode)]) -> DriftPolicy {
    let keys = |path: &str| path.split('.').map(str::to_owned).collect();
    let rules = rules.iter().map(|(path, mode)| (keys(path), *mode));
    DriftPolicy {
        rules: Arc::new(DriftRules::new(rules.collect())),
        finds_kept: false,
        manager: OWN,
        known: None,
    }
}

/// A stage with one object in step, under these rules.
fn ruled(rules: &[(&str, DriftMode)], content: &Value) -> (Stage, Front) {
    let (stage, front) = with(|front| front.policy.drift = Some(policy(rules)));
    stage.world.put(&front.source(), content);
    stage.settle();
    (stage, front)
}

/// Somebody changes the copy; the managed fields say so.
fn edit(stage: &Stage, front: &Front, manager: &str, mut patch: Value) {
    let fields = managed(&json!({"spec": patch["spec"]}));
    patch["metadata"]["managedFields"] = json!([
        {"manager": OWN, "operation": "Update", "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:whatever": {}}}},
        {"manager": manager, "operation": "Update", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": fields},
    ]);
    stage.world.patch(&front.copy_key(), patch);
}

fn managed(value: &Value) -> Value {
    let Value::Object(fields) = value else {
        return json!({});
    };
    let mut tree = serde_json::Map::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let inner = managed(value);
        if inner != json!({}) || !value.is_object() {
            tree.insert(format!("f:{name}"), inner);
        }
    }
    tree.into()
}

/// A pass with a current cache: its requests, and its report.
fn pass(stage: &Stage, front: &Front) -> (Vec<String>, Report) {
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.take_log();
    let report = stage.pass(front);
    stage.world.check();
    let log = stage.world.take_log();
    let words = |r: &Request| format!("{} {}", r.verb(), r.key().map_or("", |k| &k.kind.kind));
    (log.iter().map(words).collect(), report)
}

/// The drift that a pass ended with, as words: path, mode and manager.
fn drift(report: &Report) -> Vec<String> {
    let drift = report.outcomes[0].drift.iter();
    drift.flat_map(|drift| words(&drift.fields)).collect()
}

fn words(fields: &[crate::drift::DriftedField]) -> Vec<String> {
    let one = |field: &crate::drift::DriftedField| {
        let by = field.by.as_ref().map_or("?", |by| &by.manager);
        format!("{} {:?} {by}", field.keys.join("."), field.mode)
    };
    fields.iter().map(one).collect()
}

fn spec(stage: &Stage, front: &Front) -> Value {
    copy(stage, front)["spec"].clone()
}

#[test]
fn what_is_reverted_takes_a_read_and_a_patch() {
    let (stage, front) = ruled(
        &[("spec", Revert)],
        &json!({"spec": {"size": 1, "color": "red"}}),
    );
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing", "patch Thing"]);
    assert_eq!(spec(&stage, &front), json!({"size": 1, "color": "red"}));
    assert_eq!(words(&report.reverted), ["spec.size Revert kubectl"]);
    assert_eq!(
        report.happened.iter().map(|(_, e)| *e).collect::<Vec<_>>(),
        [Effect::Reverted]
    );
    assert_eq!(drift(&report), [""; 0]);
    assert_eq!(report.outcomes[0].reason, Reason::from(Code::InStep));
    assert_eq!(pass(&stage, &front).0, [""; 0]);
}

#[test]
fn what_is_reported_takes_one_read_and_stays() {
    let (stage, mut front) = ruled(&[("spec", Tell)], &json!({"spec": {"size": 1}}));
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing"]);
    assert_eq!(drift(&report), ["spec.size Report kubectl"]);
    assert_eq!(report.outcomes[0].reason.code, Code::InStep);
    assert!(Settled::of(&report, 0).is_some());
    assert_eq!(spec(&stage, &front), json!({"size": 9}));
    // A later pass knows it, whatever else changed.
    front.policy.drift.as_mut().unwrap().known = report.outcomes[0].drift.clone();
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["update status Thing"]);
    assert_eq!(drift(&report), ["spec.size Report kubectl"]);
    edit(&stage, &front, "helm", json!({"spec": {"size": 10}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing"]);
    assert_eq!(drift(&report), ["spec.size Report helm"]);
}

#[test]
fn what_is_kept_is_neither_read_nor_told_unless_somebody_asks() {
    let rules = [("spec", Keep), ("spec.size", Keep), ("spec.other", Revert)];
    let (stage, mut front) = ruled(&rules, &json!({"spec": {"size": 1, "other": 1}}));
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, [""; 0]);
    assert_eq!(report.outcomes[0].drift, None);
    front.policy.drift.as_mut().unwrap().finds_kept = true;
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing"]);
    assert_eq!(drift(&report), ["spec.size Keep kubectl"]);
    assert_eq!(spec(&stage, &front), json!({"size": 9, "other": 1}));
}

#[test]
fn the_longest_path_wins_and_a_list_is_one_value() {
    let rules = [
        ("spec", Revert),
        ("spec.a", Tell),
        ("spec.a.b", Keep),
        ("spec.list.0", Keep),
    ];
    let content = json!({"spec": {"a": {"b": 1, "c": 1}, "ab": 1, "list": [1, 2]}});
    let (stage, front) = ruled(&rules, &content);
    let theirs = json!({"spec": {"a": {"b": 2, "c": 2}, "ab": 2, "list": [1, 3], "more": true}});
    edit(&stage, &front, "kubectl", theirs);
    let (_, report) = pass(&stage, &front);
    assert_eq!(drift(&report), ["spec.a.c Report kubectl"]);
    assert_eq!(
        words(&report.reverted),
        ["spec.ab Revert kubectl", "spec.list Revert kubectl"]
    );
    assert_eq!(
        spec(&stage, &front),
        json!({"a": {"b": 2, "c": 2}, "ab": 1, "list": [1, 2], "more": true})
    );
}

#[test]
fn a_removed_field_comes_back_and_nobody_is_named() {
    let content = json!({"spec": {"a": {"b": 1}}, "metadata": {"labels": {"l": "1"}}});
    let (stage, front) = ruled(&[("spec", Revert), ("metadata.labels", Revert)], &content);
    let theirs = json!({"spec": {"a": null}, "metadata": {"labels": {"l": "2"}}});
    edit(&stage, &front, "kubectl", theirs);
    let (_, report) = pass(&stage, &front);
    assert_eq!(
        words(&report.reverted),
        ["spec.a.b Revert ?", "metadata.labels.l Revert ?"]
    );
    assert_eq!(spec(&stage, &front)["a"], json!({"b": 1}));
    assert_eq!(copy(&stage, &front)["metadata"]["labels"]["l"], "1");
}

#[test]
fn a_map_that_became_another_value_is_a_map_again() {
    let content = json!({"spec": {"a": {"b": 1}, "empty": {}}});
    let (stage, front) = ruled(&[("spec", Revert)], &content);
    edit(
        &stage,
        &front,
        "kubectl",
        json!({"spec": {"a": "text", "empty": [1]}}),
    );
    pass(&stage, &front);
    assert_eq!(spec(&stage, &front), content["spec"]);
}

#[test]
fn only_what_a_stale_cache_shows_is_not_written() {
    let (stage, front) = ruled(&[("spec", Revert)], &json!({"spec": {"size": 1}}));
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    stage.cache.deliver(&stage.world, |_| true);
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 1}}));
    stage.world.take_log();
    let report = stage.pass(&front);
    let log = stage.world.take_log();
    assert!(matches!(&*log, [Request::Read { .. }]), "{log:?}");
    assert_eq!(report.outcomes[0].drift, None);
}

#[test]
fn a_change_of_the_source_is_written_first_and_alone() {
    let (stage, front) = ruled(
        &[("spec", Revert)],
        &json!({"spec": {"size": 1, "color": "red"}}),
    );
    edit(
        &stage,
        &front,
        "kubectl",
        json!({"spec": {"size": 9, "color": "blue"}}),
    );
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.take_log();
    let report = stage.pass(&front);
    let log = stage.world.take_log();
    let patches = log.iter().filter_map(|request| match request {
        Request::Patch { patch, .. } => Some(patch["spec"].clone()),
        _ => None,
    });
    let patches: Vec<_> = patches.collect();
    assert_eq!(patches, [json!({"size": 2}), json!({"color": "red"})]);
    assert_eq!(words(&report.reverted), ["spec.color Revert kubectl"]);
    assert_eq!(spec(&stage, &front), json!({"size": 2, "color": "red"}));
}

/// A field that another writer keeps changing must not make an announced change look made.
#[test]
fn a_process_killed_before_its_patch_loses_no_change_to_a_contested_field() {
    let (stage, front) = ruled(
        &[("spec.size", Revert)],
        &json!({"spec": {"size": 1, "n": 1}}),
    );
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"n": 2}}));
    stage.cache.deliver(&stage.world, |_| true);
    // The state is written first.
    let crash = HashMap::from([(stage.world.sent() + 1, Fault::CrashBefore)]);
    stage.world.plan_faults(crash);
    stage.pass(&front);
    assert!(stage.world.crashed());
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 10}}));
    stage.cache.restart(&stage.world, 0);
    stage.settle();
    assert_eq!(spec(&stage, &front), json!({"size": 1, "n": 2}));
}

#[test]
fn a_process_killed_before_or_after_a_revert_reverts_once() {
    for (fault, patches) in [(Fault::CrashBefore, 1), (Fault::CrashAfter, 0)] {
        let (stage, front) = ruled(&[("spec", Revert)], &json!({"spec": {"size": 1}}));
        edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
        stage.cache.deliver(&stage.world, |_| true);
        let second = HashMap::from([(stage.world.sent() + 1, fault)]);
        stage.world.plan_faults(second);
        stage.pass(&front);
        assert!(stage.world.crashed());
        stage.cache.restart(&stage.world, 0);
        let (requests, _) = pass(&stage, &front);
        let again = requests.iter().filter(|one| *one == "patch Thing");
        assert_eq!(again.count(), patches, "{fault:?}: {requests:?}");
        assert_eq!(spec(&stage, &front), json!({"size": 1}));
    }
}

fn by(manager: &str, value: u8) -> Value {
    json!({"spec": {"size": value}, "metadata": {"managedFields": [
        {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:size": {}}}},
    ]}})
}

#[test]
fn a_value_that_the_server_stores_in_place_of_the_written_one_is_no_drift() {
    let (stage, front) = with(|front| front.policy.drift = Some(policy(&[("spec", Revert)])));
    stage.world.admit_with(&front.copy_key(), by(OWN, 7));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["patch Thing", "create State", "create Thing"]);
    assert_eq!(spec(&stage, &front), json!({"size": 7}));
    assert_eq!(drift(&report), [""; 0]);
    assert_eq!(report.outcomes[0].reason.code, Code::InStep);
    // Another process reads the copy once.
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing"]);
    assert_eq!(drift(&report), [""; 0]);
}

#[test]
fn a_value_that_cannot_be_reverted_is_written_once_and_counts_as_in_sync() {
    let (stage, mut front) = ruled(&[("spec", Revert)], &json!({"spec": {"size": 1}}));
    stage.world.admit_with(&front.copy_key(), by("webhook", 7));
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 9}}));
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing", "patch Thing"]);
    assert_eq!(report.outcomes[0].reason.code, Code::InStep);
    assert_eq!(drift(&report), [""; 0]);
    front.policy.drift.as_mut().unwrap().known = report.outcomes[0].drift.clone();
    assert_eq!(pass(&stage, &front).0, [""; 0]);
    stage.world.admit();
    edit(&stage, &front, "kubectl", json!({"spec": {"size": 8}}));
    pass(&stage, &front);
    assert_eq!(spec(&stage, &front), json!({"size": 1}));
}

#[test]
fn nobody_else_can_have_changed_a_copy_that_was_just_created() {
    let (stage, front) = with(|front| front.policy.drift = Some(policy(&[("spec", Tell)])));
    // The server drops a field that it does not know.
    stage
        .world
        .admit_with(&front.copy_key(), json!({"spec": {"unknown": null}}));
    let content = json!({"spec": {"size": 1, "unknown": 1}});
    stage.world.put(&front.source(), &content);
    let (_, report) = pass(&stage, &front);
    assert_eq!(spec(&stage, &front), json!({"size": 1}));
    assert_eq!(drift(&report), [""; 0]);
}

#[test]
fn a_paused_copy_keeps_its_value_and_its_drift_is_known() {
    let (stage, front) = ruled(
        &[("spec.size", Revert), ("spec", Tell)],
        &json!({"spec": {"size": 1, "n": 1, "m": 1}}),
    );
    let paused = || Failure::Paused("until noon".to_owned());
    stage.world.refuse(&front.copy_key(), paused());
    edit(
        &stage,
        &front,
        "kubectl",
        json!({"spec": {"size": 9, "n": 9}}),
    );
    let both = ["spec.n Report kubectl", "spec.size Revert kubectl"];
    let (_, report) = pass(&stage, &front);
    assert_eq!(report.outcomes[0].reason.code, Code::Paused);
    assert_eq!(drift(&report), both);
    assert_eq!(words(&report.reverted), [""; 0]);
    // What is due because of the source is no drift.
    stage.world.refuse(&front.memory(), paused());
    stage
        .world
        .patch(&front.source(), json!({"spec": {"m": 2}}));
    let (_, report) = pass(&stage, &front);
    assert_eq!(report.outcomes[0].reason.code, Code::Paused);
    assert_eq!(drift(&report), both);
    assert_eq!(spec(&stage, &front), json!({"size": 9, "n": 9, "m": 1}));
    stage.world.relent();
    pass(&stage, &front);
    assert_eq!(spec(&stage, &front), json!({"size": 1, "n": 9, "m": 2}));
}

#[test]
fn a_null_is_no_value_that_could_drift_and_an_equal_number_is_the_same() {
    let object = |spec: Value| {
        let object = json!({"metadata": {"name": "a", "labels": {}}, "spec": spec});
        Object::new(object).unwrap()
    };
    let desired = object(json!({"none": null, "one": 1, "list": [null]}));
    let live = object(json!({"one": 1.0, "list": [null], "more": 1}));
    let rules = policy(&[("spec", Revert)]).rules;
    let same = |live: Object| Differences::of(&rules, true, &desired, &live, None).is_empty();
    assert!(same(live));
    assert!(!same(object(json!({"one": 2, "list": [null]}))));
    assert!(!same(object(json!({"one": 1, "list": []}))));
}

#[test]
fn of_several_writers_the_last_other_one_is_named() {
    let (stage, front) = ruled(&[("spec", Tell)], &json!({"spec": {"ports": [1]}}));
    let entry = |manager: &str, time: &str, item: &str| {
        json!({"manager": manager, "operation": "Apply", "time": time,
            "fieldsV1": {"f:spec": {"f:ports": {item: {}}}}})
    };
    let managers = json!([
        entry("late", "2026-01-03T00:00:00Z", "v:2"),
        entry(OWN, "2026-01-04T00:00:00Z", "v:1"),
        entry("early", "2026-01-02T00:00:00Z", "v:3"),
    ]);
    let theirs = json!({"spec": {"ports": [1, 2, 3]}, "metadata": {"managedFields": managers}});
    stage.world.patch(&front.copy_key(), theirs);
    let (_, report) = pass(&stage, &front);
    assert_eq!(drift(&report), ["spec.ports Report late"]);
}

#[test]
fn an_adopted_copy_gets_the_values_that_are_reverted() {
    let (stage, front) = with(|front| {
        front.policy.drift = Some(policy(&[("spec.size", Revert)]));
        front.policy.adoption = Adoption::Keep;
    });
    stage.world.put(
        &front.copy_key(),
        &json!({"spec": {"size": 9, "color": "blue"}}),
    );
    let content = json!({"spec": {"size": 1, "color": "red"}});
    stage.world.put(&front.source(), &content);
    stage.settle();
    assert_eq!(spec(&stage, &front), json!({"size": 1, "color": "blue"}));
}

/// A copy as its server has it after somebody took things out of what the agent owns.
fn own_fields(fields: &Value) -> Value {
    json!([{"manager": OWN, "operation": "Update", "fieldsV1": {"f:spec": fields}}])
}

#[test]
fn what_somebody_takes_out_of_a_map_or_a_list_of_the_agent_is_drift() {
    let content = json!({"spec": {"settings": {"a": 1}, "ports": [{"port": 80}, {"port": 81}]}});
    let (stage, front) = ruled(&[("spec", Tell)], &content);
    let managed = own_fields(&json!({
        "f:settings": {},
        "f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}},
    }));
    let theirs = json!({
        "spec": {"settings": {"a": null}, "ports": [{"port": 80, "protocol": "TCP"}]},
        "metadata": {"managedFields": managed},
    });
    stage.world.patch(&front.copy_key(), theirs);
    let (_, report) = pass(&stage, &front);
    assert_eq!(
        drift(&report),
        ["spec.ports Report ?", "spec.settings.a Report ?"]
    );
}

#[test]
fn defaults_that_the_server_adds_to_items_are_no_drift() {
    let content = json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}});
    let (stage, front) = ruled(&[("spec", Revert)], &content);
    let managed = own_fields(&json!({"f:ports": {
        "k:{\"port\":80}": {".": {}, "f:port": {}}, "k:{\"port\":81}": {".": {}, "f:port": {}},
    }}));
    let stored = json!([{"port": 81, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]);
    let theirs = json!({"spec": {"ports": stored}, "metadata": {"managedFields": managed}});
    stage.world.patch(&front.copy_key(), theirs);
    let (requests, report) = pass(&stage, &front);
    assert_eq!(requests, ["get Thing"]);
    assert_eq!(drift(&report), [""; 0]);
}

#[test]
fn a_change_is_the_same_whenever_its_author_writes_something_else() {
    let field = |manager: &str, time: &str, found: &Value| {
        let by = crate::author::Author {
            manager: manager.to_owned(),
            operation: "Update".to_owned(),
            subresource: None,
            time: Some(time.to_owned()),
        };
        crate::drift::DriftedField::new(vec!["spec".to_owned()], Tell, Some(by), Some(found))
    };
    let first = field("scaler", "2026-01-01T00:00:00Z", &json!(1));
    assert!(first.is_same_change(&field("scaler", "2026-01-02T00:00:00Z", &json!(1.0))));
    assert!(!first.is_same_change(&field("scaler", "2026-01-01T00:00:00Z", &json!(2))));
    assert!(!first.is_same_change(&field("helm", "2026-01-01T00:00:00Z", &json!(1))));
}
