//! The fields of built-in kinds and their types: what a server with typed kinds decodes and what it
//! drops. Kinds that are only stored keep all they are sent.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::playground::catalog::{Admission, ObjectSchema, Strategy};
use crate::playground::custom::FittedSchema;
use crate::playground::field::{FieldError, Path};
use crate::playground::schema::Schema;
use crate::playground::status::Status;
use crate::playground::store::Tx;

/// What is known of the fields of a kind.
pub(super) fn shape(kind: &str) -> Option<Value> {
    let refs = || list(&object(&[("name", text())]));
    let subjects = || {
        list(&object(&[
            ("kind", text()),
            ("apiGroup", text()),
            ("name", text()),
            ("namespace", text()),
        ]))
    };
    let rules = || {
        list(&object(&[
            ("verbs", list(&text())),
            ("apiGroups", list(&text())),
            ("resources", list(&text())),
            ("resourceNames", list(&text())),
            ("nonResourceURLs", list(&text())),
        ]))
    };
    Some(match kind {
        "Namespace" => object(&[
            ("spec", object(&[("finalizers", list(&text()))])),
            (
                "status",
                object(&[("phase", text()), ("conditions", list(&anything()))]),
            ),
        ]),
        "ConfigMap" => object(&[
            ("data", map(&text())),
            ("binaryData", map(&text())),
            ("immutable", flag()),
        ]),
        "Secret" => object(&[
            ("data", map(&text())),
            ("stringData", map(&text())),
            ("type", text()),
            ("immutable", flag()),
        ]),
        "ServiceAccount" => object(&[
            ("secrets", list(&reference())),
            ("imagePullSecrets", refs()),
            ("automountServiceAccountToken", flag()),
        ]),
        // As it is stored; the other view is turned into this one first.
        "Event" => object(&[
            ("involvedObject", reference()),
            ("related", reference()),
            ("reason", text()),
            ("message", text()),
            ("source", object(&[("component", text()), ("host", text())])),
            ("firstTimestamp", text()),
            ("lastTimestamp", text()),
            ("eventTime", text()),
            ("count", number()),
            ("type", text()),
            (
                "series",
                object(&[("count", number()), ("lastObservedTime", text())]),
            ),
            ("action", text()),
            ("reportingComponent", text()),
            ("reportingInstance", text()),
        ]),
        "Role" => object(&[("rules", rules())]),
        "ClusterRole" => object(&[
            ("rules", rules()),
            (
                "aggregationRule",
                object(&[("clusterRoleSelectors", list(&anything()))]),
            ),
        ]),
        "RoleBinding" | "ClusterRoleBinding" => object(&[
            ("subjects", subjects()),
            (
                "roleRef",
                object(&[("apiGroup", text()), ("kind", text()), ("name", text())]),
            ),
        ]),
        "Lease" => object(&[(
            "spec",
            object(&[
                ("holderIdentity", text()),
                ("leaseDurationSeconds", number()),
                ("acquireTime", text()),
                ("renewTime", text()),
                ("leaseTransitions", number()),
                ("strategy", text()),
                ("preferredHolder", text()),
            ]),
        )]),
        _ => return None,
    })
}

/// The schema by which unknown fields of a kind are dropped.
pub(super) fn schema(kind: &str) -> Arc<FittedSchema> {
    let (schema, document) = match shape(kind) {
        Some(document) => (
            Schema::compile(&document, &Path::Root)
                .expect("a test compiles every shape of the table"),
            document,
        ),
        None => (Schema::anything(), Value::Null),
    };
    Arc::new(FittedSchema::new(schema, &document))
}

/// Drops fields and nulls; types are [`Typed`]'s, so that a wrong one is a bad request and not an invalid object.
pub(super) struct Dropping(pub(super) Arc<FittedSchema>);

impl ObjectSchema for Dropping {
    fn stamp(&self) -> u64 {
        self.0.stamp()
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        self.0.prune(object)
    }

    fn default(&self, object: &mut Value) {
        self.0.default(object);
    }

    fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }
}

/// A kind whose objects have to decode before anything else is asked about them.
pub(super) struct Typed {
    pub(super) schema: Arc<FittedSchema>,
    pub(super) rules: Option<Arc<dyn Strategy>>,
}

impl Strategy for Typed {
    fn prepare(
        &self,
        tx: &Tx<'_>,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        // Where a null stands, Go takes nothing to be.
        let mut decoded = object.as_value().clone();
        self.schema.default(&mut decoded);
        if let Some(error) = self.schema.validate(&decoded, None).first() {
            let (kind, version) = (&admission.resource.kind, &admission.resource.version);
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            )));
        }
        match &self.rules {
            Some(rules) => rules.prepare(tx, admission, object),
            None => Ok(()),
        }
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        match &self.rules {
            Some(rules) => rules.validate(admission, object),
            None => Vec::new(),
        }
    }

    fn before_delete(
        &self,
        tx: &mut Tx<'_>,
        admission: &Admission<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        match &self.rules {
            Some(rules) => rules.before_delete(tx, admission, object),
            None => Ok(()),
        }
    }

    fn answer(&self, admission: &Admission<'_>, object: &Object) -> Option<Object> {
        self.rules.as_ref()?.answer(admission, object)
    }
}

/// An `ObjectReference`.
fn reference() -> Value {
    let fields = [
        "apiVersion",
        "fieldPath",
        "kind",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    object(&fields.map(|field| (field, text())))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn number() -> Value {
    json!({"type": "integer"})
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn map(values: &Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties})
}
