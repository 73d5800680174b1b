//! The initial content of `root`.

use serde_json::{Value, json};

use super::types::{self, TypeRef};
use super::{clusters, definitions, exports, objects, system, tree, workspaces};
use crate::status::Status;
use crate::store::Tx;
use kube_lang::object::{Gvk, Object};

/// The exports of root: name, group, and the kind if only one of the group is exported. Every workspace is bound to the
/// first two.
const EXPORTS: [(&str, &str, Option<&str>); 4] = [
    ("tenancy.kcp.io", "tenancy.kcp.io", None),
    ("topology.kcp.io", "topology.kcp.io", None),
    ("shards.core.kcp.io", "core.kcp.io", Some("shards")),
    ("cache.kcp.io", "cache.kcp.io", None),
];

/// Fills an empty store. A store with a root stays as it is.
pub(super) fn bootstrap(tx: &mut Tx<'_>, base_url: &str) -> Result<(), Status> {
    if tree::exists(tx, tree::ROOT) {
        return Ok(());
    }
    for (name, spec) in types::built_in() {
        let key = tree::TYPES.key(tree::ROOT, "", name);
        let gvk = Gvk::new("tenancy.kcp.io", "v1alpha1", "WorkspaceType");
        let mut object = objects::new(tx, &gvk, &key);
        object.set_annotation("bootstrap.kcp.io/battery", "workspace-types");
        fill(&mut object, spec);
        tx.put(&key, object)?;
    }
    // The types are found by the path of their workspace, which is read from the LogicalCluster object.
    let plan = clusters::NewCluster {
        cluster: tree::ROOT,
        path: tree::ROOT,
        of_type: &TypeRef::new(tree::ROOT, "root"),
        creator: json!({"username": "system:kcp:bootstrapper"}),
        owner: None,
        demands: &types::Demands::default(),
        base_url,
    };
    clusters::make(tx, &plan)?;
    make_shard(tx, base_url)?;
    for (name, group, only) in EXPORTS {
        export(tx, name, group, only)?;
    }
    let demands =
        workspaces::demands(tx, &TypeRef::new(tree::ROOT, "root")).map_err(Status::internal)?;
    for (path, export) in demands.bindings {
        clusters::bind(tx, tree::ROOT, &path, &export)?;
    }
    Ok(())
}

fn fill(object: &mut Object, spec: Value) {
    object.set_annotation(tree::PATH, tree::ROOT);
    object.metadata_mut().insert("generation".into(), 1.into());
    object.root_mut().insert("spec".into(), spec);
}

fn make_shard(tx: &mut Tx<'_>, base_url: &str) -> Result<(), Status> {
    let key = tree::SHARDS.key(tree::ROOT, "", tree::ROOT);
    let gvk = Gvk::new("core.kcp.io", "v1alpha1", "Shard");
    let mut shard = objects::new(tx, &gvk, &key);
    let spec = json!({
        "baseURL": base_url, "externalURL": base_url, "virtualWorkspaceURL": base_url,
    });
    fill(&mut shard, spec);
    tx.put(&key, shard)
}

/// An export of kinds of the server, with a schema for each.
fn export(tx: &mut Tx<'_>, name: &str, group: &str, only: Option<&str>) -> Result<(), Status> {
    let mut exported = Vec::new();
    let all = definitions::of_group(group).map_err(Status::internal)?;
    let exports = |spec: &Value| only.is_none_or(|plural| spec["names"]["plural"] == plural);
    for spec in all.into_iter().filter(exports) {
        let document = system::schema_of(&spec);
        let name = objects::text(&document, "/metadata/name").to_owned();
        let key = tree::SCHEMAS.key(tree::ROOT, "", &name);
        let gvk = Gvk::new("apis.kcp.io", "v1alpha1", "APIResourceSchema");
        let mut schema = objects::new(tx, &gvk, &key);
        fill(&mut schema, document["spec"].clone());
        tx.put(&key, schema)?;
        let plural = objects::text(&spec, "/names/plural").to_owned();
        exported.push((group.to_owned(), plural, name));
    }
    let key = tree::EXPORTS.key(tree::ROOT, "", name);
    let mut export = exports::new(tx, &key, &exported);
    export.set_annotation(tree::PATH, tree::ROOT);
    tx.put(&key, export)
}
