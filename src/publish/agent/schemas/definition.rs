//! The definition of a kind on the service cluster: its CRD, or one made from the server's OpenAPI models.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::problem::SchemaError;
use crate::publish::crd::{Crd, CrdError, CrdSchema};
use crate::publish::openapi::{self, Served, ServedVersion};
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError, Kind};
use kube_lang::object::Object;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ANYTHING: &str = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;

/// The incarnation and the content of a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdPrint {
    pub uid: String,
    pub generation: i64,
}

impl CrdPrint {
    /// From the metadata of a CRD.
    pub fn of(crd: &Object) -> Self {
        let generation = &crd.as_value()["metadata"]["generation"];
        Self {
            uid: crd.uid().unwrap_or_default().to_owned(),
            generation: generation.as_i64().unwrap_or_default(),
        }
    }
}

/// A kind of the service cluster with its definition.
pub(super) struct KindDefinition {
    pub(super) crd: Crd,
    /// `None` if the kind is not a custom resource.
    pub(super) print: Option<CrdPrint>,
    /// Whether the version that copies are written in is served.
    pub(super) storage_is_served: bool,
}

/// The fields of a CRD beside its spec.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CrdOutsideSpec {
    metadata: Meta,
    status: CrdStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    uid: String,
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CrdStatus {
    conditions: Option<Vec<CrdCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CrdCondition {
    r#type: String,
    status: String,
}

/// Finds a kind of the service cluster. If it was a custom resource when it was last read (`before`) and has no CRD
/// now, its CRD is being deleted. What the server still serves of it is not published.
pub(super) async fn retrieve(
    service: &Connection,
    discovery: &Discovery,
    group: &str,
    kind: &str,
    before: Before,
) -> Result<KindDefinition, SchemaError> {
    let found = find(discovery, group, kind).await?;
    // No CRD defines kinds of the core group.
    if !group.is_empty() {
        let name = definition_name(&found);
        let path = format!("{DEFINITIONS}/{name}");
        let reply = service.call(Call::get(path)).await;
        let asked =
            |error| SchemaError::of_call("get", format!("customresourcedefinitions {name}"), error);
        let reply = reply.map_err(|error| asked(error.into()))?;
        match reply.status {
            404 if before == Before::CustomResource => {
                discovery.invalidate(group);
                find(discovery, group, kind).await?;
                return Err(SchemaError::DefinitionGone(name));
            }
            404 => {}
            200..300 => {
                return read(&reply.body).map_err(|source| SchemaError::Definition {
                    name,
                    source: Box::new(source),
                });
            }
            _ => return Err(asked(RequestError::Refused(reply.refusal()))),
        }
    }
    from_models(discovery, found).await
}

/// The sort of a kind when it was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Unknown,
    CustomResource,
}

/// The name of the CRD that would define a kind.
pub(super) fn definition_name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

async fn find(discovery: &Discovery, group: &str, kind: &str) -> Result<Kind, SchemaError> {
    let found = discovery.kind(group, kind).await;
    found
        .map_err(SchemaError::of_discovery)?
        .ok_or_else(|| SchemaError::NoSuchKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
}

/// Reads a CRD from the response of an API server.
fn read(body: &[u8]) -> Result<KindDefinition, CrdError> {
    let mut crd = Crd::from_json(body)?;
    let around: CrdOutsideSpec = serde_json::from_slice(body)?;
    let conditions = around.status.conditions.unwrap_or_default();
    let is_loose = conditions
        .iter()
        .any(|c| c.r#type == "NonStructuralSchema" && c.status == "True");
    if is_loose {
        for version in &mut crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|s| s.open_api.as_ref());
            if schema.is_none() {
                let open_api = RawValue::from_string(ANYTHING.to_owned())?;
                version.schema = Some(CrdSchema {
                    open_api: Some(open_api),
                });
            }
        }
    }
    let storage_is_served = crd.storage_version().is_some_and(|version| version.served);
    Ok(KindDefinition {
        crd,
        storage_is_served,
        print: Some(CrdPrint {
            uid: around.metadata.uid,
            generation: around.metadata.generation,
        }),
    })
}

/// Defines a kind without CRD from discovery and the models of the server. The models are dropped at once: they are the
/// largest document of a server.
async fn from_models(discovery: &Discovery, kind: Kind) -> Result<KindDefinition, SchemaError> {
    if !kind.unknown_versions.is_empty() {
        return Err(SchemaError::Incomplete {
            group: kind.group,
            versions: kind.unknown_versions.join(", "),
        });
    }
    let models = discovery.models().await;
    let models = models.map_err(|error: DiscoveryError| SchemaError::of_discovery(error))?;
    let served = served(kind);
    let crd = openapi::definition(&served, &models);
    drop(models);
    Ok(KindDefinition {
        crd: crd.map_err(|source| SchemaError::Model {
            kind: served.kind,
            source: Box::new(source),
        })?,
        print: None,
        storage_is_served: true,
    })
}

fn served(kind: Kind) -> Served {
    let version = |version: hawser_runtime::cluster::discovery::KindVersion| ServedVersion {
        name: version.name,
        status: version.status,
        scale: version.scale,
    };
    Served {
        versions: kind.versions.into_iter().map(version).collect(),
        group: kind.group,
        plural: kind.plural,
        singular: kind.singular,
        kind: kind.kind,
        namespaced: kind.namespaced,
        short_names: kind.short_names,
        categories: kind.categories,
        preferred: kind.preferred,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn crd(schema: &Value, conditions: &Value) -> Vec<u8> {
        let mut version = json!({"name": "v1", "served": false, "storage": true});
        if !schema.is_null() {
            version["schema"] = json!({"openAPIV3Schema": schema});
        }
        let document = json!({
            "metadata": {"name": "things.a.org", "uid": "u1", "generation": 4},
            "spec": {
                "group": "a.org", "scope": "Cluster", "versions": [version],
                "names": {"plural": "things", "kind": "Thing"},
            },
            "status": {"conditions": conditions},
        });
        document.to_string().into_bytes()
    }

    fn schema(body: &[u8]) -> Option<String> {
        let crd = read(body).unwrap().crd;
        let schema = crd.spec.versions[0].schema.as_ref()?.open_api.as_ref()?;
        Some(schema.get().to_owned())
    }

    #[test]
    fn a_version_without_a_schema_gets_one_only_where_the_server_calls_the_crd_non_structural() {
        let loose = json!([{"type": "NonStructuralSchema", "status": "True"}]);
        let strict = json!([{"type": "NonStructuralSchema", "status": "False"}]);
        let own = json!({"type": "object"});
        assert_eq!(
            schema(&crd(&Value::Null, &loose)).as_deref(),
            Some(ANYTHING)
        );
        assert_eq!(
            schema(&crd(&own, &loose)).as_deref(),
            Some(r#"{"type":"object"}"#)
        );
        for conditions in [strict, Value::Null, json!([])] {
            assert_eq!(schema(&crd(&Value::Null, &conditions)), None);
        }
    }

    #[test]
    fn incarnation_and_generation_are_read_along() {
        let found = read(&crd(&Value::Null, &Value::Null)).unwrap();
        let print = CrdPrint {
            uid: "u1".into(),
            generation: 4,
        };
        assert_eq!((found.print, found.storage_is_served), (Some(print), false));
    }
}
