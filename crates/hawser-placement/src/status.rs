//! Conditions of bindings and placements: from Works to the binding, from bindings to the placement.

use std::collections::BTreeMap;

use works::{NO_OVERRIDES, NO_OVERRIDES_MESSAGE};

use crate::snapshots::Scope;
use crate::types::binding::{Binding, BindingState, PolicySnapshot};
use crate::types::placement::{
    ClusterPlacementStatus, Placement, PlacementStatus, ResourceIdentifier,
};
use crate::types::policy::PlacementType;
use crate::types::{Condition, ConditionStatus, condition};

pub(crate) mod size;
pub mod works;

/// The steps of a rollout, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    RolloutStarted,
    Overridden,
    WorkSynchronized,
    Applied,
    Available,
    DiffReported,
}

/// The words of a step on the placement.
struct StepReasons {
    name: &'static str,
    reasons: [&'static str; 3],
    event: (&'static str, &'static str),
}

impl Step {
    /// The steps of a placement that writes resources, or of one that reports differences.
    pub fn all(reports_diff: bool) -> &'static [Self] {
        use Step::{
            Applied, Available, DiffReported, Overridden, RolloutStarted, WorkSynchronized,
        };
        if reports_diff {
            &[RolloutStarted, Overridden, WorkSynchronized, DiffReported]
        } else {
            &[
                RolloutStarted,
                Overridden,
                WorkSynchronized,
                Applied,
                Available,
            ]
        }
    }

    pub fn name(self) -> &'static str {
        self.words().name
    }

    /// The reasons for True, False and Unknown.
    fn words(self) -> StepReasons {
        let (name, reasons, event) = match self {
            Self::RolloutStarted => (
                "RolloutStarted",
                [
                    "RolloutStarted",
                    "RolloutNotStartedYet",
                    "RolloutStartedUnknown",
                ],
                (
                    "PlacementRolloutStarted",
                    "Started rolling out the latest resources",
                ),
            ),
            Self::Overridden => (
                "Overridden",
                [
                    "OverriddenSucceeded",
                    "OverriddenFailed",
                    "OverriddenPending",
                ],
                (
                    "PlacementOverriddenSucceeded",
                    "Placement has been successfully overridden",
                ),
            ),
            Self::WorkSynchronized => (
                "WorkSynchronized",
                [
                    "WorkSynchronized",
                    "WorkNotSynchronizedYet",
                    "WorkSynchronizedUnknown",
                ],
                (
                    "PlacementWorkSynchronized",
                    "Work(s) have been created or updated successfully for the selected cluster(s)",
                ),
            ),
            Self::Applied => (
                "Applied",
                ["ApplySucceeded", "ApplyFailed", "ApplyPending"],
                (
                    "PlacementApplied",
                    "Resources have been applied to the selected cluster(s)",
                ),
            ),
            Self::Available => (
                "Available",
                [
                    "ResourceAvailable",
                    "ResourceNotAvailableYet",
                    "ResourceAvailableUnknown",
                ],
                (
                    "PlacementAvailable",
                    "Resources are available on the selected cluster(s)",
                ),
            ),
            Self::DiffReported => (
                "DiffReported",
                [
                    "DiffReportingCompleted",
                    "DiffReportingIncompleteOrFailed",
                    "DiffReportingPending",
                ],
                (
                    "PlacementDiffReported",
                    "Configuration differences have been reported on the selected cluster(s)",
                ),
            ),
        };
        StepReasons {
            name,
            reasons,
            event,
        }
    }

    fn message(self, truth: ConditionStatus, clusters: usize) -> String {
        match (self, truth) {
            (Self::RolloutStarted, ConditionStatus::True) => {
                format!("All {clusters} cluster(s) start rolling out the latest resource")
            }
            (Self::WorkSynchronized, ConditionStatus::True) => format!(
                "Works(s) are succcesfully created or updated in the {clusters} target clusters' namespaces"
            ),
            (Self::Applied, ConditionStatus::True) => {
                format!("The selected resources are successfully applied to {clusters} clusters")
            }
            (Self::Available, ConditionStatus::True) => {
                format!("The selected resources in {clusters} cluster are available now")
            }
            (_, ConditionStatus::True) => {
                format!("{} is true for all {clusters} cluster(s)", self.name())
            }
            (_, ConditionStatus::False) => {
                format!("{} is false for {clusters} cluster(s)", self.name())
            }
            (_, ConditionStatus::Unknown) => {
                format!("{} is not known for {clusters} cluster(s) yet", self.name())
            }
        }
    }
}

