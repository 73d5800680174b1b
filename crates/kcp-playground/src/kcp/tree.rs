//! The tree of workspaces: the cluster of a path, and the path of a cluster.

use std::sync::LazyLock;

use serde_json::Value;

use super::ids;
use super::paths::Path;
use crate::status::Status;
use crate::store::{Key, Name, Read, Stored, Table};

/// The cluster at the root of the tree.
pub(crate) const ROOT: &str = "root";
/// The name of the one `LogicalCluster` object of a cluster.
pub(super) const CLUSTER: &str = "cluster";
/// The first segment of the paths of home workspaces.
pub(super) const USERS: &str = "user";
/// The annotation with the path of a cluster, for clients.
pub(super) const PATH: &str = "kcp.io/path";

macro_rules! tables {
    ($($name:ident: $group:literal $plural:literal;)*) => {
        $(pub(super) static $name: LazyLock<Table> =
            LazyLock::new(|| Table::new($group, $plural, ""));)*
    };
}

tables! {
    WORKSPACES: "tenancy.kcp.io" "workspaces";
    TYPES: "tenancy.kcp.io" "workspacetypes";
    CLUSTERS: "core.kcp.io" "logicalclusters";
    SHARDS: "core.kcp.io" "shards";
    SCHEMAS: "apis.kcp.io" "apiresourceschemas";
    EXPORTS: "apis.kcp.io" "apiexports";
    BINDINGS: "apis.kcp.io" "apibindings";
    SLICES: "apis.kcp.io" "apiexportendpointslices";
    ESTABLISHED: "internal.kcp.io" "establishedschemas";
}

/// The key of the object that represents a cluster.
pub(super) fn cluster_key(cluster: &str) -> Key {
    CLUSTERS.key(cluster, "", CLUSTER)
}

/// Whether the cluster exists.
pub(crate) fn exists(read: &dyn Read, cluster: &str) -> bool {
    read.get(&cluster_key(cluster)).is_some()
}

/// The path of a cluster.
pub(crate) fn path_of(read: &dyn Read, cluster: &str) -> Option<String> {
    let stored = read.get(&cluster_key(cluster))?;
    stored.cached().annotation(PATH).map(str::to_owned)
}

/// The cluster of a path; `None` if a part of the path does not exist.
pub(crate) fn find(read: &dyn Read, path: &str) -> Option<Name> {
    let segments: Vec<&str> = path.split(':').collect();
    let (mut at, below) = match home_of(&segments) {
        Some(home) => home,
        None => (Name::from(*segments.first()?), 1),
    };
    if !exists(read, &at) {
        return None;
    }
    for segment in segments.iter().skip(below) {
        let workspace = read.get(&WORKSPACES.key(&at, "", segment))?;
        at = cluster_of(&workspace)?;
    }
    Some(at)
}

/// The cluster of a user's path: `user:<name>`, with the path below it.
fn home_of(segments: &[&str]) -> Option<(Name, usize)> {
    match segments {
        [USERS, user, ..] => Some((ids::home_cluster(user).into(), 2)),
        _ => None,
    }
}

/// The cluster of a workspace.
pub(super) fn cluster_of(workspace: &Stored) -> Option<Name> {
    let spec = workspace.cached().root().get("spec")?;
    let cluster = spec.get("cluster").and_then(Value::as_str)?;
    (!cluster.is_empty()).then(|| cluster.into())
}

/// The cluster of a path, or kcp's error if it does not exist.
pub(crate) fn resolve(read: &dyn Read, path: &Path) -> Result<Name, Status> {
    if let Some(cluster) = find(read, path.as_str()) {
        return Ok(cluster);
    }
    if path.segments().count() > 1 {
        return Err(Status::not_found(
            "tenancy.kcp.io",
            "workspaces",
            path.as_str(),
        ));
    }
    Err(Status::new(
        403,
        "Forbidden",
        format!("forbidden: there is no logical cluster {:?}", path.as_str()),
    ))
}
