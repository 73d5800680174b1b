#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use serde_json::{Value, json};

use super::report::Finding;
use super::*;
use crate::availability::Availability;
use crate::types::placement::{ComparisonOption, PatchDetail, ServerSideApplyConfig};
use crate::types::work::{WorkResourceIdentifier, WorkStatus};
use crate::types::{ConditionStatus, condition};

const NOW: &str = "2026-01-01T12:00:00Z";

fn owner(works: &(dyn Fn(&str) -> bool + Sync)) -> Owner<'_> {
    Owner {
        name: "p-work",
        uid: "u1",
        is_work: works,
    }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data})
}

fn manifest(data: Value) -> Manifest {
    read(0, &config_map(data)).1.unwrap()
}

/// The object as the member has it after an apply.
fn applied(manifest: &Manifest) -> Value {
    let mut live = manifest.body(&owner(&|_| true), ApplyStrategyType::ClientSideApply);
    live["metadata"]["uid"] = "o".into();
    live
}

fn decided(live: Option<&Value>, strategy: &ApplyStrategy) -> Verdict {
    let works = |name: &str| name == "q-work";
    decide(
        &manifest(json!({"a": "1"})),
        live,
        &owner(&works),
        strategy,
        false,
    )
}

fn reference(kind: &str, name: &str) -> Value {
    let api = if kind == "AppliedWork" {
        "placement.kubernetes-fleet.io/v1beta1"
    } else {
        "v1"
    };
    json!({"apiVersion": api, "kind": kind, "name": name, "uid": name})
}

#[test]
fn an_absent_object_is_applied_and_one_in_sync_is_left_alone() {
    let strategy = ApplyStrategy::default();
    assert_eq!(decided(None, &strategy), Verdict::Apply);
    let live = applied(&manifest(json!({"a": "1"})));
    assert_eq!(decided(Some(&live), &strategy), Verdict::InSync);
    let mut drifted = live.clone();
    drifted["data"]["a"] = "2".into();
    assert_eq!(decided(Some(&drifted), &strategy), Verdict::Apply);
    let mut more = live;
    more["data"]["other"] = "x".into();
    assert_eq!(decided(Some(&more), &strategy), Verdict::InSync);
    let older = applied(&manifest(json!({"a": "1", "b": "1"})));
    assert_eq!(decided(Some(&older), &strategy), Verdict::Apply);
}

#[test]
fn a_server_that_stores_something_else_than_was_applied_is_not_written_to_again() {
    let works = |_: &str| true;
    let wanted = manifest(json!({"a": "1000m"}));
    let mut live = applied(&wanted);
    live["data"]["a"] = "1".into();
    let strategy = ApplyStrategy::default();
    let decide = |as_left| decide(&wanted, Some(&live), &owner(&works), &strategy, as_left);
    assert_eq!(decide(true), Verdict::InSync);
    assert_eq!(decide(false), Verdict::Apply);
}

#[test]
fn foreign_objects_are_taken_over_as_the_strategy_says() {
    let foreign = config_map(json!({"a": "1"}));
    let with = |when_to_take_over| ApplyStrategy {
        when_to_take_over,
        ..ApplyStrategy::default()
    };
    let is = |when| decided(Some(&foreign), &with(when));
    assert_eq!(is(WhenToTakeOver::Always), Verdict::Apply);
    assert_eq!(
        is(WhenToTakeOver::IfNoDiff),
        Verdict::Compare(CompareReason::TakeOver)
    );
    assert!(matches!(
        is(WhenToTakeOver::Never),
        Verdict::Refuse(Reason::NotTakenOver, _)
    ));
}

#[test]
fn an_object_has_one_placement_and_no_other_owner_unless_that_is_allowed() {
    let with = |kind: &str, name: &str| {
        let mut object = config_map(json!({}));
        object["metadata"]["ownerReferences"] = json!([reference(kind, name)]);
        object
    };
    let shares = ApplyStrategy {
        allow_co_ownership: true,
        ..ApplyStrategy::default()
    };
    let alone = ApplyStrategy::default();
    let refused = |verdict| matches!(verdict, Verdict::Refuse(Reason::FailedToTakeOver, _));
    // q-work is a Work of the member, z-work is not.
    assert!(refused(decided(
        Some(&with("AppliedWork", "q-work")),
        &shares
    )));
    assert!(refused(decided(Some(&with("Foo", "f")), &alone)));
    // Who takes over nothing says so, whoever has it.
    let never = ApplyStrategy {
        when_to_take_over: WhenToTakeOver::Never,
        ..ApplyStrategy::default()
    };
    let left = decided(Some(&with("AppliedWork", "q-work")), &never);
    assert!(matches!(left, Verdict::Refuse(Reason::NotTakenOver, _)));
    assert!(!refused(decided(Some(&with("Foo", "f")), &shares)));
    let orphan = with("AppliedWork", "z-work");
    assert_eq!(decided(Some(&orphan), &alone), Verdict::Apply);
    let works = |name: &str| name == "q-work";
    assert_eq!(owner(&works).without_orphans(&orphan), Some(vec![]));
    assert_eq!(owner(&works).without_orphans(&with("Foo", "f")), None);
}

