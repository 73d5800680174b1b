//! The stages of a run, one after the other, and the removal at the end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube_lang::go_text::parse_duration;
use serde_json::{Value, json};

use super::super::{HubWrite, ObjectName, Stages, complete};
use super::{
    PROGRESSING, RunProblem, RunView, STARTED, SUCCEEDED, Target, approval_kind, is, mark, set,
    some,
};
use crate::names;
use crate::rollout::is_true;
use crate::types::binding::{Binding, BindingState};
use crate::types::runs::{
    ClusterUpdateStatus, StageConfig, StageStatus, StageTask, StageTaskStatus, StageTaskType,
    UpdateRunState, UpdateRunStatus,
};
use crate::types::{
    Condition, ConditionStatus, IntOrPercent, PLACEMENT_GROUP, STORED_VERSION, condition,
};

/// The time after which a cluster that is being updated counts as stuck.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// The most stuck clusters that are named.
const NAMED: usize = 3;

const CREATED: &str = "ApprovalRequestCreated";
const APPROVED: &str = "ApprovalRequestApproved";
const ELAPSED: &str = "WaitTimeElapsed";
const ACCEPTED: &str = "ApprovalAccepted";

/// The number of clusters that a stage updates at the same time; `None` if it says none.
pub(super) fn concurrency(stage: &StageConfig, clusters: usize) -> Option<usize> {
    match &stage.max_concurrency {
        None => Some(1),
        Some(IntOrPercent::Int(number)) => usize::try_from(*number).ok().filter(|one| *one > 0),
        Some(IntOrPercent::Text(text)) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            let of = (1..=100)
                .contains(&percent)
                .then(|| clusters * percent / 100);
            of.map(|number| number.max(1))
        }
    }
}

/// A run on its way.
pub(super) struct Run<'v, 'a> {
    view: &'v RunView<'a>,
    pub(super) status: UpdateRunStatus,
    pub(super) writes: Stages,
    pub(super) wait: Option<SignedDuration>,
}

/// The bindings of the run's clusters.
type RunBindings<'a> = BTreeMap<&'a str, &'a Binding>;

/// The progress of the clusters of a stage.
#[derive(Default)]
struct StageProgress {
    in_flight: usize,
    unfinished: usize,
    stuck: Vec<String>,
}

/// The time that a task waits.
pub(super) fn task_timeout(task: &StageTask) -> Option<SignedDuration> {
    let time = parse_duration(task.wait_time.as_deref()?)?;
    let time = SignedDuration::from_nanos(time);
    time.is_positive().then_some(time)
}

impl<'v, 'a> Run<'v, 'a> {
    pub(super) fn new(view: &'v RunView<'a>) -> Self {
        Self {
            view,
            status: view.run.status.clone(),
            writes: Stages::default(),
            wait: None,
        }
    }

    fn state(&self) -> UpdateRunState {
        self.view.run.spec.state
    }

    /// Does everything that can be done now.
    pub(super) fn advance(&mut self, bindings: &RunBindings<'_>) -> Result<(), RunProblem> {
        if self.state() == UpdateRunState::Initialize {
            return Ok(());
        }
        let target = Target::of(self.view).ok_or(RunProblem::Status)?;
        let configs = self.status.staged_update_strategy_snapshot.clone();
        let configs = configs.unwrap_or_default().stages;
        for (at, config) in configs.iter().enumerate() {
            let Some(place) = self.status.stages_status.get_mut(at) else {
                return Err(RunProblem::Status);
            };
            let mut stage = std::mem::take(place);
            let done = self.stage(&mut stage, config, bindings, &target);
            self.status.stages_status[at] = stage;
            if !done? {
                return Ok(());
            }
        }
        let Some(mut stage) = self.status.deletion_stage_status.take() else {
            return Err(RunProblem::Status);
        };
        let is_done = self.remove(&mut stage);
        self.status.deletion_stage_status = Some(stage);
        if is_done {
            let (reason, message) = ("UpdateRunSucceeded", "All stages are completed");
            self.set_condition(PROGRESSING, ConditionStatus::False, reason, message);
            self.set_condition(SUCCEEDED, ConditionStatus::True, reason, message);
        }
        Ok(())
    }

