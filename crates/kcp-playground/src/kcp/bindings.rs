//! `APIBinding`: binds the APIs of an export in a cluster, and removes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::conditions::{self, Condition};
use super::established::{self, Delays, Needed};
use super::exports::{self, ExportName};
use super::{ids, objects, tree};
use crate::builtin::namespaces::{mark, timestamp};
use crate::custom;
use crate::status::Status;
use crate::store::{Key, Name, Range, Read, Settler, Table, Tx};
use kube_lang::object::Object;

const FINALIZER: &str = "apis.kcp.io/apibinding-finalizer";

/// Reconciles bindings with their exports.
pub(super) struct BindingSettler {
    pub(super) delays: Arc<Delays>,
}

/// The reason in the conditions of a binding while its APIs are being established.
const WAITING: &str = "WaitingForEstablished";

impl Settler for BindingSettler {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut touched = BTreeSet::new();
        for key in changed {
            if key.table == *tree::BINDINGS {
                touched.insert(key.clone());
                if tx.get(key).is_none() {
                    // Its bound resources may now be available to another binding.
                    touched.extend(others(tx, key));
                }
            } else if key.table == *tree::EXPORTS {
                touched.extend(exports::bindings_of(tx, &ExportName::of(key)));
                touched.extend(waiting_for(tx, key));
            } else if key.table == *tree::SCHEMAS {
                for export in exporting(tx, key) {
                    touched.extend(exports::bindings_of(tx, &ExportName::of(&export)));
                }
            } else if key.table == *tree::ESTABLISHED {
                if !self.delays.are_none() {
                    touched.extend(unestablished(tx));
                }
            } else if !key.table.identity.is_empty() {
                touched.extend(
                    others(tx, key).into_iter().filter(|binding| {
                        tx.get(binding).is_some_and(|b| b.cached().in_deletion())
                    }),
                );
            } else if key.is(custom::GROUP, custom::PLURAL) {
                touched.extend(others(tx, key));
            }
        }
        for key in touched {
            settle(tx, &key, &self.delays)?;
        }
        Ok(())
    }
}

/// Bindings whose APIs are still being established.
fn unestablished(read: &dyn Read) -> Vec<Key> {
    let bindings = read.list(&Range::everywhere(&tree::BINDINGS)).into_iter();
    bindings
        .filter(|stored| {
            objects::items(stored.cached().as_value(), "/status/conditions")
                .any(|condition| condition["reason"] == WAITING)
        })
        .map(|stored| stored.key.clone())
        .collect()
}

/// All bindings in the cluster of a key.
fn others(read: &dyn Read, key: &Key) -> Vec<Key> {
    let range = Range::in_cluster(&tree::BINDINGS, key.cluster());
    let keys = read
        .list(&range)
        .into_iter()
        .map(|stored| stored.key.clone());
    keys.collect()
}

/// Bindings whose reference to an export could not be resolved so far, or was resolved to another export: a workspace
/// that is created again has the same path, but another cluster.
fn waiting_for(read: &dyn Read, export: &Key) -> Vec<Key> {
    let this = ExportName::of(export);
    let hash = this.hash();
    read.list(&Range::everywhere(&tree::BINDINGS))
        .iter()
        .filter(|stored| stored.labels.get(ids::EXPORT_LABEL) != Some(hash.as_str()))
        .filter(|stored| {
            let reference = &stored.cached().as_value()["spec"]["reference"]["export"];
            reference["name"] == *this.name
                && exports::referenced(read, stored.key.cluster(), reference).as_ref()
                    == Some(&this)
        })
        .map(|stored| stored.key.clone())
        .collect()
}

/// The exports that name a schema.
fn exporting(read: &dyn Read, schema: &Key) -> Vec<Key> {
    read.list(&Range::in_cluster(&tree::EXPORTS, schema.cluster()))
        .iter()
        .filter(|stored| {
            exports::resources(stored.cached().as_value())
                .any(|(_, _, name)| *name == **schema.name())
        })
        .map(|stored| stored.key.clone())
        .collect()
}

fn settle(tx: &mut Tx<'_>, key: &Key, delays: &Delays) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let mut object = stored.object();
    if object.in_deletion() {
        return unbind(tx, key, object);
    }
    objects::add_finalizer(&mut object, FINALIZER);
    let mut value = object.into_value();
    let reference = value["spec"]["reference"]["export"].clone();
    let name = exports::referenced(tx, key.cluster(), &reference);
    if !value["status"].is_object() {
        value["status"] = json!({});
    }
    let export = name.and_then(|name| {
        let stored = tx.get(&name.key())?;
        Some((name, stored.object().into_value()))
    });
    let mut conditions = Vec::new();
    match &export {
        None => {
            let why = format!(
                "APIExport {:?} not found",
                objects::text(&reference, "/name")
            );
            conditions.push(Condition::bad("APIExportValid", "APIExportNotFound", why));
            if !conditions::is_true(&value, "InitialBindingCompleted") {
                value["status"]["phase"] = "Binding".into();
                conditions.extend(waiting());
            }
        }
        Some((name, export)) => {
            mark_export(&mut value, name);
            let found = (name, export);
            bind(tx, delays, (key, &mut value), found, &mut conditions)?;
        }
    }
    let now = timestamp(tx);
    conditions::set(&mut value, &conditions, &now);
    objects::put_value(tx, key, value)?;
    Ok(())
}

