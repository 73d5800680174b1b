//! `kubefedctl enable`: the definition of a federated type, and the `FederatedTypeConfig` for it.

use serde_json::{Value, json};

use super::{Resource, shown};
use crate::types::CORE_GROUP;
use crate::types::federated::{TargetSchema, definition};
use crate::types::type_config::{ApiResource, EnableTypeDirectiveSpec, FederatedTypeConfigSpec};

/// Equivalent APIs: a plural name with the groups and versions that serve it.
const EQUIVALENT: &[(&str, &[(&str, &str)])] = &[
    ("deployments", APPS_AND_EXTENSIONS),
    ("daemonsets", APPS_AND_EXTENSIONS),
    ("replicasets", APPS_AND_EXTENSIONS),
    (
        "statefulsets",
        &[("apps", "v1beta1"), ("apps", "v1beta2"), ("apps", "v1")],
    ),
    (
        "networkpolicies",
        &[("extensions", "v1beta1"), ("networking.k8s.io", "v1")],
    ),
    (
        "podsecuritypolicies",
        &[("extensions", "v1beta1"), ("policy", "v1beta1")],
    ),
    (
        "ingresses",
        &[("extensions", "v1beta1"), ("networking.k8s.io", "v1beta1")],
    ),
];

const APPS_AND_EXTENSIONS: &[(&str, &str)] = &[
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("apps", "v1"),
    ("extensions", "v1beta1"),
];

/// The objects that enabling a type creates.
#[derive(Clone, Debug, PartialEq)]
pub struct Enabled {
    /// The name of the `FederatedTypeConfig`.
    pub name: String,
    pub spec: FederatedTypeConfigSpec,
    pub definition: Value,
}

/// The reason why a type cannot be enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnableError {
    #[error("NAME is required")]
    Name,
    #[error("Invalid value for --output: {0}")]
    Output(String),
    #[error("KubeFed system namespace {namespace:?} does not exist: {error}")]
    NoNamespace { namespace: String, error: String },
    #[error(
        "Federation is already enabled for {target:?} with federated type {is:?}. Changing the federated type to {wanted:?} is not supported."
    )]
    OtherType {
        target: String,
        is: String,
        wanted: String,
    },
    #[error(
        "Failed to enable {target:?}. Federation of this type is already enabled for equivalent type {other:?} by FederatedTypeConfig {by:?}"
    )]
    Equivalent {
        target: String,
        other: String,
        by: String,
    },
    #[error(
        "Failed to enable {target:?}. The FederatedTypeConfig {by:?} already refers to a federated type CRD named {definition:?}. Consider using a different --federated-group"
    )]
    DefinitionInUse {
        target: String,
        by: String,
        definition: String,
    },
}

/// The objects for `target` under the directive.
pub fn enable(
    target: &Resource,
    directive: &EnableTypeDirectiveSpec,
    schema: TargetSchema,
) -> Enabled {
    let api = target.api.clone();
    let mut federated = super::federate::default_type(&api);
    federated.group.clone_from(&directive.federated_group);
    federated.version.clone_from(&directive.federated_version);
    let definition = definition(&federated, &target.short_names, schema);
    Enabled {
        name: api.qualified_name(),
        spec: FederatedTypeConfigSpec {
            target_type: api,
            propagation: "Enabled".to_owned(),
            federated_type: federated,
            status_type: None,
            status_collection: None,
        },
        definition,
    }
}

