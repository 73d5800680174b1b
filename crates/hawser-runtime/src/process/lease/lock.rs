//! The object that candidates compete for, and where the record is in it.

use serde_json::{Value, json};

use super::record::Record;

/// The kind of the object. Candidates for the same work have to agree on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    #[default]
    Lease,
    /// An annotation of a `ConfigMap`, as older controllers have it.
    ConfigMap,
    /// An annotation of an `Endpoints` object, likewise.
    Endpoints,
}

/// The annotation with the record, as JSON.
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

// === impl Lock ===

impl Lock {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::Lease => "coordination.k8s.io/v1",
            Self::ConfigMap | Self::Endpoints => "v1",
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::ConfigMap => "ConfigMap",
            Self::Endpoints => "Endpoints",
        }
    }

    /// The path of all such objects in a namespace.
    pub(super) fn all(self, namespace: &str) -> String {
        let (root, plural) = match self {
            Self::Lease => ("apis/coordination.k8s.io/v1", "leases"),
            Self::ConfigMap => ("api/v1", "configmaps"),
            Self::Endpoints => ("api/v1", "endpoints"),
        };
        format!("/{root}/namespaces/{namespace}/{plural}")
    }

    /// The record in an object. An annotation that cannot be read has no holder.
    pub(super) fn read(self, object: &Value) -> Record {
        match self {
            Self::Lease => Record::read(&object["spec"], "leaseTransitions"),
            Self::ConfigMap | Self::Endpoints => {
                let text = object["metadata"]["annotations"][ANNOTATION].as_str();
                let fields: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
                Record::read(&fields.unwrap_or_default(), "leaderTransitions")
            }
        }
    }

    /// Writes the record into an object; everything else stays.
    pub(super) fn write(self, record: &Record, object: &mut Value) {
        match self {
            Self::Lease => record.write(field(object, "spec"), "leaseTransitions"),
            Self::ConfigMap | Self::Endpoints => {
                let mut fields = json!({});
                record.write(&mut fields, "leaderTransitions");
                let annotations = field(field(object, "metadata"), "annotations");
                *field(annotations, ANNOTATION) = fields.to_string().into();
            }
        }
    }
}

/// A field, which becomes an object if it is none.
fn field<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    &mut value[name]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_an_annotation_is_the_one_that_client_go_writes() {
        let text = r#"{"holderIdentity":"host_4e1c","leaseDurationSeconds":15,"acquireTime":"2023-04-25T08:00:00Z","renewTime":"2023-04-25T08:00:10Z","leaderTransitions":3}"#;
        let mut object = json!({"metadata": {"annotations": {ANNOTATION: text, "other": "stays"}}});
        for lock in [Lock::ConfigMap, Lock::Endpoints] {
            let record = lock.read(&object);
            assert_eq!(
                (&*record.holder, record.seconds, record.transitions),
                ("host_4e1c", 15, 3)
            );
            assert_eq!(record.renewed, "2023-04-25T08:00:10Z");
            lock.write(&record, &mut object);
            let annotations = &object["metadata"]["annotations"];
            let written = annotations[ANNOTATION].as_str().unwrap();
            let (written, read): (Value, Value) = (
                serde_json::from_str(written).unwrap(),
                serde_json::from_str(text).unwrap(),
            );
            assert_eq!(written, read);
            assert_eq!(annotations["other"], "stays");
        }
        for nothing in [
            json!({}),
            json!({"metadata": {"annotations": {ANNOTATION: "{"}}}),
        ] {
            assert_eq!(Lock::ConfigMap.read(&nothing), Record::default());
        }
    }
}
