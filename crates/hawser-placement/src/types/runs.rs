//! Staged update runs, the strategies that they follow, and the approvals that they wait for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_lang::selector::LabelSelector;

use super::placement::{ApplyStrategy, NamespacedName};
use super::{Condition, IntOrPercent, Resource};

/// A run of either scope.
pub type UpdateRun = Resource<UpdateRunSpec, UpdateRunStatus>;
pub type UpdateStrategy = Resource<UpdateStrategySpec, serde_json::Value>;
pub type ApprovalRequest = Resource<ApprovalRequestSpec, ApprovalRequestStatus>;

/// A rollout of one snapshot of a placement's resources, stage by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.resourceSnapshotIndex) == has(oldSelf.resourceSnapshotIndex)",
     "message": "resourceSnapshotIndex is immutable"},
    {"rule": "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && has(self.state) && self.state == 'Stop')",
     "message": "invalid state transition: cannot transition from Initialize to Stop"},
    {"rule": "!(has(oldSelf.state) && oldSelf.state == 'Run' && has(self.state) && self.state == 'Initialize')",
     "message": "invalid state transition: cannot transition from Run to Initialize"},
    {"rule": "!(has(oldSelf.state) && oldSelf.state == 'Stop' && has(self.state) && self.state == 'Initialize')",
     "message": "invalid state transition: cannot transition from Stop to Initialize"},
]))]
pub struct UpdateRunSpec {
    /// The name of the placement, whose strategy type is External.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "placementName is immutable"}]))]
    pub placement_name: String,
    /// The index of the resource snapshot. Without one, the run takes a snapshot of the resources as they are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "resourceSnapshotIndex is immutable"}]))]
    pub resource_snapshot_index: String,
    /// The name of the strategy.
    #[serde(rename = "stagedRolloutStrategyName")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "stagedRolloutStrategyName is immutable"}]))]
    pub strategy_name: String,
    /// Initialize prepares the run, Run carries it out, Stop pauses it after the clusters that are being updated.
    #[serde(default)]
    #[schemars(extend("x-default" = "Initialize"))]
    pub state: UpdateRunState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateRunState {
    #[default]
    Initialize,
    Run,
    Stop,
}

impl UpdateRunState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "Initialize",
            Self::Run => "Run",
            Self::Stop => "Stop",
        }
    }
}

/// The stages of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateStrategySpec {
    /// The stages, in their order.
    #[schemars(length(max = 31))]
    pub stages: Vec<StageConfig>,
}

/// A stage of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageConfig {
    /// The name.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z0-9]+$"))]
    pub name: String,
    /// The clusters, by labels of the `MemberCluster`. None selects no cluster, an empty one all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// The label with the number that clusters are sorted by; without one they are sorted by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sorting_label_key: Option<String>,
    /// The clusters that are updated at the same time: a number or a percentage of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(100|[1-9][0-9]?)%$", "x-default" = 1, "x-kubernetes-validations" = [
        {"rule": "type(self) == string || self >= 1", "message": "maxConcurrency must be at least 1"}]))]
    pub max_concurrency: Option<IntOrPercent>,
    /// What the stage waits for when its clusters are updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-validations" = [
        {"rule": "self.all(e, e.type != 'Approval' || !has(e.waitTime))",
         "message": "AfterStageTaskType is Approval, waitTime is not allowed"},
        {"rule": "self.all(e, e.type != 'TimedWait' || has(e.waitTime))",
         "message": "AfterStageTaskType is TimedWait, waitTime is required"}]))]
    pub after_stage_tasks: Vec<StageTask>,
    /// What the stage waits for before its clusters are updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), extend("x-kubernetes-validations" = [
        {"rule": "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
         "message": "BeforeStageTaskType is Approval, waitTime is not allowed"},
        {"rule": "!self.exists(e, e.type == 'TimedWait')",
         "message": "BeforeStageTaskType cannot be TimedWait"}]))]
    pub before_stage_tasks: Vec<StageTask>,
}

/// What a stage waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTask {
    /// `TimedWait` or Approval.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// The time to wait, in hours, minutes and seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^0|([0-9]+(\.[0-9]+)?(s|m|h))+$"))]
    pub wait_time: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StageTaskType {
    TimedWait,
    #[default]
    Approval,
}

/// The state of a run. What it was initialized with stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateRunStatus {
    /// The index of the policy snapshot that picked the clusters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy_snapshot_index_used: String,
    /// The number of clusters that it picked.
    #[serde(skip_serializing_if = "is_zero")]
    pub policy_observed_cluster_count: i64,
    /// The index of the resource snapshot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_snapshot_index_used: String,
    /// The way that members write the resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_strategy: Option<ApplyStrategy>,
    /// The strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_update_strategy_snapshot: Option<UpdateStrategySpec>,
    /// The stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages_status: Vec<StageStatus>,
    /// The stage at the end, which takes the resources from clusters that are no longer picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_stage_status: Option<StageStatus>,
    /// Initialized, Progressing, Succeeded.
    #[schemars(schema_with = "super::conditions")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The state of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// The name.
    pub stage_name: String,
    /// The clusters, in the order in which they are updated.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub clusters: Vec<ClusterUpdateStatus>,
    /// The state of what the stage waits for at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub after_stage_task_status: Vec<StageTaskStatus>,
    /// The state of what the stage waits for before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub before_stage_task_status: Vec<StageTaskStatus>,
    /// The time when the first cluster was updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub start_time: Option<String>,
    /// The end of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub end_time: Option<String>,
    /// Progressing, Succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// The state of a cluster in a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpdateStatus {
    /// The cluster.
    pub cluster_name: String,
    /// The namespaced overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// The cluster-scoped overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// Started, Succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// The state of what a stage waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTaskStatus {
    /// `TimedWait` or Approval.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// The name of the approval request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval_request_name: String,
    /// `ApprovalRequestCreated`, `ApprovalRequestApproved`, `WaitTimeElapsed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// What is to be approved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "The spec field is immutable"}]))]
pub struct ApprovalRequestSpec {
    /// The name of the run.
    #[serde(rename = "parentStageRollout")]
    pub run: String,
    /// The name of the stage.
    pub target_stage: String,
}

/// The state of an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ApprovalRequestStatus {
    /// Approved, which users set, and `ApprovalAccepted`, by which the hub answers.
    #[schemars(schema_with = "super::conditions")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
