//! Kinds without CRD: a definition made from discovery and the OpenAPI document of the service cluster, so that they
//! can be published like any other.

use serde_json::{Map, Value, json};

use kube_lang::names::is_community_domain;

use self::models::{MAX_DEPTH, ModelContext, Models};
use super::crd::{Crd, CrdError};
use super::versions;

mod models;

/// A resource from discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub versions: Vec<ServedVersion>,
    /// The version that the server prefers.
    pub preferred: String,
}

/// One version and its subresources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedVersion {
    pub name: String,
    pub status: bool,
    pub scale: bool,
}

/// The reason why no definition could be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    #[error("the OpenAPI document has no model of {kind} in {group_version}")]
    NoModel { group_version: String, kind: String },
    #[error("the OpenAPI document refers to {0:?}, which it does not contain")]
    Missing(String),
    #[error("the model {0:?} contains itself, which schemas cannot express")]
    Recursive(String),
    #[error("a model has several types at once: {0}")]
    SeveralTypes(String),
    #[error("a list has no type of items, or several")]
    Items,
    #[error("a model is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error(transparent)]
    Crd(#[from] CrdError),
}

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
