//! Decisions about a staged update run, which rolls out a placement whose strategy is External.
//!
//! A run is initialized once: its status keeps the snapshot, the strategy, the clusters of each stage and their
//! overrides. Then its bindings are changed stage by stage. A binding is changed before the status says so, and the
//! same binding is found to be changed after a restart in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube_lang::selector::Selector;
use serde_json::json;

use super::placement::latest_policy;
use super::{HubWrite, ObjectName, Stages};
use crate::members::Members;
use crate::names;
use crate::rollout::is_true;
use crate::selection::SelectionError;
use crate::snapshots::{Scope, Selected};
use crate::types::binding::{Binding, BindingState, PolicySnapshot, ResourceSnapshot};
use crate::types::overrides::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot};
use crate::types::placement::{ApplyStrategy, Placement};
use crate::types::policy::PlacementType;
use crate::types::runs::{
    ApprovalRequest, ClusterUpdateStatus, StageConfig, StageStatus, UpdateRun, UpdateRunStatus,
    UpdateStrategy,
};
use crate::types::{Condition, ConditionStatus, condition};

mod begin;
mod decision;
mod stages;

pub use decision::decide;

const INITIALIZED: &str = "Initialized";
const PROGRESSING: &str = "Progressing";
const SUCCEEDED: &str = "Succeeded";
const STARTED: &str = "Started";
const ROLLOUT_STARTED: &str = "RolloutStarted";

/// The kind of the runs for placements of a scope.
pub fn run_kind(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "ClusterStagedUpdateRun",
        Scope::Namespaced => "StagedUpdateRun",
    }
}

/// The kind of their strategies.
pub fn strategy_kind(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "ClusterStagedUpdateStrategy",
        Scope::Namespaced => "StagedUpdateStrategy",
    }
}

/// The kind of their approval requests.
pub fn approval_kind(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "ClusterApprovalRequest",
        Scope::Namespaced => "ApprovalRequest",
    }
}

/// The known facts about a run.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    pub scope: Scope,
    pub run: &'a UpdateRun,
    /// `None` if there is none of the name.
    pub placement: Option<&'a Placement>,
    /// Needed until the run is initialized.
    pub strategy: Option<&'a UpdateStrategy>,
    pub policies: &'a [PolicySnapshot],
    /// Needed until the run is initialized.
    pub snapshots: &'a [ResourceSnapshot],
    pub bindings: &'a [Binding],
    /// The requests of this run, and those that have the names of its requests.
    pub approvals: &'a [ApprovalRequest],
    pub clusters: &'a Members,
    pub cluster_overrides: &'a [Arc<ClusterResourceOverrideSnapshot>],
    pub overrides: &'a [Arc<ResourceOverrideSnapshot>],
    /// The selection of the placement. Needed until a run that names no snapshot is initialized.
    pub selected: Option<Result<&'a Selected, &'a SelectionError>>,
    pub now: Timestamp,
    /// The time as it stands in conditions.
    pub time: &'a str,
}

/// The writes of a round, and the time until the next decision if no event comes before.
#[derive(Debug, Default)]
pub struct RunRound {
    pub stages: Stages,
    pub wait: Option<SignedDuration>,
    /// True if the run fails by this. Then the placement and the clusters have to have been read at this moment.
    pub is_failure: bool,
}

