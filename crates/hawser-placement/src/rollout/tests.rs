use serde_json::{Value, json};

use super::*;
use crate::fixtures::{binding, now};

fn spec(policy: &Value, rolling_update: &Value) -> PlacementSpec {
    let mut spec = json!({"resourceSelectors": [], "strategy": {"rollingUpdate": rolling_update}});
    if !policy.is_null() {
        spec["policy"] = policy.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn condition_of(type_: &str, status: &str, reason: &str, since: &str) -> Condition {
    let condition = json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": since});
    serde_json::from_value(condition).unwrap()
}

/// A bound binding on snapshot 0 with these conditions.
fn bound(cluster: &str, conditions: &[(&str, &str, &str)]) -> Binding {
    let mut binding = binding(cluster, BindingState::Bound, "p-0");
    binding.spec.apply_strategy = Some(ApplyStrategy::default());
    "p-0-snapshot".clone_into(&mut binding.spec.resource_snapshot_name);
    let conditions = conditions.iter();
    binding.status.conditions = conditions
        .map(|(type_, status, reason)| condition_of(type_, status, reason, "2026-01-01T11:59:30Z"))
        .collect();
    binding
}

const READY: &[(&str, &str, &str)] = &[
    ("RolloutStarted", "True", "RolloutStarted"),
    ("Available", "True", "AllWorkAreAvailable"),
];

fn in_state(cluster: &str, state: BindingState) -> Binding {
    let mut binding = bound(
        cluster,
        if state == BindingState::Scheduled {
            &[]
        } else {
            READY
        },
    );
    binding.spec.state = state;
    binding
}

fn planned(spec: &PlacementSpec, bindings: &[Binding], snapshot: &str) -> RolloutPlan {
    let desired = Desired {
        resource_snapshot: snapshot.to_owned(),
        ..Desired::default()
    };
    let desired = bindings
        .iter()
        .map(|one| (name(one), desired.clone()))
        .collect();
    plan(spec, bindings, &desired, |_| false, now()).unwrap()
}

fn fixed(names: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": names})
}

#[test]
fn a3_a_quarter_is_updated_and_a_failure_stops_the_rest() {
    let names = ["a", "b", "c", "d"];
    let spec = spec(
        &fixed(&names),
        &json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
    );
    let mut bindings: Vec<Binding> = names.iter().map(|name| bound(name, READY)).collect();
    let plan = planned(&spec, &bindings, "p-1-snapshot");
    assert_eq!(plan.update, ["b-a"]);
    assert_eq!(plan.hold, ["b-b", "b-c", "b-d"]);

    let failing: &[_] = &[
        ("RolloutStarted", "True", "RolloutStarted"),
        ("Applied", "False", "ApplyInProgress"),
    ];
    bindings[0] = bound("a", failing);
    "p-1-snapshot".clone_into(&mut bindings[0].spec.resource_snapshot_name);
    let plan = planned(&spec, &bindings, "p-1-snapshot");
    assert!(plan.update.is_empty());
    assert_eq!(plan.hold, ["b-b", "b-c", "b-d"]);

    // The next snapshot goes to the failed one first.
    let plan = planned(&spec, &bindings, "p-2-snapshot");
    assert_eq!(plan.update, ["b-a"]);
}

#[test]
fn a4_the_first_placement_goes_everywhere_at_once() {
    let bindings: Vec<Binding> = ["a", "b", "c"]
        .iter()
        .map(|name| in_state(name, BindingState::Scheduled))
        .collect();
    let plan = planned(&spec(&Value::Null, &json!({})), &bindings, "p-0-snapshot");
    assert_eq!(plan.update, ["b-a", "b-b", "b-c"]);
    assert!(plan.hold.is_empty());
}

#[test]
fn a5_what_is_not_wanted_any_more_goes_as_availability_allows() {
    let spec = |number: i32| {
        spec(
            &json!({"placementType": "PickN", "numberOfClusters": number}),
            &json!({}),
        )
    };
    let mut bindings = vec![
        in_state("a", BindingState::Unscheduled),
        in_state("b", BindingState::Unscheduled),
        in_state("c", BindingState::Bound),
    ];
    let plan = planned(&spec(1), &bindings, "p-0-snapshot");
    assert_eq!(plan.remove, ["b-a", "b-b"]);
    assert!(plan.update.is_empty() && plan.hold.is_empty() && plan.confirm.is_empty());
    // Two replaced clusters of three: one may be unavailable until a new one is ready.
    bindings.push(in_state("d", BindingState::Scheduled));
    bindings.push(in_state("e", BindingState::Scheduled));
    let plan = planned(&spec(3), &bindings, "p-0-snapshot");
    assert_eq!(plan.remove, ["b-a"]);
    assert_eq!(
        (plan.update, plan.hold),
        (vec!["b-d".to_owned()], vec!["b-e".to_owned()])
    );
}

#[test]
fn a6_without_a_target_everything_goes_ready_or_not() {
    let mut binding = in_state("a", BindingState::Unscheduled);
    binding.status.conditions.clear();
    let spec = spec(
        &json!({"placementType": "PickN", "numberOfClusters": 0}),
        &json!({}),
    );
    assert_eq!(planned(&spec, &[binding], "p-0-snapshot").remove, ["b-a"]);
}

#[test]
fn what_cannot_be_tracked_is_waited_for() {
    let untracked: &[_] = &[("Available", "True", "NotAllWorkAreAvailabilityTrackable")];
    let bindings = [bound("a", untracked), bound("b", READY)];
    let with = |seconds: i64| {
        let update = json!({"maxUnavailable": 1, "unavailablePeriodSeconds": seconds});
        planned(
            &spec(&fixed(&["a", "b"]), &update),
            &bindings,
            "p-1-snapshot",
        )
    };
    let plan = with(60);
    assert_eq!(plan.wait, Some(SignedDuration::from_secs(30)));
    assert!(plan.update.is_empty());
    let plan = with(30);
    assert_eq!((plan.wait, plan.update), (None, vec!["b-a".to_owned()]));
}

#[test]
fn old_resources_leave_a_cluster_before_new_ones_come() {
    let mut leaving = bound("a", READY);
    leaving.metadata.name = "old".into();
    leaving.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    let bindings = [leaving, in_state("a", BindingState::Scheduled)];
    let plan = planned(&spec(&Value::Null, &json!({})), &bindings, "p-0-snapshot");
    assert_eq!(
        plan,
        RolloutPlan {
            wait: Some(SAME_CLUSTER_WAIT),
            ..RolloutPlan::default()
        }
    );
}

#[test]
fn the_strategy_of_applying_goes_everywhere_first() {
    let mut spec = spec(&Value::Null, &json!({}));
    spec.strategy.apply_strategy =
        serde_json::from_value(json!({"type": "ServerSideApply"})).unwrap();
    let plan = planned(&spec, &[bound("a", READY)], "p-1-snapshot");
    assert_eq!(plan.set_strategy, ["b-a"]);
    assert!(plan.update.is_empty());
    let mut new = in_state("a", BindingState::Scheduled);
    new.spec.apply_strategy = None;
    let plan = planned(&spec, &[new], "p-1-snapshot");
    assert_eq!(
        plan.set_strategy, plan.update,
        "a new binding gets both at once"
    );
    spec.strategy = serde_json::from_value(json!({"type": "External"})).unwrap();
    assert_eq!(
        planned(&spec, &[bound("a", READY)], "p-1-snapshot"),
        RolloutPlan::default()
    );
}

#[test]
fn a_binding_that_is_up_to_date_says_so() {
    let quiet = bound("a", &[("Available", "True", "AllWorkAreAvailable")]);
    let plan = planned(&spec(&Value::Null, &json!({})), &[quiet], "p-0-snapshot");
    assert_eq!(
        plan,
        RolloutPlan {
            confirm: vec!["b-a".to_owned()],
            ..RolloutPlan::default()
        }
    );
}

#[test]
fn limits_are_rounded_up_and_must_be_readable() {
    let of = |text: &str, whole| IntOrPercent::Text(text.to_owned()).of(whole);
    assert_eq!(
        (of("25%", 4), of("25%", 5), of("0%", 5)),
        (Some(1), Some(2), Some(0))
    );
    assert_eq!(
        (of("100%", 3), of("7", 3), of("many", 3), of("101%", 3)),
        (Some(3), Some(7), None, None)
    );
    let spec = spec(&Value::Null, &json!({"maxSurge": "many"}));
    let error = plan(&spec, &[], &BTreeMap::new(), |_| false, now())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "maxSurge is \"many\": use a number or a percentage such as 25%"
    );
}