/// The input for the status of a placement.
#[derive(Clone, Copy, Debug)]
pub struct StatusRequest<'a> {
    pub placement: &'a Placement,
    pub scope: Scope,
    /// The latest policy snapshot.
    pub policy: Option<&'a PolicySnapshot>,
    /// The index of the resource snapshot that counts.
    pub latest_index: &'a str,
    /// The indices of resource snapshots, by the name of the master.
    pub indices: &'a BTreeMap<String, String>,
    /// The resources of snapshots, by index.
    pub resources: &'a BTreeMap<String, Vec<ResourceIdentifier>>,
    pub bindings: &'a [Binding],
    /// The time for conditions that change.
    pub now: &'a str,
}

impl StatusRequest<'_> {
    fn generation(&self) -> i64 {
        self.placement.metadata.generation
    }

    fn condition(
        &self,
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: String,
    ) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status,
            observed_generation: self.generation(),
            last_transition_time: self.now.to_owned(),
            reason: reason.to_owned(),
            message,
        }
    }

    /// The type of a condition of the placement.
    fn type_of(&self, name: &str) -> String {
        match self.scope {
            Scope::Cluster => format!("ClusterResourcePlacement{name}"),
            Scope::Namespaced => format!("ResourcePlacement{name}"),
        }
    }

    /// The decision of the scheduler, if it is about this generation.
    fn scheduled(&self) -> Option<(&PolicySnapshot, &Condition)> {
        let policy = self.policy?;
        let scheduled = condition(&policy.status.conditions, "Scheduled")?;
        let is_fresh = scheduled.is_fresh(policy.metadata.generation)
            && policy.status.observed_crp_generation >= self.generation();
        is_fresh.then_some((policy, scheduled))
    }
}

/// The status of a placement whose selectors are invalid. Placed objects stay.
pub fn invalid_selectors(request: &StatusRequest<'_>, cause: &str) -> PlacementStatus {
    let scheduled = request.condition(
        &request.type_of("Scheduled"),
        ConditionStatus::False,
        "InvalidResourceSelectors",
        format!("The resource selectors are invalid: {cause}"),
    );
    let mut status = request.placement.status.clone();
    status.conditions = vec![scheduled];
    settle(&mut status.conditions, &request.placement.status.conditions);
    status
}

/// The status of a placement.
pub fn build(request: &StatusRequest<'_>) -> PlacementStatus {
    let mut status = PlacementStatus::default();
    observe(request, &mut status);
    let type_ = request.type_of("Scheduled");
    let Some((policy, scheduled)) = request.scheduled() else {
        let message = "Scheduling has not completed yet".to_owned();
        let pending =
            request.condition(&type_, ConditionStatus::Unknown, "SchedulePending", message);
        status.conditions.push(pending);
        settle(&mut status.conditions, &request.placement.status.conditions);
        return status;
    };
    status.conditions.push(request.condition(
        &type_,
        scheduled.status,
        &scheduled.reason,
        scheduled.message.clone(),
    ));
    let decisions = &policy.status.target_clusters;
    let selected = decisions.iter().filter(|one| one.selected);
    for decision in selected {
        let mut entry = ClusterPlacementStatus {
            cluster_name: decision.cluster_name.clone(),
            ..ClusterPlacementStatus::default()
        };
        entry.conditions.push(request.condition(
            "Scheduled",
            ConditionStatus::True,
            "Scheduled",
            decision.reason.clone(),
        ));
        let binding = request.bindings.iter().find(|one| {
            one.spec.target_cluster == decision.cluster_name
                && one.spec.state != BindingState::Unscheduled
                && !one.metadata.in_deletion()
                && one.spec.scheduling_policy_snapshot_name == policy.metadata.name
        });
        follow(request, binding, &mut entry);
        status.placement_statuses.push(entry);
    }
    if !status.placement_statuses.is_empty() {
        summarise(request, &mut status);
    }
    let missing = missing(request, status.placement_statuses.len());
    let unselected = decisions.iter().filter(|one| !one.selected);
    for decision in unselected.take(missing) {
        status.placement_statuses.push(ClusterPlacementStatus {
            conditions: vec![request.condition(
                "Scheduled",
                ConditionStatus::False,
                "ScheduleFailed",
                decision.reason.clone(),
            )],
            ..ClusterPlacementStatus::default()
        });
    }
    settle_all(&mut status, &request.placement.status);
    status
}

/// The number of clusters that are wanted and could not be selected.
fn missing(request: &StatusRequest<'_>, selected: usize) -> usize {
    let policy = request.placement.spec.policy.as_ref();
    let wanted = policy.map_or(0, |policy| match policy.placement_type {
        PlacementType::PickAll => 0,
        PlacementType::PickN => {
            let number = policy.number_of_clusters.unwrap_or_default();
            usize::try_from(number).unwrap_or_default()
        }
        PlacementType::PickFixed => policy.cluster_names.len(),
    });
    wanted.saturating_sub(selected)
}