#[test]
fn drift_is_looked_for_before_an_apply_only_if_the_manifest_is_the_same() {
    let strategy = ApplyStrategy {
        when_to_apply: WhenToApply::IfNotDrifted,
        ..ApplyStrategy::default()
    };
    let live = applied(&manifest(json!({"a": "1"})));
    assert_eq!(
        decided(Some(&live), &strategy),
        Verdict::Compare(CompareReason::Drift)
    );
    let older = applied(&manifest(json!({"a": "0"})));
    assert_eq!(decided(Some(&older), &strategy), Verdict::Apply);
    let report = ApplyStrategy {
        type_: ApplyStrategyType::ReportDiff,
        comparison_option: ComparisonOption::FullComparison,
        ..ApplyStrategy::default()
    };
    assert_eq!(
        decided(Some(&live), &report),
        Verdict::Compare(CompareReason::Report)
    );
    assert_eq!(decided(None, &report), Verdict::Missing);
}

#[test]
fn server_side_apply_takes_fields_of_others_only_by_force() {
    let mut strategy = ApplyStrategy::default();
    assert!(forces(&strategy));
    strategy.type_ = ApplyStrategyType::ServerSideApply;
    assert!(!forces(&strategy));
    strategy.server_side_apply_config = Some(ServerSideApplyConfig { force: true });
    assert!(forces(&strategy));
    let managed = |managers: &[&str]| {
        let entries: Vec<_> = managers
            .iter()
            .map(|name| json!({"manager": name}))
            .collect();
        json!({"metadata": {"managedFields": entries}})
    };
    assert!(has_no_other_manager(&managed(&[
        MANAGER,
        BEFORE_FIRST_APPLY
    ])));
    assert!(!has_no_other_manager(&managed(&[MANAGER, "kubectl"])));
}

#[test]
fn manifests_that_cannot_be_applied_say_why() {
    let reason = |manifest: Value| read(3, &manifest).1.unwrap_err().0;
    assert_eq!(reason(json!({"kind": "A"})), Reason::DecodingErred);
    assert_eq!(
        reason(json!({"apiVersion": "v1", "kind": "A", "metadata": {}})),
        Reason::DecodingErred
    );
    let generated = json!({"apiVersion": "v1", "kind": "A", "metadata": {"generateName": "x"}});
    assert_eq!(reason(generated), Reason::FoundGenerateName);
    let of_fleet = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "w"}});
    assert_eq!(reason(of_fleet), Reason::ManifestApplyFailed);
    assert_eq!(read(3, &config_map(json!({}))).0.ordinal, 3);
}

#[test]
fn a_manifest_that_is_too_large_for_an_annotation_is_not_kept() {
    let owns = |_: &str| true;
    let client = ApplyStrategyType::ClientSideApply;
    let annotation = |data: &str, type_| {
        let body = manifest(json!({"a": data})).body(&owner(&owns), type_);
        body["metadata"]["annotations"][LAST_APPLIED].clone()
    };
    assert!(
        annotation("x", client)
            .as_str()
            .unwrap()
            .contains("\"a\":\"x\"")
    );
    assert_eq!(annotation(&"x".repeat(300 << 10), client), "");
    assert_eq!(
        annotation("x", ApplyStrategyType::ServerSideApply),
        Value::Null
    );
}