impl Enabled {
    /// The `FederatedTypeConfig`.
    pub fn type_config(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": format!("{CORE_GROUP}/v1beta1"),
            "kind": "FederatedTypeConfig",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": self.spec,
        })
    }

    /// The name of the definition.
    pub fn definition_name(&self) -> String {
        self.spec.federated_type.qualified_name()
    }

    /// Checks for conflicts. `there` are the existing `FederatedTypeConfig`s by name, completed; `has_definition` says
    /// whether a definition of the new name exists.
    pub fn check(
        &self,
        there: &[(String, FederatedTypeConfigSpec)],
        has_definition: bool,
    ) -> Result<(), EnableError> {
        let target = shown(&self.spec.target_type);
        let same = there.iter().find(|(name, _)| *name == self.name);
        if let Some((_, there)) = same {
            if there.federated_type != self.spec.federated_type {
                return Err(EnableError::OtherType {
                    target,
                    is: shown(&there.federated_type),
                    wanted: shown(&self.spec.federated_type),
                });
            }
            return Ok(());
        }
        for (name, other) in there.iter().filter(|_| has_definition) {
            if are_equivalent(&self.spec.target_type, &other.target_type) {
                return Err(EnableError::Equivalent {
                    target,
                    other: shown(&other.target_type),
                    by: name.clone(),
                });
            }
            if other.federated_type.qualified_name() == self.definition_name() {
                return Err(EnableError::DefinitionInUse {
                    target,
                    by: name.clone(),
                    definition: self.definition_name(),
                });
            }
        }
        Ok(())
    }

    /// The line printed after the definition was written.
    pub fn definition_line(&self, written: WriteOutcome) -> String {
        format!(
            "customresourcedefinition.apiextensions.k8s.io/{} {}",
            self.definition_name(),
            written.as_str()
        )
    }

    /// The line printed after the `FederatedTypeConfig` was written.
    pub fn type_config_line(&self, written: WriteOutcome, namespace: &str) -> String {
        format!(
            "federatedtypeconfig.{CORE_GROUP}/{} {} in namespace {namespace}",
            self.name,
            written.as_str()
        )
    }
}

/// The way in which an object was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Created,
    Updated,
}

impl WriteOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
        }
    }
}

/// Whether two types are one API under different groups or versions.
fn are_equivalent(a: &ApiResource, b: &ApiResource) -> bool {
    let name = |api: &ApiResource| (api.group.clone(), api.version.clone());
    if a.plural_name != b.plural_name || name(a) == name(b) {
        return false;
    }
    let listed =
        |api: &ApiResource, names: &[(&str, &str)]| names.contains(&(&*api.group, &*api.version));
    let mut kinds = EQUIVALENT
        .iter()
        .filter(|(plural, _)| *plural == a.plural_name);
    kinds.any(|(_, names)| listed(a, names) && listed(b, names))
}

