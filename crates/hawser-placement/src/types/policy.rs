//! The scheduling policy of a placement, and selectors of resources.

use kube_lang::selector::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way in which clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementType {
    #[default]
    PickAll,
    PickN,
    PickFixed,
}

/// The policy by which clusters are picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.placementType == oldSelf.placementType", "message": "placement type is immutable"},
    {"rule": "!(self.placementType == 'PickFixed' && (!has(self.clusterNames) || size(self.clusterNames) == 0))",
     "message": "clusterNames cannot be empty for placement type PickFixed"},
    {"rule": "!(self.placementType == 'PickFixed' && has(self.affinity))",
     "message": "affinity cannot be set for placement type PickFixed"},
    {"rule": "!(self.placementType == 'PickFixed' && has(self.numberOfClusters))",
     "message": "numberOfClusters cannot be set for placement type PickFixed"},
    {"rule": "!(self.placementType == 'PickFixed' && has(self.topologySpreadConstraints))",
     "message": "topologySpreadConstraints cannot be set for placement type PickFixed"},
    {"rule": "!(self.placementType == 'PickFixed' && has(self.tolerations))",
     "message": "tolerations cannot be set for placement type PickFixed"},
    {"rule": "!(self.placementType == 'PickAll' && has(self.clusterNames))",
     "message": "clusterNames cannot be set for placement type PickAll"},
    {"rule": "!(self.placementType == 'PickAll' && has(self.numberOfClusters))",
     "message": "numberOfClusters cannot be set for placement type PickAll"},
    {"rule": "!(self.placementType == 'PickAll' && has(self.topologySpreadConstraints))",
     "message": "topologySpreadConstraints cannot be set for placement type PickAll"},
    {"rule": "!(self.placementType == 'PickN' && has(self.clusterNames))",
     "message": "clusterNames cannot be set for placement type PickN"},
    {"rule": "!(self.placementType == 'PickN' && !has(self.numberOfClusters))",
     "message": "numberOfClusters must be set for placement type PickN"},
]))]
pub struct PlacementPolicy {
    /// PickAll, PickN or PickFixed.
    #[serde(default)]
    #[schemars(extend("x-default" = "PickAll"))]
    pub placement_type: PlacementType,
    /// The clusters of a PickFixed placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub cluster_names: Vec<String>,
    /// The number of clusters of a PickN placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,
    /// Required and preferred clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// The spread over domains of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// The taints that the placement tolerates. Tolerations can only be added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub tolerations: Vec<Toleration>,
}

/// Scheduling constraints of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Scheduling rules by labels and properties of clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Scheduling rules by labels and properties of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// One of these terms must match when a cluster is picked.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<ClusterSelector>,
    /// Terms that add to the score of a cluster.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredClusterSelector>,
}

/// Alternatives; one of them must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// The alternatives.
    #[schemars(length(max = 10))]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// A preference with a weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreferredClusterSelector {
    /// The score of a cluster that matches.
    #[schemars(range(min = -100, max = 100))]
    pub weight: i32,
    /// The preferred clusters.
    pub preference: ClusterSelectorTerm,
}

/// A selector of clusters. All parts must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelectorTerm {
    /// Selects by labels of the `MemberCluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Selects by properties that the member reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Scales the weight by a property that the member reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Requirements of properties. All must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// The requirements.
    pub match_expressions: Vec<PropertyRequirement>,
}

/// A comparison of a property with a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PropertyRequirement {
    /// The name of the property.
    pub name: String,
    /// Gt, Ge, Eq, Ne, Lt or Le.
    pub operator: PropertyOperator,
    /// The quantity that the property is compared with.
    #[schemars(length(max = 1))]
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropertyOperator {
    Gt,
    Ge,
    Eq,
    Ne,
    Lt,
    Le,
}

/// A property by which clusters are sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySorter {
    /// The name of the property.
    pub name: String,
    /// The order in which clusters are preferred.
    pub sort_order: SortOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SortOrder {
    Descending,
    Ascending,
}

/// The spread of a placement over the values of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The largest difference of the numbers of clusters in two domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-default" = 1))]
    pub max_skew: Option<i32>,
    /// The label whose values are the domains.
    pub topology_key: String,
    /// DoNotSchedule or ScheduleAnyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "DoNotSchedule"))]
    pub when_unsatisfiable: Option<WhenUnsatisfiable>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}

/// A tolerated taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(self.operator == 'Exists' && has(self.value) && self.value != '')",
     "message": "toleration value needs to be empty, when operator is Exists"},
    {"rule": "!((!has(self.key) || self.key == '') && self.operator != 'Exists')",
     "message": "operator needs to be Exists, when toleration key is empty"},
]))]
pub struct Toleration {
    /// The key of the taint; empty for every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Equal compares key and value, Exists the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Equal"))]
    pub operator: Option<TolerationOperator>,
    /// The value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect of the taint; empty for every effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["NoSchedule"]))]
    pub effect: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
}

/// A selector of resources on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.name) && self.name != '' && has(self.labelSelector))",
     "message": "name and labelSelector are mutually exclusive in a resource selector"},
]))]
pub struct ResourceSelectorTerm {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name of the one object that is selected.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Selects objects by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// The part of a Namespace that is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "NamespaceWithResources"))]
    pub selection_scope: Option<SelectionScope>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectionScope {
    NamespaceOnly,
    #[default]
    NamespaceWithResources,
    NamespaceWithResourceSelectors,
}

impl ResourceSelectorTerm {
    /// True for a selector of the core kind Namespace.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.version == "v1" && self.kind == "Namespace"
    }
}

impl TopologySpreadConstraint {
    pub fn max_skew(&self) -> i32 {
        self.max_skew.unwrap_or(1)
    }

    pub fn when_unsatisfiable(&self) -> WhenUnsatisfiable {
        self.when_unsatisfiable.unwrap_or_default()
    }
}
