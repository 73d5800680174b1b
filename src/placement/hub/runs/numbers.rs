//! The metrics of staged update runs.

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use hawser_placement::types::runs::{StageStatus, StageTaskStatus, UpdateRun};
use hawser_placement::types::{Condition, ConditionStatus, condition};
use hawser_runtime::process::metrics::text::{Gauge, Histogram, MetricFamily, Name};

use super::super::key::PlacementId;

/// The bounds of the histograms: from one second, when a script approves, to a week, when a person does.
const SECONDS: &[f64] = &[
    1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0,
];

/// The conditions of a run, from the last one to the first.
const CONDITIONS: [&str; 3] = ["Succeeded", "Progressing", "Initialized"];

pub struct RunNumbers {
    statuses: MetricFamily<Gauge>,
    /// The last status of each run: its series ends with the next one.
    last: Mutex<HashMap<PlacementId, [String; 7]>>,
    approvals: MetricFamily<Histogram>,
    updates: MetricFamily<Histogram>,
}

impl Default for RunNumbers {
    fn default() -> Self {
        let name = |text, help, labels| Name {
            text,
            help,
            labels,
            bounds: SECONDS,
        };
        Self {
            statuses: MetricFamily::unused(name(
                "fleet_workload_update_run_status_last_timestamp_seconds",
                "Time of the last change of an update run's status.",
                &[
                    "namespace",
                    "name",
                    "state",
                    "condition",
                    "status",
                    "reason",
                    "failureType",
                ],
            )),
            last: Mutex::default(),
            approvals: MetricFamily::unused(name(
                "fleet_workload_update_run_approval_request_latency_seconds",
                "Time from an approval request to its approval in seconds.",
                &["taskType"],
            )),
            updates: MetricFamily::unused(name(
                "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
                "Time that the clusters of a stage took to be updated in seconds.",
                &[],
            )),
        }
    }
}

impl RunNumbers {
    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.statuses.write(out)?;
        self.approvals.write(out)?;
        self.updates.write(out)
    }

    /// The status of a run at the end of a pass.
    pub fn count(&self, id: &PlacementId, run: &UpdateRun) {
        let conditions = &run.status.conditions;
        let mut found = CONDITIONS.iter();
        let Some(found) = found.find_map(|type_| condition(conditions, type_)) else {
            return;
        };
        let has_failed = found.type_ != "Progressing" && found.status == ConditionStatus::False;
        let labels = [
            id.namespace.as_deref().unwrap_or_default().to_owned(),
            id.name.to_string(),
            run.spec.state.as_str().to_owned(),
            found.type_.clone(),
            format!("{:?}", found.status),
            found.reason.clone(),
            if has_failed { "userError" } else { "none" }.to_owned(),
        ];
        if self.last.lock().get(id) == Some(&labels) {
            return;
        }
        self.forget(id);
        let now = Timestamp::now().as_duration().as_secs_f64();
        self.statuses
            .of(&labels.each_ref().map(String::as_str))
            .set(now);
        self.last.lock().insert(id.clone(), labels);
    }

    pub fn forget(&self, id: &PlacementId) {
        if let Some(labels) = self.last.lock().remove(id) {
            self.statuses.remove(&labels.each_ref().map(String::as_str));
        }
    }

    /// The status of a run was written: observes what has ended since.
    pub fn written(&self, before: &UpdateRun, now: &UpdateRun) {
        let stages = before.status.stages_status.iter();
        for (before, now) in stages.zip(&now.status.stages_status) {
            for (side, before, now) in [
                (
                    "beforeStage",
                    &before.before_stage_task_status,
                    &now.before_stage_task_status,
                ),
                (
                    "afterStage",
                    &before.after_stage_task_status,
                    &now.after_stage_task_status,
                ),
            ] {
                for (before, now) in before.iter().zip(now) {
                    if let Some(seconds) = approved(now).filter(|_| approved(before).is_none()) {
                        self.approvals.of(&[side]).observe(seconds);
                    }
                }
            }
            if let Some(seconds) = updated(now).filter(|_| updated(before).is_none()) {
                self.updates.of(&[]).observe(seconds);
            }
        }
    }
}

fn seconds(from: &str, to: &str) -> Option<f64> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    Some(to.duration_since(from).as_secs_f64().max(0.0))
}

/// The time until an approval that was given.
fn approved(task: &StageTaskStatus) -> Option<f64> {
    let of = |type_| condition(&task.conditions, type_);
    let (asked, given) = (
        of("ApprovalRequestCreated")?,
        of("ApprovalRequestApproved")?,
    );
    seconds(&asked.last_transition_time, &given.last_transition_time)
}

/// The time that the clusters of a stage took, once all are updated.
fn updated(stage: &StageStatus) -> Option<f64> {
    let ends = stage.clusters.iter().map(|cluster| {
        let succeeded = condition(&cluster.conditions, "Succeeded");
        let succeeded = succeeded.filter(|one: &&Condition| one.status == ConditionStatus::True);
        succeeded.map(|one| one.last_transition_time.as_str())
    });
    // Times in one format are in the order of their texts.
    let last = ends.collect::<Option<Vec<&str>>>()?.into_iter().max()?;
    seconds(stage.start_time.as_deref()?, last)
}
