//! Evictions of placements from clusters, and the budgets that limit them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, IntOrPercent, Resource};

pub type Eviction = Resource<EvictionSpec, EvictionStatus>;
pub type DisruptionBudget = Resource<DisruptionBudgetSpec, serde_json::Value>;

/// A placement that is to leave a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionSpec {
    /// The name of the placement.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "The PlacementName field is immutable"}]))]
    pub placement_name: String,
    /// The cluster that it leaves.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "The ClusterName field is immutable"}]))]
    pub cluster_name: String,
}

/// Result of an eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvictionStatus {
    /// Valid, then Executed.
    #[schemars(schema_with = "super::conditions")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The disruptions that the placement of the same name bears.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.maxUnavailable) && has(self.minAvailable))",
     "message": "Both MaxUnavailable and MinAvailable cannot be specified"},
]))]
pub struct DisruptionBudgetSpec {
    /// The clusters in which the placement may be unavailable: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
         "message": "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0"}]))]
    pub max_unavailable: Option<IntOrPercent>,
    /// The clusters in which the placement has to stay available: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
         "message": "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0"}]))]
    pub min_available: Option<IntOrPercent>,
}
