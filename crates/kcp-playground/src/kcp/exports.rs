//! `APIExport` and `APIExportEndpointSlice`: identities, and the URLs of exported APIs.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::conditions::{self, Condition};
use super::workspaces::BaseUrl;
use super::{ids, objects, tree};
use crate::builtin::namespaces::{self, timestamp};
use crate::catalog::Shard;
use crate::status::Status;
use crate::store::{Key, Name, Range, Read, Settler, Table, Tx};
use kube_lang::object::{Gvk, Object};

/// The namespace of identity Secrets.
const NAMESPACE: &str = "kcp-system";
const SKIP_SLICE: &str = "apiexports.apis.kcp.io/skip-endpointslice";

/// The controller of exports.
pub(super) struct ExportSettler {
    pub(super) base_url: BaseUrl,
    pub(super) shards: NonZeroUsize,
}

/// An export by its cluster and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ExportName {
    pub(super) cluster: Name,
    pub(super) name: Name,
}

impl ExportName {
    pub(super) fn of(key: &Key) -> Self {
        Self {
            cluster: key.cluster().clone(),
            name: key.name().clone(),
        }
    }

    pub(super) fn key(&self) -> Key {
        tree::EXPORTS.key(&self.cluster, "", &self.name)
    }

    /// The hash that labels use for an export.
    pub(super) fn hash(&self) -> String {
        ids::export_hash(&self.cluster, &self.name)
    }
}

/// The export of a reference `{path, name}` in a cluster, if its workspace exists.
pub(super) fn referenced(read: &dyn Read, cluster: &Name, export: &Value) -> Option<ExportName> {
    let path = objects::text(export, "/path");
    let owner = if path.is_empty() {
        cluster.clone()
    } else {
        tree::find(read, path)?
    };
    Some(ExportName {
        cluster: owner,
        name: objects::text(export, "/name").into(),
    })
}

/// The bindings in all clusters that refer to an export.
pub(super) fn bindings_of(read: &dyn Read, export: &ExportName) -> Vec<Key> {
    let hash = export.hash();
    read.list(&Range::everywhere(&tree::BINDINGS))
        .iter()
        .filter(|stored| stored.labels.get(ids::EXPORT_LABEL) == Some(hash.as_str()))
        .map(|stored| stored.key.clone())
        .collect()
}

impl Settler for ExportSettler {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut slices = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for key in changed {
            if key.table == *tree::EXPORTS {
                settle_export(tx, key)?;
                touched.insert(ExportName::of(key));
            } else if key.table == *tree::SLICES {
                slices.insert(key.clone());
            } else if key.table == *tree::BINDINGS {
                touched.extend(bound_to(tx, key));
            } else if key.is("", "secrets") && !key.namespace().is_empty() {
                for export in identified_by(tx, key) {
                    settle_export(tx, &export)?;
                }
            }
        }
        if !touched.is_empty() {
            for stored in tx.list(&Range::everywhere(&tree::SLICES)) {
                let export = &stored.cached().as_value()["spec"]["export"];
                let export = referenced(tx, stored.key.cluster(), export);
                // A deleted binding no longer shows its reference, so the name is empty.
                if touched.iter().any(|one| one.name.is_empty())
                    || export.is_some_and(|export| touched.contains(&export))
                {
                    slices.insert(stored.key.clone());
                }
            }
        }
        for key in slices {
            self.settle_slice(tx, &key)?;
        }
        Ok(())
    }
}

/// The export of a binding; without a name for a deleted binding.
fn bound_to(read: &dyn Read, key: &Key) -> Option<ExportName> {
    let Some(stored) = read.get(key) else {
        return Some(ExportName {
            cluster: "".into(),
            name: "".into(),
        });
    };
    let reference = &stored.cached().as_value()["spec"]["reference"]["export"];
    referenced(read, key.cluster(), reference)
}

/// The exports whose identity is in a Secret.
fn identified_by(read: &dyn Read, secret: &Key) -> Vec<Key> {
    read.list(&Range::in_cluster(&tree::EXPORTS, secret.cluster()))
        .iter()
        .filter(|stored| {
            let reference = &stored.cached().as_value()["spec"]["identity"]["secretRef"];
            reference["namespace"] == **secret.namespace() && reference["name"] == **secret.name()
        })
        .map(|stored| stored.key.clone())
        .collect()
}

fn secrets() -> Table {
    Table::new("", "secrets", "")
}

fn settle_export(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        let slice = tree::SLICES.key(key.cluster(), "", key.name());
        let owned = tx.get(&slice).is_some_and(|slice| {
            objects::items(slice.cached().as_value(), "/metadata/ownerReferences")
                .any(|owner| owner["kind"] == "APIExport" && owner["name"] == **key.name())
        });
        if owned {
            tx.remove(&slice);
        }
        return Ok(());
    };
    let mut value = stored.object().into_value();
    if objects::text(&value, "/spec/identity/secretRef/name").is_empty() {
        make_identity(tx, key)?;
        if !value["spec"].is_object() {
            value["spec"] = json!({});
        }
        value["spec"]["identity"] =
            json!({"secretRef": {"namespace": NAMESPACE, "name": &**key.name()}});
        let generation = value["metadata"]["generation"].as_i64().unwrap_or(1);
        value["metadata"]["generation"] = generation.saturating_add(1).into();
    }
    let condition = match identity(tx, key, &value) {
        Ok(hash) => {
            if !value["status"].is_object() {
                value["status"] = json!({});
            }
            value["status"]["identityHash"] = hash.into();
            Condition::good("IdentityValid")
        }
        Err(why) => Condition::bad("IdentityValid", "IdentityVerificationFailed", why),
    };
    let now = timestamp(tx);
    conditions::set(&mut value, &[condition], &now);
    let skip = value["metadata"]["annotations"].get(SKIP_SLICE).is_some();
    let uid = value["metadata"]["uid"].clone();
    objects::put_value(tx, key, value)?;
    if !skip {
        make_slice(tx, key, &uid)?;
    }
    Ok(())
}