fn waiting() -> [Condition; 2] {
    ["InitialBindingCompleted", "Ready"].map(|kind| {
        let message = "Waiting for the APIs to be established";
        Condition::waiting(kind, WAITING, message)
    })
}

/// Writes the export of a binding to its label and status.
fn mark_export(value: &mut Value, export: &ExportName) {
    value["metadata"]["labels"][ids::EXPORT_LABEL] = export.hash().into();
    value["status"]["apiExportClusterName"] = (&*export.cluster).into();
}

fn bind(
    tx: &mut Tx<'_>,
    delays: &Delays,
    (key, value): (&Key, &mut Value),
    (name, export): (&ExportName, &Value),
    conditions: &mut Vec<Condition>,
) -> Result<(), Status> {
    let identity = objects::text(export, "/status/identityHash").to_owned();
    if identity.is_empty() {
        let why = "identityHash is missing";
        conditions.push(Condition::bad("APIExportValid", "MissingIdentityHash", why));
        value["status"]["phase"] = "Binding".into();
        conditions.extend(waiting());
        return Ok(());
    }
    let mut missing = Vec::new();
    let mut conflicts = Vec::new();
    let mut waits = false;
    for (group, resource, schema) in exports::resources(export) {
        let Some(found) = tx.get(&tree::SCHEMAS.key(&name.cluster, "", schema)) else {
            missing.push(schema.to_owned());
            continue;
        };
        if let Some(other) = conflict(tx, key, group, resource) {
            conflicts.push(format!("{resource}.{group} is {other}"));
            continue;
        }
        let schema = found.cached();
        let needed = Needed {
            table: Table::new(group, resource, &identity),
            schema: schema.uid().unwrap_or_default(),
            own: *name.cluster == *tree::ROOT,
        };
        if !established::establish(tx, delays, &needed)? {
            waits = true;
            continue;
        }
        let bound = json!({
            "name": schema.name(), "UID": schema.uid(), "identityHash": identity,
        });
        upsert(
            value,
            (group, resource),
            &bound,
            storage_version(schema.as_value()),
        );
    }
    conditions.push(if missing.is_empty() {
        Condition::good("APIExportValid")
    } else {
        let why = format!("schemas not found: {}", missing.join(", "));
        Condition::bad("APIExportValid", "InternalError", why)
    });
    if conflicts.is_empty() && !waits {
        conditions.push(Condition::good("BindingUpToDate"));
        conditions.push(Condition::good("InitialBindingCompleted"));
        conditions.push(Condition::good("Ready"));
        value["status"]["phase"] = "Bound".into();
    } else {
        let why = conflicts.join(", ");
        conditions.push(if waits {
            Condition::waiting("BindingUpToDate", WAITING, why)
        } else {
            Condition::bad("BindingUpToDate", "NamingConflicts", why)
        });
        if !conditions::is_true(value, "InitialBindingCompleted") {
            value["status"]["phase"] = "Binding".into();
            conditions.extend(waiting());
        }
    }
    claims(value, export, conditions);
    Ok(())
}

/// Another binding or definition that serves a resource in a binding's cluster.
fn conflict(read: &dyn Read, key: &Key, group: &str, resource: &str) -> Option<String> {
    let this = read.get(key);
    let mine = this.is_some_and(|this| {
        bound(this.cached().as_value()).any(|b| b["group"] == group && b["resource"] == resource)
    });
    if mine {
        return None;
    }
    for other in read.list(&Range::in_cluster(&tree::BINDINGS, key.cluster())) {
        let taken = other.key != *key
            && bound(other.cached().as_value())
                .any(|b| b["group"] == group && b["resource"] == resource);
        if taken {
            return Some(format!("bound by APIBinding {:?}", other.key.name()));
        }
    }
    let definition = Table::new(custom::GROUP, custom::PLURAL, "");
    let definition = definition.key(key.cluster(), "", &format!("{resource}.{group}"));
    read.get(&definition)
        .map(|_| "defined by a CustomResourceDefinition".to_owned())
}

/// Whether the binding of a resource in a cluster is in deletion.
pub(super) fn is_going(read: &dyn Read, cluster: &Name, table: &Table) -> bool {
    let mut bindings = read
        .list(&Range::in_cluster(&tree::BINDINGS, cluster))
        .into_iter();
    bindings.any(|stored| {
        let binding = stored.cached();
        binding.in_deletion() && bound(binding.as_value()).any(|one| is_of(one, table))
    })
}