#[test]
fn the_reasons_of_manifests_are_those_of_the_original() {
    use Reason::*;
    let applied = [Applied, AppliedWithFailedDriftDetection];
    let not_applied = [
        (DecodingErred, "DecodingErred"),
        (FoundGenerateName, "FoundGenerateName"),
        (Duplicated, "Duplicated"),
        (
            FailedToFindObjInMemberCluster,
            "FailedToFindObjInMemberCluster",
        ),
        (FailedToTakeOver, "FailedToTakeOver"),
        (NotTakenOver, "NotTakenOver"),
        (FailedToRunDriftDetection, "FailedToRunDriftDetection"),
        (FoundDrifts, "FoundDrifts"),
        (FoundDriftsInDegradedMode, "FoundDriftsInDegradedMode"),
        (ManifestApplyFailed, "ManifestApplyFailed"),
    ];
    assert_eq!(
        applied.map(Reason::as_str),
        ["Applied", "AppliedWithFailedDriftDetection"]
    );
    assert!(applied.iter().all(|one| one.is_applied()));
    for (reason, text) in not_applied {
        assert_eq!(reason.as_str(), text);
        assert!(!reason.is_applied(), "{text}");
    }
    let available = |availability| {
        let one = status(
            vec![finding(Applied, Some(availability))],
            false,
            &WorkStatus::default(),
            NOW,
        );
        let conditions = &one.manifest_conditions[0].conditions;
        let found = condition(conditions, "Available").unwrap();
        (found.status, found.reason.clone())
    };
    for (availability, truth, reason) in [
        (Availability::Available, ConditionStatus::True, "Available"),
        (
            Availability::NotTrackable,
            ConditionStatus::True,
            "NotTrackable",
        ),
        (
            Availability::NotYet,
            ConditionStatus::False,
            "ManifestNotAvailableYet",
        ),
        (Availability::Failed, ConditionStatus::False, "Failed"),
    ] {
        assert_eq!(available(availability), (truth, reason.to_owned()));
    }
    let (identifier, _) = read(0, &config_map(json!({})));
    let listed = report::preparing(identifier, 1, NOW);
    assert_eq!(listed.conditions[0].reason, "PreparingToProcess");
    let reported = |reason| {
        let one = status(
            vec![finding(reason, None)],
            true,
            &WorkStatus::default(),
            NOW,
        );
        (
            one.conditions[0].reason.clone(),
            one.manifest_conditions[0].conditions[0].reason.clone(),
        )
    };
    for (reason, of_work, text) in [
        (NoDiffFound, "AllManifestsDiffReported", "NoDiffFound"),
        (FoundDiff, "AllManifestsDiffReported", "FoundDiff"),
        (
            FoundDiffInDegradedMode,
            "AllManifestsDiffReported",
            "FoundDiffInDegradedMode",
        ),
        (
            FailedToReportDiff,
            "SomeManifestsHaveNotReportedDiff",
            "FailedToReportDiff",
        ),
    ] {
        assert_eq!(reported(reason), (of_work.to_owned(), text.to_owned()));
    }
}