/// The reason why a run fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunProblem {
    #[error("placement {0} does not exist or is being deleted")]
    NoPlacement(String),
    #[error("the strategy type of placement {0} is not External")]
    NotExternal(String),
    #[error("strategy {0} does not exist")]
    NoStrategy(String),
    #[error("stage {stage} of the strategy is invalid: {problem}")]
    Stage { stage: String, problem: String },
    #[error("the scheduler did not find all clusters of the placement: {0}")]
    Unscheduled(String),
    #[error("the policy asks for {wanted} clusters, and {found} are picked")]
    Count { wanted: i64, found: i64 },
    #[error("the placement had {before} clusters when the run was initialized, and has {now}")]
    Clusters { before: i64, now: i64 },
    #[error("no cluster is picked, and none has resources of the placement")]
    NoClusters,
    #[error("cluster {cluster} is in both stage {first} and stage {second}")]
    Twice {
        cluster: String,
        first: String,
        second: String,
    },
    #[error("picked clusters are in no stage: {names} ({number} in all)")]
    Missed { number: usize, names: String },
    #[error("cluster {cluster} of stage {stage} has no label {label} with an integer")]
    Unsorted {
        cluster: String,
        stage: String,
        label: String,
    },
    #[error("the placement has no resource snapshot with the index \"{0}\"")]
    NoSnapshot(String),
    #[error("the resources cannot be selected: {0}")]
    Selection(String),
    #[error("overrides of cluster {cluster}: {problem}")]
    Override { cluster: String, problem: String },
    #[error("the apply strategy of the placement has changed since the run was initialized")]
    ApplyStrategy,
    #[error("the run was initialized for policy {used}, and policy {latest} is the latest")]
    Policy { used: String, latest: String },
    #[error("the clusters of stage {0} have changed since the run was initialized")]
    Membership(String),
    #[error("stage {later} has begun, and stage {earlier} has not ended")]
    Order { earlier: String, later: String },
    #[error("the status of the run is incomplete: create another run")]
    Status,
    #[error("the binding of cluster {cluster} in stage {stage} was changed by another writer")]
    Repointed { cluster: String, stage: String },
    #[error("approval request {0} belongs to another run or stage: delete it")]
    Approval(String),
}

/// True if a run has ended.
pub fn is_over(run: &UpdateRun) -> bool {
    let conditions = &run.status.conditions;
    let succeeded = condition(conditions, SUCCEEDED);
    is(conditions, INITIALIZED, ConditionStatus::False)
        || succeeded.is_some_and(|one| one.status != ConditionStatus::Unknown)
}

/// True once the status has the snapshot, the strategy and the stages.
pub fn is_initialized(run: &UpdateRun) -> bool {
    is(&run.status.conditions, INITIALIZED, ConditionStatus::True)
}

/// The wanted spec of the bindings of a run's clusters.
struct Target<'a> {
    resource_snapshot: String,
    strategy: &'a ApplyStrategy,
}

impl<'a> Target<'a> {
    fn of(view: &RunView<'a>) -> Option<Self> {
        let status = &view.run.status;
        let index = status.resource_snapshot_index_used.parse().ok()?;
        let placement = &view.run.spec.placement_name;
        Some(Self {
            resource_snapshot: names::resource_snapshot(placement, index, None),
            strategy: status.applied_strategy.as_ref()?,
        })
    }

    fn is_met(&self, binding: &Binding, cluster: &ClusterUpdateStatus) -> bool {
        let spec = &binding.spec;
        spec.state == BindingState::Bound
            && spec.resource_snapshot_name == self.resource_snapshot
            && spec.cluster_resource_override_snapshots
                == cluster.cluster_resource_override_snapshots
            && spec.resource_override_snapshots == cluster.resource_override_snapshots
            && spec.apply_strategy.as_ref() == Some(self.strategy)
    }
}

/// The statuses of bindings that are what the run is to make of them and do not say that their rollout has started.
/// Nothing else is said of a binding before that, so they are not left behind by a run that fails or is deleted.
fn confirmed(view: &RunView<'_>) -> Vec<HubWrite> {
    let Some(target) = Target::of(view) else {
        return Vec::new();
    };
    let clusters = view
        .run
        .status
        .stages_status
        .iter()
        .flat_map(|one| &one.clusters);
    let clusters: BTreeMap<&str, &ClusterUpdateStatus> = clusters
        .map(|cluster| (cluster.cluster_name.as_str(), cluster))
        .collect();
    let bindings = view.bindings.iter().filter(|binding| {
        let cluster = clusters.get(binding.spec.target_cluster.as_str());
        !binding.metadata.in_deletion()
            && !is_true(binding, ROLLOUT_STARTED)
            && cluster.is_some_and(|cluster| target.is_met(binding, cluster))
    });
    let written = bindings.map(|binding| {
        let mut status = binding.status.clone();
        let started = Condition {
            type_: ROLLOUT_STARTED.to_owned(),
            status: ConditionStatus::True,
            observed_generation: binding.metadata.generation,
            last_transition_time: view.time.to_owned(),
            reason: "RolloutStarted".to_owned(),
            message: format!(
                "The update run {} started the rollout",
                view.run.metadata.name
            ),
        };
        set(&mut status.conditions, started);
        HubWrite::Status {
            place: ObjectName::of(view.scope.binding(), &binding.metadata),
            status: json!(status),
        }
    });
    written.collect()
}

