//! Clusters without kcp: built-in kinds and CRDs, no bindings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::builtin::namespaces;
use super::catalog::{Catalog, Resource, Scope, Scopes};
use super::custom::{self, Compiled, Fingerprint};
use super::status::Status;
use super::store::{Name, Read, Tx};

/// The initial namespaces of a cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The catalogs of plain clusters.
pub(crate) struct PlainScopes {
    clusters: HashSet<Name>,
    builtin: Vec<Arc<Resource>>,
    compiled: Compiled,
    /// By cluster: the definitions that the catalog was built from.
    catalogs: Mutex<HashMap<Name, (Fingerprint, Arc<Catalog>)>>,
}

impl PlainScopes {
    /// Serves the clusters with these ids, with these built-in kinds.
    pub(crate) fn new(
        clusters: impl IntoIterator<Item = Name>,
        builtin: Vec<Arc<Resource>>,
    ) -> Self {
        Self {
            clusters: clusters.into_iter().collect(),
            builtin,
            compiled: Compiled::default(),
            catalogs: Mutex::default(),
        }
    }

    /// Whether this is one of the plain clusters.
    pub(crate) fn serves(&self, cluster: &str) -> bool {
        self.clusters.contains(cluster)
    }

    /// Creates the initial objects that clients expect.
    pub(crate) fn bootstrap(&self, tx: &mut Tx<'_>) -> Result<(), Status> {
        for cluster in &self.clusters {
            for name in NAMESPACES {
                namespaces::ensure(tx, cluster, name)?;
            }
        }
        Ok(())
    }

    fn build(&self, read: &dyn Read, cluster: &Name) -> Arc<Catalog> {
        let mut catalog = Catalog::default();
        for resource in &self.builtin {
            catalog.add(Arc::clone(resource));
        }
        for resource in self.compiled.resources(read, cluster) {
            catalog.add(resource);
        }
        catalog.sort(custom::prefer);
        Arc::new(catalog)
    }
}

impl Scopes for PlainScopes {
    fn catalog(&self, read: &dyn Read, scope: &Scope) -> Result<Arc<Catalog>, Status> {
        let Scope::Cluster(cluster) = scope else {
            return Err(Status::no_such_path());
        };
        if !self.serves(cluster) {
            return Err(Status::no_such_path());
        }
        let Some(fingerprint) = custom::fingerprint(read, cluster) else {
            return Ok(self.build(read, cluster));
        };
        if let Some((known, catalog)) = self.catalogs.lock().get(cluster)
            && *known == fingerprint
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = self.build(read, cluster);
        let entry = (fingerprint, Arc::clone(&catalog));
        self.catalogs.lock().insert(cluster.clone(), entry);
        Ok(catalog)
    }

    fn authorize(
        &self,
        _read: &dyn Read,
        _scope: &Scope,
        _resource: &Resource,
        _verb: &str,
    ) -> Result<(), Status> {
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;
