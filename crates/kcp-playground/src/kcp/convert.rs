//! The two versions of `APIExport` and `APIBinding`, and the conversion between them.
//!
//! `v1alpha2` is stored. Values that one version cannot express are kept in annotations of the other, so that a client
//! of the older version loses nothing, not even the order. Pure.

use serde_json::{Map, Value, json};

mod binding;
mod claims;
mod export;

/// The older version; the other one is stored.
pub(crate) const OLD: &str = "apis.kcp.io/v1alpha1";
pub(crate) const STORED: &str = "apis.kcp.io/v1alpha2";

const RESOURCE_SCHEMAS: &str = "apis.v1alpha2.kcp.io/resource-schemas";
const CLAIMS: &str = "apis.v1alpha2.kcp.io/permission-claims";
const OLD_CLAIMS: &str = "apis.v1alpha2.kcp.io/v1alpha1-permission-claims";
const ACCEPTABLE_CLAIMS: &str = "apis.v1alpha2.kcp.io/acceptable-permission-claims";
const STATUS_EXPORT_CLAIMS: &str = "apis.v1alpha2.kcp.io/status-export-permission-claims";
const STATUS_APPLIED_CLAIMS: &str = "apis.v1alpha2.kcp.io/status-applied-permission-claims";
const OLD_STATUS_EXPORT_CLAIMS: &str =
    "apis.v1alpha2.kcp.io/v1alpha1-status-export-permission-claims";

/// The reason why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConvertError {
    #[error(
        "spec.latestResourceSchemas: {0:?} is no schema name, expected <prefix>.<plural>.<group>"
    )]
    SchemaName(String),
    #[error("annotation {annotation} does not hold what was put there: {message}")]
    Annotation {
        annotation: &'static str,
        message: String,
    },
}

/// Converts an object of kind `APIExport` or `APIBinding` to the stored version. Objects of other kinds, or in that
/// version already, stay as they are.
pub(crate) fn to_stored(object: &mut Value) -> Result<(), ConvertError> {
    if object["apiVersion"] != OLD {
        return Ok(());
    }
    match object["kind"].as_str() {
        Some("APIExport") => export::to_stored(object)?,
        Some("APIBinding") => binding::to_stored(object)?,
        _ => return Ok(()),
    }
    object["apiVersion"] = STORED.into();
    Ok(())
}

/// Converts a stored object to the older version. Other kinds and versions stay as they are.
pub(crate) fn to_old(object: &mut Value) -> Result<(), ConvertError> {
    if object["apiVersion"] != STORED {
        return Ok(());
    }
    match object["kind"].as_str() {
        Some("APIExport") => export::to_old(object)?,
        Some("APIBinding") => binding::to_old(object)?,
        _ => return Ok(()),
    }
    object["apiVersion"] = OLD.into();
    Ok(())
}

/// Removes an annotation that holds a JSON list, and returns the list. `None` if it is empty or missing.
fn take_list(object: &mut Value, annotation: &'static str) -> Result<Vec<Value>, ConvertError> {
    let text = object["metadata"]["annotations"]
        .as_object_mut()
        .and_then(|annotations| annotations.remove(annotation));
    drop_empty_annotations(object);
    let Some(Value::String(text)) = text else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text).map_err(|error| ConvertError::Annotation {
        annotation,
        message: error.to_string(),
    })
}

/// Writes a list to an annotation; an empty list removes it.
fn put_list(object: &mut Value, annotation: &'static str, list: Vec<Value>) {
    if list.is_empty() {
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(annotation);
        }
        drop_empty_annotations(object);
        return;
    }
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[annotation] = Value::Array(list).to_string().into();
}

/// An object without annotations must not get an empty map by a round trip.
fn drop_empty_annotations(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let empty = metadata
            .get("annotations")
            .is_some_and(|a| a.is_null() || a.as_object().is_some_and(Map::is_empty));
        if empty {
            metadata.remove("annotations");
        }
    }
}

/// Removes a list from one part (`spec`, `status`) of an object, and returns it; `None` if there is no list.
fn take_field(object: &mut Value, part: &str, field: &str) -> Option<Vec<Value>> {
    match object.get_mut(part)?.as_object_mut()?.remove(field)? {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
