//! The types that the chart enables, the same as in KubeFed's chart.

use serde_json::{Value, json};

use super::CORE_GROUP;
use super::federated::{TargetSchema, definition};
use super::type_config::ApiResource;
use crate::kubefedctl::federate::default_type;

const HEADER: &str = "# Generated from the types in crates/hawser-federation; do not edit.\n\
# To write it anew: HAWSER_WRITE_GENERATED=1 cargo test -p hawser-federation generated_\n";

/// Group, version, kind, plural, short name, scope.
const SHIPPED: [[&str; 6]; 10] = [
    [
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        "",
        "Cluster",
    ],
    ["", "v1", "ConfigMap", "configmaps", "cm", "Namespaced"],
    [
        "apps",
        "v1",
        "Deployment",
        "deployments",
        "deploy",
        "Namespaced",
    ],
    [
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        "ing",
        "Namespaced",
    ],
    ["batch", "v1", "Job", "jobs", "", "Namespaced"],
    ["", "v1", "Namespace", "namespaces", "ns", "Cluster"],
    [
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        "rs",
        "Namespaced",
    ],
    ["", "v1", "Secret", "secrets", "", "Namespaced"],
    [
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        "Namespaced",
    ],
    ["", "v1", "Service", "services", "svc", "Namespaced"],
];

fn targets() -> impl Iterator<Item = (ApiResource, Vec<String>)> {
    SHIPPED
        .iter()
        .map(|&[group, version, kind, plural, short, scope]| {
            let target = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                plural_name: plural.to_owned(),
                scope: scope.to_owned(),
            };
            let short = Some(short.to_owned()).filter(|name| !name.is_empty());
            (target, short.into_iter().collect())
        })
}

/// The definitions of the federated types, as YAML.
pub fn definitions() -> String {
    let definitions = targets().map(|(target, short)| {
        let schema = match &*target.kind {
            "Deployment" | "ReplicaSet" => TargetSchema::Scalable,
            _ => TargetSchema::Fixed,
        };
        definition(&default_type(&target), &short, schema)
    });
    let definitions: Vec<Value> = definitions.collect();
    format!("{HEADER}{}", crate::kubefedctl::yaml::print(&definitions))
}

/// The `FederatedTypeConfig`s, as a list in YAML. They have no namespace.
pub fn type_configs() -> String {
    let configs = targets().map(|(target, _)| {
        json!({
            "apiVersion": format!("{CORE_GROUP}/v1beta1"),
            "kind": "FederatedTypeConfig",
            "metadata": {"name": target.qualified_name()},
            "spec": {"targetType": target, "propagation": "Enabled", "federatedType": default_type(&target)},
        })
    });
    let configs: Vec<Value> = configs.collect();
    let text = serde_saphyr::to_string(&configs);
    let text = text.expect("a JSON value has strings for keys");
    format!("{HEADER}{text}")
}

#[cfg(test)]
mod tests {
    use kube_lang::object::Object;

    use super::*;
    use crate::admission::check_type_config;
    use crate::types::manifest;

    #[test]
    fn generated_files_of_the_chart_are_up_to_date() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join("charts/hawser-federation");
        for (name, wanted) in [
            ("crds/kubefed.io.yaml", manifest::yaml()),
            ("crds/types.kubefed.io.yaml", definitions()),
            ("files/federatedtypeconfigs.yaml", type_configs()),
        ] {
            let path = root.join(name);
            if std::env::var_os("HAWSER_WRITE_GENERATED").is_some() {
                std::fs::write(&path, &wanted).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(there == wanted, "{name} is not what the types say");
        }
    }

    #[test]
    fn ten_valid_types_are_enabled() {
        let configs: Vec<Value> = serde_saphyr::from_str(&type_configs()).unwrap();
        for config in &configs {
            let object = Object::new(config.clone()).unwrap();
            assert!(check_type_config(&object).is_ok(), "{config}");
        }
        assert_eq!(configs.len(), 10);
        assert_eq!(configs[5]["spec"]["federatedType"]["scope"], "Namespaced");
    }
}