/// The bindings of the picked clusters, by cluster.
fn selected_bindings<'a>(
    view: &RunView<'a>,
    policy: &PolicySnapshot,
) -> BTreeMap<&'a str, &'a Binding> {
    let picked = view.bindings.iter().filter(|binding| {
        !binding.metadata.in_deletion()
            && binding.spec.state != BindingState::Unscheduled
            && binding.spec.scheduling_policy_snapshot_name == policy.metadata.name
    });
    picked
        .map(|binding| (binding.spec.target_cluster.as_str(), binding))
        .collect()
}

/// The number of clusters that a policy asks for.
fn wanted(policy: &PolicySnapshot, selected: usize) -> i64 {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    match &policy.spec.policy {
        Some(spec) if spec.placement_type == PlacementType::PickFixed => {
            count(spec.cluster_names.len())
        }
        Some(spec) if spec.placement_type == PlacementType::PickN => {
            let number = policy.metadata.annotation(names::NUMBER_OF_CLUSTERS);
            number
                .and_then(|number| number.parse().ok())
                .unwrap_or_default()
        }
        _ => count(selected),
    }
}

/// The placement, which has to be rolled out by runs.
fn external<'a>(view: &RunView<'a>) -> Result<&'a Placement, RunProblem> {
    let name = || view.run.spec.placement_name.clone();
    let placement = view.placement.filter(|one| !one.metadata.in_deletion());
    let placement = placement.ok_or_else(|| RunProblem::NoPlacement(name()))?;
    if placement.spec.is_external() {
        Ok(placement)
    } else {
        Err(RunProblem::NotExternal(name()))
    }
}

/// The names of the clusters that each stage selects.
fn members<'a>(
    stages: &[StageConfig],
    clusters: impl Iterator<Item = &'a str>,
    fleet: &Members,
) -> Result<Vec<BTreeSet<&'a str>>, RunProblem> {
    let mut selectors = Vec::new();
    for stage in stages {
        let selector = Selector::from_object(stage.label_selector.as_ref());
        selectors.push(selector.map_err(|error| RunProblem::Stage {
            stage: stage.name.clone(),
            problem: error.to_string(),
        })?);
    }
    let mut members = vec![BTreeSet::new(); stages.len()];
    let mut missed = Vec::new();
    for cluster in clusters {
        let mut place = None;
        let labels = fleet.get(cluster).map(|one| one.metadata.label_pairs());
        for (at, selector) in selectors.iter().enumerate() {
            if !labels
                .clone()
                .is_some_and(|labels| selector.matches(labels))
            {
                continue;
            }
            if let Some(first) = place.replace(at) {
                let name = |at: usize| stages[at].name.clone();
                return Err(RunProblem::Twice {
                    cluster: cluster.to_owned(),
                    first: name(first),
                    second: name(at),
                });
            }
        }
        match place {
            Some(at) => {
                members[at].insert(cluster);
            }
            None => missed.push(cluster),
        }
    }
    if missed.is_empty() {
        Ok(members)
    } else {
        Err(RunProblem::Missed {
            number: missed.len(),
            names: some(&missed, 10),
        })
    }
}

/// The first of some names.
fn some(names: &[&str], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    if names.len() > most {
        format!("{shown}, …")
    } else {
        shown
    }
}

