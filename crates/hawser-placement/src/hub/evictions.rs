//! The next writes for an eviction: whether it is valid, then whether it is executed.
//!
//! The texts of the conditions are KubeFleet's, because tools compare them. Validity is written before the binding is
//! deleted: if the binding is gone then, the eviction was executed.

use serde_json::json;

use super::{HubWrite, ObjectName, Stages};
use crate::names;
use crate::rollout::{has_failed, is_true};
use crate::types::binding::{Binding, BindingState};
use crate::types::eviction::{DisruptionBudget, Eviction, EvictionStatus};
use crate::types::placement::Placement;
use crate::types::policy::PlacementType;
use crate::types::{Condition, ConditionStatus, IntOrPercent, condition};

const KIND: &str = "ClusterResourcePlacementEviction";
const BINDING: &str = "ClusterResourceBinding";
const VALID: &str = "Valid";
const EXECUTED: &str = "Executed";

/// The known facts about an eviction.
#[derive(Clone, Copy, Debug)]
pub struct EvictionView<'a> {
    pub eviction: &'a Eviction,
    /// `None` if there is none of the name.
    pub placement: Option<&'a Placement>,
    /// The bindings of the placement.
    pub bindings: &'a [Binding],
    /// The budget of the placement.
    pub budget: Option<&'a DisruptionBudget>,
    /// The time in the format of conditions.
    pub time: &'a str,
}

/// The reason why an eviction is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Invalid {
    #[error("Failed to find ClusterResourcePlacement targeted by eviction")]
    NoPlacement,
    #[error("Found deleting ClusterResourcePlacement targeted by eviction")]
    Deleting,
    #[error("Found ClusterResourcePlacement with PickFixed placement type targeted by eviction")]
    Fixed,
    #[error("Failed to find scheduler decision for placement in cluster targeted by eviction")]
    NoDecision,
    #[error("Found more than one scheduler decision for placement in cluster targeted by eviction")]
    ManyDecisions,
}

/// Whether an eviction that is valid is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Answer {
    #[error(
        "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction"
    )]
    Leaving,
    #[error("Eviction is allowed, placement has failed")]
    Failed,
    #[error("Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified")]
    NoBudget,
    #[error(
        "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {available}, totalPlacements: {total}"
    )]
    WithinBudget { available: i64, total: i64 },
    #[error("Eviction is blocked, placement has not propagated resources to target cluster yet")]
    NotThere,
    #[error(
        "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
    )]
    Misconfigured,
    #[error(
        "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {available}, totalPlacements: {total}"
    )]
    BeyondBudget { available: i64, total: i64 },
}

impl Answer {
    fn is_allowed(self) -> bool {
        matches!(
            self,
            Self::Leaving | Self::Failed | Self::NoBudget | Self::WithinBudget { .. }
        )
    }
}

/// True if an eviction is finished.
pub fn is_over(eviction: &Eviction) -> bool {
    let conditions = &eviction.status.conditions;
    let valid = condition(conditions, VALID);
    eviction.metadata.in_deletion()
        || valid.is_some_and(|valid| valid.status == ConditionStatus::False)
        || condition(conditions, EXECUTED).is_some()
}

/// Whether an eviction was found to be valid.
pub fn was_valid(eviction: &Eviction) -> bool {
    let valid = condition(&eviction.status.conditions, VALID);
    valid.is_some_and(|valid| valid.status == ConditionStatus::True)
}

/// Decides about an eviction.
pub fn decide(view: &EvictionView<'_>) -> Stages {
    let mut stages = Stages::default();
    if is_over(view.eviction) {
        return stages;
    }
    let was_valid = was_valid(view.eviction);
    let target = match (target(view), was_valid) {
        (Ok(target), _) => Some(target),
        // The binding existed when the eviction was found to be valid.
        (Err(Invalid::NoDecision), true) => None,
        (Err(invalid), _) => {
            stages.push([status(view, vec![valid(view, Err(invalid))])]);
            return stages;
        }
    };
    let mut conditions = vec![valid(view, Ok(()))];
    if !was_valid {
        stages.push([status(view, conditions)]);
        return stages;
    }
    let answer = match (target, view.placement) {
        (Some(target), Some(placement)) => answer(view, placement, target),
        _ => Answer::Leaving,
    };
    let deleted = target.filter(|one| answer.is_allowed() && !one.metadata.in_deletion());
    // The answer is about this version of the binding.
    stages.push(deleted.map(|one| HubWrite::delete_known(BINDING, &one.metadata)));
    let (truth, reason) = if answer.is_allowed() {
        (
            ConditionStatus::True,
            "ClusterResourcePlacementEvictionExecuted",
        )
    } else {
        (
            ConditionStatus::False,
            "ClusterResourcePlacementEvictionNotExecuted",
        )
    };
    conditions.push(made(view, EXECUTED, truth, reason, answer.to_string()));
    stages.push([status(view, conditions)]);
    stages
}

