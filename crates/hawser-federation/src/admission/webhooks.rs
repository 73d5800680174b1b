//! The webhook configurations of the API server.

use kube_schema::admission::WebhookAddress;
use serde_json::{Value, json};

use crate::placement::Scope;
use crate::types::CORE_GROUP;

/// A control plane with a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub namespace: String,
    pub scope: Scope,
    pub address: WebhookAddress,
}

impl Webhook {
    /// A name that other control planes of the cluster do not have.
    fn own(&self, name: &str) -> String {
        match self.scope {
            Scope::Cluster => name.to_owned(),
            Scope::Namespaced => format!("{name}-{}", self.namespace),
        }
    }

    /// The `ClusterRole` that the configurations belong to, if it exists: they end with it.
    pub fn owner(&self) -> String {
        self.own("kubefed-webhook")
    }

    /// The configurations, each with its plural; `bundle` are the authorities in base64.
    pub fn configurations(&self, bundle: &str) -> [(&'static str, Value); 2] {
        let both = ["CREATE", "UPDATE"];
        let validations = [
            self.webhook(
                "federatedtypeconfigs",
                "validate-federatedtypeconfigs",
                &both,
                true,
                bundle,
            ),
            self.webhook(
                "kubefedclusters",
                "validate-kubefedcluster",
                &both,
                true,
                bundle,
            ),
            self.webhook(
                "kubefedconfigs",
                "validate-kubefedconfig",
                &both,
                false,
                bundle,
            ),
        ];
        let defaults = ["CREATE"];
        let mut mutation = self.webhook(
            "kubefedconfigs",
            "default-kubefedconfig",
            &defaults,
            false,
            bundle,
        );
        mutation["reinvocationPolicy"] = "Never".into();
        let configuration = |kind: &str, name: &str, webhooks: Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": self.own(name)},
                "webhooks": webhooks,
            })
        };
        [
            (
                "validatingwebhookconfigurations",
                configuration(
                    "ValidatingWebhookConfiguration",
                    "validations.core.kubefed.io",
                    json!(validations),
                ),
            ),
            (
                "mutatingwebhookconfigurations",
                configuration(
                    "MutatingWebhookConfiguration",
                    "mutation.core.kubefed.io",
                    json!([mutation]),
                ),
            ),
        ]
    }

    fn webhook(
        &self,
        plural: &str,
        path: &str,
        operations: &[&str],
        with_status: bool,
        bundle: &str,
    ) -> Value {
        let mut resources = vec![plural.to_owned()];
        if with_status {
            resources.push(format!("{plural}/status"));
        }
        let selector = match self.scope {
            Scope::Cluster => json!({}),
            Scope::Namespaced => {
                json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace}})
            }
        };
        json!({
            "name": format!("{plural}.{CORE_GROUP}"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.address.client(&format!("/{path}"), bundle),
            // What the server would add is written too, so that the two can be compared.
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "objectSelector": {},
            "timeoutSeconds": 10,
            "namespaceSelector": selector,
            "rules": [{
                "apiGroups": [CORE_GROUP], "apiVersions": ["v1beta1"],
                "operations": operations, "resources": resources, "scope": "Namespaced",
            }],
            "sideEffects": "None",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Review;

    fn webhook(scope: Scope, address: WebhookAddress) -> Webhook {
        let namespace = "ns".to_owned();
        Webhook {
            namespace,
            scope,
            address,
        }
    }

    #[test]
    fn every_path_is_one_that_is_answered() {
        let service = WebhookAddress::Service {
            namespace: "ns".into(),
            name: "s".into(),
            port: 443,
        };
        let of = webhook(Scope::Cluster, service);
        let mut paths = Vec::new();
        for (_, configuration) in of.configurations("Y2E=") {
            for hook in configuration["webhooks"].as_array().unwrap() {
                let path = hook["clientConfig"]["service"]["path"].as_str().unwrap();
                assert!(Review::of_path(path).is_some(), "{path}");
                assert_eq!(hook["failurePolicy"], "Fail");
                assert_eq!(hook["clientConfig"]["caBundle"], "Y2E=");
                paths.push(format!("{path} {}", hook["rules"][0]["resources"]));
            }
        }
        assert_eq!(
            paths,
            [
                "/validate-federatedtypeconfigs [\"federatedtypeconfigs\",\"federatedtypeconfigs/status\"]",
                "/validate-kubefedcluster [\"kubefedclusters\",\"kubefedclusters/status\"]",
                "/validate-kubefedconfig [\"kubefedconfigs\"]",
                "/default-kubefedconfig [\"kubefedconfigs\"]",
            ]
        );
    }

    #[test]
    fn control_planes_of_namespaces_do_not_meet() {
        let url = WebhookAddress::Url("https://127.0.0.1:5".into());
        let of = webhook(Scope::Namespaced, url);
        let [(_, validations), (_, mutation)] = of.configurations("");
        assert_eq!(
            validations["metadata"]["name"],
            "validations.core.kubefed.io-ns"
        );
        assert_eq!(mutation["metadata"]["name"], "mutation.core.kubefed.io-ns");
        let hook = &mutation["webhooks"][0];
        assert_eq!(
            hook["clientConfig"]["url"],
            "https://127.0.0.1:5/default-kubefedconfig"
        );
        let labels = &hook["namespaceSelector"]["matchLabels"];
        assert_eq!(labels, &json!({"kubernetes.io/metadata.name": "ns"}));
    }
}
