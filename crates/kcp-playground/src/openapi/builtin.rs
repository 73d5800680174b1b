//! The schemas of the built-in kinds, from the types that `k8s-openapi` generates from Kubernetes' own documents.
//!
//! They are stored as that crate writes them (`description` beside `$ref`, references in the style of `OpenAPI` v3);
//! other modules convert them. The crate omits how lists are merged: the table in [`lists`](super::lists) has that.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::Resource;
use k8s_openapi::api::admissionregistration::v1 as admission;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::authorization::v1 as authorization;
use k8s_openapi::api::certificates::v1 as certificates;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};

use super::lists;

/// The prefix of references.
pub(crate) const PREFIX: &str = "#/components/schemas/";

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

const SCHEMA_OR: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOr";
const ANY_JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";

/// The name of the definition in a reference.
pub(crate) fn referred(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(PREFIX)
}

/// Group, version and kind.
pub(crate) type Gvk = (&'static str, &'static str, &'static str);

/// All definitions, with the kinds among them.
pub(crate) struct Types {
    /// By the last part of references. Stored as text, which takes a tenth of the memory.
    definitions: BTreeMap<String, Box<str>>,
    kinds: BTreeMap<Gvk, String>,
}

static TYPES: LazyLock<Types> = LazyLock::new(Types::generate);

/// The types, generated on first use.
pub(crate) fn types() -> &'static Types {
    &TYPES
}

struct DefinitionCollector {
    generator: SchemaGenerator,
    kinds: BTreeMap<Gvk, String>,
}

impl DefinitionCollector {
    fn kind<T: JsonSchema + Resource>(&mut self) {
        let name = self.kind_less::<T>();
        self.kinds.insert((T::GROUP, T::VERSION, T::KIND), name);
    }

    fn kind_less<T: JsonSchema>(&mut self) -> String {
        self.generator.subschema_for::<T>();
        T::schema_name().into_owned()
    }
}

impl Types {
    fn generate() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = PREFIX.trim_matches(['#', '/']).to_owned().into();
            settings.definitions_path = format!("/{}", settings.definitions_path).into();
        });
        let mut all = DefinitionCollector {
            generator: SchemaGenerator::new(settings),
            kinds: BTreeMap::new(),
        };
        all.kind::<core::Namespace>();
        all.kind::<core::ConfigMap>();
        all.kind::<core::Secret>();
        all.kind::<core::ServiceAccount>();
        all.kind::<core::ResourceQuota>();
        all.kind::<core::Event>();
        all.kind::<events::Event>();
        all.kind::<rbac::Role>();
        all.kind::<rbac::ClusterRole>();
        all.kind::<rbac::RoleBinding>();
        all.kind::<rbac::ClusterRoleBinding>();
        all.kind::<coordination::Lease>();
        all.kind::<apiextensions::CustomResourceDefinition>();
        all.kind::<admission::MutatingWebhookConfiguration>();
        all.kind::<admission::ValidatingWebhookConfiguration>();
        all.kind::<admission::ValidatingAdmissionPolicy>();
        all.kind::<admission::ValidatingAdmissionPolicyBinding>();
        all.kind::<certificates::CertificateSigningRequest>();
        all.kind::<authorization::SubjectAccessReview>();
        all.kind::<authorization::SelfSubjectAccessReview>();
        all.kind::<authorization::LocalSubjectAccessReview>();
        all.kind::<authorization::SelfSubjectRulesReview>();
        all.kind::<authentication::TokenReview>();
        all.kind::<authentication::SelfSubjectReview>();
        all.kind::<meta::Status>();
        all.kind_less::<meta::ObjectMeta>();
        all.kind_less::<meta::ListMeta>();
        all.kind_less::<meta::DeleteOptions>();
        all.kind_less::<meta::Patch>();
        let mut definitions: BTreeMap<String, Value> =
            all.generator.take_definitions(true).into_iter().collect();
        for (name, definition) in &mut definitions {
            complete(name, definition);
        }
        for ((group, version, kind), name) in &all.kinds {
            if let Some(definition) = definitions.get_mut(name) {
                definition["x-kubernetes-group-version-kind"] =
                    json!([{"group": group, "kind": kind, "version": version}]);
            }
        }
        if let Some(options) = definitions.get_mut(DELETE_OPTIONS) {
            let mut groups: Vec<_> = all
                .kinds
                .keys()
                .map(|(group, version, _)| (group, version))
                .collect();
            groups.dedup();
            options["x-kubernetes-group-version-kind"] = groups
                .into_iter()
                .map(|(group, version)| {
                    json!({"group": group, "kind": "DeleteOptions", "version": version})
                })
                .collect();
        }
        Self {
            definitions: definitions
                .into_iter()
                .map(|(name, definition)| (name, definition.to_string().into()))
                .collect(),
            kinds: all.kinds,
        }
    }

    /// The name of a kind's definition.
    pub(crate) fn name_of(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let found = self
            .kinds
            .iter()
            .find(|((g, v, k), _)| *g == group && *v == version && *k == kind);
        found.map(|(_, name)| name.as_str())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let text = self.definitions.get(name)?;
        Some(serde_json::from_str(text).expect("the text was written from a value"))
    }

    /// A definition in the form of the documents.
    pub(super) fn published(&self, name: &str) -> Option<Value> {
        let mut definition = self.get(name)?;
        // A field of several types has only a description.
        if name.starts_with(SCHEMA_OR)
            && let Some(definition) = definition.as_object_mut()
        {
            definition.remove("oneOf");
        }
        Some(definition)
    }
}

/// Adds the rules that the generated types leave out.
fn complete(name: &str, definition: &mut Value) {
    // The required fields of the generated types are not always those of the API: metadata is a required member of all
    // of them, and an empty default does not count.
    let asked_for: Option<&[&str]> = match name {
        "io.k8s.api.core.v1.Event" => Some(&["metadata", "involvedObject"]),
        "io.k8s.api.events.v1.Event" => Some(&["eventTime"]),
        "io.k8s.api.rbac.v1.RoleRef" => Some(&["kind", "name"]),
        "io.k8s.api.core.v1.LocalObjectReference" => Some(&[]),
        _ => None,
    };
    if let Some(asked_for) = asked_for {
        definition["required"] = json!(asked_for);
    }
    if let Some(definition) = definition.as_object_mut()
        && let Some(Value::Array(required)) = definition.get_mut("required")
    {
        required.retain(|field| asked_for.is_some() || field != "metadata");
        if required.is_empty() {
            definition.remove("required");
        }
    }
    if name == ANY_JSON
        && let Some(definition) = definition.as_object_mut()
    {
        definition.remove("type");
    }
    lists::extend(name, definition);
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::openapi::closure;

    #[test]
    fn every_reference_leads_to_a_definition() {
        let all = types();
        for name in all.definitions.keys() {
            for found in closure([name.as_str()], |name| all.get(name).map(Cow::Owned)) {
                assert!(all.get(&found).is_some(), "{name} refers to {found}");
            }
        }
    }

    #[test]
    fn metadata_is_asked_for_only_where_the_api_does() {
        let required = |group, version, kind| {
            let name = types().name_of(group, version, kind).unwrap();
            types().get(name).unwrap().get("required").cloned()
        };
        assert_eq!(required("", "v1", "ConfigMap"), None);
        let event = json!(["metadata", "involvedObject"]);
        assert_eq!(required("", "v1", "Event"), Some(event));
        let role = json!(["roleRef"]);
        assert_eq!(
            required("rbac.authorization.k8s.io", "v1", "RoleBinding"),
            Some(role)
        );
    }
}