    fn set_condition(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let conditions = &mut self.status.conditions;
        mark(self.view, conditions, type_, status, reason, message);
    }

    fn wait(&mut self, wait: SignedDuration) {
        self.wait = Some(self.wait.map_or(wait, |least| least.min(wait)));
    }

    /// Does what a stage can do now; true if it is done.
    fn stage(
        &mut self,
        stage: &mut StageStatus,
        config: &StageConfig,
        bindings: &RunBindings<'_>,
        target: &Target<'_>,
    ) -> Result<bool, RunProblem> {
        if is(&stage.conditions, SUCCEEDED, ConditionStatus::True) {
            return Ok(true);
        }
        if stage.clusters.is_empty() {
            self.skip(stage);
            return Ok(true);
        }
        let (clusters, conditions) = (&mut stage.clusters, &mut stage.conditions);
        let counted = self.look(clusters, &stage.stage_name, bindings, target)?;
        if self.state() == UpdateRunState::Stop {
            self.stop(conditions, &stage.stage_name, counted.in_flight);
            return Ok(false);
        }
        let tasks = &mut stage.before_stage_task_status;
        if !self.approved(tasks, &stage.stage_name, "beforeStage")? {
            self.await_tasks(conditions, &stage.stage_name);
            return Ok(false);
        }
        if counted.unfinished > 0 {
            let progress = Self::progress(&counted, &stage.stage_name);
            let most = concurrency(config, clusters.len()).unwrap_or(1);
            let room = most.saturating_sub(counted.in_flight);
            self.start(clusters, room, bindings, target);
            let message = "Clusters of the stage are being updated";
            self.set_stage_condition(
                conditions,
                ConditionStatus::True,
                "StageUpdatingStarted",
                message,
            );
            stage
                .start_time
                .get_or_insert_with(|| self.view.time.to_owned());
            let (truth, reason, message) = progress;
            self.set_condition(PROGRESSING, truth, reason, &message);
            return Ok(false);
        }
        if !stage.after_stage_task_status.is_empty() {
            // The time that a task waits begins with this.
            let message = "All clusters of the stage are updated";
            self.set_stage_condition(
                conditions,
                ConditionStatus::False,
                "StageUpdatingWaiting",
                message,
            );
            let tasks = &mut stage.after_stage_task_status;
            let is_over = self.elapsed(tasks, conditions, config);
            if !(self.approved(tasks, &stage.stage_name, "afterStage")? && is_over) {
                self.await_tasks(conditions, &stage.stage_name);
                return Ok(false);
            }
        }
        self.complete(stage, "StageUpdatingSucceeded", "The stage is completed");
        Ok(true)
    }

    /// The first condition of a stage.
    fn set_stage_condition(
        &self,
        conditions: &mut Vec<Condition>,
        status: ConditionStatus,
        reason: &str,
        message: &str,
    ) {
        mark(self.view, conditions, PROGRESSING, status, reason, message);
    }

    fn skip(&self, stage: &mut StageStatus) {
        stage.start_time = Some(self.view.time.to_owned());
        self.complete(
            stage,
            "StageUpdatingSkippedNoClusters",
            "The stage has no clusters",
        );
    }

    fn complete(&self, stage: &mut StageStatus, reason: &str, message: &str) {
        let conditions = &mut stage.conditions;
        self.set_stage_condition(conditions, ConditionStatus::False, reason, message);
        mark(
            self.view,
            conditions,
            SUCCEEDED,
            ConditionStatus::True,
            reason,
            message,
        );
        stage.end_time = Some(self.view.time.to_owned());
    }

    fn await_tasks(&mut self, conditions: &mut Vec<Condition>, stage: &str) {
        let message = format!("Stage {stage} waits for its tasks to complete");
        self.set_stage_condition(
            conditions,
            ConditionStatus::False,
            "StageUpdatingWaiting",
            &message,
        );
        self.set_condition(
            PROGRESSING,
            ConditionStatus::False,
            "UpdateRunWaiting",
            &message,
        );
    }

