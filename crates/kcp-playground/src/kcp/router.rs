//! Maps paths to scopes.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::paths::{ClusterPathError, ClusterRef};
use super::{tree, waiting};
use crate::catalog::{Scope, Shard, User};
use crate::server::{Address, Front, Router};
use crate::status::Status;
use crate::store::Store;

/// Routes requests to kcp.
pub(super) struct KcpRouter {
    pub(super) store: Arc<Store>,
    pub(super) shards: NonZeroUsize,
}

impl Router for KcpRouter {
    fn route(&self, address: &Address, _user: &User) -> Result<Scope, Status> {
        match &address.front {
            // Probes and the version do not depend on a cluster, so root answers requests without one.
            Front::Top if is_probe(&address.path) => Ok(Scope::Cluster(tree::ROOT.into())),
            Front::Top => Err(Status::new(
                404,
                "NotFound",
                "the server could not find the requested resource: the address names no workspace, \
                 such as /clusters/root (the context root of the kubeconfig)",
            )
            .about_nothing()),
            Front::Unknown => Err(Status::no_such_path()),
            Front::Cluster(cluster) => match parse(cluster)? {
                ClusterRef::Wildcard => Err(Status::no_such_path()),
                ClusterRef::Path(path) => {
                    let found = self.store.read(|read| tree::resolve(read, &path));
                    found.map(Scope::Cluster)
                }
            },
            Front::Waiting {
                stage,
                name,
                cluster,
            } => Ok(Scope::Waiting {
                stage: *stage,
                name: self.store.read(|read| waiting::canonical(read, name)),
                cluster: match parse(cluster)? {
                    ClusterRef::Wildcard => None,
                    ClusterRef::Path(path) => Some(path.as_str().into()),
                },
            }),
            Front::Export {
                shard,
                owner,
                export,
                cluster,
            } => {
                let shard = shard.map(|number| Shard {
                    number,
                    of: self.shards,
                });
                if shard.is_some_and(|shard| shard.number >= shard.of.get()) {
                    return Err(Status::no_such_path());
                }
                let (owner, export) = (owner.as_str().into(), export.as_str().into());
                Ok(match parse(cluster)? {
                    ClusterRef::Wildcard => Scope::ExportWildcard {
                        owner,
                        export,
                        shard,
                    },
                    ClusterRef::Path(path) if shard.is_some_and(|s| !s.has(path.as_str())) => {
                        let why =
                            format!("logical cluster {:?} is on another shard", path.as_str());
                        return Err(Status::forbidden("", "", "", why));
                    }
                    // Only ids: a path is not the id of a cluster, and nothing is bound there.
                    ClusterRef::Path(path) => Scope::ExportCluster {
                        owner,
                        export,
                        cluster: path.as_str().into(),
                    },
                })
            }
        }
    }
}

fn is_probe(path: &str) -> bool {
    ["/version", "/readyz", "/livez", "/healthz"]
        .iter()
        .any(|probe| {
            path.strip_prefix(probe)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

fn parse(text: &str) -> Result<ClusterRef, Status> {
    ClusterRef::parse(text)
        .map_err(|error: ClusterPathError| Status::bad_request(error.to_string()))
}
