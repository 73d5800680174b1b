//! Objects for tests.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::types::binding::{Binding, BindingState};
use crate::types::cluster::MemberCluster;
use crate::types::policy::PlacementPolicy;

/// The policy snapshot that tests decide about.
pub(crate) const SNAPSHOT: &str = "p-1";

pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A member that is joined and healthy.
pub(crate) fn member(name: &str, labels: &Value) -> MemberCluster {
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": ""});
    let member = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": "u"}},
        "status": {"agentStatus": [{
            "type": "MemberAgent", "conditions": [is("Joined"), is("Healthy")],
            "lastReceivedHeartbeat": "2026-01-01T11:59:30Z",
        }]},
    });
    serde_json::from_value(member).unwrap()
}

pub(crate) fn policy(policy: &Value) -> PlacementPolicy {
    serde_json::from_value(policy.clone()).unwrap()
}

/// A binding named after its cluster.
pub(crate) fn binding(cluster: &str, state: BindingState, snapshot: &str) -> Binding {
    let binding = json!({
        "metadata": {"name": format!("b-{cluster}"), "finalizers": [crate::names::BINDING_FINALIZER]},
        "spec": {
            "state": state.as_str(), "schedulingPolicySnapshotName": snapshot, "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "as before",
                                "clusterScore": {"affinityScore": 0, "priorityScore": 0}},
        },
    });
    serde_json::from_value(binding).unwrap()
}