/// Checks that nothing has changed since the run was initialized. Returns the bindings of its clusters; `None` while the
/// scheduler is not done.
fn validate<'a>(view: &RunView<'a>) -> Result<Option<BTreeMap<&'a str, &'a Binding>>, RunProblem> {
    let status = &view.run.status;
    let placement = external(view)?;
    if Some(placement.spec.apply_strategy()) != status.applied_strategy {
        return Err(RunProblem::ApplyStrategy);
    }
    let Some(policy) = latest_policy(view.policies) else {
        return Ok(None);
    };
    let index = policy.metadata.label(names::POLICY_INDEX);
    let index = index.unwrap_or_default();
    if index != status.policy_snapshot_index_used {
        return Err(RunProblem::Policy {
            used: status.policy_snapshot_index_used.clone(),
            latest: index.to_owned(),
        });
    }
    let bindings = selected_bindings(view, policy);
    let found = i64::try_from(bindings.len()).unwrap_or(i64::MAX);
    let before = status.policy_observed_cluster_count;
    let counts = [wanted(policy, bindings.len()), found];
    if let Some(now) = counts.into_iter().find(|now| *now != before) {
        return Err(RunProblem::Clusters { before, now });
    }
    let strategy = status.staged_update_strategy_snapshot.as_ref();
    let configs = strategy.map_or(&[][..], |strategy| &strategy.stages);
    if configs.len() != status.stages_status.len() {
        return Err(RunProblem::Status);
    }
    let now = members(configs, bindings.keys().copied(), view.clusters)?;
    let mut open: Option<&str> = None;
    for (stage, now) in status.stages_status.iter().zip(now) {
        let before = stage.clusters.iter();
        let before: BTreeSet<&str> = before.map(|one| one.cluster_name.as_str()).collect();
        if before != now {
            return Err(RunProblem::Membership(stage.stage_name.clone()));
        }
        match open {
            Some(earlier) if stage.start_time.is_some() => {
                return Err(RunProblem::Order {
                    earlier: earlier.to_owned(),
                    later: stage.stage_name.clone(),
                });
            }
            None if !is(&stage.conditions, SUCCEEDED, ConditionStatus::True) => {
                open = Some(&stage.stage_name);
            }
            _ => {}
        }
    }
    Ok(Some(bindings))
}

/// The status of a run that fails, and of its current stage.
fn failed(
    view: &RunView<'_>,
    mut status: UpdateRunStatus,
    problem: &RunProblem,
) -> UpdateRunStatus {
    let message = problem.to_string();
    let deletion = status.deletion_stage_status.iter_mut();
    let open = status.stages_status.iter_mut().chain(deletion);
    let open = open.filter(|stage| {
        !is(&stage.conditions, SUCCEEDED, ConditionStatus::True)
            && condition(&stage.conditions, PROGRESSING).is_some()
    });
    let fail = |conditions: &mut Vec<Condition>, reason: &str| {
        for type_ in [PROGRESSING, SUCCEEDED] {
            mark(
                view,
                conditions,
                type_,
                ConditionStatus::False,
                reason,
                &message,
            );
        }
    };
    for StageStatus {
        conditions,
        end_time,
        ..
    } in open
    {
        fail(conditions, "StageUpdatingFailed");
        *end_time = Some(view.time.to_owned());
    }
    fail(&mut status.conditions, "UpdateRunFailed");
    status
}

/// The status of a run, if it has changed. All conditions observe the current generation.
fn written(view: &RunView<'_>, mut status: UpdateRunStatus) -> Option<HubWrite> {
    let deletion = status.deletion_stage_status.iter_mut();
    for stage in status.stages_status.iter_mut().chain(deletion) {
        let before = stage.before_stage_task_status.iter_mut();
        let tasks = before.chain(&mut stage.after_stage_task_status);
        let parts = stage.clusters.iter_mut().map(|one| &mut one.conditions);
        let parts = parts.chain(tasks.map(|one| &mut one.conditions));
        for conditions in parts.chain([&mut stage.conditions]) {
            observe(view, conditions);
        }
    }
    observe(view, &mut status.conditions);
    (status != view.run.status).then(|| HubWrite::Status {
        place: ObjectName::of(run_kind(view.scope), &view.run.metadata),
        status: json!(status),
    })
}

fn observe(view: &RunView<'_>, conditions: &mut [Condition]) {
    for one in conditions {
        one.observed_generation = view.run.metadata.generation;
    }
}

fn is(conditions: &[Condition], type_: &str, status: ConditionStatus) -> bool {
    condition(conditions, type_).is_some_and(|one| one.status == status)
}

/// Sets a condition of the run, of a stage, a cluster or a task.
fn mark(
    view: &RunView<'_>,
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) {
    let new = Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: view.run.metadata.generation,
        last_transition_time: view.time.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    set(conditions, new);
}

/// Sets a condition; the time stays with the status.
fn set(conditions: &mut Vec<Condition>, new: Condition) {
    let mut new = [new];
    crate::status::settle(&mut new, conditions);
    let [new] = new;
    match conditions.iter_mut().find(|old| old.type_ == new.type_) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests;
