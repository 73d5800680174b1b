//! The beginning of a run: its status gets the snapshot, the strategy, the clusters of each stage and their overrides.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::super::placement::{HubRound, latest_policy, overrides_of_group, snapshots};
use super::{
    INITIALIZED, RunProblem, RunRound, RunView, external, mark, members, selected_bindings, stages,
    wanted, written,
};
use crate::names;
use crate::snapshots::{Debounce, SnapshotError, plan_resources};
use crate::types::binding::{Binding, BindingState, PolicySnapshot};
use crate::types::placement::Placement;
use crate::types::runs::{
    ClusterUpdateStatus, StageConfig, StageStatus, StageTask, StageTaskStatus, StageTaskType,
    UpdateRunStatus, UpdateStrategySpec,
};
use crate::types::{ConditionStatus, condition};

/// The wait for the lists of selected kinds.
const LISTS: SignedDuration = SignedDuration::from_secs(1);

/// A snapshot is taken of what is there now.
const AT_ONCE: Debounce = Debounce {
    minimum_interval: SignedDuration::ZERO,
    collection: SignedDuration::ZERO,
};

/// The result of the scheduler for a placement.
struct Schedule<'a> {
    policy: &'a PolicySnapshot,
    /// By cluster.
    bindings: BTreeMap<&'a str, &'a Binding>,
    /// Clusters that are no longer picked and have resources.
    left: BTreeSet<&'a str>,
    count: i64,
}

/// Initializes a run, or says why it cannot be, or waits for the scheduler or a new snapshot.
pub(super) fn initialize(view: &RunView<'_>, round: &mut RunRound) -> Result<(), SnapshotError> {
    let began = match begin(view, round)? {
        Ok(None) => return Ok(()),
        Ok(Some(status)) => Ok(status),
        Err(problem) => Err(problem),
    };
    let (mut status, truth, reason, message) = match began {
        Ok(status) => (
            status,
            ConditionStatus::True,
            "UpdateRunInitializedSuccessfully",
            "The update run is initialized".to_owned(),
        ),
        Err(problem) => {
            round.is_failure = true;
            (
                view.run.status.clone(),
                ConditionStatus::False,
                "UpdateRunInitializedFailed",
                problem.to_string(),
            )
        }
    };
    let conditions = &mut status.conditions;
    mark(view, conditions, INITIALIZED, truth, reason, &message);
    round.stages.push(written(view, status));
    Ok(())
}

type StartedRun = Result<Option<UpdateRunStatus>, RunProblem>;

/// The status of the run that begins; `None` while something else has to happen first.
fn begin(view: &RunView<'_>, round: &mut RunRound) -> Result<StartedRun, SnapshotError> {
    let decided = (|| {
        let placement = external(view)?;
        let name = &view.run.spec.strategy_name;
        let strategy = view.strategy;
        let strategy = strategy.ok_or_else(|| RunProblem::NoStrategy(name.clone()))?;
        check(&strategy.spec)?;
        let scheduled = schedule(view, placement)?;
        Ok(scheduled.map(|schedule| (placement, &strategy.spec, schedule)))
    })();
    let (placement, strategy, schedule) = match decided {
        Ok(None) => return Ok(Ok(None)),
        Ok(Some(decided)) => decided,
        Err(problem) => return Ok(Err(problem)),
    };
    // Stages that do not fit take no snapshot.
    let sorted = match sorted(view, strategy, &schedule) {
        Ok(sorted) => sorted,
        Err(problem) => return Ok(Err(problem)),
    };
    let index = match index(view, placement, round)? {
        Ok(None) => return Ok(Ok(None)),
        Ok(Some(index)) => index,
        Err(problem) => return Ok(Err(problem)),
    };
    Ok(
        stages_of(view, placement, &index, strategy, sorted).map(|stages_status| {
            let left = schedule.left.iter().map(|name| ClusterUpdateStatus {
                cluster_name: (*name).to_owned(),
                ..ClusterUpdateStatus::default()
            });
            Some(UpdateRunStatus {
                policy_snapshot_index_used: schedule
                    .policy
                    .metadata
                    .label(names::POLICY_INDEX)
                    .unwrap_or_default()
                    .to_owned(),
                policy_observed_cluster_count: schedule.count,
                resource_snapshot_index_used: index,
                applied_strategy: Some(placement.spec.apply_strategy()),
                staged_update_strategy_snapshot: Some(strategy.clone()),
                stages_status,
                deletion_stage_status: Some(StageStatus {
                    stage_name: names::DELETION_STAGE.to_owned(),
                    clusters: left.collect(),
                    ..StageStatus::default()
                }),
                conditions: view.run.status.conditions.clone(),
            })
        }),
    )
}

