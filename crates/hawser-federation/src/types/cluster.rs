//! `KubeFedCluster`: a member and its readiness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::or_default;

/// Address and credentials of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeFedClusterSpec {
    /// The address of the member's API server: a host, a host and a port, or a URL of `http` or `https`.
    pub api_endpoint: String,
    /// The certificate authorities of the member, in PEM.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// The Secret with the token, in the namespace of the control plane.
    pub secret_ref: SecretReference,
    /// Checks of the member's certificate that are skipped: `*`, `SubjectName`, `ValidityPeriod`.
    #[serde(
        default,
        rename = "disabledTLSValidations",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub disabled_tls_validations: Vec<String>,
    /// A proxy on the way to the member: a URL of `http`, `https` or `socks5`.
    #[serde(default, rename = "proxyURL", deserialize_with = "or_default")]
    pub proxy_url: String,
}

/// A Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct SecretReference {
    /// The name of the Secret.
    pub name: String,
}

/// The result of the last probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeFedClusterStatus {
    /// `Ready`, `Offline` or `ConfigMalformed`.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<ClusterCondition>,
    /// The version of the member's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The zones of the member's nodes.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub zones: Vec<String>,
    /// The region of the member's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// A condition of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterCondition {
    /// `Ready`, `Offline` or `ConfigMalformed`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Time of the last probe.
    #[serde(deserialize_with = "or_default")]
    #[schemars(extend("format" = "date-time"))]
    pub last_probe_time: String,
    /// Time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: Option<String>,
    /// Reason of the last change, in one word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason of the last change, as text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl KubeFedClusterStatus {
    /// Whether the member is ready.
    pub fn is_ready(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_ready_by_its_condition_alone() {
        let status = |conditions| -> KubeFedClusterStatus {
            serde_json::from_value(json!({"conditions": conditions})).unwrap()
        };
        let probed = "2026-01-01T00:00:00Z";
        let ready = json!([{"type": "Ready", "status": "True", "lastProbeTime": probed}]);
        let offline = json!([{"type": "Offline", "status": "True", "lastProbeTime": probed}]);
        assert!(status(ready).is_ready());
        assert!(!status(offline).is_ready());
        assert!(!status(json!(null)).is_ready());
    }

    #[test]
    fn the_proxy_is_always_written() {
        let spec: KubeFedClusterSpec =
            serde_json::from_value(json!({"apiEndpoint": "https://a", "secretRef": {"name": "s"}}))
                .unwrap();
        assert_eq!(
            serde_json::to_value(spec).unwrap(),
            json!({"apiEndpoint": "https://a", "secretRef": {"name": "s"}, "proxyURL": ""})
        );
    }
}
