//! `FederatedServiceStatus`: the status of the copies of a Service, in KubeFed's older form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The status of one copy of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceClusterStatus {
    /// The member.
    pub cluster_name: String,
    /// The status that the Service has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub status: Option<Map<String, Value>>,
}