/// Checks the arguments: a name or a file, and no output format but YAML.
pub fn check(
    name: Option<&str>,
    filename: Option<&str>,
    output: Option<&str>,
) -> Result<(), EnableError> {
    if name.is_none_or(str::is_empty) && filename.is_none() {
        return Err(EnableError::Name);
    }
    match output {
        None | Some("" | "yaml") => Ok(()),
        Some(other) => Err(EnableError::Output(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::resource;
    use super::*;

    fn enabled(group: &str, version: &str, kind: &str, plural: &str) -> Enabled {
        let target = resource(group, version, kind, plural, &["x"]);
        enable(
            &target,
            &EnableTypeDirectiveSpec::default(),
            TargetSchema::Fixed,
        )
    }

    #[test]
    fn a_type_is_enabled_under_the_name_of_its_kind() {
        let got = enabled("apps", "v1", "StatefulSet", "statefulsets");
        assert_eq!(
            got.type_config("kube-federation-system"),
            json!({
                "apiVersion": "core.kubefed.io/v1beta1",
                "kind": "FederatedTypeConfig",
                "metadata": {"name": "statefulsets.apps", "namespace": "kube-federation-system"},
                "spec": {
                    "targetType": {"group": "apps", "version": "v1", "kind": "StatefulSet", "pluralName": "statefulsets", "scope": "Namespaced"},
                    "propagation": "Enabled",
                    "federatedType": {"group": "types.kubefed.io", "version": "v1beta1", "kind": "FederatedStatefulSet", "pluralName": "federatedstatefulsets", "scope": "Namespaced"},
                },
            })
        );
        assert_eq!(
            got.definition["metadata"]["name"],
            "federatedstatefulsets.types.kubefed.io"
        );
        assert_eq!(got.definition["spec"]["names"]["shortNames"], json!(["fx"]));
        assert_eq!(
            [
                got.definition_line(WriteOutcome::Created),
                got.type_config_line(WriteOutcome::Updated, "ns")
            ],
            [
                "customresourcedefinition.apiextensions.k8s.io/federatedstatefulsets.types.kubefed.io created",
                "federatedtypeconfig.core.kubefed.io/statefulsets.apps updated in namespace ns",
            ]
        );
        let core = enabled("", "v1", "ConfigMap", "configmaps").type_config("ns");
        assert_eq!(core["metadata"]["name"], "configmaps");
        assert!(core["spec"]["targetType"]["group"].is_null());
    }

    #[test]
    fn a_directive_gives_another_group() {
        let directive = EnableTypeDirectiveSpec {
            federated_group: "kubefed.example.com".into(),
            ..EnableTypeDirectiveSpec::default()
        };
        let target = resource("example.com", "v1", "Deployment", "deployments", &[]);
        let got = enable(&target, &directive, TargetSchema::Unknown);
        assert_eq!(
            got.definition_name(),
            "federateddeployments.kubefed.example.com"
        );
    }

    #[test]
    fn namespaces_are_federated_by_objects_within_them() {
        let mut target = resource("", "v1", "Namespace", "namespaces", &["ns"]);
        target.api.scope = "Cluster".into();
        let got = enable(
            &target,
            &EnableTypeDirectiveSpec::default(),
            TargetSchema::Fixed,
        );
        assert_eq!(got.definition["spec"]["scope"], "Namespaced");
        assert_eq!(got.spec.target_type.scope, "Cluster");
    }

    #[test]
    fn what_is_there_already_is_not_enabled_otherwise() {
        let new = enabled("apps", "v1", "StatefulSet", "statefulsets");
        let told = |name: &str, spec: FederatedTypeConfigSpec, has_definition: bool| {
            let result = new.check(&[(name.to_owned(), spec)], has_definition);
            result.map_err(|error| error.to_string())
        };
        assert_eq!(told("statefulsets.apps", new.spec.clone(), true), Ok(()));
        let mut other = new.spec.clone();
        other.federated_type.group = "other.io".into();
        assert_eq!(
            told("statefulsets.apps", other, true).unwrap_err(),
            "Federation is already enabled for \"statefulsets.apps/v1\" with federated type \
             \"federatedstatefulsets.other.io/v1beta1\". Changing the federated type to \
             \"federatedstatefulsets.types.kubefed.io/v1beta1\" is not supported."
        );
        let old = enabled("apps", "v1beta1", "StatefulSet", "statefulsets").spec;
        assert_eq!(
            told("old", old.clone(), true).unwrap_err(),
            "Failed to enable \"statefulsets.apps/v1\". Federation of this type is already enabled for equivalent \
             type \"statefulsets.apps/v1beta1\" by FederatedTypeConfig \"old\""
        );
        assert_eq!(told("old", old, false), Ok(()), "nothing of it is left");
        let same_name = enabled("example.com", "v1", "StatefulSet", "statefulsets").spec;
        assert_eq!(
            told("statefulsets.example.com", same_name, true).unwrap_err(),
            "Failed to enable \"statefulsets.apps/v1\". The FederatedTypeConfig \"statefulsets.example.com\" already \
             refers to a federated type CRD named \"federatedstatefulsets.types.kubefed.io\". Consider using a \
             different --federated-group"
        );
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(
            check(None, None, None).unwrap_err().to_string(),
            "NAME is required"
        );
        assert!(check(None, Some("f"), Some("yaml")).is_ok());
        let error = check(Some("x"), None, Some("json")).unwrap_err();
        assert_eq!(error.to_string(), "Invalid value for --output: json");
        let missing = EnableError::NoNamespace {
            namespace: "x".into(),
            error: "not found".into(),
        };
        assert_eq!(
            missing.to_string(),
            "KubeFed system namespace \"x\" does not exist: not found"
        );
    }
}
