//! Kinds without CRD: a definition made from discovery and the OpenAPI document of the service cluster, so that they
//! can be published like any other.

use serde_json::{Map, Value, json};

use kube_lang::names::is_community_domain;

use self::models::{ModelContext, Models};
pub use self::models::{OpenApiError, Served, ServedVersion};
use super::crd::Crd;
use super::versions;

mod models;

const APPROVED: &str = "api-approved.kubernetes.io";
const APPROVAL: &str = "https://github.com/kcp-dev/kubernetes/pull/4";

/// The definition of a resource, from a document of `/openapi/v2`.
pub fn definition(served: &Served, document: &Value) -> Result<Crd, OpenApiError> {
    let models = Models::of(document);
    let mut names: Vec<&ServedVersion> = served.versions.iter().collect();
    names.sort_by(|a, b| versions::compare(&a.name, &b.name));
    let mut list = Vec::new();
    for version in names {
        let model = models.of_kind(served, &version.name)?;
        let schema = models.convert(model, &ModelContext::TOP, &mut Vec::new())?;
        let mut subresources = Map::new();
        if version.status {
            subresources.insert("status".into(), json!({}));
        }
        if version.scale {
            let paths = json!({
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            });
            subresources.insert("scale".into(), paths);
        }
        list.push(json!({
            "name": version.name, "served": true, "storage": version.name == served.preferred,
            "schema": {"openAPIV3Schema": schema}, "subresources": subresources,
        }));
    }
    let group = if served.group.is_empty() {
        "core"
    } else {
        &served.group
    };
    let singular = match served.singular.as_str() {
        "" => served.kind.to_lowercase(),
        given => given.to_owned(),
    };
    let mut metadata = json!({"name": format!("{}.{group}", served.plural)});
    if is_community_domain(&served.group) {
        metadata["annotations"] = json!({APPROVED: APPROVAL});
    }
    let crd = json!({
        "metadata": metadata,
        "spec": {
            "group": served.group,
            "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "plural": served.plural, "singular": singular, "kind": served.kind,
                "listKind": format!("{}List", served.kind),
                "shortNames": served.short_names, "categories": served.categories,
            },
            "versions": list,
        },
    });
    Ok(Crd::from_json(crd.to_string().as_bytes())?)
}

#[cfg(test)]
mod tests;
