//! Preferences about replicas, as they are stored.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::or_default;

/// Desired distribution of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingPreferenceSpec {
    /// `FederatedDeployment` or `FederatedReplicaSet`.
    pub target_kind: String,
    /// Total number of replicas in all members.
    pub total_replicas: i32,
    /// Whether replicas that run may be moved to where the preferences want them.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub rebalance: bool,
    /// Whether only members take part that the cluster selector of the federated object selects.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub intersect_with_cluster_selector: bool,
    /// Preferences by the name of the member. `*` holds for those without an entry. All members alike, if
    /// there is none.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub clusters: BTreeMap<String, ClusterPreferences>,
}

/// Desired replicas of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// The fewest replicas there, if there are enough.
    #[serde(default, deserialize_with = "or_default")]
    pub min_replicas: i64,
    /// The most replicas there. Without it, any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i64>,
    /// Its share of the replicas beyond the minima, in proportion to the weights of the others.
    #[serde(default, deserialize_with = "or_default")]
    pub weight: i64,
}
