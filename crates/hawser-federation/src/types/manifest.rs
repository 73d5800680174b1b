//! The definitions of the control plane's types, generated from the Rust types.

use kube_schema::generate::schema;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::cluster::{KubeFedClusterSpec, KubeFedClusterStatus};
use super::config::KubeFedConfigSpec;
use super::propagated::PropagatedVersionStatus;
use super::scheduling::ReplicaSchedulingPreferenceSpec;
use super::service_status::ServiceClusterStatus;
use super::type_config::{FederatedTypeConfigSpec, FederatedTypeConfigStatus};
use super::{CORE_GROUP, SCHEDULING_GROUP};

const HEADER: &str = "# Generated from the types in crates/hawser-federation; do not edit.\n\
# To write it anew: HAWSER_WRITE_GENERATED=1 cargo test -p hawser-federation generated_\n";

/// The path of the manifest, below the root of the project.
pub const PATH: &str = "crds/kubefed.io.yaml";

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Subresource,
    None,
}

struct Names {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    short: Option<&'static str>,
    scope: &'static str,
}

/// All definitions, sorted by name.
pub fn definitions() -> Vec<Value> {
    let core = |version, kind, short, scope| Names {
        group: CORE_GROUP,
        version,
        kind,
        short,
        scope,
    };
    let preferences = Names {
        group: SCHEDULING_GROUP,
        version: "v1alpha1",
        kind: "ReplicaSchedulingPreference",
        short: Some("rsp"),
        scope: "Namespaced",
    };
    let propagated = "PropagatedVersion";
    vec![
        version_definition(&core(
            "v1alpha1",
            "ClusterPropagatedVersion",
            None,
            "Cluster",
        )),
        service_status_definition(&core(
            "v1alpha1",
            "FederatedServiceStatus",
            None,
            "Namespaced",
        )),
        definition(
            &core("v1beta1", "FederatedTypeConfig", Some("ftc"), "Namespaced"),
            &properties::<FederatedTypeConfigSpec>(Some(schema::<FederatedTypeConfigStatus>())),
            &["spec"],
            Status::Subresource,
        ),
        cluster_definition(&core(
            "v1beta1",
            "KubeFedCluster",
            Some("kfc"),
            "Namespaced",
        )),
        definition(
            &core("v1beta1", "KubeFedConfig", None, "Namespaced"),
            &properties::<KubeFedConfigSpec>(None),
            &["spec"],
            Status::None,
        ),
        version_definition(&core("v1alpha1", propagated, None, "Namespaced")),
        definition(
            &preferences,
            &properties::<ReplicaSchedulingPreferenceSpec>(Some(json!({"type": "object"}))),
            &["spec"],
            Status::None,
        ),
    ]
}

/// All definitions as YAML, as checked in.
pub fn yaml() -> String {
    let mut text = HEADER.to_owned();
    for definition in definitions() {
        text.push_str("---\n");
        let body = serde_saphyr::to_string(&definition);
        text.push_str(&body.expect("a definition is made of maps with string keys"));
    }
    text
}

fn cluster_definition(names: &Names) -> Value {
    let fields = properties::<KubeFedClusterSpec>(Some(schema::<KubeFedClusterStatus>()));
    let mut definition = definition(names, &fields, &["spec"], Status::Subresource);
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"jsonPath": ".metadata.creationTimestamp", "name": "age", "type": "date"},
        {"jsonPath": ".status.conditions[?(@.type=='Ready')].status", "name": "ready", "type": "string"},
        {"jsonPath": ".status.kubernetesVersion", "name": "kubernetes-version", "type": "string"},
    ]);
    definition
}

fn version_definition(names: &Names) -> Value {
    let fields = json!({"status": schema::<PropagatedVersionStatus>()});
    definition(names, &fields, &[], Status::Subresource)
}

fn service_status_definition(names: &Names) -> Value {
    let fields = json!({"clusterStatus": schema::<Vec<ServiceClusterStatus>>()});
    definition(names, &fields, &[], Status::None)
}

fn properties<Spec: JsonSchema>(status: Option<Value>) -> Value {
    let mut properties = json!({"spec": schema::<Spec>()});
    if let Some(status) = status {
        properties["status"] = status;
    }
    properties
}