/// Checks what the definition of strategies does not.
fn check(strategy: &UpdateStrategySpec) -> Result<(), RunProblem> {
    let mut seen = BTreeSet::new();
    for stage in &strategy.stages {
        let refuse = |problem: &str| {
            Err(RunProblem::Stage {
                stage: stage.name.clone(),
                problem: problem.to_owned(),
            })
        };
        if !seen.insert(&stage.name) {
            return refuse("another stage has this name");
        }
        if stages::concurrency(stage, 1).is_none() {
            return refuse("maxConcurrency must be a positive number or a percentage such as 25%");
        }
        let before = &stage.before_stage_tasks;
        if before.len() > 1
            || before
                .iter()
                .any(|task| task.type_ != StageTaskType::Approval)
        {
            return refuse("beforeStageTasks can have one Approval");
        }
        let after = &stage.after_stage_tasks;
        let is_twice = |task: &StageTask| {
            let same = after.iter().filter(|other| other.type_ == task.type_);
            same.count() > 1
        };
        if after.iter().any(is_twice) {
            return refuse("afterStageTasks can have one task of each type");
        }
        let is_timed = |task: &&StageTask| task.type_ == StageTaskType::TimedWait;
        if after
            .iter()
            .filter(is_timed)
            .any(|task| stages::task_timeout(task).is_none())
        {
            return refuse("the waitTime of a TimedWait must be a positive duration such as 1h30m");
        }
    }
    Ok(())
}

/// The result of the scheduler; `None` while it is not done.
fn schedule<'a>(
    view: &RunView<'a>,
    placement: &Placement,
) -> Result<Option<Schedule<'a>>, RunProblem> {
    let Some(policy) = latest_policy(view.policies) else {
        return Ok(None);
    };
    let scheduled = condition(&policy.status.conditions, "Scheduled");
    let scheduled = scheduled.filter(|one| one.is_fresh(policy.metadata.generation));
    let is_of_latest = policy.status.observed_crp_generation >= placement.metadata.generation
        || has_invalid_selectors(placement);
    let Some(scheduled) = scheduled.filter(|_| is_of_latest) else {
        return Ok(None);
    };
    match scheduled.status {
        ConditionStatus::True => {}
        ConditionStatus::False => return Err(RunProblem::Unscheduled(scheduled.message.clone())),
        ConditionStatus::Unknown => return Ok(None),
    }
    let (mut left, mut is_moving) = (BTreeSet::new(), false);
    for binding in view.bindings {
        if binding.spec.state == BindingState::Unscheduled {
            left.insert(binding.spec.target_cluster.as_str());
        } else if binding.metadata.in_deletion() {
            is_moving = true;
        } else if binding.spec.scheduling_policy_snapshot_name != policy.metadata.name {
            return Ok(None);
        }
    }
    let bindings = selected_bindings(view, policy);
    let count = wanted(policy, bindings.len());
    let found = i64::try_from(bindings.len()).unwrap_or(i64::MAX);
    if count != found {
        // An evicted placement is about to get another cluster.
        let wrong = Err(RunProblem::Count {
            wanted: count,
            found,
        });
        return if is_moving { Ok(None) } else { wrong };
    }
    if bindings.is_empty() && left.is_empty() {
        return Err(RunProblem::NoClusters);
    }
    Ok(Some(Schedule {
        policy,
        bindings,
        left,
        count,
    }))
}

/// Whether the placement as it is cannot be scheduled, so that its last schedule stays.
fn has_invalid_selectors(placement: &Placement) -> bool {
    let mut conditions = placement.status.conditions.iter();
    conditions.any(|one| {
        one.reason == "InvalidResourceSelectors" && one.is_fresh(placement.metadata.generation)
    })
}

/// The clusters of each stage, in the order in which they are updated.
fn sorted<'a>(
    view: &RunView<'a>,
    strategy: &UpdateStrategySpec,
    schedule: &Schedule<'a>,
) -> Result<Vec<Vec<&'a str>>, RunProblem> {
    let clusters = schedule.bindings.keys().copied();
    let members = members(&strategy.stages, clusters, view.clusters)?;
    let mut sorted = Vec::new();
    for (stage, members) in strategy.stages.iter().zip(members) {
        let mut ranked: Vec<(i64, &str)> = Vec::new();
        for name in members {
            ranked.push((rank(view, stage, name)?, name));
        }
        ranked.sort_unstable();
        sorted.push(ranked.into_iter().map(|(_, name)| name).collect());
    }
    Ok(sorted)
}

