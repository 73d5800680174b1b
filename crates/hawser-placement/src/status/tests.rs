use serde_json::{Value, json};

use super::works::{Pass, conditions};
use super::*;
use crate::fixtures::{SNAPSHOT, binding};
use crate::names;
use crate::types::work::WorkOutline;

const NOW: &str = "2026-01-01T12:00:00Z";

fn placement(spec: &Value) -> Placement {
    let mut object = json!({
        "metadata": {"name": "p", "generation": 1}, "spec": {"resourceSelectors": []},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn policy(generation: i64, decisions: &[(&str, bool)], fulfilled: bool) -> PolicySnapshot {
    let decisions = decisions.iter().map(|(name, selected)| {
        json!({"clusterName": name, "selected": selected, "reason": format!("about {name}")})
    });
    let (status, reason) = if fulfilled {
        ("True", "SchedulingPolicyFulfilled")
    } else {
        ("False", "SchedulingPolicyUnfulfilled")
    };
    let snapshot = json!({
        "metadata": {"name": SNAPSHOT, "generation": 1}, "spec": {"policyHash": ""},
        "status": {
            "observedCRPGeneration": generation, "targetClusters": decisions.collect::<Vec<_>>(),
            "conditions": [{"type": "Scheduled", "status": status, "reason": reason, "message": "m", "observedGeneration": 1}],
        },
    });
    serde_json::from_value(snapshot).unwrap()
}

/// A binding on snapshot `index` with these conditions.
fn bound(cluster: &str, index: &str, found: &[(&str, &str, &str)]) -> Binding {
    let mut binding = binding(cluster, BindingState::Bound, SNAPSHOT);
    binding.spec.resource_snapshot_name = format!("p-{index}-snapshot");
    let found = found.iter().map(|(type_, status, reason)| {
        json!({"type": type_, "status": status, "reason": reason, "message": "m"})
    });
    binding.status.conditions = found
        .map(|one| serde_json::from_value(one).unwrap())
        .collect();
    binding
}

const DONE: &[(&str, &str, &str)] = &[
    ("RolloutStarted", "True", "RolloutStarted"),
    ("Overridden", "True", "NoOverrideSpecified"),
    ("WorkSynchronized", "True", "AllWorkSynced"),
    ("Applied", "True", "AllWorkHaveBeenApplied"),
    ("Available", "True", "AllWorkAreAvailable"),
];

fn built(placement: &Placement, policy: &PolicySnapshot, bindings: &[Binding]) -> PlacementStatus {
    let indices = ["0", "1"].map(|index| (format!("p-{index}-snapshot"), index.to_owned()));
    let resource = ResourceIdentifier {
        kind: "Namespace".into(),
        ..ResourceIdentifier::default()
    };
    build(&StatusRequest {
        placement,
        scope: Scope::Cluster,
        policy: Some(policy),
        latest_index: "1",
        indices: &indices.into(),
        resources: &[
            ("1".to_owned(), vec![resource.clone()]),
            ("0".to_owned(), vec![resource]),
        ]
        .into(),
        bindings,
        now: NOW,
    })
}

fn told(conditions: &[Condition]) -> Vec<String> {
    let all = conditions.iter();
    all.map(|one| format!("{} {:?} {}", one.type_, one.status, one.reason))
        .collect()
}

#[test]
fn the_conditions_of_the_seed_stand_in_their_order() {
    let p = placement(&json!({}));
    let policy = policy(1, &[("a", true), ("b", true)], true);
    let status = built(&p, &policy, &[bound("a", "1", DONE), bound("b", "1", DONE)]);
    assert_eq!(
        told(&status.conditions),
        [
            "ClusterResourcePlacementScheduled True SchedulingPolicyFulfilled",
            "ClusterResourcePlacementRolloutStarted True RolloutStarted",
            "ClusterResourcePlacementOverridden True NoOverrideSpecified",
            "ClusterResourcePlacementWorkSynchronized True WorkSynchronized",
            "ClusterResourcePlacementApplied True ApplySucceeded",
            "ClusterResourcePlacementAvailable True ResourceAvailable",
        ]
    );
    assert_eq!(
        status.conditions[1].message,
        "All 2 cluster(s) start rolling out the latest resource"
    );
    assert_eq!(
        told(&status.placement_statuses[0].conditions),
        [
            "Scheduled True Scheduled",
            "RolloutStarted True RolloutStarted",
            "Overridden True NoOverrideSpecified",
            "WorkSynchronized True AllWorkSynced",
            "Applied True AllWorkHaveBeenApplied",
            "Available True AllWorkAreAvailable",
        ]
    );
    assert_eq!(status.observed_resource_index, "1");
    assert_eq!(status.selected_resources.len(), 1);
    assert_eq!(
        status.placement_statuses[0].conditions[0].message,
        "about a"
    );
}

#[test]
fn a_cluster_that_waits_or_failed_ends_the_list() {
    let p = placement(&json!({}));
    let policy = policy(1, &[("a", true), ("b", true), ("c", true)], true);
    let failed = [
        &DONE[..3],
        &[("Applied", "False", "NotAllWorkHaveBeenApplied")],
    ]
    .concat();
    let with = |c: Binding| {
        built(
            &p,
            &policy,
            &[bound("a", "1", DONE), bound("b", "1", &failed), c],
        )
    };
    let status = with(bound("c", "1", DONE));
    assert_eq!(
        told(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementApplied False ApplyFailed"
    );
    let held = [("RolloutStarted", "False", "RolloutNotStartedYet"), DONE[1]];
    let status = with(bound("c", "0", &held));
    assert_eq!(
        told(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementRolloutStarted False RolloutNotStartedYet"
    );
    // True of an old snapshot says nothing about the new one.
    let status = with(bound("c", "0", DONE));
    assert_eq!(
        told(&status.placement_statuses[2].conditions),
        [
            "Scheduled True Scheduled",
            "RolloutStarted Unknown RolloutStartedUnknown"
        ]
    );
    assert_eq!(status.placement_statuses[2].observed_resource_index, "0");
    assert_eq!(
        told(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementRolloutStarted Unknown RolloutStartedUnknown"
    );
}

#[test]
fn a6_nothing_selected_leaves_the_scheduled_condition_alone() {
    let p = placement(&json!({"policy": {"placementType": "PickN", "numberOfClusters": 0}}));
    let status = built(&p, &policy(1, &[], true), &[]);
    assert_eq!(
        told(&status.conditions),
        ["ClusterResourcePlacementScheduled True SchedulingPolicyFulfilled"]
    );
    assert!(status.placement_statuses.is_empty());
}

#[test]
fn a7_missing_clusters_have_entries_without_a_name() {
    let p = placement(&json!({"policy": {"placementType": "PickN", "numberOfClusters": 3}}));
    let decisions = [("a", true), ("b", true), ("x", false), ("y", false)];
    let status = built(
        &p,
        &policy(1, &decisions, false),
        &[bound("a", "1", DONE), bound("b", "1", DONE)],
    );
    let names: Vec<&str> = status
        .placement_statuses
        .iter()
        .map(|one| one.cluster_name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", ""]);
    assert_eq!(
        told(&status.placement_statuses[2].conditions),
        ["Scheduled False ScheduleFailed"]
    );
    assert_eq!(
        status.placement_statuses[2].conditions[0].message,
        "about x"
    );
    assert_eq!(
        told(&status.conditions)[0],
        "ClusterResourcePlacementScheduled False SchedulingPolicyUnfulfilled"
    );
    assert_eq!(status.conditions.len(), 6);
}

#[test]
fn an_old_decision_is_pending_and_times_stay_while_nothing_changes() {
    let mut p = placement(&json!({}));
    let status = built(&p, &policy(0, &[("a", true)], true), &[]);
    assert_eq!(
        told(&status.conditions),
        ["ClusterResourcePlacementScheduled Unknown SchedulePending"]
    );
    assert!(status.placement_statuses.is_empty());
    let now = policy(1, &[("a", true)], true);
    p.status = built(&p, &now, &[bound("a", "1", DONE)]);
    let before = "2025-01-01T00:00:00Z";
    for one in &mut p.status.conditions {
        before.clone_into(&mut one.last_transition_time);
    }
    let failed = [
        &DONE[..4],
        &[("Available", "False", "NotAllWorkAreAvailable")],
    ]
    .concat();
    let status = built(&p, &now, &[bound("a", "1", &failed)]);
    let times: Vec<&str> = status
        .conditions
        .iter()
        .map(|one| one.last_transition_time.as_str())
        .collect();
    assert_eq!(times, [before, before, before, before, before, NOW]);
    assert!(status.conditions[0].equals_except_time(&p.status.conditions[0]));
}

#[test]
fn an_external_rollout_shows_what_all_clusters_agree_on() {
    let p = placement(&json!({"strategy": {"type": "External"}}));
    let policy = policy(1, &[("a", true), ("b", true)], true);
    let status = built(&p, &policy, &[bound("a", "0", DONE), bound("b", "0", DONE)]);
    assert_eq!(
        (
            status.observed_resource_index.as_str(),
            status.conditions.len()
        ),
        ("0", 6)
    );
    let status = built(&p, &policy, &[bound("a", "0", DONE), bound("b", "1", DONE)]);
    assert_eq!(status.observed_resource_index, "");
    assert!(status.selected_resources.is_empty());
    assert_eq!(
        told(&status.conditions)[1],
        "ClusterResourcePlacementRolloutStarted Unknown RolloutControlledByExternalController"
    );
}

#[test]
fn invalid_selectors_keep_what_is_placed() {
    let mut p = placement(&json!({}));
    p.status = built(
        &p,
        &policy(1, &[("a", true)], true),
        &[bound("a", "1", DONE)],
    );
    let none = BTreeMap::new();
    let resources = BTreeMap::new();
    let status = invalid_selectors(
        &StatusRequest {
            placement: &p,
            scope: Scope::Cluster,
            policy: None,
            latest_index: "1",
            indices: &none,
            resources: &resources,
            bindings: &[],
            now: NOW,
        },
        "no such kind",
    );
    assert_eq!(
        told(&status.conditions),
        ["ClusterResourcePlacementScheduled False InvalidResourceSelectors"]
    );
    assert_eq!(status.placement_statuses, p.status.placement_statuses);
}

#[test]
fn each_step_that_turns_true_is_an_event() {
    let mut p = placement(&json!({}));
    let policy = policy(1, &[("a", true)], true);
    p.status = built(&p, &policy, &[bound("a", "1", DONE)]);
    let all: Vec<&str> = events(&p, &[], Scope::Cluster)
        .iter()
        .map(|one| one.0)
        .collect();
    assert_eq!(
        all,
        [
            "PlacementRolloutStarted",
            "PlacementOverriddenSucceeded",
            "PlacementWorkSynchronized",
            "PlacementApplied",
            "PlacementAvailable",
            "PlacementRolloutCompleted",
        ]
    );
    assert!(events(&p, &p.status.conditions, Scope::Cluster).is_empty());
}

fn work(name: &str, conditions: &Value) -> WorkOutline {
    let mut work = json!({
        "metadata": {"name": name, "generation": 1}, "spec": {}, "status": {"conditions": conditions},
    });
    for one in work["status"]["conditions"].as_array_mut().unwrap() {
        one["message"] = "m".into();
        one["observedGeneration"] = 1.into();
    }
    serde_json::from_value(work).unwrap()
}

#[test]
fn a_binding_says_what_all_works_say() {
    let is = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
    let applied = || is("Applied", "True", "AllManifestsApplied");
    let ready = work(
        "p-work",
        &json!([applied(), is("Available", "True", "AllManifestsAvailable")]),
    );
    let assumed = work(
        "p-0",
        &json!([applied(), is("Available", "True", "WorkNotTrackable")]),
    );
    let waiting = work(
        "p-1",
        &json!([
            applied(),
            is("Available", "False", "SomeManifestsAreNotAvailable")
        ]),
    );
    let failed = work(
        "p-2",
        &json!([is("Applied", "False", "SomeManifestsAreNotApplied")]),
    );
    let silent = work("p-3", &json!([]));
    let mut old = ready.clone();
    old.metadata.generation = 2;
    let binding = bound("a", "1", &[]);
    let last = |pass: &Pass, works: &[&WorkOutline]| {
        let works: Vec<WorkOutline> = works.iter().map(|one| (*one).clone()).collect();
        told(&conditions(&binding, pass, &works, false, NOW))
            .pop()
            .unwrap()
    };
    let unchanged = Pass::Unchanged;
    assert_eq!(
        last(&unchanged, &[&ready]),
        "Available True AllWorkAreAvailable"
    );
    assert_eq!(
        last(&unchanged, &[&ready, &assumed]),
        "Available True NotAllWorkAreAvailabilityTrackable"
    );
    assert_eq!(
        last(&unchanged, &[&waiting, &assumed]),
        "Available False NotAllWorkAreAvailable"
    );
    assert_eq!(
        last(&unchanged, &[&ready, &failed]),
        "Applied False NotAllWorkHaveBeenApplied"
    );
    assert_eq!(
        last(&unchanged, &[&failed, &silent]),
        "Applied False ApplyInProgress"
    );
    assert_eq!(last(&unchanged, &[&old]), "Applied False ApplyInProgress");
    assert_eq!(
        last(&Pass::Changed, &[&ready]),
        "Applied False ApplyInProgress"
    );
    assert_eq!(
        last(&Pass::SyncFailed("x".into()), &[]),
        "WorkSynchronized False SyncWorkFailed"
    );
    assert_eq!(
        last(&Pass::OverrideFailed("x".into()), &[]),
        "Overridden False OverriddenFailed"
    );
    let reported =
        |status: &str, reason: &str| work("p-4", &json!([is("DiffReported", status, reason)]));
    for (work, wanted) in [
        (ready, "False DiffReportInProgress"),
        (
            reported("True", "AllManifestsDiffReported"),
            "True AllWorkHaveDiffReported",
        ),
        (
            reported("False", "SomeManifestsHaveNotReportedDiff"),
            "False NotAllWorkHaveDiffReported",
        ),
    ] {
        let diff = conditions(&binding, &unchanged, &[work], true, NOW);
        let last = told(&diff).pop().unwrap();
        assert_eq!(last, format!("DiffReported {wanted}"));
    }
}

#[test]
fn problems_name_the_envelope_and_are_sorted() {
    let mut work = work("p-envelope-1", &json!([]));
    work.metadata.labels = [
        (
            names::ENVELOPE_TYPE.to_owned(),
            "ResourceEnvelope".to_owned(),
        ),
        (names::ENVELOPE_NAME.to_owned(), "e".to_owned()),
        (names::ENVELOPE_NAMESPACE.to_owned(), "n".to_owned()),
    ]
    .into();
    let manifest = |name: &str| {
        json!({
            "identifier": {"ordinal": 0, "version": "v1", "kind": "ConfigMap", "name": name, "namespace": "n"},
            "conditions": [{"type": "Applied", "status": "False", "reason": "ManifestApplyFailed", "message": "m"}],
            "driftDetails": {"observationTime": NOW, "firstDriftedObservedTime": NOW,
                             "observedInMemberClusterGeneration": 3, "observedDrifts": [{"path": "/data/k"}]},
        })
    };
    work.status.manifest_conditions = ["b", "a"]
        .map(|name| serde_json::from_value(manifest(name)).unwrap())
        .into();
    let not_applied = json!({"type": "Applied", "status": "False", "reason": "SomeManifestsNotApplied",
                             "message": "", "lastTransitionTime": NOW, "observedGeneration": 1});
    work.metadata.generation = 2;
    work.status.conditions = vec![serde_json::from_value(not_applied).unwrap()];
    // The member has listed the manifests of this generation and not applied them yet.
    let found = super::works::problems(&[work.clone()]);
    assert_eq!((found.failed.len(), found.drifted.len()), (0, 2));
    work.status.conditions[0].observed_generation = 2;
    let found = super::works::problems(&[work]);
    let names: Vec<&str> = found
        .failed
        .iter()
        .map(|one| one.identifier.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let envelope = found.failed[0].identifier.envelope.as_ref().unwrap();
    assert_eq!(
        (envelope.name.as_str(), envelope.namespace.as_str()),
        ("e", "n")
    );
    assert_eq!(found.drifted[0].target_cluster_observed_generation, 3);
    assert!(found.diffed.is_empty());
}

#[test]
fn the_words_of_steps_are_those_of_the_original() {
    let steps = [Step::all(false), &[Step::DiffReported]].concat();
    let words = steps.into_iter().map(|step| {
        let words = step.words();
        format!(
            "{}: {}; {}",
            words.name,
            words.reasons.join(" "),
            words.event.0
        )
    });
    assert_eq!(
        words.collect::<Vec<_>>(),
        [
            "RolloutStarted: RolloutStarted RolloutNotStartedYet RolloutStartedUnknown; PlacementRolloutStarted",
            "Overridden: OverriddenSucceeded OverriddenFailed OverriddenPending; PlacementOverriddenSucceeded",
            "WorkSynchronized: WorkSynchronized WorkNotSynchronizedYet WorkSynchronizedUnknown; PlacementWorkSynchronized",
            "Applied: ApplySucceeded ApplyFailed ApplyPending; PlacementApplied",
            "Available: ResourceAvailable ResourceNotAvailableYet ResourceAvailableUnknown; PlacementAvailable",
            "DiffReported: DiffReportingCompleted DiffReportingIncompleteOrFailed DiffReportingPending; PlacementDiffReported",
        ]
    );
}

#[test]
fn a_member_that_does_not_answer_counts_as_not_applied_and_is_named() {
    let p = placement(&json!({}));
    let policy = policy(1, &[("a", true), ("dead", true)], true);
    let mut dead = bound("dead", "1", &DONE[..1]);
    let found = conditions(
        &dead,
        &Pass::Unchanged,
        &[work("p-work", &json!([]))],
        false,
        NOW,
    );
    dead.status.conditions.extend(found);
    let status = built(&p, &policy, &[bound("a", "1", DONE), dead]);
    let last = told(&status.conditions).pop();
    let applied = "ClusterResourcePlacementApplied False ApplyFailed";
    assert_eq!(last.as_deref(), Some(applied));
    assert_eq!(
        status.conditions[4].message,
        "Applied is false for 1 cluster(s): dead (ApplyInProgress)"
    );
    let entry = &status.placement_statuses[1];
    let last = told(&entry.conditions).pop();
    assert_eq!(last.as_deref(), Some("Applied False ApplyInProgress"));
    assert!(entry.failed_placements.is_empty());
}
