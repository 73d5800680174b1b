//! Validation of the metadata of Kubernetes objects, with the messages of apimachinery.

use serde_json::{Map, Value};

pub use kube_lang::names::{
    NameRule, dns1035_label, dns1123_label, dns1123_subdomain, label_value, path_segment,
    qualified_name,
};

use super::field::{FieldError, Path};

/// The limit for all keys and values of an object's annotations together, in bytes.
const MAX_ANNOTATIONS: u64 = 256 * 1024;

fn texts(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &str)> {
    map.iter()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// Checks a map of labels; `path` is usually `metadata.labels`.
pub(crate) fn check_labels(labels: &Map<String, Value>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in texts(labels) {
        for message in qualified_name(key) {
            errors.push(FieldError::invalid(path, key.as_str(), &message));
        }
        for message in label_value(value) {
            errors.push(FieldError::invalid(path, value, &message));
        }
    }
    errors
}

/// Checks a map of annotations: the keys, as those of labels but in any case, and the total size.
pub fn check_annotations(annotations: &Map<String, Value>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in texts(annotations) {
        for message in qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key.as_str(), &message));
        }
        size += key.len() as u64 + value.len() as u64;
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
    errors
}

/// The message about a finalizer without a domain.
pub const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// Whether a finalizer has a domain, or is one of the server's own.
pub fn has_domain(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
}

/// Properties of a resource that [`check_metadata`] needs.
#[derive(Clone, Copy, Debug)]
pub struct MetadataRules {
    pub name: NameRule,
    pub scope: Scope,
}

/// The scope of a resource: namespaced or cluster-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Checks the whole `metadata` of an object that is about to be stored, its name already generated.
pub fn check_metadata(metadata: &Map<String, Value>, rules: MetadataRules) -> Vec<FieldError> {
    let root = Path::Root;
    let path = root.field("metadata");
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or("");
    let mut errors = Vec::new();

    let prefix = text("generateName");
    if !prefix.is_empty() {
        for message in rules.name.check_prefix(prefix) {
            errors.push(FieldError::invalid(
                path.field("generateName"),
                prefix,
                &message,
            ));
        }
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(FieldError::required(
            path.field("name"),
            "name or generateName is required",
        ));
    } else {
        for message in rules.name.check(name) {
            errors.push(FieldError::invalid(path.field("name"), name, &message));
        }
    }
    let namespace = text("namespace");
    match rules.scope {
        Scope::Namespaced if namespace.is_empty() => {
            errors.push(FieldError::required(path.field("namespace"), ""));
        }
        Scope::Namespaced => {
            for message in dns1123_label(namespace) {
                errors.push(FieldError::invalid(
                    path.field("namespace"),
                    namespace,
                    &message,
                ));
            }
        }
        Scope::Cluster if !namespace.is_empty() => {
            errors.push(FieldError::forbidden(
                path.field("namespace"),
                "not allowed on this type",
            ));
        }
        Scope::Cluster => {}
    }
    if let Some(Value::Object(labels)) = metadata.get("labels") {
        errors.extend(check_labels(labels, &path.field("labels")));
    }
    if let Some(Value::Object(annotations)) = metadata.get("annotations") {
        errors.extend(check_annotations(annotations, &path.field("annotations")));
    }
    if let Some(Value::Array(owners)) = metadata.get("ownerReferences") {
        errors.extend(check_owners(owners, &path.field("ownerReferences")));
    }
    if let Some(Value::Array(finalizers)) = metadata.get("finalizers") {
        errors.extend(check_finalizers(finalizers, &path.field("finalizers")));
    }
    errors
}

fn check_owners(owners: &[Value], path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("");
        let api_version = text("apiVersion");
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() || api_version.matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                path.field("apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(
                    path.field(field),
                    "",
                    "must not be empty",
                ));
            }
        }
        if api_version == "v1" && text("kind") == "Event" {
            errors.push(FieldError::invalid(
                path,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    Value::Array(owners.to_vec()),
                    &format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
                )),
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn check_finalizers(finalizers: &[Value], path: &Path<'_>) -> Vec<FieldError> {
    let names: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    let mut errors = Vec::new();
    for name in &names {
        for message in qualified_name(name) {
            errors.push(FieldError::invalid(path, *name, &message));
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            Value::Array(finalizers.to_vec()),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(metadata: &Value, scope: Scope, want: &[&str]) {
        let rules = MetadataRules {
            name: NameRule::Dns1123Subdomain,
            scope,
        };
        let got: Vec<String> = check_metadata(metadata.as_object().unwrap(), rules)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn metadata_is_checked_field_by_field() {
        check(
            &json!({"name": "a", "namespace": "n", "labels": {"a": "b"}}),
            Scope::Namespaced,
            &[],
        );
        check(&json!({"name": "a".repeat(250)}), Scope::Cluster, &[]);
        check(
            &json!({"namespace": "x"}),
            Scope::Cluster,
            &[
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Forbidden: not allowed on this type",
            ],
        );
        check(
            &json!({"name": "a", "annotations": {"Ex.com/A": "x".repeat(256 * 1024)}}),
            Scope::Namespaced,
            &[
                "metadata.namespace: Required value",
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ],
        );
        check(
            &json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            Scope::Cluster,
            &["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
        );
        check(
            &json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
            Scope::Cluster,
            &[
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            ],
        );
    }
}
