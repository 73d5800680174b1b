//! The availability of an object in a member, by its kind.

use serde_json::Value;

use crate::resources::group_of;

/// The availability of an object that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    Available,
    NotYet,
    /// The object will not become available.
    Failed,
    /// The kind says nothing that shows it. The object counts as available.
    NotTrackable,
}

/// Whether Jobs are followed, as the documentation of the original says and its code does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobTracking {
    Tracked,
    NotTracked,
}

/// Derives the availability from the live object.
pub fn check(object: &Value, jobs: JobTracking) -> Availability {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is_available = match (
        group_of(object),
        object["kind"].as_str().unwrap_or_default(),
    ) {
        ("apps", "Deployment") => {
            let wanted = replicas(spec);
            is_observed(object)
                && number(status, "availableReplicas") == wanted
                && number(status, "updatedReplicas") == wanted
                && number(status, "unavailableReplicas") == 0
        }
        ("apps", "StatefulSet") => {
            is_observed(object)
                && number(status, "availableReplicas") == replicas(spec)
                && number(status, "currentReplicas") == number(status, "updatedReplicas")
                && status["currentRevision"] == status["updateRevision"]
        }
        ("apps", "DaemonSet") => {
            is_observed(object)
                && number(status, "numberAvailable") == number(status, "desiredNumberScheduled")
                && number(status, "currentNumberScheduled")
                    == number(status, "updatedNumberScheduled")
        }
        ("", "Service") => match spec["type"].as_str().unwrap_or_default() {
            "ExternalName" => return Availability::NotTrackable,
            "LoadBalancer" => {
                let ingress = status["loadBalancer"]["ingress"].as_array();
                ingress
                    .into_iter()
                    .flatten()
                    .any(|one| has_text(&one["ip"]) || has_text(&one["hostname"]))
            }
            _ => has_text(&spec["clusterIP"]),
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            is_true(status, "Established") && is_true(status, "NamesAccepted")
        }
        ("policy", "PodDisruptionBudget") => has_disruption_state(object),
        ("batch", "Job") if jobs == JobTracking::Tracked => {
            if is_true(status, "Failed") {
                return Availability::Failed;
            }
            let has_pod = number(status, "succeeded") > 0 || number(status, "ready") > 0;
            has_pod || spec["suspend"] == true
        }
        (
            "",
            "Namespace" | "Secret" | "ConfigMap" | "ServiceAccount" | "LimitRange"
            | "ResourceQuota",
        )
        | (
            "rbac.authorization.k8s.io",
            "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding",
        )
        | ("networking.k8s.io", "NetworkPolicy" | "IngressClass")
        | ("storage.k8s.io", "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "StorageClass")
        | ("apps", "ControllerRevision")
        | ("scheduling.k8s.io", "PriorityClass") => true,
        _ => return Availability::NotTrackable,
    };
    if is_available {
        Availability::Available
    } else {
        Availability::NotYet
    }
}

fn number(of: &Value, field: &str) -> i64 {
    of[field].as_i64().unwrap_or_default()
}

fn replicas(spec: &Value) -> i64 {
    spec["replicas"].as_i64().unwrap_or(1)
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_observed(object: &Value) -> bool {
    number(&object["status"], "observedGeneration") == number(&object["metadata"], "generation")
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|one| one["type"] == type_)
}

fn is_true(status: &Value, type_: &str) -> bool {
    condition(status, type_).is_some_and(|found| found["status"] == "True")
}

/// The controller of disruptions has looked at this generation, and says one thing.
fn has_disruption_state(object: &Value) -> bool {
    let status = &object["status"];
    condition(status, "DisruptionAllowed").is_some_and(|found| {
        let allowed = number(status, "disruptionsAllowed") > 0;
        number(found, "observedGeneration") == number(&object["metadata"], "generation")
            && (found["status"] == "True") == allowed
    })
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "literals are shorter to pass by value"
    )]

    use serde_json::json;

    use super::*;

    fn of(api_version: &str, kind: &str, spec: Value, status: Value) -> Availability {
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status,
        });
        check(&object, JobTracking::Tracked)
    }

    #[test]
    fn every_row_of_the_table_has_its_answer() {
        use Availability::{Available, Failed, NotTrackable, NotYet};
        let lb = |ingress: Value| json!({"loadBalancer": {"ingress": ingress}});
        let crd = |names: &str| {
            json!({"conditions": [
                {"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": names},
            ]})
        };
        let pdb = |generation: i64, status: &str, allowed: i64| {
            json!({"disruptionsAllowed": allowed, "conditions": [
                {"type": "DisruptionAllowed", "status": status, "observedGeneration": generation},
            ]})
        };
        let deployment = |observed: i64, available: i64, unavailable: i64| {
            json!({
                "observedGeneration": observed, "availableReplicas": available, "updatedReplicas": 1,
                "unavailableReplicas": unavailable,
            })
        };
        let set = |revision: &str| {
            json!({
                "observedGeneration": 2, "availableReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
                "currentRevision": "a", "updateRevision": revision,
            })
        };
        let daemons = |available: i64| {
            json!({
                "observedGeneration": 2, "numberAvailable": available, "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2, "updatedNumberScheduled": 2,
            })
        };
        let none = || json!({});
        for (kind, spec, status, wanted) in [
            ("apps/v1 Deployment", none(), deployment(2, 1, 0), Available),
            ("apps/v1 Deployment", none(), deployment(1, 1, 0), NotYet),
            ("apps/v1 Deployment", none(), deployment(2, 0, 0), NotYet),
            ("apps/v1 Deployment", none(), deployment(2, 1, 1), NotYet),
            (
                "apps/v1 Deployment",
                json!({"replicas": 2}),
                deployment(2, 1, 0),
                NotYet,
            ),
            (
                "apps/v1 StatefulSet",
                json!({"replicas": 3}),
                set("a"),
                Available,
            ),
            (
                "apps/v1 StatefulSet",
                json!({"replicas": 3}),
                set("b"),
                NotYet,
            ),
            ("apps/v1 DaemonSet", none(), daemons(2), Available),
            ("apps/v1 DaemonSet", none(), daemons(1), NotYet),
            (
                "v1 Service",
                json!({"clusterIP": "None"}),
                none(),
                Available,
            ),
            ("v1 Service", none(), none(), NotYet),
            (
                "v1 Service",
                json!({"type": "LoadBalancer"}),
                lb(json!([{"hostname": "h"}])),
                Available,
            ),
            (
                "v1 Service",
                json!({"type": "LoadBalancer", "clusterIP": "1"}),
                lb(json!([])),
                NotYet,
            ),
            (
                "v1 Service",
                json!({"type": "ExternalName"}),
                none(),
                NotTrackable,
            ),
            (
                "apiextensions.k8s.io/v1 CustomResourceDefinition",
                none(),
                crd("True"),
                Available,
            ),
            (
                "apiextensions.k8s.io/v1 CustomResourceDefinition",
                none(),
                crd("False"),
                NotYet,
            ),
            (
                "policy/v1 PodDisruptionBudget",
                none(),
                pdb(2, "True", 1),
                Available,
            ),
            (
                "policy/v1 PodDisruptionBudget",
                none(),
                pdb(1, "True", 1),
                NotYet,
            ),
            (
                "policy/v1 PodDisruptionBudget",
                none(),
                pdb(2, "True", 0),
                NotYet,
            ),
            ("batch/v1 Job", none(), json!({"ready": 1}), Available),
            ("batch/v1 Job", none(), none(), NotYet),
            ("batch/v1 Job", json!({"suspend": true}), none(), Available),
            (
                "batch/v1 Job",
                none(),
                json!({"succeeded": 1, "conditions": [{"type": "Failed", "status": "True"}]}),
                Failed,
            ),
            ("v1 Namespace", none(), none(), Available),
            ("v1 ConfigMap", none(), none(), Available),
            ("networking.k8s.io/v1 Ingress", none(), none(), NotTrackable),
            ("example.com/v1 ConfigMap", none(), none(), NotTrackable),
        ] {
            let (api_version, name) = kind.split_once(' ').unwrap();
            assert_eq!(
                of(api_version, name, spec, status.clone()),
                wanted,
                "{kind} {status}"
            );
        }
        let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
        assert_eq!(check(&job, JobTracking::NotTracked), NotTrackable);
    }
}
