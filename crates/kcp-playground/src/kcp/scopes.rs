//! The catalogs of the clusters and virtual workspaces of kcp.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::bound::CompiledSchemas;
use super::exports::ExportName;
use super::views::{self, Views};
use super::{bindings, established, system, tree, waiting};
use crate::catalog::{Catalog, Resource, Scope, Scopes};
use crate::custom::{self, Fingerprint};
use crate::status::Status;
use crate::store::{Name, Range, Read};

/// Finds the catalogs of kcp.
pub(super) struct KcpScopes {
    builtin: Vec<Arc<Resource>>,
    system: Vec<Arc<Resource>>,
    defined: custom::Compiled,
    bound: Arc<CompiledSchemas>,
    views: Views,
    /// By cluster: the definitions and bindings that the catalog was built from.
    catalogs: Mutex<HashMap<Name, (MadeOf, Arc<Catalog>)>>,
}

type MadeOf = (Fingerprint, Vec<u64>);

impl KcpScopes {
    pub(super) fn new(builtin: Vec<Arc<Resource>>) -> Result<Self, Status> {
        let system = system::resources()?;
        let bound = Arc::new(CompiledSchemas::default());
        Ok(Self {
            views: Views::new(builtin.clone(), system.clone(), Arc::clone(&bound)),
            builtin,
            system,
            defined: custom::Compiled::default(),
            bound,
            catalogs: Mutex::default(),
        })
    }

    fn cluster(&self, read: &dyn Read, cluster: &Name) -> Result<Arc<Catalog>, Status> {
        if !tree::exists(read, cluster) {
            return Err(Status::new(
                403,
                "Forbidden",
                format!("forbidden: there is no logical cluster {cluster:?}"),
            ));
        }
        let bindings = read.list(&Range::in_cluster(&tree::BINDINGS, cluster));
        let revisions: Vec<u64> = bindings.iter().map(|stored| stored.revision).collect();
        let made_of = custom::fingerprint(read, cluster)
            .filter(|_| revisions.iter().all(|revision| *revision > 0))
            .map(|definitions| (definitions, revisions));
        if let Some(made_of) = &made_of
            && let Some((known, catalog)) = self.catalogs.lock().get(cluster)
            && known == made_of
        {
            return Ok(Arc::clone(catalog));
        }
        let mut catalog = Catalog::default();
        let own = self.builtin.iter().chain(&self.system);
        let root = &**cluster == tree::ROOT;
        for resource in own.filter(|resource| root || resource.table != *tree::SHARDS) {
            catalog.add(Arc::clone(resource));
        }
        for resource in self.bound.of_cluster(read, cluster) {
            catalog.add(resource);
        }
        for resource in self.defined.resources(read, cluster) {
            catalog.add(resource);
        }
        catalog.sort(custom::prefer);
        let catalog = Arc::new(catalog);
        if let Some(made_of) = made_of {
            let entry = (made_of, Arc::clone(&catalog));
            self.catalogs.lock().insert(cluster.clone(), entry);
        }
        Ok(catalog)
    }
}

impl Scopes for KcpScopes {
    fn catalog(&self, read: &dyn Read, scope: &Scope) -> Result<Arc<Catalog>, Status> {
        match scope {
            Scope::Cluster(cluster) => self.cluster(read, cluster),
            Scope::ExportCluster { owner, export, .. }
            | Scope::ExportWildcard { owner, export, .. } => {
                let export = ExportName {
                    cluster: owner.clone(),
                    name: export.clone(),
                };
                self.views.catalog(read, &export)
            }
            Scope::Waiting {
                stage,
                name,
                cluster,
            } => waiting::catalog(
                read,
                (*stage, name),
                &|cluster| self.cluster(read, cluster),
                cluster.as_ref(),
            ),
        }
    }

    fn authorize(
        &self,
        read: &dyn Read,
        scope: &Scope,
        resource: &Resource,
        verb: &str,
    ) -> Result<(), Status> {
        match scope {
            Scope::ExportCluster {
                owner,
                export,
                cluster,
            } => {
                let export = ExportName {
                    cluster: owner.clone(),
                    name: export.clone(),
                };
                views::authorize(read, &export, cluster, resource, verb)
            }
            Scope::ExportWildcard { .. } => {
                let table = &resource.table;
                if table.identity.is_empty() || established::is_served(read, table) {
                    return Ok(());
                }
                Err(Status::no_such_path())
            }
            Scope::Cluster(_) | Scope::Waiting { .. } => Ok(()),
        }
    }

    fn admit(
        &self,
        read: &dyn Read,
        scope: &Scope,
        resource: &Resource,
        creates: bool,
    ) -> Result<Vec<(String, String)>, Status> {
        let table = &resource.table;
        if creates
            && !table.identity.is_empty()
            && let Some(cluster) = scope.cluster()
            && bindings::is_going(read, cluster, table)
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(
                &resource.group,
                &resource.plural,
                "",
                why,
            ));
        }
        let Scope::ExportCluster {
            owner,
            export,
            cluster,
        } = scope
        else {
            return Ok(Vec::new());
        };
        let export = ExportName {
            cluster: owner.clone(),
            name: export.clone(),
        };
        Ok(views::labels(read, &export, cluster, table))
    }
}
