//! The CRD manifest of `PublishedResource`, made from its types.

use kube::CustomResourceExt;
use serde_json::{Number, Value};

use super::PublishedResource;

#[cfg(test)]
const HEADER: &str = "# Generated from the types in src/publish/types.rs; do not edit.\n\
# To write it anew: HAWSER_WRITE_GENERATED=1 cargo test generated_\n";

/// The path of the manifest in the repository.
#[cfg(test)]
pub const PATH: &str = "crds/syncagent.kcp.io_publishedresources.yaml";

/// Its path in the chart, which cannot contain files from outside.
#[cfg(test)]
pub const CHART_PATH: &str = "charts/hawser/files/syncagent.kcp.io_publishedresources.yaml";

/// The manifest as JSON.
///
/// Optional fields are *not* nullable: the API server then prunes a null, as Go clients send it, and validation rules
/// that require a field see none.
pub fn crd() -> Value {
    let mut crd = serde_json::to_value(PublishedResource::crd())
        .expect("a CustomResourceDefinition is made of maps with string keys");
    tidy(&mut crd);
    if let Some(names) = crd
        .pointer_mut("/spec/names")
        .and_then(Value::as_object_mut)
    {
        // Empty lists that the derive macro always writes.
        names.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        names.insert("listKind".into(), "PublishedResourceList".into());
    }
    crd
}

/// The manifest as YAML, in the form of the repository.
#[cfg(test)]
pub fn yaml() -> String {
    let body = serde_saphyr::to_string(&crd())
        .expect("a CustomResourceDefinition is made of maps with string keys");
    format!("{HEADER}{body}")
}

fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("nullable");
            map.remove("default");
            // Kubernetes knows no unsigned numbers, and warns of a format that it does not know; the
            // bounds beside it say as much.
            if matches!(map.get("format"), Some(Value::String(format)) if format.starts_with("uint"))
            {
                map.remove("format");
            }
            if let Some(Value::Array(variants)) = map.get_mut("enum") {
                variants.retain(|variant| !variant.is_null());
            }
            for child in map.values_mut() {
                tidy(child);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        // Bounds are floats in the Rust types; whole ones are written as everybody else writes them.
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = whole(number) {
                *number = whole.into();
            }
        }
        _ => {}
    }
}

fn whole(number: &Number) -> Option<i64> {
    let text = number.to_string();
    text.strip_suffix(".0")?.parse().ok()
}