fn make_identity(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    namespaces::ensure(tx, key.cluster(), NAMESPACE)?;
    let secret = secrets().key(key.cluster(), NAMESPACE, key.name());
    if tx.get(&secret).is_some() {
        return Ok(());
    }
    let mut object = objects::new(tx, &Gvk::new("", "v1", "Secret"), &secret);
    let text = format!(
        "{}{}",
        uuid::Uuid::new_v4().simple(),
        uuid::Uuid::new_v4().simple()
    );
    let root = object.root_mut();
    root.insert("data".into(), json!({"key": STANDARD.encode(text)}));
    root.insert("type".into(), "Opaque".into());
    tx.put(&secret, object)
}

/// The hash of an export's identity, from the Secret that it names.
fn identity(read: &dyn Read, key: &Key, export: &Value) -> Result<String, String> {
    let at = |field: &str| objects::text(export, &format!("/spec/identity/secretRef/{field}"));
    let (namespace, name) = (at("namespace"), at("name"));
    let secret = read
        .get(&secrets().key(key.cluster(), namespace, name))
        .ok_or_else(|| format!("secret {namespace}/{name} not found"))?;
    let secret = secret.object();
    let encoded = objects::text(secret.as_value(), "/data/key");
    let text = STANDARD.decode(encoded).unwrap_or_default();
    if text.is_empty() {
        return Err(format!("secret {namespace}/{name} has no data.key"));
    }
    let digest = Sha256::digest(&text);
    let mut hash = String::with_capacity(2 * digest.len());
    for byte in digest {
        hash.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        hash.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    Ok(hash)
}

fn make_slice(tx: &mut Tx<'_>, key: &Key, uid: &Value) -> Result<(), Status> {
    let slice = tree::SLICES.key(key.cluster(), "", key.name());
    if tx.get(&slice).is_some() {
        return Ok(());
    }
    let gvk = Gvk::new("apis.kcp.io", "v1alpha1", "APIExportEndpointSlice");
    let mut object = objects::new(tx, &gvk, &slice);
    let owner = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
        "name": &**key.name(), "uid": uid,
    });
    let metadata = object.metadata_mut();
    metadata.insert("generation".into(), 1.into());
    metadata.insert("ownerReferences".into(), json!([owner]));
    let path = tree::path_of(tx, key.cluster()).unwrap_or_default();
    object.root_mut().insert(
        "spec".into(),
        json!({"export": {"name": &**key.name(), "path": path}}),
    );
    tx.put(&slice, object)
}

impl ExportSettler {
    /// Writes the URL of an export's virtual workspace to its slice, as long as the export has a binding.
    fn settle_slice(&self, tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
        let Some(stored) = tx.get(key) else {
            return Ok(());
        };
        let mut value = stored.object().into_value();
        let export = referenced(tx, key.cluster(), &value["spec"]["export"]);
        let found = export.filter(|export| tx.get(&export.key()).is_some());
        if !value["status"].is_object() {
            value["status"] = json!({});
        }
        let base = self.base_url.get().map_or("", String::as_str);
        let mut endpoints = Vec::new();
        let valid = match &found {
            Some(export) => {
                let bindings = bindings_of(tx, export);
                let (owner, name) = (&export.cluster, &export.name);
                // A shard without a binding has no endpoint.
                for number in 0..self.shards.get() {
                    let of = self.shards;
                    let shard = Shard { number, of };
                    let prefix = match of {
                        NonZeroUsize::MIN => String::new(),
                        _ => format!("/shards/{number}"),
                    };
                    if bindings.iter().any(|key| shard.has(key.cluster())) {
                        let url = format!("{base}{prefix}/services/apiexport/{owner}/{name}");
                        endpoints.push(json!({"url": url}));
                    }
                }
                Condition::good("APIExportValid")
            }
            None => Condition::bad(
                "APIExportValid",
                "APIExportNotFound",
                "Error getting APIExport",
            ),
        };
        if endpoints.is_empty() {
            if let Some(status) = value["status"].as_object_mut() {
                status.remove("endpoints");
            }
        } else {
            value["status"]["endpoints"] = endpoints.into();
        }
        value["status"]["shardSelector"] = "".into();
        let now = timestamp(tx);
        conditions::set(
            &mut value,
            &[valid, Condition::good("PartitionValid")],
            &now,
        );
        objects::put_value(tx, key, value)?;
        Ok(())
    }
}

/// The resources of an export, in its order: group, resource, name of the schema.
pub(super) fn resources(export: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    objects::items(export, "/spec/resources")
        .filter(|resource| resource.pointer("/storage/virtual").is_none())
        .map(|resource| {
            (
                objects::text(resource, "/group"),
                objects::text(resource, "/name"),
                objects::text(resource, "/schema"),
            )
        })
}

/// An object of kind `APIExport`, for [`super::bootstrap`].
pub(super) fn new(tx: &Tx<'_>, key: &Key, schemas: &[(String, String, String)]) -> Object {
    let mut export = objects::new(tx, &Gvk::new("apis.kcp.io", "v1alpha2", "APIExport"), key);
    export.metadata_mut().insert("generation".into(), 1.into());
    let resources: Vec<Value> = schemas
        .iter()
        .map(|(group, name, schema)| {
            json!({"group": group, "name": name, "schema": schema, "storage": {"crd": {}}})
        })
        .collect();
    export
        .root_mut()
        .insert("spec".into(), json!({"resources": resources}));
    export
}
