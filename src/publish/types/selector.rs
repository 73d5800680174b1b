//! Label selectors as they are written in manifests.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null;

/// Selects by labels: all of `matchLabels` and all of `matchExpressions` must hold. An empty selector
/// matches everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[schemars(with = "String")]
    pub operator: Operator,
    /// The values that `In` and `NotIn` compare with.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// The operator by which a label is compared.
///
/// The API server accepts any string here. An unknown operator is kept, so that it is reported where the selector is
/// compiled and does not hide the rest of the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    #[serde(untagged)]
    Unknown(String),
}