/// The snapshot that the status is about: the latest, or the one that all bindings of an external rollout agree on.
fn observe(request: &StatusRequest<'_>, status: &mut PlacementStatus) {
    let index = if request.placement.spec.is_external() {
        agreed_index(request)
    } else {
        Some(request.latest_index)
    };
    if let Some(index) = index {
        index.clone_into(&mut status.observed_resource_index);
        status.selected_resources = request.resources.get(index).cloned().unwrap_or_default();
    }
}

fn agreed_index<'a>(request: &StatusRequest<'a>) -> Option<&'a str> {
    let live = request
        .bindings
        .iter()
        .filter(|one| one.spec.state != BindingState::Unscheduled && !one.metadata.in_deletion());
    let mut indices = live.map(|one| request.indices.get(&one.spec.resource_snapshot_name));
    let first = indices.next()??;
    indices
        .all(|index| index == Some(first))
        .then_some(first.as_str())
}

/// The conditions of a cluster, up to the first that is not True.
fn follow(
    request: &StatusRequest<'_>,
    binding: Option<&Binding>,
    entry: &mut ClusterPlacementStatus,
) {
    let spec = &request.placement.spec;
    let index = binding.and_then(|one| request.indices.get(&one.spec.resource_snapshot_name));
    if let (Some(binding), Some(index)) = (binding, index) {
        entry.observed_resource_index.clone_from(index);
        entry
            .applicable_cluster_resource_overrides
            .clone_from(&binding.spec.cluster_resource_override_snapshots);
        entry
            .applicable_resource_overrides
            .clone_from(&binding.spec.resource_override_snapshots);
    }
    // The conditions of a binding on an old snapshot are about old resources.
    let is_latest = spec.is_external() || index.is_some_and(|index| index == request.latest_index);
    for step in Step::all(spec.reports_diff()) {
        let found = binding.and_then(|binding| {
            let found = condition(&binding.status.conditions, step.name())?;
            found.is_fresh(binding.metadata.generation).then_some(found)
        });
        let found = found.filter(|found| is_latest || found.status == ConditionStatus::False);
        let condition = match found {
            Some(found) => request.condition(
                step.name(),
                found.status,
                &found.reason,
                found.message.clone(),
            ),
            None => request.condition(
                step.name(),
                ConditionStatus::Unknown,
                step.words().reasons[2],
                step.message(ConditionStatus::Unknown, 1),
            ),
        };
        let status = condition.status;
        entry.conditions.push(condition);
        if let Some(binding) = binding {
            report(*step, status, binding, entry);
        }
        if status != ConditionStatus::True {
            return;
        }
    }
}

/// Lists the resources that failed, drifted or differ.
fn report(
    step: Step,
    status: ConditionStatus,
    binding: &Binding,
    entry: &mut ClusterPlacementStatus,
) {
    let found = &binding.status;
    let is_result = matches!(step, Step::Applied | Step::Available);
    if is_result && status == ConditionStatus::False {
        entry.failed_placements.clone_from(&found.failed_placements);
        entry.diffed_placements.clone_from(&found.diffed_placements);
    }
    if step == Step::Applied && status != ConditionStatus::Unknown {
        entry
            .drifted_placements
            .clone_from(&found.drifted_placements);
    }
    if step == Step::DiffReported && status == ConditionStatus::True {
        entry.diffed_placements.clone_from(&found.diffed_placements);
    }
}

/// The most clusters that a message names.
const NAMED: usize = 3;

