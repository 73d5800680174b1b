//! A structural schema as the API layer uses it, with `metadata` held to its known fields.

use serde_json::{Map, Value};

use crate::playground::catalog::ObjectSchema;
use crate::playground::field::FieldError;
use crate::playground::schema::Schema;

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
const OWNER: [&str; 6] = [
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];

/// A schema and what tells it from others.
#[derive(Clone, Debug)]
pub struct FittedSchema {
    schema: Schema,
    stamp: u64,
}

impl FittedSchema {
    /// `document` is the schema as it was written.
    pub fn new(schema: Schema, document: &Value) -> Self {
        // Members are sorted, so equal documents have equal texts.
        let stamp = super::hash(document.to_string());
        Self { schema, stamp }
    }
}

impl ObjectSchema for FittedSchema {
    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruned = self.schema.prune(object);
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            keep_known(metadata, &METADATA, "metadata", &mut pruned);
            if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
                for (index, owner) in owners.iter_mut().enumerate() {
                    if let Value::Object(owner) = owner {
                        let path = format!("metadata.ownerReferences[{index}]");
                        keep_known(owner, &OWNER, &path, &mut pruned);
                    }
                }
            }
        }
        pruned
    }

    fn default(&self, object: &mut Value) {
        self.schema.default(object);
    }

    fn fill(&self, object: &mut Value) {
        self.schema.fill(object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.schema.validate(object)
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