/// The binding that is evicted.
fn target<'a>(view: &EvictionView<'a>) -> Result<&'a Binding, Invalid> {
    let placement = view.placement.ok_or(Invalid::NoPlacement)?;
    if placement.metadata.in_deletion() {
        return Err(Invalid::Deleting);
    }
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Err(Invalid::Fixed);
    }
    let cluster = &view.eviction.spec.cluster_name;
    let mut of_cluster = view
        .bindings
        .iter()
        .filter(|one| one.spec.target_cluster == *cluster);
    let first = of_cluster.next().ok_or(Invalid::NoDecision)?;
    match of_cluster.next() {
        None => Ok(first),
        Some(_) => Err(Invalid::ManyDecisions),
    }
}

fn answer(view: &EvictionView<'_>, placement: &Placement, target: &Binding) -> Answer {
    if target.metadata.in_deletion() {
        return Answer::Leaving;
    }
    let is_there = match target.spec.state {
        BindingState::Bound => true,
        BindingState::Unscheduled => {
            target.metadata.annotation(names::PREVIOUS_STATE) == Some(BindingState::Bound.as_str())
        }
        BindingState::Scheduled => false,
    };
    if !is_there {
        return Answer::NotThere;
    }
    if has_failed(target) || is_true(target, "DiffReported") {
        return Answer::Failed;
    }
    let Some(budget) = view.budget else {
        return Answer::NoBudget;
    };
    let (most, least) = (&budget.spec.max_unavailable, &budget.spec.min_available);
    let picks_all = placement.spec.placement_type() == PlacementType::PickAll;
    // PickAll has no number of clusters, so a percentage or `maxUnavailable` has no base.
    if picks_all && (most.is_some() || matches!(least, Some(IntOrPercent::Text(_)))) {
        return Answer::Misconfigured;
    }
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    // A binding in deletion counts as unavailable.
    let available = view.bindings.iter();
    let available =
        available.filter(|one| !one.metadata.in_deletion() && is_true(one, "Available"));
    let (available, total) = (count(available.count()), count(view.bindings.len()));
    let policy = placement.spec.policy.as_ref();
    let wanted = policy.and_then(|policy| policy.number_of_clusters);
    let of = |limit: &IntOrPercent| limit.of(wanted.unwrap_or_default().into());
    let room = match (most, least) {
        (Some(most), _) => of(most).map(|most| most - (total - available)),
        (None, Some(least)) => of(least).map(|least| available - least),
        (None, None) => None,
    };
    if room.is_some_and(|room| room > 0) {
        Answer::WithinBudget { available, total }
    } else {
        Answer::BeyondBudget { available, total }
    }
}

fn valid(view: &EvictionView<'_>, is: Result<(), Invalid>) -> Condition {
    match is {
        Ok(()) => made(
            view,
            VALID,
            ConditionStatus::True,
            "ClusterResourcePlacementEvictionValid",
            "Eviction is valid".to_owned(),
        ),
        Err(invalid) => made(
            view,
            VALID,
            ConditionStatus::False,
            "ClusterResourcePlacementEvictionInvalid",
            invalid.to_string(),
        ),
    }
}

fn made(
    view: &EvictionView<'_>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: view.eviction.metadata.generation,
        last_transition_time: view.time.to_owned(),
        reason: reason.to_owned(),
        message,
    }
}