fn rank(view: &RunView<'_>, stage: &StageConfig, name: &str) -> Result<i64, RunProblem> {
    let Some(key) = &stage.sorting_label_key else {
        return Ok(0);
    };
    let label = view.clusters.get(name);
    let label = label.and_then(|cluster| cluster.metadata.label(key));
    let rank = label.and_then(|label| label.parse().ok());
    rank.ok_or_else(|| RunProblem::Unsorted {
        cluster: name.to_owned(),
        stage: stage.name.clone(),
        label: key.clone(),
    })
}

/// The index of the snapshot that is rolled out. `None` while one is taken.
fn index(
    view: &RunView<'_>,
    placement: &Placement,
    round: &mut RunRound,
) -> Result<Result<Option<String>, RunProblem>, SnapshotError> {
    let named = &view.run.spec.resource_snapshot_index;
    if !named.is_empty() {
        let is_master = view.snapshots.iter().any(|one| {
            one.metadata.label(names::RESOURCE_INDEX) == Some(named)
                && one.metadata.annotation(names::SNAPSHOT_SUBINDEX).is_none()
        });
        let missing = || RunProblem::NoSnapshot(named.clone());
        return Ok(is_master.then(|| Some(named.clone())).ok_or_else(missing));
    }
    let selected = match view.selected {
        Some(Ok(selected)) => selected,
        Some(Err(error)) if !error.is_transient() => {
            return Ok(Err(RunProblem::Selection(error.to_string())));
        }
        Some(Err(_)) | None => {
            round.wait = Some(LISTS);
            return Ok(Ok(None));
        }
    };
    let (scope, stored) = (view.scope, view.snapshots);
    let plan = plan_resources(placement, scope, stored, selected, AT_ONCE, view.now)?;
    let index = plan.index;
    let all = stored.iter().map(|one| &one.metadata);
    let mut taken = HubRound::default();
    snapshots(scope.resource_snapshot(), plan, &all, &mut taken);
    let is_taken = taken.stages.is_empty();
    round.stages.then(taken.stages);
    Ok(Ok(is_taken.then(|| index.to_string())))
}

/// The stages at their beginning.
fn stages_of(
    view: &RunView<'_>,
    placement: &Placement,
    index: &str,
    strategy: &UpdateStrategySpec,
    sorted: Vec<Vec<&str>>,
) -> Result<Vec<StageStatus>, RunProblem> {
    let overrides = overrides_of_group(
        placement,
        view.snapshots,
        Some(index),
        view.cluster_overrides,
        view.overrides,
    );
    let run = &view.run.metadata.name;
    let mut stages = Vec::new();
    for (stage, names) in strategy.stages.iter().zip(sorted) {
        let mut clusters = Vec::new();
        for name in names {
            // Only members of the fleet are in a stage.
            let Some(member) = view.clusters.get(name) else {
                continue;
            };
            let of = overrides.of_cluster(member);
            let of = of.map_err(|error| RunProblem::Override {
                cluster: name.to_owned(),
                problem: error.to_string(),
            })?;
            let listed = of.names();
            clusters.push(ClusterUpdateStatus {
                cluster_name: name.to_owned(),
                resource_override_snapshots: listed.namespaced,
                cluster_resource_override_snapshots: listed.cluster,
                conditions: Vec::new(),
            });
        }
        let task = |task: &StageTask, side: &str| StageTaskStatus {
            type_: task.type_,
            approval_request_name: match task.type_ {
                StageTaskType::Approval => format!("{run}-{side}-{}", stage.name),
                StageTaskType::TimedWait => String::new(),
            },
            conditions: Vec::new(),
        };
        let (before, after) = (&stage.before_stage_tasks, &stage.after_stage_tasks);
        stages.push(StageStatus {
            stage_name: stage.name.clone(),
            clusters,
            before_stage_task_status: before.iter().map(|one| task(one, "before")).collect(),
            after_stage_task_status: after.iter().map(|one| task(one, "after")).collect(),
            ..StageStatus::default()
        });
    }
    Ok(stages)
}