#[test]
fn differences_have_paths_and_both_values_and_hide_secrets() {
    let mut member = config_map(json!({"a": "1", "b/c": "2"}));
    member["metadata"]["labels"] = json!({"app": "x", "kubernetes.io/metadata.name": "n"});
    let hub = config_map(json!({"a": "3"}));
    let found = compare::differences(&member, &hub);
    let found: Vec<_> = found
        .iter()
        .map(|one| (&*one.path, &*one.value_in_member, &*one.value_in_hub))
        .collect();
    assert_eq!(
        found,
        [
            ("/data/a", "1", "3"),
            ("/data/b~1c", "2", ""),
            ("/metadata/labels", r#"{"app":"x"}"#, "")
        ]
    );
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": value}});
    let found = compare::differences(&secret("old"), &secret("new"));
    assert!(!found[0].value_in_member.contains("old") && !found[0].value_in_hub.contains("new"));
    let many: Value = (0..200)
        .map(|index| (index.to_string(), json!("x")))
        .collect::<Map<_, _>>()
        .into();
    assert_eq!(
        compare::differences(&config_map(many), &config_map(json!({}))).len(),
        100
    );
}

#[test]
fn differences_in_lists_are_those_of_a_json_patch() {
    let paths = |member: Value, hub: Value| {
        let of = |list: Value| json!({"spec": {"l": list}});
        let found = compare::differences(&of(member), &of(hub)).into_iter();
        let found =
            found.map(|one| format!("{} {} {}", one.path, one.value_in_member, one.value_in_hub));
        found.collect::<Vec<_>>()
    };
    // Only the member has them.
    assert_eq!(
        paths(json!(["a", "b", "c"]), json!(["x"])),
        ["/spec/l/0 a x", "/spec/l/- b ", "/spec/l/- c "]
    );
    // The member lacks them.
    assert_eq!(
        paths(json!(["x"]), json!(["a", "b", "c"])),
        ["/spec/l/1  b", "/spec/l/1  c", "/spec/l/0 x a"]
    );
    let element = |fields: Value| json!([{"name": "n", "fields": fields}]);
    assert_eq!(
        paths(
            element(json!({"b": 1, "d": 1})),
            element(json!({"a": 1, "c": 1, "d": 2}))
        ),
        [
            "/spec/l/0/fields/a  1",
            "/spec/l/0/fields/b 1 ",
            "/spec/l/0/fields/c  1",
            "/spec/l/0/fields/d 1 2"
        ]
    );
}

#[test]
fn a_partial_comparison_is_of_the_places_that_the_manifest_names() {
    let manifest = json!({"data": {"a/b": "1"}, "spec": {"l": [{"name": "x"}]}});
    let names = |path: &str| {
        let path = path.to_owned();
        compare::names(
            &manifest,
            &PatchDetail {
                path,
                ..PatchDetail::default()
            },
        )
    };
    assert!(names("/data/a~1b") && names("/data"));
    // The index of an element, and what it has beside, are the server's.
    assert!(names("/spec/l/-") && names("/spec/l/3/name"));
    assert!(!names("/data/dropped") && !names("/spec/m") && !names("/metadata/labels"));
}

#[test]
fn namespaces_come_first_and_custom_resources_last() {
    assert!(wave("namespaces") < wave("configmaps") && wave("configmaps") < wave("deployments"));
    assert!(wave("customresourcedefinitions") < wave("mutatingwebhookconfigurations"));
    assert_eq!(wave("foos"), 6);
}

fn finding(reason: Reason, availability: Option<Availability>) -> Finding {
    Finding {
        availability,
        ..Finding::new(reason, "")
    }
}

fn status(findings: Vec<Finding>, reports: bool, before: &WorkStatus, now: &str) -> WorkStatus {
    let (identifier, _) = read(0, &config_map(json!({})));
    let manifests = findings.into_iter().enumerate().map(|(index, finding)| {
        let old = before.manifest_conditions.get(index);
        report::manifest(identifier.clone(), finding, reports, old, now)
    });
    report::work(manifests.collect(), reports, before, 4, now)
}

#[test]
fn a_work_says_what_its_manifests_say() {
    let said = |status: &WorkStatus| {
        let said = status
            .conditions
            .iter()
            .map(|one| (one.type_.clone(), one.reason.clone()));
        said.map(|(type_, reason)| format!("{type_} {reason}"))
            .collect::<Vec<_>>()
    };
    let none = WorkStatus::default();
    let available = || finding(Reason::Applied, Some(Availability::Available));
    let of = |findings| said(&status(findings, false, &none, NOW));
    assert_eq!(
        of(vec![available()]),
        [
            "Applied AllManifestsApplied",
            "Available AllManifestsAvailable"
        ]
    );
    let untracked = finding(Reason::Applied, Some(Availability::NotTrackable));
    assert_eq!(
        of(vec![available(), untracked])[1],
        "Available WorkNotTrackable"
    );
    let not_yet = finding(Reason::Applied, Some(Availability::NotYet));
    assert_eq!(
        of(vec![available(), not_yet])[1],
        "Available SomeManifestsAreNotAvailable"
    );
    let refused = finding(Reason::ManifestApplyFailed, None);
    assert_eq!(
        of(vec![available(), refused]),
        ["Applied SomeManifestsAreNotApplied"]
    );
    let degraded = finding(Reason::FoundDiffInDegradedMode, None);
    let reported = status(vec![degraded], true, &none, NOW);
    assert_eq!(said(&reported), ["DiffReported AllManifestsDiffReported"]);
}

#[test]
fn times_change_only_with_what_they_are_of() {
    let mut found = finding(Reason::FoundDrifts, None);
    found.drifts = compare::missing();
    let first = status(vec![found.clone()], false, &WorkStatus::default(), NOW);
    let again = status(vec![found.clone()], false, &first, "2026-01-01T12:04:59Z");
    assert_eq!(first, again);
    // The time of the last look is not much older than it.
    let later = "2026-01-01T12:05:00Z";
    let looked = status(vec![found.clone()], false, &first, later);
    let details =
        |status: &WorkStatus| status.manifest_conditions[0].drift_details.clone().unwrap();
    assert_eq!(details(&looked).observation_time, later);
    assert_eq!(details(&looked).first_drifted_observed_time, NOW);
    found.drifts[0].path = "/data".into();
    let changed = status(vec![found], false, &first, "2026-01-01T12:01:00Z");
    assert_eq!(details(&changed).first_drifted_observed_time, NOW);
    assert_ne!(details(&changed).observation_time, NOW);
    let applied = status(
        vec![finding(Reason::Applied, None)],
        false,
        &changed,
        "2028-01-01T12:00:00Z",
    );
    assert_ne!(
        condition(&applied.conditions, "Applied")
            .unwrap()
            .last_transition_time,
        NOW
    );
}

#[test]
fn a_status_that_comes_back_has_the_time_when_it_was_first_seen() {
    assert_eq!(report::observed(&config_map(json!({}))), None);
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}, "status": {"ready": 1}});
    let said = |job: &Value, before: &WorkStatus, now: &str| {
        let mut found = finding(Reason::Applied, Some(Availability::Available));
        found.observed = report::observed(job);
        status(vec![found], false, before, now)
    };
    let first = said(&job, &WorkStatus::default(), NOW);
    let back = first.manifest_conditions[0]
        .back_reported_status
        .clone()
        .unwrap();
    let observed = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"ready": 1}});
    assert_eq!(
        (&back.observed_status, &*back.observation_time),
        (&observed, NOW)
    );
    assert_eq!(said(&job, &first, "2027-01-01T12:00:00Z"), first);
    job["status"]["ready"] = 2.into();
    let later = said(&job, &first, "2027-01-01T12:00:00Z");
    let back = later.manifest_conditions[0]
        .back_reported_status
        .clone()
        .unwrap();
    assert_eq!(back.observation_time, "2027-01-01T12:00:00Z");
}