fn status(view: &EvictionView<'_>, mut conditions: Vec<Condition>) -> HubWrite {
    crate::status::settle(&mut conditions, &view.eviction.status.conditions);
    HubWrite::Status {
        place: ObjectName::of(KIND, &view.eviction.metadata),
        status: json!(EvictionStatus { conditions }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const TIME: &str = "2026-01-01T12:00:00Z";

    fn eviction() -> Eviction {
        let eviction = json!({"metadata": {"name": "e", "generation": 1},
            "spec": {"placementName": "p", "clusterName": "a"}});
        serde_json::from_value(eviction).unwrap()
    }

    fn placement(policy: &Value) -> Placement {
        let placement = json!({"metadata": {"name": "p", "generation": 1},
            "spec": {"resourceSelectors": [], "policy": policy}});
        serde_json::from_value(placement).unwrap()
    }

    fn budget(spec: &Value) -> DisruptionBudget {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    /// A binding whose condition of this type has this status.
    fn bound(cluster: &str, type_: &str, status: &str) -> Binding {
        let mut binding = crate::fixtures::binding(cluster, BindingState::Bound, "p-0");
        let one = json!([{"type": type_, "status": status, "reason": "R", "message": ""}]);
        binding.status.conditions = serde_json::from_value(one).unwrap();
        binding.metadata.resource_version = Some(format!("1-{cluster}"));
        binding
    }

    fn available(clusters: &[&str]) -> Vec<Binding> {
        clusters
            .iter()
            .map(|name| bound(name, "Available", "True"))
            .collect()
    }

    /// Runs an eviction to its end; returns the deletions and the last condition, as status and message.
    fn run(
        placement: Option<&Placement>,
        bindings: &[Binding],
        budget: Option<&DisruptionBudget>,
    ) -> (usize, ConditionStatus, String) {
        let (mut eviction, mut deleted) = (eviction(), 0);
        for _ in 0..3 {
            let view = EvictionView {
                eviction: &eviction,
                placement,
                bindings,
                budget,
                time: TIME,
            };
            for write in decide(&view).into_stages().flatten() {
                match write {
                    HubWrite::Delete { place, version, .. } => {
                        assert_eq!((place.kind, &*place.name), (BINDING, "b-a"));
                        let known = bindings.iter().find(|one| one.metadata.name == place.name);
                        assert_eq!(version, known.unwrap().metadata.resource_version);
                        assert!(version.is_some());
                        deleted += 1;
                    }
                    HubWrite::Status { status, .. } => {
                        eviction.status = serde_json::from_value(status).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(is_over(&eviction));
        for one in &eviction.status.conditions {
            let word = match (&*one.type_, one.status) {
                (VALID, ConditionStatus::True) => "Valid",
                (VALID, _) => "Invalid",
                (_, ConditionStatus::True) => "Executed",
                _ => "NotExecuted",
            };
            assert_eq!(
                one.reason,
                format!("ClusterResourcePlacementEviction{word}")
            );
        }
        let last = eviction.status.conditions.pop().unwrap();
        (deleted, last.status, last.message)
    }

    fn says(
        outcome: &(usize, ConditionStatus, String),
        deleted: usize,
        status: ConditionStatus,
        text: &str,
    ) {
        assert_eq!((outcome.0, outcome.1), (deleted, status), "{outcome:?}");
        assert!(outcome.2.contains(text), "{outcome:?}");
    }

    #[test]
    fn an_eviction_without_a_decision_to_take_back_is_invalid() {
        let all = placement(&json!({"placementType": "PickAll"}));
        let one = available(&["a"]);
        let invalid = |placement: Option<&Placement>, bindings: &[Binding], text: &str| {
            says(
                &run(placement, bindings, None),
                0,
                ConditionStatus::False,
                text,
            );
        };
        invalid(None, &one, "Failed to find ClusterResourcePlacement");
        let mut deleting = all.clone();
        deleting.metadata.deletion_timestamp = Some(TIME.to_owned());
        invalid(Some(&deleting), &one, "Found deleting");
        let fixed = placement(&json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
        invalid(Some(&fixed), &one, "PickFixed");
        invalid(
            Some(&all),
            &available(&["b"]),
            "Failed to find scheduler decision",
        );
        invalid(Some(&all), &available(&["a", "a"]), "Found more than one");
    }

    #[test]
    fn what_is_not_there_stays_and_what_failed_or_leaves_goes() {
        let all = placement(&json!({"placementType": "PickAll"}));
        let none = budget(&json!({"minAvailable": 9}));
        let mut one = available(&["a"]);
        says(
            &run(Some(&all), &one, None),
            1,
            ConditionStatus::True,
            "no ClusterResourcePlacementDisruptionBudget",
        );
        one[0].spec.state = BindingState::Scheduled;
        says(
            &run(Some(&all), &one, None),
            0,
            ConditionStatus::False,
            "has not propagated",
        );
        one[0].spec.state = BindingState::Unscheduled;
        one[0]
            .metadata
            .annotations
            .insert(names::PREVIOUS_STATE.into(), "Bound".into());
        says(
            &run(Some(&all), &one, None),
            1,
            ConditionStatus::True,
            "no ClusterResourcePlacementDisruptionBudget",
        );
        one[0].metadata.deletion_timestamp = Some(TIME.to_owned());
        says(
            &run(Some(&all), &one, Some(&none)),
            0,
            ConditionStatus::True,
            "currently being removed",
        );
        let failed = [bound("a", "Applied", "False")];
        says(
            &run(Some(&all), &failed, Some(&none)),
            1,
            ConditionStatus::True,
            "placement has failed",
        );
        let reported = [bound("a", "DiffReported", "True")];
        says(
            &run(Some(&all), &reported, Some(&none)),
            1,
            ConditionStatus::True,
            "placement has failed",
        );
    }

    #[test]
    fn a_budget_leaves_as_many_as_it_says() {
        let all = placement(&json!({"placementType": "PickAll"}));
        let three = placement(&json!({"placementType": "PickN", "numberOfClusters": 3}));
        let mut bindings = available(&["a", "b", "c"]);
        let of = |placement: &Placement, bindings: &[Binding], spec: Value| {
            run(Some(placement), bindings, Some(&budget(&spec)))
        };
        for wrong in [json!({"maxUnavailable": 1}), json!({"minAvailable": "10%"})] {
            says(
                &of(&all, &bindings, wrong),
                0,
                ConditionStatus::False,
                "misconfigured",
            );
        }
        says(
            &of(&all, &bindings, json!({"minAvailable": 2})),
            1,
            ConditionStatus::True,
            "allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3",
        );
        says(
            &of(&all, &bindings, json!({"minAvailable": 3})),
            0,
            ConditionStatus::False,
            "blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3",
        );
        // 34% of 3 clusters are 2.
        says(
            &of(&three, &bindings, json!({"minAvailable": "34%"})),
            1,
            ConditionStatus::True,
            "allowed by",
        );
        says(
            &of(&three, &bindings, json!({"minAvailable": "67%"})),
            0,
            ConditionStatus::False,
            "blocked by",
        );
        says(
            &of(&three, &bindings, json!({"maxUnavailable": 1})),
            1,
            ConditionStatus::True,
            "allowed by",
        );
        says(
            &of(&three, &bindings, json!({"maxUnavailable": 0})),
            0,
            ConditionStatus::False,
            "blocked by",
        );
        says(
            &of(&three, &bindings, json!({})),
            0,
            ConditionStatus::False,
            "blocked by",
        );
        // Another one that leaves has used the budget up.
        bindings[2].metadata.deletion_timestamp = Some(TIME.to_owned());
        says(
            &of(&three, &bindings, json!({"maxUnavailable": 1})),
            0,
            ConditionStatus::False,
            "availablePlacements: 2, totalPlacements: 3",
        );
    }

    fn unbudgeted<'a>(
        eviction: &'a Eviction,
        placement: &'a Placement,
        bindings: &'a [Binding],
    ) -> EvictionView<'a> {
        EvictionView {
            eviction,
            placement: Some(placement),
            bindings,
            budget: None,
            time: TIME,
        }
    }

    #[test]
    fn an_eviction_that_was_interrupted_after_the_deletion_was_executed() {
        let all = placement(&json!({"placementType": "PickAll"}));
        let mut eviction = eviction();
        let bindings = available(&["a"]);
        let stages = decide(&unbudgeted(&eviction, &all, &bindings));
        let first = stages.into_stages().next();
        let Some([HubWrite::Status { status, .. }]) = first.as_deref() else {
            panic!("validity comes first");
        };
        eviction.status = serde_json::from_value(status.clone()).unwrap();
        let stages = decide(&unbudgeted(&eviction, &all, &[]));
        let writes: Vec<HubWrite> = stages.into_stages().flatten().collect();
        let [HubWrite::Status { status, .. }] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!(status["conditions"][1]["status"], "True");
    }
}