/// The conditions over all clusters, up to the first that is not True.
fn summarise(request: &StatusRequest<'_>, status: &mut PlacementStatus) {
    let spec = &request.placement.spec;
    if spec.is_external() && status.observed_resource_index.is_empty() {
        let message = "Rollout is controlled by an external controller and different resource snapshot versions \
                       are observed across clusters";
        status.conditions.push(request.condition(
            &request.type_of(Step::RolloutStarted.name()),
            ConditionStatus::Unknown,
            "RolloutControlledByExternalController",
            message.to_owned(),
        ));
        return;
    }
    for step in Step::all(spec.reports_diff()) {
        let clusters = status.placement_statuses.iter();
        let found = clusters.map(|one| condition(&one.conditions, step.name()));
        let found: Vec<Option<&Condition>> = found.collect();
        let truths: Vec<ConditionStatus> = found
            .iter()
            .map(|one| one.map_or(ConditionStatus::Unknown, |one| one.status))
            .collect();
        let count = |wanted| truths.iter().filter(|truth| **truth == wanted).count();
        let (unknown, failed) = (
            count(ConditionStatus::Unknown),
            count(ConditionStatus::False),
        );
        let (truth, clusters) = match (unknown, failed) {
            (0, 0) => (ConditionStatus::True, found.len()),
            (0, failed) => (ConditionStatus::False, failed),
            (unknown, _) => (ConditionStatus::Unknown, unknown),
        };
        let is_plain = *step == Step::Overridden
            && truth == ConditionStatus::True
            && found
                .iter()
                .all(|one| one.is_some_and(|one| one.reason == NO_OVERRIDES));
        let (reason, message) = if is_plain {
            (NO_OVERRIDES, NO_OVERRIDES_MESSAGE.to_owned())
        } else {
            let place = match truth {
                ConditionStatus::True => 0,
                ConditionStatus::False => 1,
                ConditionStatus::Unknown => 2,
            };
            let mut message = step.message(truth, clusters);
            if truth != ConditionStatus::True {
                let named = status.placement_statuses.iter().zip(&found);
                let named = named.filter_map(|(one, found)| {
                    let found = found.filter(|found| found.status == truth)?;
                    Some(format!("{} ({})", one.cluster_name, found.reason))
                });
                let named: Vec<String> = named.take(NAMED).collect();
                if !named.is_empty() {
                    message = format!("{message}: {}", named.join(", "));
                }
            }
            (step.words().reasons[place], message)
        };
        let type_ = request.type_of(step.name());
        status
            .conditions
            .push(request.condition(&type_, truth, reason, message));
        if truth != ConditionStatus::True {
            return;
        }
    }
}

/// Keeps the times of conditions whose status is the same as before.
pub fn settle(new: &mut [Condition], old: &[Condition]) {
    for one in new {
        if let Some(before) = condition(old, &one.type_)
            && before.status == one.status
        {
            one.last_transition_time
                .clone_from(&before.last_transition_time);
        }
    }
}

/// The same for a binding, where the availability of new resources is waited for from the update on.
pub fn settle_binding(new: &mut [Condition], old: &[Condition]) {
    let is_renewed = |before: &Condition| {
        let same = condition(new, &before.type_);
        before.type_ == "Available"
            && same.is_some_and(|one| one.observed_generation != before.observed_generation)
    };
    let kept: Vec<Condition> = old.iter().filter(|one| !is_renewed(one)).cloned().collect();
    settle(new, &kept);
}

fn settle_all(new: &mut PlacementStatus, old: &PlacementStatus) {
    settle(&mut new.conditions, &old.conditions);
    let mut nameless = old
        .placement_statuses
        .iter()
        .filter(|one| one.cluster_name.is_empty());
    for entry in &mut new.placement_statuses {
        let before = if entry.cluster_name.is_empty() {
            nameless.next()
        } else {
            let mut named = old.placement_statuses.iter();
            named.find(|one| one.cluster_name == entry.cluster_name)
        };
        if let Some(before) = before {
            settle(&mut entry.conditions, &before.conditions);
        }
    }
}

/// Whether a status says the same, apart from times and messages.
pub(crate) fn is_same(new: &PlacementStatus, old: &PlacementStatus) -> bool {
    let (ours, theirs) = (&new.placement_statuses, &old.placement_statuses);
    new.selected_resources == old.selected_resources
        && new.observed_resource_index == old.observed_resource_index
        && same_conditions(&new.conditions, &old.conditions)
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| {
            let mut b = b.clone();
            let conditions = std::mem::replace(&mut b.conditions, a.conditions.clone());
            *a == b && same_conditions(&a.conditions, &conditions)
        })
}

pub(crate) fn same_conditions(new: &[Condition], old: &[Condition]) -> bool {
    new.len() == old.len()
        && new
            .iter()
            .zip(old)
            .all(|(new, old)| new.equals_except_time(old))
}

/// The events of a change of a placement's conditions: reason and message.
pub fn events(
    new: &Placement,
    old: &[Condition],
    scope: Scope,
) -> Vec<(&'static str, &'static str)> {
    let prefix = match scope {
        Scope::Cluster => "ClusterResourcePlacement",
        Scope::Namespaced => "ResourcePlacement",
    };
    let generation = new.metadata.generation;
    let is_true = |conditions: &[Condition], step: Step| {
        let found = condition(conditions, &format!("{prefix}{}", step.name()));
        found.is_some_and(|one| one.status == ConditionStatus::True && one.is_fresh(generation))
    };
    let steps = Step::all(new.spec.reports_diff());
    let turned = steps
        .iter()
        .filter(|step| is_true(&new.status.conditions, **step) && !is_true(old, **step));
    let mut events: Vec<(&str, &str)> = Vec::new();
    for step in turned {
        events.push(step.words().event);
        if Some(step) == steps.last() {
            let message =
                "Placement has finished the rollout process and reached the desired status";
            events.push(("PlacementRolloutCompleted", message));
        }
    }
    events
}

#[cfg(test)]
mod tests;
