//! `ClusterResourcePlacement` and `ResourcePlacement`, which share their spec and status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{PlacementPolicy, PlacementType, ResourceSelectorTerm};
use super::{Condition, IntOrPercent, Metadata, Resource};

/// A placement of either scope.
pub type Placement = Resource<PlacementSpec, PlacementStatus>;

/// The selected resources, the scheduling policy and the rollout strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(oldSelf.policy) && !has(self.policy))", "message": "policy cannot be removed once set"},
    {"rule": "self.statusReportingScope == oldSelf.statusReportingScope",
     "message": "statusReportingScope is immutable"},
    {"rule": "size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == '' && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors')) <= 1",
     "message": "only one namespace selector with NamespaceWithResourceSelectors mode is allowed"},
    {"rule": "!self.resourceSelectors.exists(x, x.kind == 'Namespace' && x.group == '' && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors' && (!has(x.name) || x.name == ''))",
     "message": "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)"},
    {"rule": "!self.resourceSelectors.exists(x, x.kind == 'Namespace' && x.group == '' && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors') || size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == '' && x.version == 'v1')) == 1",
     "message": "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed"},
]))]
pub struct PlacementSpec {
    /// The resources that are placed.
    #[schemars(length(min = 1, max = 100))]
    pub resource_selectors: Vec<ResourceSelectorTerm>,
    /// The clusters that they are placed on. Without a policy these are all clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// The way that changes take to the clusters.
    #[serde(default)]
    pub strategy: RolloutStrategy,
    /// The number of old snapshots that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("x-default" = 10))]
    pub revision_history_limit: Option<i32>,
    /// The place of the status.
    #[serde(default)]
    #[schemars(extend("x-default" = "ClusterScopeOnly"))]
    pub status_reporting_scope: StatusReportingScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StatusReportingScope {
    #[default]
    ClusterScopeOnly,
    NamespaceAccessible,
}

/// The way that changes take to the clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(self.type != 'External' && oldSelf.type == 'External')",
     "message": "cannot change rollout strategy type from 'External' to other types"},
]))]
pub struct RolloutStrategy {
    /// RollingUpdate, or External for staged update runs.
    #[serde(rename = "type", default)]
    #[schemars(extend("x-default" = "RollingUpdate"))]
    pub type_: RolloutStrategyType,
    /// The pace of a rolling update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// The way that a member writes the resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Treatment of placed resources when the placement is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Whether the status of placed resources comes back to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategyType {
    #[default]
    RollingUpdate,
    External,
}

/// The pace of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// The clusters that may be unavailable: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^((100|[0-9]{1,2})%|[0-9]+)$", "x-default" = "25%"))]
    pub max_unavailable: Option<IntOrPercent>,
    /// The clusters that may be added beyond the wanted number: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^((100|[0-9]{1,2})%|[0-9]+)$", "x-default" = "25%"))]
    pub max_surge: Option<IntOrPercent>,
    /// The seconds until resources whose availability cannot be tracked count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-default" = 60))]
    pub unavailable_period_seconds: Option<i64>,
}

/// The way that a member writes the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplyStrategy {
    /// PartialComparison looks at fields of the manifest, FullComparison at all fields.
    #[schemars(extend("x-default" = "PartialComparison"))]
    pub comparison_option: ComparisonOption,
    /// Always, or only while no drift is found.
    #[schemars(extend("x-default" = "Always"))]
    pub when_to_apply: WhenToApply,
    /// `ClientSideApply`, `ServerSideApply` or `ReportDiff`.
    #[serde(rename = "type")]
    #[schemars(extend("x-default" = "ClientSideApply"))]
    pub type_: ApplyStrategyType,
    /// Whether objects may have other owners.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_co_ownership: bool,
    /// Settings of `ServerSideApply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
    /// Whether existing objects are taken over.
    #[schemars(extend("x-default" = "Always"))]
    pub when_to_take_over: WhenToTakeOver,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyStrategyType {
    #[default]
    ClientSideApply,
    ServerSideApply,
    ReportDiff,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonOption {
    #[default]
    PartialComparison,
    FullComparison,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToApply {
    #[default]
    Always,
    IfNotDrifted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToTakeOver {
    #[default]
    Always,
    IfNoDiff,
    Never,
}

/// Settings of `ServerSideApply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSideApplyConfig {
    /// Whether fields of other managers are taken.
    #[serde(default)]
    pub force: bool,
}

/// Treatment of placed resources when the placement is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStrategy {
    /// Delete, or Abandon to leave them in place.
    #[serde(default)]
    #[schemars(extend("x-default" = "Delete"))]
    pub propagation_policy: PropagationPolicy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    #[default]
    Delete,
    Abandon,
}

/// Whether the status of placed resources comes back to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(self.type == 'Mirror' && !has(self.destination))",
     "message": "when reportBackStrategy.type is 'Mirror', a destination must be specified"},
]))]
pub struct ReportBackStrategy {
    /// Disabled or Mirror.
    #[serde(rename = "type")]
    #[schemars(extend("x-default" = "Disabled"))]
    pub type_: ReportBackStrategyType,
    /// The place that the status is mirrored to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackStrategyType {
    #[default]
    Disabled,
    Mirror,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackDestination {
    OriginalResource,
    WorkAPI,
}

/// The state of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The resources of the observed snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_resources: Vec<ResourceIdentifier>,
    /// The index of the resource snapshot that the status is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,
    /// The state in each cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_statuses: Vec<ClusterPlacementStatus>,
    /// The state over all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// `ClusterResourcePlacementStatus`: the status of a placement in the namespace that it places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    pub metadata: Metadata,
    pub source_status: PlacementStatus,
    pub last_updated_time: String,
}

