//! Snapshots of policies and resources, and bindings of resources to clusters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placement::{
    ApplyStrategy, DiffedPlacement, DriftedPlacement, FailedPlacement, NamespacedName,
};
use super::policy::PlacementPolicy;
use super::{Condition, Resource};

pub type PolicySnapshot = Resource<PolicySnapshotSpec, PolicySnapshotStatus>;
pub type ResourceSnapshot = Resource<ResourceSnapshotSpec, Value>;
pub type Binding = Resource<BindingSpec, BindingStatus>;

/// A policy without the number of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotSpec {
    /// The policy; absent if the placement has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// The hash of the policy.
    #[schemars(extend("format" = "byte"))]
    pub policy_hash: String,
}

/// The decisions of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotStatus {
    /// The generation of the placement that the decisions are about.
    #[serde(rename = "observedCRPGeneration", default)]
    #[schemars(extend("x-required" = true))]
    pub observed_crp_generation: i64,
    /// Scheduled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
    /// The decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub target_clusters: Vec<ClusterDecision>,
}

/// The decision about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// Whether it was picked.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub selected: bool,
    /// The scores by which it was picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Reason why the cluster was picked or not.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub reason: String,
}

/// The scores of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScore {
    /// The sum of preferred terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,
    /// The score of the topology spread.
    #[serde(rename = "priorityScore", skip_serializing_if = "Option::is_none")]
    pub topology_spread_score: Option<i32>,
}

/// Objects as they were when they were selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotSpec {
    /// The objects.
    #[schemars(schema_with = "super::embedded_objects")]
    pub selected_resources: Vec<Value>,
}

/// A cluster that resources are placed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The state that is wanted.
    pub state: BindingState,
    /// The master resource snapshot; empty until the rollout begins.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub resource_snapshot_name: String,
    /// The cluster-scoped overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// The namespaced overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// The policy snapshot that picked the cluster.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub scheduling_policy_snapshot_name: String,
    /// The cluster.
    pub target_cluster: String,
    /// The decision that picked the cluster.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub cluster_decision: ClusterDecision,
    /// The way that the member writes the resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BindingState {
    #[default]
    Scheduled,
    Bound,
    Unscheduled,
}

impl BindingState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Bound => "Bound",
            Self::Unscheduled => "Unscheduled",
        }
    }
}

/// The state in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// Resources that could not be placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedPlacement>,
    /// Resources that were changed in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedPlacement>,
    /// Resources that differ from the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedPlacement>,
    /// `RolloutStarted`, `Overridden`, `WorkSynchronized`, `Applied`, `Available`, `DiffReported`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}
