//! Workspaces: their defaults, the creation of their cluster, and their deletion with all content.
//!
//! Creation takes two transactions, as clients expect: the answer to a create says `Scheduling`, and [`schedule`]
//! creates the cluster a moment later. All other changes are settled within the write.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::clusters::{self, OWNER, PHASE, SHARD, TYPE};
use super::conditions::{self, Condition};
use super::types::{self, Demands, TypeRef, WorkspaceType};
use super::{ids, objects, paths, tree, waiting};
use crate::builtin::namespaces::{mark, timestamp};
use crate::catalog::{Admission, Strategy, User};
use crate::custom;
use crate::status::Status;
use crate::store::{Key, Name, Range, Read, Settler, Stored, Table, Tx};
use kube_lang::object::Object;
use kube_schema::field::FieldError;

/// The URL of the server, known once it listens.
pub(crate) type BaseUrl = Arc<OnceLock<String>>;

const FINALIZER: &str = "core.kcp.io/logicalcluster";
const CLUSTER: &str = "internal.tenancy.kcp.io/cluster";
const SHARD_HASH: &str = "internal.tenancy.kcp.io/shard";
/// The initializer that the server itself executes.
const UNIVERSAL: &str = "root:universal";

/// The rules of the kind.
pub(super) struct Workspaces;

impl Strategy for Workspaces {
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        // If a user could set the cluster of a workspace, the deletion of the workspace would empty another cluster.
        for field in ["cluster", "URL"] {
            let at = format!("/spec/{field}");
            let was = admission
                .old
                .map_or("", |old| objects::text(old.as_value(), &at));
            let is = objects::text(object.as_value(), &at);
            let fixed = was.is_empty() || field == "URL";
            if fixed && !is.is_empty() && is != was {
                return Err(refuse(object, &format!("spec.{field} cannot be set")));
            }
        }
        if let Some(old) = admission.old {
            if admission.subresource == "status"
                && old.root().get("status") != object.root().get("status")
            {
                return Err(refuse(object, "status is written by the server alone"));
            }
            keep(old, object);
            return Ok(());
        }
        let chosen =
            choose_type(read, admission.cluster, object).map_err(|error| refuse(object, &error))?;
        let mut value = object.clone().into_value();
        if !value["spec"].is_object() {
            value["spec"] = json!({});
        }
        value["spec"]["type"] = json!({"name": chosen.name, "path": chosen.path});
        *object = Object::new(value).map_err(Status::internal)?;
        object.set_annotation(OWNER, &user_info(admission.user).to_string());
        for (key, value) in lookup(read, &chosen).map_or_else(Vec::new, |found| found.labels) {
            // The user's labels take precedence over those of the type.
            if object.label(&key).is_none() {
                object.set_label(&key, &value);
            }
        }
        object.set_label(PHASE, "Scheduling");
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !paths::is_workspace_name(object.name()) {
            errors.push(FieldError::invalid(
                "metadata.name",
                object.name(),
                "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            ));
        }
        let Some(old) = admission.old else {
            return errors;
        };
        for (field, once_set) in [("type", false), ("cluster", true), ("URL", true)] {
            let at = format!("/spec/{field}");
            let was = old.as_value().pointer(&at).unwrap_or(&Value::Null);
            let is = object.as_value().pointer(&at).unwrap_or(&Value::Null);
            let fixed = !once_set || (!was.is_null() && *was != "");
            let unset = is.is_null() || *is == "";
            let wrong = if field == "URL" { unset } else { was != is };
            if fixed && wrong {
                errors.push(FieldError::invalid(
                    format!("spec.{field}"),
                    is.clone(),
                    if unset {
                        "cannot be unset"
                    } else {
                        "field is immutable"
                    },
                ));
            }
        }
        errors
    }
}

/// Restores the server's own fields: without its finalizer, a workspace would be removed and leave its cluster.
fn keep(old: &Object, object: &mut Object) {
    if old.has_finalizer(FINALIZER) {
        objects::add_finalizer(object, FINALIZER);
    }
    if let Some(phase) = old.label(PHASE) {
        object.set_label(PHASE, phase);
    }
    if let Some(owner) = old.annotation(OWNER) {
        object.set_annotation(OWNER, owner);
    }
}

fn refuse(object: &Object, why: &str) -> Status {
    Status::forbidden("tenancy.kcp.io", "workspaces", object.name(), why)
}

pub(super) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    info
}

