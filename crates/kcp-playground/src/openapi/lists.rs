//! The merging of lists and structures of the built-in types, as extensions in the published documents. The generated
//! types omit these.
//!
//! A list that is not in `LISTS` is atomic.

use serde_json::{Value, json};

const ADMISSION: &str = "io.k8s.api.admissionregistration.v1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

/// The identity of list items.
#[derive(Clone, Copy)]
enum Merge {
    /// By their value.
    Set,
    /// By their value, also in strategic merge patches.
    PatchedSet,
    /// By a field.
    Map(&'static str),
    /// By a field, also in strategic merge patches.
    PatchedMap(&'static str),
}

/// Package, type, list, and its merging.
const LISTS: &[(&str, &str, &str, Merge)] = &[
    (
        ADMISSION,
        "MutatingWebhook",
        "matchConditions",
        Merge::PatchedMap("name"),
    ),
    (
        ADMISSION,
        "MutatingWebhookConfiguration",
        "webhooks",
        Merge::PatchedMap("name"),
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicyBindingSpec",
        "validationActions",
        Merge::Set,
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicySpec",
        "matchConditions",
        Merge::PatchedMap("name"),
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicySpec",
        "variables",
        Merge::PatchedMap("name"),
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicyStatus",
        "conditions",
        Merge::Map("type"),
    ),
    (
        ADMISSION,
        "ValidatingWebhook",
        "matchConditions",
        Merge::PatchedMap("name"),
    ),
    (
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "webhooks",
        Merge::PatchedMap("name"),
    ),
    (
        "io.k8s.api.certificates.v1.",
        "CertificateSigningRequestStatus",
        "conditions",
        Merge::Map("type"),
    ),
    (
        "io.k8s.api.core.v1.",
        "NamespaceStatus",
        "conditions",
        Merge::PatchedMap("type"),
    ),
    (
        "io.k8s.api.core.v1.",
        "ServiceAccount",
        "secrets",
        Merge::PatchedMap("name"),
    ),
    (
        EXTENSIONS,
        "CustomResourceDefinitionStatus",
        "conditions",
        Merge::Map("type"),
    ),
    (
        EXTENSIONS,
        "JSONSchemaProps",
        "x-kubernetes-validations",
        Merge::PatchedMap("rule"),
    ),
    (META, "ObjectMeta", "finalizers", Merge::PatchedSet),
    (
        META,
        "ObjectMeta",
        "ownerReferences",
        Merge::PatchedMap("uid"),
    ),
];

/// Atomic structures: package and type.
const ATOMIC: &[(&str, &str)] = &[
    (ADMISSION, "MatchResources"),
    (ADMISSION, "NamedRuleWithOperations"),
    (ADMISSION, "ParamKind"),
    (ADMISSION, "ParamRef"),
    (ADMISSION, "Variable"),
    ("io.k8s.api.core.v1.", "LocalObjectReference"),
    ("io.k8s.api.core.v1.", "ObjectReference"),
    ("io.k8s.api.core.v1.", "ScopeSelector"),
    ("io.k8s.api.rbac.v1.", "RoleRef"),
    ("io.k8s.api.rbac.v1.", "Subject"),
    (META, "LabelSelector"),
    (META, "OwnerReference"),
];

/// Adds the extensions to a definition and its lists.
pub(super) fn extend(name: &str, definition: &mut Value) {
    let is = |package: &str, kind: &str| name.strip_prefix(package) == Some(kind);
    if ATOMIC.iter().any(|(package, kind)| is(package, kind)) {
        definition["x-kubernetes-map-type"] = "atomic".into();
    }
    let fields = definition
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    for (field, schema) in fields.into_iter().flatten() {
        if schema.get("type").is_none_or(|kind| kind != "array") {
            continue;
        }
        let found = LISTS
            .iter()
            .find(|(package, kind, list, _)| is(package, kind) && list == field);
        let extensions = match found.map(|(.., merge)| *merge) {
            None => json!({"x-kubernetes-list-type": "atomic"}),
            Some(Merge::Set) => json!({"x-kubernetes-list-type": "set"}),
            Some(Merge::PatchedSet) => json!({
                "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
            }),
            Some(Merge::Map(key)) => json!({
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
            }),
            Some(Merge::PatchedMap(key)) => json!({
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key,
            }),
        };
        if let (Value::Object(schema), Value::Object(extensions)) = (schema, extensions) {
            schema.extend(extensions);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::openapi::builtin::types;

    #[test]
    fn every_row_of_the_tables_names_a_type_and_a_list_of_it() {
        for (package, kind, list, _) in super::LISTS {
            let name = format!("{package}{kind}");
            let definition = types().get(&name).unwrap();
            assert_eq!(definition["properties"][list]["type"], "array", "{name}");
        }
        for (package, kind) in super::ATOMIC {
            let name = format!("{package}{kind}");
            assert!(types().get(&name).is_some(), "{name}");
        }
    }
}
