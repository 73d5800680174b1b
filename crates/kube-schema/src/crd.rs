//! Definitions of custom resources: a `CustomResourceDefinition` or kcp's `APIResourceSchema`, checked, completed and
//! compiled into one form.
//!
//! This module does not know who serves a definition, its conditions, or stored objects.

use serde_json::Value;

use super::{
    field::FieldError,
    names::{NameRule, Scope},
};

mod check;
mod read;
mod resource_schema;
#[cfg(test)]
mod tests;
pub mod tidy;
mod version;

pub use read::{Column, Names};
pub use version::Version;

/// A custom resource, ready to be served.
#[derive(Clone, Debug)]
pub struct Definition {
    pub group: String,
    pub names: Names,
    pub scope: Scope,
    /// The rule for names of its objects.
    pub name_rule: NameRule,
    /// In the order of the definition.
    pub versions: Vec<Version>,
    pub conversion: Conversion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook, which is never called here.
    Webhook,
}

impl Definition {
    /// The version that objects are stored in.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }
}

/// Completes a `CustomResourceDefinition` as the server stores it: singular and list kind are derived from the kind,
/// and the conversion strategy is None.
pub fn default_crd(crd: &mut Value) {
    tidy::tidy(crd);
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let mut fill = |name: &str, value: String| {
            if names.get(name).is_none_or(|v| v.is_null() || v == "") {
                names.insert(name.to_owned(), value.into());
            }
        };
        if !kind.is_empty() {
            fill("singular", kind.to_lowercase());
            fill("listKind", format!("{kind}List"));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), serde_json::json!({"strategy": "None"}));
    }
}

/// Completes an `APIResourceSchema`: by default, versions are served, and names of objects are subdomains.
pub fn default_resource_schema(schema: &mut Value) {
    let Some(spec) = schema.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("nameValidation")
        .or_insert_with(|| "DNS1123Subdomain".into());
    for version in spec
        .get_mut("versions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        version.entry("served").or_insert(Value::Bool(true));
    }
}

/// Checks the immutable fields of a `CustomResourceDefinition`: group and plural name always, scope and kind once the
/// definition is established.
pub fn check_crd_update(new: &Value, old: &Value, established: bool) -> Vec<FieldError> {
    let mut fields = vec!["group", "names.plural"];
    if established {
        fields.splice(0..0, ["scope", "names.kind"]);
    }
    let mut errors = Vec::new();
    for field in fields {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let value = new.pointer(&pointer).cloned().unwrap_or_default();
        if Some(&value) != old.pointer(&pointer) {
            errors.push(FieldError::invalid(
                format!("spec.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    errors
}
