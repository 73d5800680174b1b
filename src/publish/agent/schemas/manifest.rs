//! A published resource as it is stored on the service cluster.

use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;

use crate::publish::types::PublishedResourceSpec;
use kube_lang::object::Object;

/// The path at which published resources are served.
pub const PUBLISHED_RESOURCES: &str = "/apis/syncagent.kcp.io/v1alpha1/publishedresources";

/// The relevant fields of a published resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// The resource version, as a number.
    pub version: Option<u64>,
    pub spec: Arc<PublishedResourceSpec>,
    /// The name of the schema in the status.
    pub recorded: Option<String>,
}

impl Manifest {
    /// Reads a published resource; the error describes the invalid part.
    pub fn read(object: &Value) -> Result<Self, String> {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let spec = PublishedResourceSpec::deserialize(&object["spec"])
            .map_err(|error| error.to_string())?;
        let recorded = object["status"]["resourceSchemaName"].as_str();
        Ok(Self {
            name: text("name"),
            uid: text("uid"),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            version: version(object),
            spec: Arc::new(spec),
            recorded: recorded.filter(|name| !name.is_empty()).map(str::to_owned),
        })
    }
}

/// Whether a published resource asks for nothing but a plan.
pub fn plans_only(object: &Object) -> bool {
    let manifest = Manifest::read(object.as_value());
    manifest.is_ok_and(|manifest| manifest.spec.plans_only())
}

pub(super) fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