    /// Starts nothing more in a stage.
    fn stop(&mut self, conditions: &mut Vec<Condition>, stage: &str, in_flight: usize) {
        let has_begun = condition(conditions, PROGRESSING).is_some();
        let (truth, of_stage, of_run, message) = if in_flight > 0 {
            (
                ConditionStatus::Unknown,
                "StageUpdatingStopping",
                "UpdateRunStopping",
                format!("Stage {stage} stops when the clusters that are being updated are done"),
            )
        } else {
            (
                ConditionStatus::False,
                "StageUpdatingStopped",
                "UpdateRunStopped",
                format!("The run is stopped in stage {stage}"),
            )
        };
        if has_begun {
            self.set_stage_condition(conditions, truth, of_stage, &message);
        }
        self.set_condition(PROGRESSING, truth, of_run, &message);
    }

    /// Looks at the clusters that are being updated.
    fn look(
        &mut self,
        clusters: &mut [ClusterUpdateStatus],
        stage: &str,
        bindings: &RunBindings<'_>,
        target: &Target<'_>,
    ) -> Result<StageProgress, RunProblem> {
        let mut counted = StageProgress::default();
        for cluster in clusters {
            if is(&cluster.conditions, SUCCEEDED, ConditionStatus::True) {
                continue;
            }
            counted.unfinished += 1;
            let Some(started) = condition(&cluster.conditions, STARTED) else {
                continue;
            };
            let began: Option<Timestamp> = started.last_transition_time.parse().ok();
            let binding = bindings.get(cluster.cluster_name.as_str());
            let binding = binding.filter(|one| target.is_met(one, cluster));
            let (name, conditions) = (&cluster.cluster_name, &mut cluster.conditions);
            let Some(binding) = binding else {
                let problem = RunProblem::Repointed {
                    cluster: name.clone(),
                    stage: stage.to_owned(),
                };
                let (reason, message) = ("ClusterUpdatingFailed", problem.to_string());
                let truth = ConditionStatus::False;
                mark(self.view, conditions, SUCCEEDED, truth, reason, &message);
                return Err(problem);
            };
            if is_true(binding, "Available") || is_true(binding, "DiffReported") {
                let (reason, message) = ("ClusterUpdatingSucceeded", "The cluster is updated");
                let truth = ConditionStatus::True;
                mark(self.view, conditions, SUCCEEDED, truth, reason, message);
                counted.unfinished -= 1;
                continue;
            }
            counted.in_flight += 1;
            let passed = began.map(|began| self.view.now.duration_since(began));
            let left = PATIENCE.saturating_sub(passed.unwrap_or_default());
            if left.is_positive() {
                self.wait(left);
            } else {
                counted.stuck.push(name.clone());
            }
        }
        Ok(counted)
    }

    /// The condition of the run while clusters are updated.
    fn progress(counted: &StageProgress, stage: &str) -> (ConditionStatus, &'static str, String) {
        if counted.stuck.is_empty() {
            let message = format!("Stage {stage} is being updated");
            return (ConditionStatus::True, "UpdateRunProgressing", message);
        }
        let names: Vec<&str> = counted.stuck.iter().map(String::as_str).collect();
        let names = some(&names, NAMED);
        let message = format!(
            "Stage {stage} waits for clusters whose update takes longer than 5 minutes: {names}. \
             See the conditions of their bindings"
        );
        (ConditionStatus::False, "UpdateRunStuck", message)
    }

    /// Starts the next clusters. A cluster counts as started once its binding is what it is to be.
    fn start(
        &mut self,
        clusters: &mut [ClusterUpdateStatus],
        room: usize,
        bindings: &RunBindings<'_>,
        target: &Target<'_>,
    ) {
        let leaving = self.view.bindings.iter();
        let leaving = leaving.filter(|one| one.metadata.in_deletion());
        let leaving: BTreeSet<&str> = leaving
            .map(|one| one.spec.target_cluster.as_str())
            .collect();
        let mut patches = Vec::new();
        let next = clusters
            .iter_mut()
            .filter(|one| condition(&one.conditions, STARTED).is_none());
        for cluster in next.take(room) {
            let Some(binding) = bindings.get(cluster.cluster_name.as_str()) else {
                continue;
            };
            if target.is_met(binding, cluster) {
                self.mark_started(&mut cluster.conditions, "The update has started");
            } else if !leaving.contains(cluster.cluster_name.as_str()) {
                // Old resources leave a cluster first.
                patches.push(self.patch(binding, cluster, target));
            }
        }
        self.writes.push(patches);
    }

