//! Validation of `KubeFedConfig`, with defaults applied.

use std::collections::BTreeSet;

use serde_json::Value;

use kube_lang::go_text::parse_duration;
use kube_schema::field::FieldError;

use super::field::one_of;
use crate::types::config::{FEATURES, FeatureGate, KubeFedConfigSpec};

const SWITCH: [&str; 2] = ["Enabled", "Disabled"];
const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];

/// `old_scope` is the scope before an update.
pub(super) fn check(spec: &KubeFedConfigSpec, old_scope: Option<&str>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    one_of(&mut errors, "spec.scope", &spec.scope, &SCOPES);
    if old_scope.is_some_and(|old| old != spec.scope) {
        let detail = "field is immutable";
        errors.push(FieldError::invalid(
            "spec.scope",
            spec.scope.as_str(),
            detail,
        ));
    }
    match &spec.controller_duration {
        None => missing(&mut errors, "spec.controllerDuration"),
        Some(own) => {
            let path = "spec.controllerDuration";
            duration(
                &mut errors,
                path,
                "availableDelay",
                own.available_delay.as_ref(),
            );
            duration(
                &mut errors,
                path,
                "unavailableDelay",
                own.unavailable_delay.as_ref(),
            );
            duration(
                &mut errors,
                path,
                "cacheSyncTimeout",
                own.cache_sync_timeout.as_ref(),
            );
        }
    }
    check_leader_election(&mut errors, spec);
    check_features(&mut errors, &spec.feature_gates);
    match &spec.cluster_health_check {
        None => missing(&mut errors, "spec.clusterHealthCheck"),
        Some(own) => {
            let path = "spec.clusterHealthCheck";
            duration(&mut errors, path, "period", own.period.as_ref());
            positive(&mut errors, path, "failureThreshold", own.failure_threshold);
            positive(&mut errors, path, "successThreshold", own.success_threshold);
            duration(&mut errors, path, "timeout", own.timeout.as_ref());
        }
    }
    let most = "maxConcurrentReconciles";
    match &spec.sync_controller {
        None => missing(&mut errors, "spec.syncController"),
        Some(own) => {
            let path = "spec.syncController";
            positive(&mut errors, path, most, own.max_concurrent_reconciles);
            let adopt = own.adopt_resources.as_deref().unwrap_or_default();
            one_of(
                &mut errors,
                "spec.syncController.adoptResources",
                adopt,
                &SWITCH,
            );
        }
    }
    match &spec.status_controller {
        None => missing(&mut errors, "spec.statusController"),
        Some(own) => {
            let path = "spec.statusController";
            positive(&mut errors, path, most, own.max_concurrent_reconciles);
        }
    }
    errors
}

fn check_leader_election(errors: &mut Vec<FieldError>, spec: &KubeFedConfigSpec) {
    let path = "spec.leaderElect";
    let Some(own) = &spec.leader_elect else {
        return missing(errors, path);
    };
    let lease = duration(errors, path, "leaseDuration", own.lease_duration.as_ref());
    let renew = duration(errors, path, "renewDeadline", own.renew_deadline.as_ref());
    let retry = duration(errors, path, "retryPeriod", own.retry_period.as_ref());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let (Some(lease), Some(renew)) = (lease, renew)
        && lease <= renew
    {
        errors.push(FieldError::invalid(
            "spec.leaderElect.leaseDuration",
            text(&own.lease_duration),
            "leaseDuration must be greater than renewDeadline",
        ));
    }
    if let (Some(renew), Some(retry)) = (renew, retry)
        && i128::from(renew) * 5 <= i128::from(retry) * 6
    {
        errors.push(FieldError::invalid(
            "spec.leaderElect.renewDeadline",
            text(&own.renew_deadline),
            "renewDeadline must be greater than retryPeriod*JitterFactor(1.2)",
        ));
    }
    let lock = own.resource_lock.as_deref().unwrap_or_default();
    let locks = ["configmaps", "endpoints"];
    one_of(errors, "spec.leaderElect.resourceLock", lock, &locks);
}

fn check_features(errors: &mut Vec<FieldError>, gates: &[FeatureGate]) {
    if gates.is_empty() {
        missing(errors, "spec.featureGates");
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let path = |field: &str| format!("spec.featureGates[{index}].{field}");
        let known = FEATURES.map(|(name, _)| name);
        one_of(errors, &path("name"), &gate.name, &known);
        if !seen.insert(&gate.name) {
            errors.push(FieldError::duplicate(
                path("name"),
                Value::from(gate.name.as_str()),
            ));
        }
        one_of(errors, &path("configuration"), &gate.configuration, &SWITCH);
    }
}

fn missing(errors: &mut Vec<FieldError>, path: &str) {
    errors.push(FieldError::required(path, ""));
}

