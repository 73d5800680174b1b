//! A structural schema as the API layer uses it. `metadata` is limited to its known fields.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::catalog::ObjectSchema;
use kube_schema::field::FieldError;
use kube_schema::schema::Schema;

const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const MANAGED: [&str; 7] = [
    "apiVersion",
    "fieldsType",
    "fieldsV1",
    "manager",
    "operation",
    "subresource",
    "time",
];
const OWNER: [&str; 6] = [
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];

/// A schema with its stamp.
#[derive(Clone, Debug)]
pub(crate) struct FittedSchema {
    schema: Schema,
    document: Arc<Value>,
    stamp: u64,
}

impl FittedSchema {
    /// `document` is the schema as it was written.
    pub(crate) fn new(schema: Schema, document: &Value) -> Self {
        // Members are sorted, so equal documents have equal texts.
        let stamp = super::hash(document.to_string());
        Self {
            schema,
            document: Arc::new(document.clone()),
            stamp,
        }
    }
}

impl ObjectSchema for FittedSchema {
    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn document(&self) -> Option<&Value> {
        Some(&self.document)
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            keep_metadata(metadata, "metadata", &mut pruned);
        }
        pruned.extend(self.schema.prune(object));
        self.schema.each_embedded(object, &mut |embedded, path| {
            if let Some(Value::Object(metadata)) = embedded.get_mut("metadata") {
                keep_metadata(metadata, &path.field("metadata").to_string(), &mut pruned);
            }
        });
        pruned
    }

    fn default(&self, object: &mut Value) {
        self.schema.default(object);
    }

    fn fill(&self, object: &mut Value) {
        self.schema.fill(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.schema.validate(object, old)
    }

    fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.schema.validate_status(object, old)
    }
}

/// Removes unknown fields of metadata wherever metadata is typed.
fn keep_metadata(metadata: &mut Map<String, Value>, path: &str, pruned: &mut Vec<String>) {
    keep_known(metadata, &METADATA, path, pruned);
    for (list, known) in [
        ("ownerReferences", &OWNER[..]),
        ("managedFields", &MANAGED[..]),
    ] {
        let items = metadata.get_mut(list).and_then(Value::as_array_mut);
        for (index, item) in items.into_iter().flatten().enumerate() {
            if let Value::Object(item) = item {
                keep_known(item, known, &format!("{path}.{list}[{index}]"), pruned);
            }
        }
    }
}

fn keep_known(map: &mut Map<String, Value>, known: &[&str], path: &str, pruned: &mut Vec<String>) {
    map.retain(|field, _| {
        let keep = known.contains(&field.as_str());
        if !keep {
            pruned.push(format!("{path}.{field}"));
        }
        keep
    });
}