/// The type of a new workspace, if it is allowed there.
fn choose_type(read: &dyn Read, parent: &str, workspace: &Object) -> Result<TypeRef, String> {
    let here = tree::path_of(read, parent).unwrap_or_else(|| parent.to_owned());
    let parent_type = read
        .get(&tree::cluster_key(parent))
        .and_then(|stored| TypeRef::parse(stored.cached().annotation(TYPE)?));
    let above = match &parent_type {
        Some(name) => whole(read, name)?,
        None => Vec::new(),
    };
    let spec = workspace.as_value();
    let name = objects::text(spec, "/spec/type/name");
    let path = objects::text(spec, "/spec/type/path");
    let chosen = match (name, path) {
        ("", _) => above.first().map_or_else(
            || TypeRef::new("root", "universal"),
            |t| t.default_child.clone(),
        ),
        (name, "") => types::search_paths(&here)
            .into_iter()
            .map(|path| TypeRef::new(path, name))
            .find(|candidate| lookup(read, candidate).is_some())
            .ok_or_else(|| format!("workspace type {name:?} cannot be resolved"))?,
        (name, path) => TypeRef::new(path, name),
    };
    let below = whole(read, &chosen)?;
    types::check_child(&above, &below).map_err(|error| error.to_string())?;
    Ok(chosen)
}

fn whole(read: &dyn Read, name: &TypeRef) -> Result<Vec<WorkspaceType>, String> {
    types::with_extended(name, &|name| lookup(read, name)).map_err(|error| error.to_string())
}

fn lookup(read: &dyn Read, name: &TypeRef) -> Option<WorkspaceType> {
    let cluster = tree::find(read, &name.path)?;
    let stored = read.get(&tree::TYPES.key(&cluster, "", &name.name))?;
    Some(WorkspaceType::read(stored.cached().as_value(), &name.path))
}

/// The requirements of a type and all types that it extends.
pub(super) fn demands(read: &dyn Read, of_type: &TypeRef) -> Result<Demands, String> {
    let mut demands = Demands::default();
    for part in whole(read, of_type)? {
        for binding in part.bindings {
            if !demands.bindings.contains(&binding) {
                demands.bindings.push(binding);
            }
        }
        let name = waiting::name_of(read, &part.name).unwrap_or_else(|| part.name.to_string());
        if part.terminator {
            demands.terminators.push(name.clone());
        }
        if part.initializer && name != UNIVERSAL {
            demands.initializers.push(name);
        }
    }
    Ok(demands)
}

/// The bindings that a type, with all types that it extends, maintains in existing clusters.
pub(super) fn maintained(read: &dyn Read, of_type: &TypeRef) -> Vec<(String, String)> {
    let parts = whole(read, of_type).unwrap_or_default();
    let maintaining = parts.into_iter().filter(|part| part.maintains);
    maintaining.flat_map(|part| part.bindings).collect()
}

/// Whether a workspace has no cluster yet.
fn waits(stored: &Stored) -> bool {
    // Only the server sets the label, which can be read without parsing the object.
    let phase = stored.labels.get(PHASE);
    (phase.is_none() || phase == Some("Scheduling"))
        && tree::cluster_of(stored).is_none()
        && !stored.cached().in_deletion()
}

/// The workspaces without a cluster.
pub(super) fn waiting(read: &dyn Read) -> Vec<Key> {
    let workspaces = read.list(&Range::everywhere(&tree::WORKSPACES));
    let waiting = workspaces.iter().filter(|stored| waits(stored));
    waiting.map(|stored| stored.key.clone()).collect()
}

/// Creates the cluster of a workspace that waits for it.
pub(super) fn schedule(tx: &mut Tx<'_>, key: &Key, base_url: &str) -> Result<(), Status> {
    match tx.get(key).filter(|stored| waits(stored)) {
        Some(stored) => schedule_one(tx, key, stored.object(), base_url),
        None => Ok(()),
    }
}