#[test]
fn a_status_that_is_too_large_is_trimmed_and_says_so() {
    let mut found = finding(Reason::FoundDrifts, None);
    found.drifts = compare::missing();
    let mut large = status(vec![found], false, &WorkStatus::default(), NOW);
    report::trim(&mut large, 1000, 4, NOW);
    assert!(condition(&large.conditions, "StatusTrimmed").is_none());
    report::trim(&mut large, 1_500_000, 4, NOW);
    assert_eq!(
        condition(&large.conditions, "StatusTrimmed")
            .unwrap()
            .reason,
        "Oversized"
    );
}

#[test]
fn a_work_whose_manifests_cannot_be_listed_is_not_applied_and_keeps_what_is_listed() {
    let identifier = |number: i64| WorkResourceIdentifier {
        ordinal: number,
        kind: "ConfigMap".to_owned(),
        name: format!("c{number}"),
        ..WorkResourceIdentifier::default()
    };
    let before = status(
        vec![finding(Reason::Applied, None)],
        false,
        &WorkStatus::default(),
        NOW,
    );
    let of = |count: i64| {
        let all: Vec<_> = (0..count).map(identifier).collect();
        report::too_many(all.iter(), 100, false, &before, 7, NOW)
    };
    assert_eq!(of(1000), None);
    let refused = of(10_000).unwrap();
    assert_eq!(refused.manifest_conditions, before.manifest_conditions);
    let applied = condition(&refused.conditions, "Applied").unwrap();
    assert_eq!(applied.reason, "SomeManifestsAreNotApplied");
    assert_eq!(applied.observed_generation, 7);
    assert!(applied.message.contains("10000 manifests"), "{applied:?}");
    assert!(condition(&refused.conditions, "Available").is_none());
}

#[test]
fn an_owner_that_no_longer_blocks_stays_an_owner() {
    let owner = owner(&|_| true);
    let mut object = config_map(json!({}));
    assert_eq!(owner.without_block(&object), None);
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "blockOwnerDeletion": true});
    object["metadata"]["ownerReferences"] = json!([other, owner.reference()]);
    let without_block = owner.without_block(&object).unwrap();
    assert_eq!(without_block[0], other);
    assert_eq!(without_block[1]["uid"], owner.uid);
    assert_eq!(without_block[1]["blockOwnerDeletion"], false);
    object["metadata"]["ownerReferences"] = json!(without_block);
    assert_eq!(owner.without_block(&object), None);
}
