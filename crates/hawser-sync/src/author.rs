//! The authors of fields, as the managed fields of an object name them. Pure.
//!
//! `metadata.managedFields` has an entry for each manager, operation and subresource. Its `fieldsV1` is a tree of the
//! fields that the last writes of the manager set: `f:NAME` is a field, `k:{…}`, `v:…` and `i:…` are items of a list, and
//! `.` is the value that contains them. A field that was removed has no manager.

use kube_lang::object::Object;
use serde_json::Value;

/// The last writer of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub manager: String,
    /// `Update` or `Apply`.
    pub operation: String,
    pub subresource: Option<String>,
    /// The time of the last write of the manager, in RFC 3339.
    pub time: Option<String>,
}

/// The managers of a field, or of anything below it, and whether each manages all of it.
pub(super) fn authors<'o>(
    object: &'o Object,
    keys: &[String],
) -> impl Iterator<Item = (Author, bool)> + use<'o> {
    let metadata = object.root().get("metadata");
    let entries = metadata.and_then(|metadata| metadata.get("managedFields")?.as_array());
    let keys = keys.to_vec();
    let entries = entries.into_iter().flatten();
    entries.filter_map(move |entry| {
        let text = |field: &str| {
            let text = entry.get(field).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let is_whole = managed(entry.get("fieldsV1")?, &keys)?;
        let author = Author {
            manager: text("manager")?,
            operation: text("operation").unwrap_or_default(),
            subresource: text("subresource"),
            time: text("time"),
        };
        Some((author, is_whole))
    })
}

/// Whether a tree of fields has a field, or a value that contains it and is managed as a whole; then also whether the
/// field is managed as a whole.
fn managed(fields: &Value, keys: &[String]) -> Option<bool> {
    let is_whole = |node: &Value| node.as_object().is_some_and(serde_json::Map::is_empty);
    let mut node = fields;
    for (depth, key) in keys.iter().enumerate() {
        let Some(inner) = node.get(format!("f:{key}")) else {
            return (depth > 0 && is_whole(node)).then_some(true);
        };
        node = inner;
    }
    Some(is_whole(node))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn managers(keys: &[&str]) -> Vec<String> {
        let object = json!({"metadata": {"name": "a", "managedFields": [
            {"manager": "hawser", "operation": "Update", "apiVersion": "a.b/v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}},
                    "f:spec": {".": {}, "f:size": {}, "f:whole": {}, "f:items": {}},
                }},
            {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z",
                "fieldsV1": {"f:spec": {
                    "f:color": {},
                    "f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}},
                    "f:names": {"v:\"a\"": {}},
                    "f:rows": {"i:0": {"f:x": {}}},
                }}},
            {"manager": "scaler", "operation": "Apply", "subresource": "scale", "time": "",
                "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "broken"},
            {"manager": "empty", "fieldsV1": {}},
        ]}});
        let object = Object::new(object).unwrap();
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let found = authors(&object, &keys).map(|(author, _)| author.manager);
        found.collect()
    }

    #[test]
    fn a_field_belongs_to_the_managers_that_set_it() {
        assert_eq!(managers(&["spec", "size"]), ["hawser"]);
        assert_eq!(managers(&["spec", "color"]), ["kubectl-edit"]);
        assert_eq!(managers(&["metadata", "labels", "a.b/c"]), ["hawser"]);
        assert_eq!(managers(&["spec"]), ["hawser", "kubectl-edit", "scaler"]);
    }

    #[test]
    fn a_field_that_nobody_set_or_that_was_removed_has_no_manager() {
        assert_eq!(managers(&["spec", "gone"]), [""; 0]);
        assert_eq!(managers(&["data"]), [""; 0]);
        assert_eq!(managers(&["metadata", "labels", "a"]), [""; 0]);
    }

    #[test]
    fn a_list_belongs_to_the_managers_of_its_items() {
        for list in ["ports", "names", "rows"] {
            assert_eq!(managers(&["spec", list]), ["kubectl-edit"], "{list}");
        }
        assert_eq!(managers(&["spec", "items"]), ["hawser"]);
    }

    #[test]
    fn what_is_below_a_value_that_is_managed_as_a_whole_belongs_to_its_manager() {
        assert_eq!(managers(&["spec", "whole", "inner"]), ["hawser"]);
        assert_eq!(managers(&["spec", "ports", "inner"]), [""; 0]);
    }

    #[test]
    fn an_author_has_what_the_entry_says() {
        let object = json!({"metadata": {"name": "a", "managedFields": [
            {"manager": "m", "operation": "Apply", "subresource": "scale",
                "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:a": {}}},
            {"fieldsV1": {"f:a": {}}},
        ]}});
        let object = Object::new(object).unwrap();
        let found: Vec<_> = authors(&object, &["a".to_owned()]).collect();
        let scale = Author {
            manager: "m".to_owned(),
            operation: "Apply".to_owned(),
            subresource: Some("scale".to_owned()),
            time: Some("2026-01-02T00:00:00Z".to_owned()),
        };
        assert_eq!(found, [(scale, true)]);
    }
}
