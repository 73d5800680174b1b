//! Roles and role bindings: stored, but not enforced.

use serde_json::{Value, json};

use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::field::{FieldError, Path};
use kube_schema::names;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) struct Roles;
pub(super) struct RoleBindings;

impl Strategy for Roles {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        _object: &mut Object,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, role: &Object) -> Vec<FieldError> {
        let root = Path::Root;
        let rules = root.field("rules");
        let mut errors = Vec::new();
        for (index, rule) in list(role, "rules").iter().enumerate() {
            let path = rules.index(index);
            let has = |field: &str| {
                rule.get(field)
                    .and_then(Value::as_array)
                    .is_some_and(|items| !items.is_empty())
            };
            if !has("verbs") {
                errors.push(FieldError::required(
                    path.field("verbs"),
                    "verbs must contain at least one value",
                ));
            }
            if has("nonResourceURLs") {
                let field = path.field("nonResourceURLs");
                let value = rule.get("nonResourceURLs").cloned().unwrap_or_default();
                let mut refuse = |detail| {
                    let path = field.to_string();
                    errors.push(FieldError::invalid(path, value.clone(), detail));
                };
                if admission.resource.namespaced {
                    refuse("namespaced rules cannot apply to non-resource URLs");
                }
                if ["apiGroups", "resources", "resourceNames"]
                    .into_iter()
                    .any(has)
                {
                    refuse("rules cannot apply to both regular resources and non-resource URLs");
                }
                continue;
            }
            for (field, detail) in [
                (
                    "apiGroups",
                    "resource rules must supply at least one api group",
                ),
                (
                    "resources",
                    "resource rules must supply at least one resource",
                ),
            ] {
                if !has(field) {
                    errors.push(FieldError::required(path.field(field), detail));
                }
            }
        }
        errors
    }
}

impl Strategy for RoleBindings {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let root = object.root_mut();
        let reference = root.entry("roleRef").or_insert_with(|| json!({}));
        fill(reference, "apiGroup", GROUP);
        if let Some(Value::Array(subjects)) = root.get_mut("subjects") {
            for subject in subjects {
                if matches!(text(subject, "kind"), "User" | "Group") {
                    fill(subject, "apiGroup", GROUP);
                }
            }
        }
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, binding: &Object) -> Vec<FieldError> {
        let root = Path::Root;
        let mut errors = Vec::new();
        let reference = binding.root().get("roleRef").unwrap_or(&Value::Null);
        let path = root.field("roleRef");
        if text(reference, "apiGroup") != GROUP {
            let group = text(reference, "apiGroup");
            errors.push(FieldError::not_supported(
                path.field("apiGroup"),
                group,
                [GROUP],
            ));
        }
        let kinds: &[&str] = if admission.resource.namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        let kind = text(reference, "kind");
        if !kinds.contains(&kind) {
            errors.push(FieldError::not_supported(
                path.field("kind"),
                kind,
                kinds.iter().copied(),
            ));
        }
        let name = text(reference, "name");
        if name.is_empty() {
            errors.push(FieldError::required(path.field("name"), ""));
        }
        for message in names::path_segment(name) {
            errors.push(FieldError::invalid(path.field("name"), name, &message));
        }
        let subjects = root.field("subjects");
        for (index, subject) in list(binding, "subjects").iter().enumerate() {
            errors.extend(check_subject(
                subject,
                &subjects.index(index),
                admission.resource.namespaced,
            ));
        }
        if let Some(old) = admission.old.and_then(|old| old.root().get("roleRef"))
            && old != reference
        {
            // Shown as the server holds it in memory.
            let shown = json!({
                "APIGroup": text(reference, "apiGroup"),
                "Kind": kind,
                "Name": name,
            });
            errors.push(FieldError::invalid(path, shown, "cannot change roleRef"));
        }
        errors
    }
}

fn check_subject(subject: &Value, path: &Path<'_>, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(subject, "name");
    let group = text(subject, "apiGroup");
    if name.is_empty() {
        errors.push(FieldError::required(path.field("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                for message in names::dns1123_subdomain(name) {
                    errors.push(FieldError::invalid(path.field("name"), name, &message));
                }
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(
                    path.field("apiGroup"),
                    group,
                    [""],
                ));
            }
            // In a namespaced binding, an account may omit its namespace.
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(path.field("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(
                    path.field("apiGroup"),
                    group,
                    [GROUP],
                ));
            }
        }
        kind => errors.push(FieldError::not_supported(
            path.field("kind"),
            kind,
            ["ServiceAccount", "User", "Group"],
        )),
    }
    errors
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'o>(object: &'o Object, field: &str) -> &'o [Value] {
    object
        .root()
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn fill(value: &mut Value, field: &str, default: &str) {
    if let Value::Object(map) = value
        && map
            .get(field)
            .is_none_or(|v| v.is_null() || v.as_str() == Some(""))
    {
        map.insert(field.to_owned(), default.into());
    }
}