fn schedule_one(
    tx: &mut Tx<'_>,
    key: &Key,
    workspace: Object,
    base_url: &str,
) -> Result<(), Status> {
    let Some(parent) = tree::path_of(tx, key.cluster()) else {
        return Ok(());
    };
    let path = paths::child(&parent, key.name());
    let value = workspace.as_value();
    let of_type = TypeRef::new(
        objects::text(value, "/spec/type/path"),
        objects::text(value, "/spec/type/name"),
    );
    let cluster = free_id(tx);
    let owner = workspace.annotation(OWNER).unwrap_or("{}");
    let creator: Value = serde_json::from_str(owner).unwrap_or_default();
    let demands = match demands(tx, &of_type) {
        Ok(demands) => demands,
        Err(why) => return postpone(tx, key, workspace, &why),
    };
    let plan = clusters::NewCluster {
        cluster: &cluster,
        path: &path,
        of_type: &of_type,
        creator: creator.clone(),
        owner: Some(json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces",
            "name": &**key.name(), "cluster": &**key.cluster(), "uid": workspace.uid(),
        })),
        demands: &demands,
        base_url,
    };
    clusters::make(tx, &plan)?;
    let mut workspace = workspace;
    workspace.set_annotation(CLUSTER, &cluster);
    workspace.set_annotation(SHARD, tree::ROOT);
    workspace.set_annotation(SHARD_HASH, &ids::shard_hash(tree::ROOT));
    objects::add_finalizer(&mut workspace, FINALIZER);
    let mut value = workspace.into_value();
    value["spec"]["cluster"] = cluster.into();
    value["spec"]["URL"] = format!("{base_url}/clusters/{path}").into();
    let generation = value["metadata"]["generation"].as_i64().unwrap_or(1);
    value["metadata"]["generation"] = generation.saturating_add(1).into();
    state(tx, &mut value, &demands.initializers);
    objects::put_value(tx, key, value)?;
    Ok(())
}

/// Writes the reason why a workspace cannot be scheduled.
fn postpone(tx: &mut Tx<'_>, key: &Key, workspace: Object, why: &str) -> Result<(), Status> {
    let mut value = workspace.into_value();
    let now = timestamp(tx);
    let condition = Condition::bad("WorkspaceScheduled", "Unschedulable", why);
    conditions::set(&mut value, &[condition], &now);
    objects::put_value(tx, key, value)?;
    Ok(())
}

/// Phase and conditions of a workspace with a cluster.
fn state(tx: &Tx<'_>, value: &mut Value, initializers: &[String]) {
    let ready = initializers.is_empty();
    let phase = if ready { "Ready" } else { "Initializing" };
    if !value["status"].is_object() {
        value["status"] = json!({});
    }
    value["status"]["phase"] = phase.into();
    value["metadata"]["labels"][PHASE] = phase.into();
    if ready {
        if let Some(status) = value["status"].as_object_mut() {
            status.remove("initializers");
        }
        let owner = &mut value["metadata"]["annotations"][OWNER];
        let full: Value = serde_json::from_str(owner.as_str().unwrap_or("{}")).unwrap_or_default();
        *owner = json!({"username": full["username"]}).to_string().into();
    } else {
        value["status"]["initializers"] = json!(initializers);
    }
    let stated = [
        Condition::good("WorkspaceScheduled"),
        clusters::initialized(initializers),
    ];
    let now = timestamp(tx);
    conditions::set(value, &stated, &now);
}