    /// Says in the conditions of a cluster that its update has started.
    fn mark_started(&self, conditions: &mut Vec<Condition>, message: &str) {
        let (status, reason) = (ConditionStatus::True, "ClusterUpdatingStarted");
        mark(self.view, conditions, STARTED, status, reason, message);
    }

    fn patch(
        &self,
        binding: &Binding,
        cluster: &ClusterUpdateStatus,
        target: &Target<'_>,
    ) -> HubWrite {
        let mut strategy = json!(target.strategy);
        complete(&mut strategy, &json!(binding.spec.apply_strategy));
        let patch = json!({"spec": {
            "state": BindingState::Bound.as_str(),
            "resourceSnapshotName": target.resource_snapshot,
            "clusterResourceOverrideSnapshots": cluster.cluster_resource_override_snapshots,
            "resourceOverrideSnapshots": cluster.resource_override_snapshots,
            "applyStrategy": strategy,
        }});
        HubWrite::patch_known(self.view.scope.binding(), &binding.metadata, patch)
    }

    /// Whether the timed waits of a stage are over.
    fn elapsed(
        &mut self,
        tasks: &mut [StageTaskStatus],
        conditions: &[Condition],
        config: &StageConfig,
    ) -> bool {
        let since = condition(conditions, PROGRESSING);
        let since = since.and_then(|one| one.last_transition_time.parse::<Timestamp>().ok());
        let timed = |type_: StageTaskType| type_ == StageTaskType::TimedWait;
        let wait = config.after_stage_tasks.iter();
        let wait = wait.filter(|task| timed(task.type_)).find_map(task_timeout);
        let mut is_over = true;
        for task in tasks.iter_mut().filter(|task| timed(task.type_)) {
            if is(&task.conditions, ELAPSED, ConditionStatus::True) {
                continue;
            }
            let passed = since.map(|since| self.view.now.duration_since(since));
            let left = wait
                .unwrap_or_default()
                .saturating_sub(passed.unwrap_or_default());
            if left.is_positive() {
                is_over = false;
                self.wait(left);
            } else {
                let reason = "AfterStageTaskWaitTimeElapsed";
                let message = "The wait time of the stage has elapsed";
                let conditions = &mut task.conditions;
                mark(
                    self.view,
                    conditions,
                    ELAPSED,
                    ConditionStatus::True,
                    reason,
                    message,
                );
            }
        }
        is_over
    }

    /// Whether the approvals of a stage are given. Asks for them first.
    fn approved(
        &mut self,
        tasks: &mut [StageTaskStatus],
        stage: &str,
        side: &str,
    ) -> Result<bool, RunProblem> {
        let mut are_all = true;
        for task in tasks {
            if task.type_ == StageTaskType::Approval
                && !is(&task.conditions, APPROVED, ConditionStatus::True)
            {
                are_all &= self.ask(task, stage, side)?;
            }
        }
        Ok(are_all)
    }

    fn ask(
        &mut self,
        task: &mut StageTaskStatus,
        stage: &str,
        side: &str,
    ) -> Result<bool, RunProblem> {
        let name = &task.approval_request_name;
        let mut requests = self.view.approvals.iter();
        let Some(request) = requests.find(|one| one.metadata.name == *name) else {
            let request = self.request(name, stage, side);
            self.writes.push([HubWrite::Create(request)]);
            self.asked(task);
            return Ok(false);
        };
        let spec = &request.spec;
        if spec.run != self.view.run.metadata.name || spec.target_stage != stage {
            return Err(RunProblem::Approval(name.clone()));
        }
        self.asked(task);
        let given = &request.status.conditions;
        let is_accepted = is(given, ACCEPTED, ConditionStatus::True);
        // One that is deleted is asked for again when it is gone.
        if request.metadata.in_deletion()
            || !(is_accepted || is(given, "Approved", ConditionStatus::True))
        {
            return Ok(false);
        }
        if !is_accepted {
            let mut status = request.status.clone();
            let accepted = Condition {
                type_: ACCEPTED.to_owned(),
                status: ConditionStatus::True,
                observed_generation: request.metadata.generation,
                last_transition_time: self.view.time.to_owned(),
                reason: "ApprovalRequestApprovalAccepted".to_owned(),
                message: "The update run has accepted the approval".to_owned(),
            };
            set(&mut status.conditions, accepted);
            self.writes.push([HubWrite::Status {
                place: ObjectName::of(approval_kind(self.view.scope), &request.metadata),
                status: json!(status),
            }]);
        }
        let (reason, message) = (
            "StageTaskApprovalRequestApproved",
            "The approval request is approved",
        );
        let conditions = &mut task.conditions;
        mark(
            self.view,
            conditions,
            APPROVED,
            ConditionStatus::True,
            reason,
            message,
        );
        Ok(true)
    }

