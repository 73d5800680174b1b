//! The parts of a CustomResourceDefinition that publishing needs.
//!
//! Schemas stay raw JSON text: their key order and the spelling of their numbers count for the hash that names a
//! published schema. `apiVersion`, `kind` and status are not read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, Value};

mod encode;

pub use encode::encode_spec;

/// The problem of a document that should be a CRD.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    #[error("this is not a valid CustomResourceDefinition")]
    Unreadable(#[from] serde_json::Error),
    #[error("the schema of version {version} cannot be read: {problem}")]
    Schema { version: String, problem: String },
}

/// A CRD: its name, generation and spec.
#[derive(Clone, Debug, Deserialize)]
pub struct Crd {
    pub metadata: CrdMetadata,
    pub spec: CrdSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CrdMetadata {
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub generation: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CrdSpec {
    #[serde(default)]
    pub group: String,
    pub names: CrdNames,
    #[serde(default)]
    pub scope: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub versions: Vec<CrdVersion>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CrdNames {
    pub plural: String,
    #[serde(deserialize_with = "null_is_default")]
    pub singular: String,
    #[serde(deserialize_with = "null_is_default")]
    pub short_names: Vec<String>,
    pub kind: String,
    #[serde(deserialize_with = "null_is_default")]
    pub list_kind: String,
    #[serde(deserialize_with = "null_is_default")]
    pub categories: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdVersion {
    pub name: String,
    #[serde(default)]
    pub served: bool,
    #[serde(default)]
    pub storage: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    pub schema: Option<CrdSchema>,
    pub subresources: Option<Subresources>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub additional_printer_columns: Vec<Box<RawValue>>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub selectable_fields: Vec<Box<RawValue>>,
}

/// The `schema` of a CRD version, of which `openAPIV3Schema` is the only field.
#[derive(Clone, Debug, Deserialize)]
pub struct CrdSchema {
    #[serde(rename = "openAPIV3Schema")]
    pub open_api: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Subresources {
    pub status: Option<StatusSubresource>,
    pub scale: Option<ScaleSubresource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct StatusSubresource {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the CRD names them")]
pub struct ScaleSubresource {
    #[serde(default)]
    pub spec_replicas_path: String,
    #[serde(default)]
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

impl Crd {
    /// Reads a CRD from the JSON of an API server.
    pub fn from_json(bytes: &[u8]) -> Result<Self, CrdError> {
        let crd: Self = serde_json::from_slice(bytes)?;
        // Encoding looks at all of every schema: what is wrong there shall be said here.
        encode_spec(&crd.spec)?;
        Ok(crd)
    }

    pub fn storage_version(&self) -> Option<&CrdVersion> {
        self.spec.versions.iter().find(|version| version.storage)
    }
}

impl CrdSpec {
    pub fn is_namespaced(&self) -> bool {
        self.scope == "Namespaced"
    }

    pub fn storage_version(&self) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl CrdVersion {
    pub fn has_status(&self) -> bool {
        self.subresources
            .as_ref()
            .is_some_and(|subresources| subresources.status.is_some())
    }

    /// The schema of the status; null if there is none.
    pub fn status_schema(&self) -> Value {
        let schema = self
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api.as_ref());
        let schema = schema.and_then(|text| serde_json::from_str::<Value>(text.get()).ok());
        schema.map_or(Value::Null, |mut schema| {
            schema["properties"]["status"].take()
        })
    }

    pub fn has_scale(&self) -> bool {
        self.subresources
            .as_ref()
            .is_some_and(|subresources| subresources.scale.is_some())
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
