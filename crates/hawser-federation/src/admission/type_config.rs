//! Validation of `FederatedTypeConfig`.

use kube_schema::field::FieldError;
use kube_schema::names::{dns1035_label, dns1123_subdomain};

use super::field::{named, one_of};
use crate::types::type_config::{ApiResource, FederatedTypeConfigSpec, FederatedTypeConfigStatus};

const SWITCH: [&str; 2] = ["Enabled", "Disabled"];

pub(super) fn check(spec: &FederatedTypeConfigSpec, name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let wanted = spec.target_type.qualified_name();
    if name != wanted {
        let detail =
            format!("name must be {wanted:?}: the plural name and the group of the target type");
        errors.push(FieldError::invalid("metadata.name", name, &detail));
    }
    let target = &spec.target_type;
    check_resource(&mut errors, "spec.targetType", target);
    if !target.group.is_empty() {
        named(
            &mut errors,
            "spec.targetType.group",
            &target.group,
            dns1123_subdomain,
        );
    }
    one_of(&mut errors, "spec.propagation", &spec.propagation, &SWITCH);
    check_federated(&mut errors, "spec.federatedType", &spec.federated_type);
    if let Some(status) = &spec.status_type {
        check_federated(&mut errors, "spec.statusType", status);
    }
    if let Some(collection) = &spec.status_collection {
        one_of(&mut errors, "spec.statusCollection", collection, &SWITCH);
    }
    errors
}

fn check_resource(errors: &mut Vec<FieldError>, path: &str, resource: &ApiResource) {
    let at = |field: &str| format!("{path}.{field}");
    named(errors, &at("version"), &resource.version, dns1035_label);
    let kind = |kind: &str| dns1035_label(&kind.to_lowercase());
    named(errors, &at("kind"), &resource.kind, kind);
    named(
        errors,
        &at("pluralName"),
        &resource.plural_name,
        dns1035_label,
    );
    one_of(
        errors,
        &at("scope"),
        &resource.scope,
        &["Cluster", "Namespaced"],
    );
}

fn check_federated(errors: &mut Vec<FieldError>, path: &str, resource: &ApiResource) {
    let group = |group: &str| {
        let mut complaints = dns1123_subdomain(group);
        if !group.contains('.') {
            complaints.push("should be a domain with at least one dot".to_owned());
        }
        complaints
    };
    named(errors, &format!("{path}.group"), &resource.group, group);
    check_resource(errors, path, resource);
}

pub(super) fn check_status(status: &FederatedTypeConfigStatus) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if status.observed_generation < 0 {
        errors.push(FieldError::invalid(
            "status.observedGeneration",
            status.observed_generation,
            "must be greater than or equal to 0",
        ));
    }
    let words = ["Running", "NotRunning"];
    let propagation = &status.propagation_controller;
    one_of(
        &mut errors,
        "status.propagationController",
        propagation,
        &words,
    );
    if let Some(controller) = &status.status_controller {
        one_of(&mut errors, "status.statusController", controller, &words);
    }
    errors
}

#[cfg(test)]
mod tests {
    use kube_schema::field::aggregate;

    use super::*;

    fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
        ApiResource {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural_name: plural.into(),
            scope: "Namespaced".into(),
        }
    }

    fn told(name: &str, change: impl Fn(&mut FederatedTypeConfigSpec)) -> String {
        let mut spec = FederatedTypeConfigSpec {
            target_type: resource("apps", "Deployment", "deployments"),
            propagation: "Enabled".into(),
            federated_type: resource(
                "types.kubefed.io",
                "FederatedDeployment",
                "federateddeployments",
            ),
            status_type: None,
            status_collection: None,
        };
        change(&mut spec);
        let errors = check(&spec, name);
        if errors.is_empty() {
            String::new()
        } else {
            aggregate(&errors)
        }
    }

    #[test]
    fn a_config_is_named_after_its_target() {
        assert_eq!(told("deployments.apps", |_| {}), "");
        assert_eq!(
            told("deployments", |_| {}),
            "metadata.name: Invalid value: \"deployments\": name must be \"deployments.apps\": the plural name and the group of the target type"
        );
        assert_eq!(
            told("configmaps", |spec| spec.target_type =
                resource("", "ConfigMap", "configmaps")),
            ""
        );
    }

    #[test]
    fn every_field_is_checked() {
        let of = |change: fn(&mut FederatedTypeConfigSpec)| told("deployments.apps", change);
        for (got, wanted) in [
            (
                of(|spec| spec.propagation = String::new()),
                "spec.propagation: Required value",
            ),
            (
                of(|spec| spec.propagation = "On".into()),
                "spec.propagation: Unsupported value: \"On\": supported values: \"Disabled\", \"Enabled\"",
            ),
            (
                of(|spec| spec.status_collection = Some("On".into())),
                "spec.statusCollection: Unsupported value: \"On\": supported values: \"Disabled\", \"Enabled\"",
            ),
            (
                of(|spec| spec.target_type.scope = "All".into()),
                "spec.targetType.scope: Unsupported value: \"All\": supported values: \"Cluster\", \"Namespaced\"",
            ),
            (
                of(|spec| spec.federated_type.group = String::new()),
                "spec.federatedType.group: Required value",
            ),
            (
                of(|spec| spec.federated_type.group = "types".into()),
                "spec.federatedType.group: Invalid value: \"types\": should be a domain with at least one dot",
            ),
            (
                of(|spec| spec.status_type = Some(resource("", "K", "ks"))),
                "spec.statusType.group: Required value",
            ),
        ] {
            assert_eq!(got, wanted);
        }
        let version = of(|spec| spec.target_type.version = "1".into());
        assert!(
            version.starts_with(
                "spec.targetType.version: Invalid value: \"1\": a DNS-1035 label must"
            ),
            "{version}"
        );
        assert_eq!(
            of(|spec| spec.target_type.kind = "DePloyment".into()),
            "",
            "kinds in lower case count"
        );
    }
}
