//! The lists of an object: in its fields, and in annotations for what a version cannot express.

use serde_json::{Map, Value, json};

pub(super) const OLD_CLAIMS: &str = "apis.v1alpha2.kcp.io/v1alpha1-permission-claims";

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

/// Removes an annotation that holds a JSON list, and returns the list. `None` if it is empty or missing.
pub(super) fn take_list(
    object: &mut Value,
    annotation: &'static str,
) -> Result<Vec<Value>, ConvertError> {
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
pub(super) fn put_list(object: &mut Value, annotation: &'static str, list: Vec<Value>) {
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
pub(super) fn take_field(object: &mut Value, part: &str, field: &str) -> Option<Vec<Value>> {
    match object.get_mut(part)?.as_object_mut()?.remove(field)? {
        Value::Array(list) => Some(list),
        _ => None,
    }
}
