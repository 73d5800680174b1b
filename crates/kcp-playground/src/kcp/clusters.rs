//! `LogicalCluster`: the object that represents a cluster within it. It is created and removed with the cluster.

use serde_json::{Value, json};

use super::conditions::{self, Condition};
use super::types::{Demands, TypeRef};
use super::{ids, objects, tree, waiting};
use crate::builtin::namespaces;
use crate::catalog::{Admission, Scope, Stage, Strategy};
use crate::status::Status;
use crate::store::{Key, Read, Tx};
use kube_lang::object::{Gvk, Object};
use kube_schema::field::FieldError;

pub(super) const TYPE: &str = "internal.tenancy.kcp.io/type";
pub(super) const OWNER: &str = "experimental.tenancy.kcp.io/owner";
pub(super) const PHASE: &str = "tenancy.kcp.io/phase";
pub(super) const SHARD: &str = "core.kcp.io/shard";

/// Keeps the `LogicalCluster` until the content of the cluster is gone.
const FINALIZER: &str = "core.kcp.io/logicalcluster-deletion";

/// Initializers that finish before a cluster is visible.
const OWN_INITIALIZERS: [&str; 2] = ["root:universal", "system:apibindings"];

/// The namespaces of every cluster.
const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// The settings of a new cluster.
pub(super) struct NewCluster<'a> {
    pub(super) cluster: &'a str,
    pub(super) path: &'a str,
    pub(super) of_type: &'a TypeRef,
    /// The user who created it, as `UserInfo`.
    pub(super) creator: Value,
    /// The workspace that it belongs to; `None` for root.
    pub(super) owner: Option<Value>,
    /// The requirements of its type.
    pub(super) demands: &'a Demands,
    /// The URL of the server, without a slash at the end.
    pub(super) base_url: &'a str,
}

/// Creates a cluster with its initial objects.
pub(super) fn make(tx: &mut Tx<'_>, plan: &NewCluster<'_>) -> Result<(), Status> {
    let key = tree::cluster_key(plan.cluster);
    let gvk = Gvk::new("core.kcp.io", "v1alpha1", "LogicalCluster");
    let mut cluster = objects::new(tx, &gvk, &key);
    cluster.set_annotation(tree::PATH, plan.path);
    cluster.set_annotation(TYPE, &plan.of_type.to_string());
    cluster.set_annotation(SHARD, tree::ROOT);
    cluster.set_annotation(OWNER, &plan.creator.to_string());
    let Demands {
        bindings,
        initializers,
        terminators,
    } = plan.demands;
    let phase = if initializers.is_empty() {
        "Ready"
    } else {
        "Initializing"
    };
    cluster.set_label(PHASE, phase);
    objects::add_finalizer(&mut cluster, FINALIZER);
    let metadata = cluster.metadata_mut();
    metadata.insert("generation".into(), 1.into());
    let own = OWN_INITIALIZERS.iter().map(|name| Value::from(*name));
    let all: Vec<Value> = own
        .chain(initializers.iter().map(|name| name.as_str().into()))
        .collect();
    let mut spec = json!({
        "directlyDeletable": false, "createdBy": plan.creator, "initializers": all,
    });
    if let Some(owner) = &plan.owner {
        spec["owner"] = owner.clone();
    }
    let mut status = json!({
        "phase": phase, "URL": format!("{}/clusters/{}", plan.base_url, plan.cluster),
    });
    if !initializers.is_empty() {
        status["initializers"] = json!(initializers);
    }
    if !terminators.is_empty() {
        spec["terminators"] = json!(terminators);
        status["terminators"] = json!(terminators);
    }
    let root = cluster.root_mut();
    root.insert("spec".into(), spec);
    root.insert("status".into(), status);
    waiting::label(&mut cluster);
    let mut cluster = cluster.into_value();
    let stated = [
        initialized(initializers),
        Condition::good("APIBindingsReconciled"),
    ];
    conditions::set(&mut cluster, &stated, &namespaces::timestamp(tx));
    objects::put_value(tx, &key, cluster)?;
    for namespace in NAMESPACES {
        namespaces::ensure(tx, plan.cluster, namespace)?;
    }
    make_admin(tx, plan)?;
    for (path, export) in bindings {
        bind(tx, plan.cluster, path, export)?;
    }
    Ok(())
}

/// The condition that shows whether a workspace, or its cluster, still waits for an initializer.
pub(super) fn initialized(initializers: &[String]) -> Condition {
    if initializers.is_empty() {
        return Condition::good("WorkspaceInitialized");
    }
    let message = format!("Initializers still exist: {initializers:?}");
    Condition::waiting("WorkspaceInitialized", "InitializerExists", message)
}

