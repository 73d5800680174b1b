//! `KubeFedConfig`: the settings of the control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::or_default;

/// The known feature gates with their defaults, sorted by name.
pub const FEATURES: [(&str, &str); 3] = [
    ("PushReconciler", "Enabled"),
    ("RawResourceStatusCollection", "Disabled"),
    ("SchedulerPreferences", "Enabled"),
];

/// Settings of the control plane. It reads them when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeFedConfigSpec {
    /// `Cluster`: all namespaces are federated. `Namespaced`: only the namespace of the control plane.
    pub scope: String,
    /// Delays before the control plane acts on members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_duration: Option<DurationConfig>,
    /// Leader election among several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<LeaderElectConfig>,
    /// Features that are switched on or off.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// Probes of members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_health_check: Option<ClusterHealthCheckConfig>,
    /// Propagation of federated objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_controller: Option<SyncControllerConfig>,
    /// Collection of the status of Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_controller: Option<StatusControllerConfig>,
}

/// Delays before the control plane acts on members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurationConfig {
    /// After a member has become ready. 20s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_delay: Option<String>,
    /// After a member has stopped being ready. 60s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_delay: Option<String>,
    /// For the first lists of a member. 5m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_sync_timeout: Option<String>,
}

/// Leader election among several processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElectConfig {
    /// Time for which a lock that is not renewed stays valid. 15s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<String>,
    /// Time for which the leader tries to renew its lock. 10s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<String>,
    /// The time between two tries. 5s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<String>,
    /// `configmaps` or `endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_lock: Option<String>,
}

/// One feature, switched on or off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct FeatureGate {
    /// The name of the feature.
    pub name: String,
    /// `Enabled` or `Disabled`.
    pub configuration: String,
}

/// Probes of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterHealthCheckConfig {
    /// The time between two probes. 10s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// Number of consecutive failures after which a member is not ready. 3 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i64>,
    /// Number of consecutive successes after which a member is ready. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_threshold: Option<i64>,
    /// Timeout of a probe. 3s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// Propagation of federated objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncControllerConfig {
    /// Number of objects of a type that are reconciled concurrently. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_reconciles: Option<i64>,
    /// `Enabled` or `Disabled`: whether objects that were in a member before are adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_resources: Option<String>,
}

/// Collection of the status of Services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusControllerConfig {
    /// Number of objects that are reconciled concurrently. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_reconciles: Option<i64>,
}

impl KubeFedConfigSpec {
    /// Sets defaults, field by field; features are completed and sorted by name. The scope has no default.
    pub fn complete(&mut self) {
        let text = |slot: &mut Option<String>, value: &str| {
            slot.get_or_insert_with(|| value.to_owned());
        };
        let durations = self.controller_duration.get_or_insert_default();
        text(&mut durations.available_delay, "20s");
        text(&mut durations.unavailable_delay, "1m0s");
        text(&mut durations.cache_sync_timeout, "5m0s");
        let elect = self.leader_elect.get_or_insert_default();
        text(&mut elect.lease_duration, "15s");
        text(&mut elect.renew_deadline, "10s");
        text(&mut elect.retry_period, "5s");
        text(&mut elect.resource_lock, "configmaps");
        let check = self.cluster_health_check.get_or_insert_default();
        text(&mut check.period, "10s");
        text(&mut check.timeout, "3s");
        check.failure_threshold.get_or_insert(3);
        check.success_threshold.get_or_insert(1);
        let sync = self.sync_controller.get_or_insert_default();
        sync.max_concurrent_reconciles.get_or_insert(1);
        text(&mut sync.adopt_resources, "Enabled");
        let status = self.status_controller.get_or_insert_default();
        status.max_concurrent_reconciles.get_or_insert(1);
        for (name, configuration) in FEATURES {
            if !self.feature_gates.iter().any(|gate| gate.name == name) {
                self.feature_gates.push(FeatureGate {
                    name: name.to_owned(),
                    configuration: configuration.to_owned(),
                });
            }
        }
        self.feature_gates.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn completed(spec: Value) -> Value {
        let mut spec: KubeFedConfigSpec = serde_json::from_value(spec).unwrap();
        spec.complete();
        serde_json::to_value(spec).unwrap()
    }

    #[test]
    fn everything_but_the_scope_has_a_default() {
        let wanted = json!({
            "scope": "Cluster",
            "controllerDuration": {"availableDelay": "20s", "unavailableDelay": "1m0s", "cacheSyncTimeout": "5m0s"},
            "leaderElect": {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "5s", "resourceLock": "configmaps"},
            "featureGates": [
                {"name": "PushReconciler", "configuration": "Enabled"},
                {"name": "RawResourceStatusCollection", "configuration": "Disabled"},
                {"name": "SchedulerPreferences", "configuration": "Enabled"},
            ],
            "clusterHealthCheck": {"period": "10s", "timeout": "3s", "failureThreshold": 3, "successThreshold": 1},
            "syncController": {"maxConcurrentReconciles": 1, "adoptResources": "Enabled"},
            "statusController": {"maxConcurrentReconciles": 1},
        });
        assert_eq!(completed(json!({"scope": "Cluster"})), wanted);
        assert_eq!(completed(wanted.clone()), wanted, "once is enough");
    }

    #[test]
    fn what_the_user_gave_stays_field_by_field() {
        let spec = completed(json!({
            "scope": "Namespaced",
            "controllerDuration": {"availableDelay": "3s"},
            "clusterHealthCheck": {"failureThreshold": 7},
            "featureGates": [{"name": "SchedulerPreferences", "configuration": "Disabled"}],
        }));
        assert_eq!(spec["controllerDuration"]["availableDelay"], "3s");
        assert_eq!(spec["controllerDuration"]["unavailableDelay"], "1m0s");
        assert_eq!(spec["clusterHealthCheck"]["failureThreshold"], 7);
        assert_eq!(spec["featureGates"][2]["configuration"], "Disabled");
        assert_eq!(spec["featureGates"].as_array().unwrap().len(), 3);
    }
}