fn definition(names: &Names, fields: &Value, required: &[&str], status: Status) -> Value {
    let plural = format!("{}s", names.kind.to_lowercase()).replace("statuss", "statuses");
    let mut properties = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    });
    for (name, field) in fields.as_object().into_iter().flatten() {
        properties[name] = field.clone();
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let mut version = json!({
        "name": names.version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    if status == Status::Subresource {
        version["subresources"] = json!({"status": {}});
    }
    let mut called = json!({
        "kind": names.kind,
        "listKind": format!("{}List", names.kind),
        "plural": plural,
        "singular": names.kind.to_lowercase(),
    });
    if let Some(short) = names.short {
        called["shortNames"] = json!([short]);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", names.group)},
        "spec": {"group": names.group, "names": called, "scope": names.scope, "versions": [version]},
    })
}

#[cfg(test)]
mod tests {
    use kube_schema::crd::{Definition, default_crd};

    use super::*;

    fn read() -> Vec<Definition> {
        let definitions = definitions().into_iter().map(|mut definition| {
            default_crd(&mut definition);
            Definition::from_crd(&definition).unwrap()
        });
        definitions.collect()
    }

    #[test]
    fn generated_definitions_are_up_to_date() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(PATH);
        if std::env::var_os("HAWSER_WRITE_GENERATED").is_some() {
            std::fs::write(&path, yaml()).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == yaml(), "{PATH} is not what the types say");
    }

    #[test]
    fn the_definitions_are_those_of_the_original() {
        let told: Vec<String> = read()
            .iter()
            .map(|definition| {
                let version = &definition.versions[0];
                format!(
                    "{}.{}/{} {:?} {:?} {}",
                    definition.names.plural,
                    definition.group,
                    version.name,
                    definition.scope,
                    definition.names.short_names,
                    version.status
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "clusterpropagatedversions.core.kubefed.io/v1alpha1 Cluster [] true",
                "federatedservicestatuses.core.kubefed.io/v1alpha1 Namespaced [] false",
                "federatedtypeconfigs.core.kubefed.io/v1beta1 Namespaced [\"ftc\"] true",
                "kubefedclusters.core.kubefed.io/v1beta1 Namespaced [\"kfc\"] true",
                "kubefedconfigs.core.kubefed.io/v1beta1 Namespaced [] false",
                "propagatedversions.core.kubefed.io/v1alpha1 Namespaced [] true",
                "replicaschedulingpreferences.scheduling.kubefed.io/v1alpha1 Namespaced [\"rsp\"] false",
            ]
        );
        let columns: Vec<String> = read()[3].versions[0]
            .columns
            .iter()
            .map(|column| format!("{} {} {}", column.name, column.kind, column.json_path))
            .collect();
        assert_eq!(
            columns,
            [
                "age date .metadata.creationTimestamp",
                "ready string .status.conditions[?(@.type=='Ready')].status",
                "kubernetes-version string .status.kubernetesVersion",
            ]
        );
    }

    #[test]
    fn what_must_be_there_is_what_the_original_asks_for() {
        let definitions = definitions();
        let required = |index: usize, pointer: &str| {
            let schema = &definitions[index]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let part = schema.pointer(pointer).unwrap();
            let mut names: Vec<String> = match part["required"].as_array() {
                Some(names) => names
                    .iter()
                    .map(|n| n.as_str().unwrap().to_owned())
                    .collect(),
                None => Vec::new(),
            };
            names.sort();
            names.join(" ")
        };
        let spec = "/properties/spec";
        assert_eq!(required(3, spec), "apiEndpoint secretRef");
        assert_eq!(required(4, spec), "scope");
        assert_eq!(required(2, spec), "federatedType propagation targetType");
        let target = "/properties/spec/properties/targetType";
        assert_eq!(required(2, target), "kind pluralName scope version");
        assert_eq!(required(6, spec), "targetKind totalReplicas");
        let status = "/properties/status";
        assert_eq!(required(5, status), "overridesVersion templateVersion");
        let condition = "/properties/status/properties/conditions/items";
        assert_eq!(required(3, condition), "lastProbeTime status type");
        let entry = "/properties/clusterStatus/items/properties/status";
        let legacy = &definitions[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let open = &legacy.pointer(entry).unwrap()["x-kubernetes-preserve-unknown-fields"];
        assert_eq!(open, &json!(true));
    }
}