/// Validates a positive duration; returns its nanoseconds.
fn duration(
    errors: &mut Vec<FieldError>,
    path: &str,
    field: &str,
    text: Option<&String>,
) -> Option<i64> {
    let path = format!("{path}.{field}");
    let Some(text) = text else {
        missing(errors, &path);
        return None;
    };
    let found = parse_duration(text);
    let problem = match found {
        None => "must be a duration such as 20s or 1m30s",
        Some(found) if found <= 0 => "must be greater than 0",
        Some(_) => return found,
    };
    errors.push(FieldError::invalid(path, text.as_str(), problem));
    None
}

fn positive(errors: &mut Vec<FieldError>, path: &str, field: &str, number: Option<i64>) {
    let path = format!("{path}.{field}");
    match number {
        None => missing(errors, &path),
        Some(number) if number <= 0 => {
            errors.push(FieldError::invalid(path, number, "must be greater than 0"));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(change: fn(&mut Value)) -> Vec<String> {
        let mut spec = KubeFedConfigSpec {
            scope: "Cluster".to_owned(),
            ..KubeFedConfigSpec::default()
        };
        spec.complete();
        let mut spec = serde_json::to_value(spec).unwrap();
        change(&mut spec);
        let spec: KubeFedConfigSpec = serde_json::from_value(spec).unwrap();
        check(&spec, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_field_is_checked() {
        for (got, wanted) in [
            (told(|_| {}), &[] as &[&str]),
            (
                told(|spec| spec["scope"] = "".into()),
                &["spec.scope: Required value"],
            ),
            (
                told(|spec| spec["scope"] = "All".into()),
                &[
                    "spec.scope: Unsupported value: \"All\": supported values: \"Cluster\", \"Namespaced\"",
                ],
            ),
            (
                told(|spec| spec["controllerDuration"]["availableDelay"] = "0s".into()),
                &[
                    "spec.controllerDuration.availableDelay: Invalid value: \"0s\": must be greater than 0",
                ],
            ),
            (
                told(|spec| spec["controllerDuration"]["availableDelay"] = "soon".into()),
                &[
                    "spec.controllerDuration.availableDelay: Invalid value: \"soon\": must be a duration such as 20s or 1m30s",
                ],
            ),
            (
                told(|spec| spec["leaderElect"]["leaseDuration"] = "10s".into()),
                &[
                    "spec.leaderElect.leaseDuration: Invalid value: \"10s\": leaseDuration must be greater than renewDeadline",
                ],
            ),
            (
                told(|spec| spec["leaderElect"]["renewDeadline"] = "6s".into()),
                &[
                    "spec.leaderElect.renewDeadline: Invalid value: \"6s\": renewDeadline must be greater than retryPeriod*JitterFactor(1.2)",
                ],
            ),
            (
                told(|spec| spec["leaderElect"]["resourceLock"] = "leases".into()),
                &[
                    "spec.leaderElect.resourceLock: Unsupported value: \"leases\": supported values: \"configmaps\", \"endpoints\"",
                ],
            ),
            (
                told(|spec| spec["clusterHealthCheck"]["failureThreshold"] = 0.into()),
                &[
                    "spec.clusterHealthCheck.failureThreshold: Invalid value: 0: must be greater than 0",
                ],
            ),
            (
                told(|spec| spec["syncController"]["adoptResources"] = "Yes".into()),
                &[
                    "spec.syncController.adoptResources: Unsupported value: \"Yes\": supported values: \"Disabled\", \"Enabled\"",
                ],
            ),
            (
                told(|spec| spec["statusController"] = Value::Null),
                &["spec.statusController: Required value"],
            ),
            (
                told(|spec| spec["featureGates"][1] = spec["featureGates"][0].clone()),
                &["spec.featureGates[1].name: Duplicate value: \"PushReconciler\""],
            ),
            (
                told(|spec| {
                    spec["featureGates"][0] = json!({"name": "Odd", "configuration": "On"});
                }),
                &[
                    "spec.featureGates[0].name: Unsupported value: \"Odd\": supported values: \"PushReconciler\", \"RawResourceStatusCollection\", \"SchedulerPreferences\"",
                    "spec.featureGates[0].configuration: Unsupported value: \"On\": supported values: \"Disabled\", \"Enabled\"",
                ],
            ),
        ] {
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn what_is_missing_after_defaults_is_told() {
        let spec = KubeFedConfigSpec {
            scope: "Cluster".to_owned(),
            ..KubeFedConfigSpec::default()
        };
        let paths: Vec<String> = check(&spec, Some("Cluster"))
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(
            paths,
            [
                "spec.controllerDuration",
                "spec.leaderElect",
                "spec.featureGates",
                "spec.clusterHealthCheck",
                "spec.syncController",
                "spec.statusController",
            ]
        );
    }
}
