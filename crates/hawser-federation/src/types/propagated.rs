//! `PropagatedVersion` and `ClusterPropagatedVersion`: the last written versions of the copies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::or_default;

/// Which versions of the copies were written last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagatedVersionStatus {
    /// The hash of the template that they were made from.
    pub template_version: String,
    /// The hash of the overrides that they were made with.
    pub overrides_version: String,
    /// The version of each copy when it was written.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cluster_versions: Vec<ClusterObjectVersion>,
}

/// The version of one copy when it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectVersion {
    /// The member.
    pub cluster_name: String,
    /// `gen:` and the generation, or `rv:` and the resource version.
    pub version: String,
}
