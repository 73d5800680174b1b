//! `FederatedTypeConfig`: a type and its federated type. `EnableTypeDirective`: the input for enabling a type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_lang::object::Gvk;

use super::{TYPES_GROUP, TYPES_VERSION, or_default};

/// The type of namespaces is federated by objects within them.
pub const NAMESPACES: &str = "namespaces";

/// Which type is federated, and as what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FederatedTypeConfigSpec {
    /// The type in the members.
    pub target_type: ApiResource,
    /// `Enabled` or `Disabled`: whether objects are propagated.
    pub propagation: String,
    /// The type in the control plane.
    pub federated_type: ApiResource,
    /// The type that collects the status of the copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_type: Option<ApiResource>,
    /// `Enabled` or `Disabled`: whether the status of the copies is collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_collection: Option<String>,
}

/// A type of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ApiResource {
    /// The group; empty for the core group.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural name, as in addresses.
    pub plural_name: String,
    /// `Cluster` or `Namespaced`.
    pub scope: String,
}

/// Observed state of the type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FederatedTypeConfigStatus {
    /// The generation that this was found for.
    pub observed_generation: i64,
    /// `Running` or `NotRunning`.
    pub propagation_controller: String,
    /// `Running` or `NotRunning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_controller: Option<String>,
}

/// Input of `kubefedctl enable --filename`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnableTypeDirectiveSpec {
    pub target_version: String,
    pub federated_group: String,
    pub federated_version: String,
}

impl Default for EnableTypeDirectiveSpec {
    fn default() -> Self {
        Self {
            target_version: String::new(),
            federated_group: TYPES_GROUP.to_owned(),
            federated_version: TYPES_VERSION.to_owned(),
        }
    }
}

impl ApiResource {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == "Namespaced"
    }

    /// `deployments.apps`, or `configmaps` for the core group.
    pub fn qualified_name(&self) -> String {
        qualified(&self.plural_name, &self.group)
    }
}

impl FederatedTypeConfigSpec {
    /// Fills in what follows from the name of the object and from the kinds. It is never written back.
    pub fn complete(&mut self, name: &str) {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        fill(&mut self.target_type.plural_name, plural);
        fill(&mut self.target_type.group, group);
        let federated = &mut self.federated_type;
        if federated.plural_name.is_empty() {
            federated.plural_name = plural_of(&federated.kind);
        }
        if let Some(status) = &mut self.status_type {
            if status.plural_name.is_empty() {
                status.plural_name = plural_of(&status.kind);
            }
            fill(&mut status.group, &federated.group);
            fill(&mut status.version, &federated.version);
        }
    }
}

fn fill(slot: &mut String, value: &str) {
    if slot.is_empty() {
        value.clone_into(slot);
    }
}

pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// The English plural of a kind, in lower case.
pub fn plural_of(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if ["s", "x", "ch", "sh", "z", "o"]
        .iter()
        .any(|end| singular.ends_with(end))
    {
        return format!("{singular}es");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plurals_are_those_of_the_original() {
        for (kind, plural) in [
            ("FederatedProxy", "federatedproxies"),
            ("FederatedDNS", "federateddnses"),
            ("FederatedKey", "federatedkeys"),
            ("FederatedConfigMap", "federatedconfigmaps"),
            ("FederatedIngress", "federatedingresses"),
            ("FederatedMatch", "federatedmatches"),
            ("FederatedNetworkPolicy", "federatednetworkpolicies"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }

    #[test]
    fn what_is_missing_follows_from_the_name_and_the_kinds() {
        let mut spec: FederatedTypeConfigSpec = serde_json::from_value(json!({
            "targetType": {"version": "v1", "kind": "Service", "pluralName": "", "scope": "Namespaced"},
            "propagation": "Enabled",
            "federatedType": {"group": "types.kubefed.io", "version": "v1beta1", "kind": "FederatedService", "pluralName": "", "scope": "Namespaced"},
            "statusType": {"version": "", "kind": "FederatedServiceStatus", "pluralName": "", "scope": "Namespaced"},
        }))
        .unwrap();
        spec.complete("services.example.com.au");
        assert_eq!(spec.target_type.qualified_name(), "services.example.com.au");
        assert_eq!(spec.federated_type.plural_name, "federatedservices");
        let status = spec.status_type.unwrap();
        assert_eq!(
            status.qualified_name(),
            "federatedservicestatuses.types.kubefed.io"
        );
        assert_eq!(
            status.gvk().to_string(),
            "types.kubefed.io/v1beta1 FederatedServiceStatus"
        );
    }

    #[test]
    fn a_directive_says_little() {
        let spec: EnableTypeDirectiveSpec =
            serde_json::from_value(json!({"targetVersion": "v1"})).unwrap();
        assert_eq!(spec.federated_group, "types.kubefed.io");
        assert_eq!(
            (&*spec.target_version, &*spec.federated_version),
            ("v1", "v1beta1")
        );
    }
}
