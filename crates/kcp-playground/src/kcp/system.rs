//! The kinds that kcp itself serves, from their embedded definitions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{apis, clusters, definitions, workspaces};
use crate::catalog::{Resource, Strategy};
use crate::custom::{self, Origin};
use crate::status::Status;
use kube_schema::crd::Definition;

/// Served in every cluster. The last two are bound by default too, but cannot be unbound.
const GROUPS: [&str; 4] = [
    "apis.kcp.io",
    "core.kcp.io",
    "tenancy.kcp.io",
    "topology.kcp.io",
];

/// All kinds of kcp. `shards` are for root only.
pub(super) fn resources() -> Result<Vec<Arc<Resource>>, Status> {
    let mut resources = Vec::new();
    for group in GROUPS {
        for spec in definitions::of_group(group).map_err(Status::internal)? {
            let schema = schema_of(&spec);
            let definition = Definition::from_resource_schema(&schema).map_err(|errors| {
                let why = kube_schema::field::aggregate(&errors);
                Status::internal(format!("{}: {why}", spec["names"]["plural"]))
            })?;
            let origin = Origin {
                identity: "",
                uid: "",
            };
            for mut resource in custom::serve(definition, &origin) {
                equip(&mut resource);
                resources.push(Arc::new(resource));
            }
        }
    }
    Ok(resources)
}

/// A definition as an `APIResourceSchema`, in which form `root` exports it.
pub(super) fn schema_of(spec: &Value) -> Value {
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let group = spec["group"].as_str().unwrap_or_default();
    let mut spec = spec.clone();
    if spec["versions"]
        .as_array()
        .is_some_and(|versions| versions.len() > 1)
    {
        spec["conversion"] = json!({"strategy": "None"});
    }
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{plural}.{group}")},
        "spec": spec,
    })
}

fn equip(resource: &mut Resource) {
    let strategy: Arc<dyn Strategy> = match (&*resource.group, &*resource.plural) {
        ("apis.kcp.io", "apiresourceschemas") => Arc::new(apis::Schemas),
        ("apis.kcp.io", "apiexports") => Arc::new(apis::Exports),
        ("apis.kcp.io", "apiexportendpointslices") => Arc::new(apis::Slices),
        ("apis.kcp.io", "apibindings") => Arc::new(apis::Bindings),
        ("core.kcp.io", "logicalclusters") => Arc::new(clusters::Clusters),
        ("tenancy.kcp.io", "workspaces") => Arc::new(workspaces::Workspaces),
        _ => return,
    };
    resource.strategy = Some(strategy);
    if resource.version != resource.storage_version {
        resource.conversion = Some(Arc::new(apis::ExportVersions));
        // The converted object has other fields than the stored one.
        resource.storage_schema = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_definition_is_served() {
        let resources = resources().unwrap();
        let names: Vec<String> = resources
            .iter()
            .map(|r| format!("{}/{}", r.version, r.plural))
            .collect();
        assert_eq!(
            names,
            [
                "v1alpha1/apiresourceschemas",
                "v1alpha1/apiexports",
                "v1alpha2/apiexports",
                "v1alpha1/apibindings",
                "v1alpha2/apibindings",
                "v1alpha1/apiexportendpointslices",
                "v1alpha1/apiconversions",
                "v1alpha1/logicalclusters",
                "v1alpha1/shards",
                "v1alpha1/workspaces",
                "v1alpha1/workspacetypes",
                "v1alpha1/workspaceauthenticationconfigurations",
                "v1alpha1/partitions",
                "v1alpha1/partitionsets",
            ]
        );
        for resource in &resources {
            assert_eq!(
                resource.conversion.is_some(),
                resource.version != resource.storage_version,
                "{resource:?}"
            );
        }
    }
}
