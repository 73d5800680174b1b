//! Validation and defaults of the control plane's objects. The control plane validates in process, so that it is safe
//! without the webhook; [`review`] creates the webhook's answers.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use kube_lang::object::Object;
use kube_schema::admission::{Verdict, answer};
use kube_schema::field::{FieldError, aggregate};

use crate::types::cluster::{KubeFedClusterSpec, KubeFedClusterStatus};
use crate::types::config::KubeFedConfigSpec;
use crate::types::type_config::{FederatedTypeConfigSpec, FederatedTypeConfigStatus};

mod cluster;
mod config;
mod field;
mod type_config;
pub mod webhooks;

/// A service of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    TypeConfig,
    Cluster,
    Config,
    ConfigDefaults,
}

/// The reason why an object is rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    #[error("{0}")]
    Undecodable(String),
    #[error("{}", aggregate(.0))]
    Invalid(Vec<FieldError>),
}

impl Review {
    pub fn of_path(path: &str) -> Option<Self> {
        match path {
            "/validate-federatedtypeconfigs" => Some(Self::TypeConfig),
            "/validate-kubefedcluster" => Some(Self::Cluster),
            "/validate-kubefedconfig" => Some(Self::Config),
            "/default-kubefedconfig" => Some(Self::ConfigDefaults),
            _ => None,
        }
    }
}

/// Validates a `FederatedTypeConfig`.
pub fn check_type_config(object: &Object) -> Result<FederatedTypeConfigSpec, Rejection> {
    let spec: FederatedTypeConfigSpec = part(object, "spec")?;
    settle(type_config::check(&spec, object.name()))?;
    Ok(spec)
}

/// Validates a `KubeFedCluster`.
pub fn check_cluster(object: &Object) -> Result<KubeFedClusterSpec, Rejection> {
    let spec: KubeFedClusterSpec = part(object, "spec")?;
    settle(cluster::check(&spec))?;
    Ok(spec)
}

/// Validates a `KubeFedConfig` with defaults applied. `old` is the object before an update.
pub fn check_config(object: &Object, old: Option<&Object>) -> Result<KubeFedConfigSpec, Rejection> {
    let spec: KubeFedConfigSpec = part(object, "spec")?;
    let old = old.and_then(|old| old.root().get("spec")?.get("scope")?.as_str());
    settle(config::check(&spec, old))?;
    Ok(spec)
}

fn check_status(review: Review, object: &Object) -> Result<(), Rejection> {
    let errors = match review {
        Review::TypeConfig => {
            let status: FederatedTypeConfigStatus = part(object, "status")?;
            type_config::check_status(&status)
        }
        Review::Cluster => {
            let status: KubeFedClusterStatus = part(object, "status")?;
            cluster::check_status(&status)
        }
        Review::Config | Review::ConfigDefaults => Vec::new(),
    };
    settle(errors)
}

fn settle(errors: Vec<FieldError>) -> Result<(), Rejection> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Rejection::Invalid(errors))
    }
}

fn part<T: DeserializeOwned>(object: &Object, field: &str) -> Result<T, Rejection> {
    let value = object.root().get(field).unwrap_or(&Value::Null);
    let empty = json!({});
    let value = if value.is_null() { &empty } else { value };
    T::deserialize(value).map_err(|error| Rejection::Undecodable(format!("{field}: {error}")))
}

/// The answer to an `AdmissionReview`.
pub fn review(kind: Review, review: &Value) -> Value {
    let request = &review["request"];
    let judged = match request["operation"].as_str() {
        Some("CREATE" | "UPDATE") => judge(kind, request),
        Some(_) => Ok(None),
        None => Err(Rejection::Undecodable(
            "the body is not an AdmissionReview with a request".to_owned(),
        )),
    };
    let verdict = match judged {
        Ok(None) => Verdict::Allowed,
        Ok(Some(patch)) => Verdict::Patched(patch),
        Err(rejection @ Rejection::Undecodable(_)) => Verdict::Unreadable(rejection.to_string()),
        Err(rejection @ Rejection::Invalid(_)) => Verdict::Denied(rejection.to_string()),
    };
    answer(review, verdict)
}

