//! A kind before its versions are generated, and its parts.

use kube_schema::generate::schema;
use schemars::JsonSchema;
use serde_json::{Value, json};

pub(super) const V1: &[&str] = &["v1", "v1beta1"];
pub(super) const ALL: &[&str] = &["v1", "v1alpha1", "v1beta1"];

pub(super) const NAME_RULE: (&str, &str) = (
    "size(self.metadata.name) < 64",
    "metadata.name max length is 63",
);

/// A kind before its versions are generated.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) short: Option<&'static str>,
    pub(super) namespaced: bool,
    pub(super) versions: &'static [&'static str],
    pub(super) columns: Value,
    pub(super) schema: Value,
    /// False if the status, if there is one, is an ordinary field.
    pub(super) status_subresource: bool,
}

pub(super) fn cluster_scoped(
    kind: &'static str,
    short: Option<&'static str>,
    versions: &'static [&'static str],
    schema: Value,
) -> Kind {
    Kind {
        name: kind,
        short,
        namespaced: false,
        versions,
        columns: Value::Null,
        schema,
        status_subresource: true,
    }
}

pub(super) fn namespaced(
    kind: &'static str,
    short: Option<&'static str>,
    versions: &'static [&'static str],
    schema: Value,
) -> Kind {
    Kind {
        namespaced: true,
        ..cluster_scoped(kind, short, versions, schema)
    }
}

pub(super) fn column(name: &str, type_: &str, path: &str) -> Value {
    json!({"name": name, "type": type_, "jsonPath": path})
}

/// A column that only wide tables show.
pub(super) fn minor(mut column: Value) -> Value {
    column["priority"] = 1.into();
    column
}

pub(super) fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp")
}

pub(super) fn with_status<Spec: JsonSchema, Status: JsonSchema>() -> Value {
    let fields = json!({"spec": schema::<Spec>(), "status": schema::<Status>()});
    object(fields, &["spec"])
}

pub(super) fn spec_only<Spec: JsonSchema>() -> Value {
    object(json!({"spec": schema::<Spec>()}), &["spec"])
}

/// The schema of an object with these fields.
pub(super) fn object(fields: Value, required: &[&str]) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    });
    if let (Value::Object(properties), Value::Object(fields)) = (&mut properties, fields) {
        properties.extend(fields);
    }
    json!({"type": "object", "properties": properties, "required": required})
}

pub(super) fn add_rule(schema: &mut Value, (rule, message): (&str, &str)) {
    let rules = &mut schema["x-kubernetes-validations"];
    if rules.is_null() {
        *rules = json!([]);
    }
    if let Value::Array(rules) = rules {
        rules.push(json!({"rule": rule, "message": message}));
    }
}

pub(super) fn remove(schema: &mut Value, pointers: &[&str]) {
    for pointer in pointers {
        if let Some((parent, name)) = pointer.rsplit_once('/')
            && let Some(Value::Object(fields)) = schema.pointer_mut(parent)
        {
            fields.remove(name);
        }
    }
}