/// A random id of a cluster, which is not in use.
fn free_id(read: &dyn Read) -> String {
    loop {
        let mut entropy = [0; 32];
        entropy[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        entropy[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        let id = ids::cluster_id(&entropy);
        if !tree::exists(read, &id) {
            return id;
        }
    }
}

/// Follows clusters that become ready, and empties clusters whose workspace is in deletion.
pub(super) struct WorkspaceLifecycle;

impl Settler for WorkspaceLifecycle {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut going = BTreeSet::new();
        for key in changed {
            if key.table == *tree::WORKSPACES {
                let stored = tx.get(key);
                if stored.is_some_and(|stored| stored.cached().in_deletion()) {
                    going.insert(key.clone());
                }
            } else if key.table == *tree::CLUSTERS {
                follow(tx, key)?;
            }
            going.extend(leaving(tx, key.cluster()));
        }
        for key in going {
            leave(tx, &key)?;
        }
        Ok(())
    }
}

/// The workspace of a cluster, if the cluster is being emptied.
fn leaving(read: &dyn Read, cluster: &str) -> Option<Key> {
    let stored = read.get(&tree::cluster_key(cluster))?;
    if !stored.cached().in_deletion() {
        return None;
    }
    owner(&stored)
}

fn owner(cluster: &Stored) -> Option<Key> {
    let owner = cluster.cached().as_value().pointer("/spec/owner")?;
    let (parent, name) = (
        objects::text(owner, "/cluster"),
        objects::text(owner, "/name"),
    );
    Some(tree::WORKSPACES.key(parent, "", name))
}

/// Updates a workspace by the initialization of its cluster.
fn follow(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    clusters::progress(tx, key)?;
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let Some(workspace) = owner(&stored) else {
        return Ok(());
    };
    let initializers: Vec<String> =
        objects::items(stored.cached().as_value(), "/status/initializers")
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
    let Some(there) = tx.get(&workspace) else {
        return Ok(());
    };
    let scheduled = tree::cluster_of(&there).is_some();
    if scheduled && !there.cached().in_deletion() {
        let mut value = there.object().into_value();
        state(tx, &mut value, &initializers);
        objects::put_value(tx, &workspace, value)?;
    }
    Ok(())
}

/// Empties the cluster of a workspace in deletion; removes both when nothing is left.
fn leave(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let mut workspace = stored.object();
    // Only the cluster that names this workspace as its owner is emptied.
    let cluster = tree::cluster_of(&stored).filter(|cluster| {
        let own = tx.get(&tree::cluster_key(cluster));
        own.is_some_and(|own| owner(&own).as_ref() == Some(key))
    });
    if let Some(cluster) = cluster {
        if clusters::end(tx, &tree::cluster_key(&cluster))? {
            let mut value = workspace.into_value();
            value["status"]["phase"] = "Terminating".into();
            value["metadata"]["labels"][PHASE] = "Terminating".into();
            let own = tx.get(&tree::cluster_key(&cluster));
            let terminators = own.map(|own| own.object().into_value());
            value["status"]["terminators"] =
                terminators.map_or(Value::Null, |own| own["status"]["terminators"].clone());
            objects::put_value(tx, key, value)?;
            return Ok(());
        }
        let left = empty(tx, &cluster)?;
        if left > 0 {
            let mut value = workspace.into_value();
            value["status"]["phase"] = "Deleting".into();
            if let Some(status) = value["status"].as_object_mut() {
                status.remove("terminators");
            }
            value["metadata"]["labels"][PHASE] = "Deleting".into();
            let message = format!("Some resources are remaining: {left} instances");
            let condition =
                Condition::waiting("WorkspaceContentDeleted", "SomeResourcesRemain", message);
            let now = timestamp(tx);
            conditions::set(&mut value, &[condition], &now);
            objects::put_value(tx, key, value)?;
            return Ok(());
        }
        tx.remove(&tree::cluster_key(&cluster));
    }
    if objects::drop_finalizer(&mut workspace, FINALIZER) {
        tx.remove(key);
        return Ok(());
    }
    objects::put_changed(tx, key, workspace)?;
    Ok(())
}

fn is_namespaces(table: &Table) -> bool {
    table.group.is_empty() && *table.resource == *"namespaces"
}

/// Removes the objects of a cluster or marks them as in deletion; returns how many are left.
fn empty(tx: &mut Tx<'_>, cluster: &Name) -> Result<usize, Status> {
    let own = tree::cluster_key(cluster);
    let mut left = 0;
    let mut held = BTreeSet::new();
    let mut tables = Read::tables(tx);
    // Namespaces come last, because they stay until they are empty.
    tables.sort_by_key(is_namespaces);
    for table in tables {
        for stored in tx.list(&Range::in_cluster(&table, cluster)) {
            if stored.key == own {
                continue;
            }
            let mut object = stored.object();
            let holds = is_namespaces(&table) && held.contains(stored.key.name());
            if stored.key.is(custom::GROUP, custom::PLURAL) && !object.in_deletion() {
                left += 1;
                custom::mark_definition(tx, &mut object);
                tx.put(&stored.key, object)?;
                continue;
            }
            if object.finalizers().next().is_none() && !holds {
                tx.remove(&stored.key);
                continue;
            }
            left += 1;
            held.insert(stored.key.namespace().clone());
            if !object.in_deletion() {
                mark(tx, &mut object);
                tx.put(&stored.key, object)?;
            }
        }
    }
    Ok(left)
}