/// The verdict on a write, with a JSON patch for the defaults.
fn judge(kind: Review, request: &Value) -> Result<Option<Value>, Rejection> {
    let object = |field: &str| {
        Object::new(request[field].clone())
            .map_err(|error| Rejection::Undecodable(format!("{field}: {error}")))
    };
    let new = object("object")?;
    if request["subResource"] == "status" {
        return check_status(kind, &new).map(|()| None);
    }
    match kind {
        Review::TypeConfig => check_type_config(&new).map(|_| None),
        Review::Cluster => check_cluster(&new).map(|_| None),
        Review::Config => {
            let old = request["oldObject"]
                .is_object()
                .then(|| object("oldObject"));
            check_config(&new, old.transpose()?.as_ref()).map(|_| None)
        }
        Review::ConfigDefaults => {
            let mut spec: KubeFedConfigSpec = part(&new, "spec")?;
            spec.complete();
            Ok(Some(
                json!([{"op": "replace", "path": "/spec", "value": spec}]),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn ask(kind: Review, operation: &str, object: &Value, more: &Value) -> Value {
        let mut request = json!({"uid": "u", "operation": operation, "object": object});
        for (field, value) in more.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let answer = review(kind, &json!({"request": request}));
        assert_eq!(answer["response"]["uid"], "u");
        answer["response"].clone()
    }

    fn message(answer: &Value) -> &str {
        assert_eq!(answer["allowed"], false);
        answer["status"]["message"].as_str().unwrap()
    }

    fn cluster(spec: &Value) -> Value {
        json!({"metadata": {"name": "c"}, "spec": spec})
    }

    #[test]
    fn paths_are_those_of_the_original() {
        for (path, wanted) in [
            ("/validate-federatedtypeconfigs", Some(Review::TypeConfig)),
            ("/validate-kubefedcluster", Some(Review::Cluster)),
            ("/validate-kubefedconfig", Some(Review::Config)),
            ("/default-kubefedconfig", Some(Review::ConfigDefaults)),
            ("/", None),
        ] {
            assert_eq!(Review::of_path(path), wanted);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_all_its_errors() {
        let bad = cluster(&json!({"apiEndpoint": "", "secretRef": {"name": ""}}));
        let answer = ask(Review::Cluster, "CREATE", &bad, &json!({}));
        assert_eq!(
            message(&answer),
            "[spec.apiEndpoint: Required value, spec.secretRef.name: Required value]"
        );
        assert_eq!(
            (&answer["status"]["code"], &answer["status"]["reason"]),
            (&json!(403), &json!("Forbidden"))
        );
        for absent in [json!({}), cluster(&json!({"secretRef": {}}))] {
            let answer = ask(Review::Cluster, "CREATE", &absent, &json!({}));
            assert_eq!(
                message(&answer),
                "[spec.apiEndpoint: Required value, spec.secretRef.name: Required value]"
            );
        }
        let good = cluster(&json!({"apiEndpoint": "https://a", "secretRef": {"name": "s"}}));
        assert_eq!(
            ask(Review::Cluster, "UPDATE", &good, &json!({}))["allowed"],
            true
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_bad_request() {
        for (object, wanted) in [
            (json!([]), "object: expected a JSON object, found a list"),
            (
                cluster(&json!({"apiEndpoint": 1})),
                "spec: invalid type: integer `1`, expected a string",
            ),
        ] {
            let answer = ask(Review::Cluster, "CREATE", &object, &json!({}));
            assert_eq!(message(&answer), wanted);
            assert_eq!(answer["status"]["code"], 400);
        }
        let answer = review(Review::Cluster, &json!({}));
        assert_eq!(answer["response"]["status"]["code"], 400);
    }

    #[test]
    fn other_operations_are_let_through_untouched() {
        for operation in ["DELETE", "CONNECT"] {
            let answer = ask(Review::Config, operation, &Value::Null, &json!({}));
            assert_eq!(answer, json!({"uid": "u", "allowed": true}));
        }
    }

    #[test]
    fn defaults_replace_the_spec() {
        let object = json!({"spec": {"scope": "Cluster"}});
        let answer = ask(Review::ConfigDefaults, "CREATE", &object, &json!({}));
        assert_eq!(answer["patchType"], "JSONPatch");
        let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            (&patch[0]["op"], &patch[0]["path"]),
            (&json!("replace"), &json!("/spec"))
        );
        let spec = patch[0]["value"].clone();
        assert_eq!(spec["leaderElect"]["retryPeriod"], "5s");
        let completed = Object::new(json!({"spec": spec})).unwrap();
        assert!(
            check_config(&completed, None).is_ok(),
            "what is filled in is valid"
        );
    }

    #[test]
    fn the_scope_stays_what_it_is() {
        let config = |scope: &str| {
            let mut spec = KubeFedConfigSpec {
                scope: scope.to_owned(),
                ..KubeFedConfigSpec::default()
            };
            spec.complete();
            json!({"spec": spec})
        };
        let more = json!({"oldObject": config("Cluster")});
        let answer = ask(Review::Config, "UPDATE", &config("Namespaced"), &more);
        assert_eq!(
            message(&answer),
            "spec.scope: Invalid value: \"Namespaced\": field is immutable"
        );
        assert_eq!(
            ask(Review::Config, "UPDATE", &config("Cluster"), &more)["allowed"],
            true
        );
    }

    #[test]
    fn a_status_is_checked_alone() {
        let more = json!({"subResource": "status"});
        let status = |conditions: Value| json!({"spec": {}, "status": {"conditions": conditions}});
        let bad = status(json!([{"type": "Odd", "status": "Yes", "lastProbeTime": null}]));
        assert_eq!(
            message(&ask(Review::Cluster, "UPDATE", &bad, &more)),
            "[status.conditions[0].type: Unsupported value: \"Odd\": supported values: \"ConfigMalformed\", \
             \"Offline\", \"Ready\", status.conditions[0].status: Unsupported value: \"Yes\": supported values: \
             \"False\", \"True\", \"Unknown\", status.conditions[0].lastProbeTime: Required value]"
        );
        let config = json!({"status": {"observedGeneration": -1, "propagationController": "Idle"}});
        assert_eq!(
            message(&ask(Review::TypeConfig, "UPDATE", &config, &more)),
            "[status.observedGeneration: Invalid value: -1: must be greater than or equal to 0, \
             status.propagationController: Unsupported value: \"Idle\": supported values: \"NotRunning\", \"Running\"]"
        );
    }
}