/// A resource by its name.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ResourceIdentifier {
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; empty for a resource of the cluster scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The envelope that the resource is wrapped in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// An envelope by its name.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct EnvelopeIdentifier {
    /// The name.
    pub name: String,
    /// The namespace; empty for a `ClusterResourceEnvelope`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The kind of the envelope.
    #[serde(rename = "type", default)]
    #[schemars(extend("x-default" = "ConfigMap"))]
    pub type_: EnvelopeType,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum EnvelopeType {
    #[default]
    ConfigMap,
    ClusterResourceEnvelope,
    ResourceEnvelope,
}

impl EnvelopeType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::ClusterResourceEnvelope => "ClusterResourceEnvelope",
            Self::ResourceEnvelope => "ResourceEnvelope",
        }
    }
}

/// The state in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPlacementStatus {
    /// The cluster; empty for a cluster that could not be found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The snapshots of cluster-scoped overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applicable_cluster_resource_overrides: Vec<String>,
    /// The snapshots of namespaced overrides that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applicable_resource_overrides: Vec<NamespacedName>,
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
    /// The index of the resource snapshot of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,
    /// The state of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// An object by its namespace and name.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct NamespacedName {
    /// The name.
    pub name: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A resource that could not be placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedPlacement {
    #[serde(flatten)]
    pub identifier: ResourceIdentifier,
    /// The failure.
    pub condition: Condition,
}

/// A resource that was changed in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedPlacement {
    #[serde(flatten)]
    pub identifier: ResourceIdentifier,
    /// The time of the last look.
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: String,
    /// The generation of the object in the cluster.
    pub target_cluster_observed_generation: i64,
    /// The time when the drift was found.
    #[schemars(extend("format" = "date-time"))]
    pub first_drifted_observed_time: String,
    /// The fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// A resource that differs from the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffedPlacement {
    #[serde(flatten)]
    pub identifier: ResourceIdentifier,
    /// The time of the last look.
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: String,
    /// The generation of the object in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster_observed_generation: Option<i64>,
    /// The time when the difference was found.
    #[schemars(extend("format" = "date-time"))]
    pub first_diffed_observed_time: String,
    /// The fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// A field with its two values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDetail {
    /// The path of the field, as a JSON pointer.
    pub path: String,
    /// The value in the member; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_in_member: String,
    /// The value on the hub; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_in_hub: String,
}

impl ResourceIdentifier {
    /// The identifier of an object.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(&object["kind"]),
            name: text(&object["metadata"]["name"]),
            namespace: text(&object["metadata"]["namespace"]),
            envelope: None,
        }
    }
}

impl PlacementSpec {
    /// The placement type; without a policy all clusters are picked.
    pub fn placement_type(&self) -> PlacementType {
        let policy = self.policy.as_ref();
        policy.map_or(PlacementType::PickAll, |policy| policy.placement_type)
    }

    /// True if staged update runs roll the placement out.
    pub fn is_external(&self) -> bool {
        self.strategy.type_ == RolloutStrategyType::External
    }

    /// The strategy of applying, with its defaults.
    pub fn apply_strategy(&self) -> ApplyStrategy {
        self.strategy.apply_strategy.clone().unwrap_or_default()
    }

    /// True if differences are reported and nothing is written.
    pub fn reports_diff(&self) -> bool {
        self.apply_strategy().type_ == ApplyStrategyType::ReportDiff
    }
}