    fn asked(&self, task: &mut StageTaskStatus) {
        let (reason, message) = (
            "StageTaskApprovalRequestCreated",
            "The approval request is created",
        );
        let conditions = &mut task.conditions;
        mark(
            self.view,
            conditions,
            CREATED,
            ConditionStatus::True,
            reason,
            message,
        );
    }

    fn request(&self, name: &str, stage: &str, side: &str) -> Value {
        let run = &self.view.run.metadata;
        let mut request = json!({
            "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"),
            "kind": approval_kind(self.view.scope),
            "metadata": {
                "name": name,
                "labels": {
                    names::TARGET_RUN: run.name,
                    names::TARGET_STAGE: stage,
                    names::TASK_TYPE: side,
                    names::IS_LATEST_APPROVAL: "true",
                },
            },
            "spec": {"parentStageRollout": run.name, "targetStage": stage},
        });
        if let Some(namespace) = &run.namespace {
            request["metadata"]["namespace"] = namespace.as_str().into();
        }
        request
    }

    /// Takes the resources from clusters that are no longer picked; true if they are gone.
    fn remove(&mut self, stage: &mut StageStatus) -> bool {
        if is(&stage.conditions, SUCCEEDED, ConditionStatus::True) {
            return true;
        }
        let is_stopped = self.state() == UpdateRunState::Stop;
        let (mut deleted, mut unfinished, mut in_flight) = (Vec::new(), 0, 0);
        for cluster in &mut stage.clusters {
            let (name, conditions) = (&cluster.cluster_name, &mut cluster.conditions);
            if is(conditions, SUCCEEDED, ConditionStatus::True) {
                continue;
            }
            let of_cluster = self.view.bindings.iter().filter(|one| {
                one.spec.target_cluster == *name && one.spec.state == BindingState::Unscheduled
            });
            let of_cluster: Vec<&Binding> = of_cluster.collect();
            let has_started = is(conditions, STARTED, ConditionStatus::True);
            if is_stopped && !has_started && !of_cluster.is_empty() {
                unfinished += 1;
                continue;
            }
            self.mark_started(conditions, "The removal has started");
            if of_cluster.is_empty() {
                let (reason, message) = ("ClusterUpdatingSucceeded", "The resources are removed");
                let truth = ConditionStatus::True;
                mark(self.view, conditions, SUCCEEDED, truth, reason, message);
                continue;
            }
            unfinished += 1;
            in_flight += 1;
            // What a member that leaves has stays in it: its binding goes when it is gone.
            let member = self.view.clusters.get(name);
            if member.is_some_and(|member| !member.metadata.in_deletion()) {
                let alive = of_cluster.iter().filter(|one| !one.metadata.in_deletion());
                let kind = self.view.scope.binding();
                deleted.extend(alive.map(|one| HubWrite::delete(kind, &one.metadata)));
            }
        }
        self.writes.push(deleted);
        if unfinished == 0 {
            let time = || self.view.time.to_owned();
            stage.start_time.get_or_insert_with(time);
            self.complete(stage, "StageUpdatingSucceeded", "The stage is completed");
            return true;
        }
        let name = &stage.stage_name;
        if is_stopped {
            self.stop(&mut stage.conditions, name, in_flight);
        } else {
            let message = "Resources are being removed from clusters that are no longer picked";
            let conditions = &mut stage.conditions;
            self.set_stage_condition(
                conditions,
                ConditionStatus::True,
                "StageUpdatingStarted",
                message,
            );
            let time = || self.view.time.to_owned();
            stage.start_time.get_or_insert_with(time);
            let (truth, reason) = (ConditionStatus::True, "UpdateRunProgressing");
            self.set_condition(PROGRESSING, truth, reason, message);
        }
        false
    }
}