/// Whether an entry of the bound resources names this resource.
pub(super) fn is_of(bound: &Value, table: &Table) -> bool {
    bound["group"] == *table.group
        && bound["resource"] == *table.resource
        && bound["schema"]["identityHash"] == *table.identity
}

/// The resources that a binding has bound so far.
pub(super) fn bound(binding: &Value) -> impl Iterator<Item = &Value> {
    objects::items(binding, "/status/boundResources")
}

fn storage_version(schema: &Value) -> &str {
    objects::items(schema, "/spec/versions")
        .find(|version| version["storage"] == true)
        .map_or("", |version| objects::text(version, "/name"))
}

/// A resource stays bound; its schema follows the export.
fn upsert(value: &mut Value, (group, resource): (&str, &str), schema: &Value, version: &str) {
    let list = &mut value["status"]["boundResources"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Value::Array(list) = list else { return };
    let known = list
        .iter_mut()
        .find(|b| b["group"] == group && b["resource"] == resource);
    if let Some(known) = known {
        known["schema"] = schema.clone();
        if let Some(Value::Array(versions)) = known.get_mut("storageVersions")
            && !versions.iter().any(|v| v == version)
        {
            versions.push(version.into());
        }
        return;
    }
    list.push(json!({
        "group": group, "resource": resource, "schema": schema, "storageVersions": [version],
    }));
}

/// The key by which claims of export and binding are matched.
fn claim_key(claim: &Value) -> (&str, &str, &str) {
    (
        objects::text(claim, "/group"),
        objects::text(claim, "/resource"),
        objects::text(claim, "/identityHash"),
    )
}

fn claims(value: &mut Value, export: &Value, conditions: &mut Vec<Condition>) {
    let exported: Vec<Value> = objects::items(export, "/spec/permissionClaims")
        .cloned()
        .collect();
    let accepted: Vec<Value> = objects::items(value, "/spec/permissionClaims")
        .filter(|claim| claim["state"] == "Accepted")
        .cloned()
        .collect();
    let is_exported = |claim: &Value| {
        exported
            .iter()
            .any(|other| claim_key(other) == claim_key(claim))
    };
    let unknown: Vec<String> = accepted
        .iter()
        .filter(|claim| !is_exported(claim))
        .map(|claim| {
            let (group, resource, _) = claim_key(claim);
            crate::status::qualified(group, resource)
        })
        .collect();
    let applied: Vec<Value> = accepted
        .iter()
        .filter(|claim| is_exported(claim))
        .map(|claim| {
            let mut claim = claim.as_object().cloned().unwrap_or_default();
            claim.remove("state");
            Value::Object(claim)
        })
        .collect();
    let Some(status) = value["status"].as_object_mut() else {
        return;
    };
    put_list(status, "exportPermissionClaims", exported);
    put_list(status, "appliedPermissionClaims", applied);
    conditions.push(if unknown.is_empty() {
        Condition::good("PermissionClaimsValid")
    } else {
        let why = format!("accepted but not exported: {}", unknown.join(", "));
        Condition::bad("PermissionClaimsValid", "InvalidPermissionClaims", why)
    });
    conditions.push(Condition::good("PermissionClaimsApplied"));
}

fn put_list(status: &mut Map<String, Value>, field: &str, list: Vec<Value>) {
    if list.is_empty() {
        status.remove(field);
    } else {
        status.insert(field.to_owned(), list.into());
    }
}

/// Deletes the bound objects, then the binding.
fn unbind(tx: &mut Tx<'_>, key: &Key, mut binding: Object) -> Result<(), Status> {
    let mut left = 0;
    let bound: Vec<Value> = bound(binding.as_value()).cloned().collect();
    for resource in bound {
        let identity = objects::text(&resource, "/schema/identityHash");
        let (group, plural) = (
            objects::text(&resource, "/group"),
            objects::text(&resource, "/resource"),
        );
        let table = Table::new(group, plural, identity);
        for stored in tx.list(&Range::in_cluster(&table, key.cluster())) {
            let mut object = stored.object();
            if object.finalizers().next().is_none() {
                tx.remove(&stored.key);
                continue;
            }
            left += 1;
            if !object.in_deletion() {
                mark(tx, &mut object);
                tx.put(&stored.key, object)?;
            }
        }
    }
    if left == 0 {
        if objects::drop_finalizer(&mut binding, FINALIZER) {
            tx.remove(key);
            return Ok(());
        }
        objects::put_changed(tx, key, binding)?;
        return Ok(());
    }
    let mut value = binding.into_value();
    let why = format!("{left} instances of bound APIs are remaining");
    let condition = Condition::waiting("BindingResourceDeleteSuccess", "SomeResourcesRemain", why);
    let now = timestamp(tx);
    conditions::set(&mut value, &[condition], &now);
    objects::put_value(tx, key, value)?;
    Ok(())
}