fn make_admin(tx: &mut Tx<'_>, plan: &NewCluster<'_>) -> Result<(), Status> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let table = crate::store::Table::new(GROUP, "clusterrolebindings", "");
    let key = table.key(plan.cluster, "", "workspace-admin");
    let mut binding = objects::new(tx, &Gvk::new(GROUP, "v1", "ClusterRoleBinding"), &key);
    let root = binding.root_mut();
    let user = objects::text(&plan.creator, "/username");
    root.insert(
        "subjects".into(),
        json!([{"kind": "User", "apiGroup": GROUP, "name": user}]),
    );
    root.insert(
        "roleRef".into(),
        json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}),
    );
    tx.put(&key, binding)
}

/// Binds a cluster to an export that its type requires.
pub(super) fn bind(tx: &mut Tx<'_>, cluster: &str, path: &str, export: &str) -> Result<(), Status> {
    let name = ids::default_binding_name(cluster, path, export);
    let key = tree::BINDINGS.key(cluster, "", &name);
    if tx.get(&key).is_some() {
        return Ok(());
    }
    let gvk = Gvk::new("apis.kcp.io", "v1alpha2", "APIBinding");
    let mut binding = objects::new(tx, &gvk, &key);
    binding.metadata_mut().insert("generation".into(), 1.into());
    let reference = json!({"export": {"path": path, "name": export}});
    binding
        .root_mut()
        .insert("spec".into(), json!({"reference": reference}));
    tx.put(&key, binding)
}

/// Makes a cluster ready if it has no more initializers. Returns whether it is ready.
pub(super) fn progress(tx: &mut Tx<'_>, key: &Key) -> Result<bool, Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(false);
    };
    let mut object = stored.object();
    let left = objects::items(object.as_value(), "/status/initializers").count();
    let phase = objects::text(object.as_value(), "/status/phase").to_owned();
    if phase != "Initializing" || left > 0 {
        waiting::label(&mut object);
        objects::put_changed(tx, key, object)?;
        return Ok(phase == "Ready");
    }
    object.set_label(PHASE, "Ready");
    let mut value = object.into_value();
    value["status"]["phase"] = "Ready".into();
    let mut object = Object::new(value).map_err(Status::internal)?;
    waiting::label(&mut object);
    let mut value = object.into_value();
    let now = namespaces::timestamp(tx);
    conditions::set(&mut value, &[Condition::good("WorkspaceInitialized")], &now);
    objects::put_value(tx, key, value)?;
    Ok(true)
}

/// Moves a cluster into the phase in which it waits for its terminators. Returns whether it waits.
pub(super) fn end(tx: &mut Tx<'_>, key: &Key) -> Result<bool, Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(false);
    };
    let mut object = stored.object();
    if !object.in_deletion() {
        namespaces::mark(tx, &mut object);
    }
    let terminators = objects::items(object.as_value(), Stage::Terminating.field());
    let waits = terminators.count() > 0;
    let phase = if waits { "Terminating" } else { "Deleting" };
    object.set_label(PHASE, phase);
    let mut value = object.into_value();
    value["status"]["phase"] = phase.into();
    let mut object = Object::new(value).map_err(Status::internal)?;
    waiting::label(&mut object);
    objects::put_changed(tx, key, object)?;
    Ok(waits)
}

/// The rules of the kind.
pub(super) struct Clusters;

impl Strategy for Clusters {
    fn prepare(
        &self,
        _read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if let Some(old) = admission.old {
            for own in [tree::PATH, TYPE] {
                if let Some(value) = old.annotation(own) {
                    object.set_annotation(own, value);
                }
            }
            if old.has_finalizer(FINALIZER) {
                objects::add_finalizer(object, FINALIZER);
            }
            return check_waits(admission, old, object);
        }
        let why = "a logical cluster is made with its workspace";
        Err(refuse(object, why))
    }

    fn validate(&self, _admission: &Admission<'_>, _object: &Object) -> Vec<FieldError> {
        Vec::new()
    }

    fn before_delete(
        &self,
        _tx: &mut Tx<'_>,
        _admission: &Admission<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        Err(refuse(object, "a logical cluster goes with its workspace"))
    }
}

/// A client cannot add initializers or terminators. In a virtual workspace, each can remove only itself.
fn check_waits(admission: &Admission<'_>, old: &Object, object: &Object) -> Result<(), Status> {
    for stage in waiting::STAGES {
        let [was, is] = [old, object]
            .map(|cluster| objects::items(cluster.as_value(), stage.field()).collect::<Vec<_>>());
        let what = match stage {
            Stage::Initializing => "initializers",
            Stage::Terminating => "terminators",
        };
        if is.iter().any(|name| !was.contains(name)) {
            return Err(refuse(object, &format!("{what} can only be taken away")));
        }
        if let Scope::Waiting {
            stage: own, name, ..
        } = admission.scope
        {
            let mut taken = was.iter().filter(|one| !is.contains(one));
            if taken.any(|one| *own != stage || **one != **name) {
                let why = format!("only {name:?} itself can be taken from the {what}");
                return Err(refuse(object, &why));
            }
        }
    }
    Ok(())
}

fn refuse(object: &Object, why: &str) -> Status {
    Status::forbidden("core.kcp.io", "logicalclusters", object.name(), why)
}
