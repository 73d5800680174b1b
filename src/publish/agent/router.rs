//! The endpoints of the engine's requests: the service cluster, or the endpoint that serves a workspace.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;

use super::feeds::{config_map_kind, logical_cluster_kind, namespace_kind, secret_kind};
use super::publication::Publication;
use super::workspaces::Workspaces;
use crate::publish::related::binding_kind;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::wire::{Endpoint, Router};
use hawser_sync::{Scope, Side};
use kube_lang::object::Gvk;

/// A kind, as one of the sides serves it.
type KindOfSide = (Side, Arc<Gvk>);

/// The plural names of kinds in paths.
pub struct ResourceNames {
    sides: Sides,
    names: RwLock<HashMap<KindOfSide, Arc<str>>>,
    /// Kinds of copies of which passes want to know who changed a field.
    authored: RwLock<HashSet<Arc<Gvk>>>,
}

impl ResourceNames {
    pub fn new(sides: &Sides) -> Arc<Self> {
        let resource = |side: &Side, kind, name: &str| ((side.clone(), kind), Arc::from(name));
        let known = [
            resource(&sides.service, secret_kind(), "secrets"),
            resource(&sides.service, namespace_kind(), "namespaces"),
            resource(&sides.kcp, namespace_kind(), "namespaces"),
            resource(&sides.kcp, secret_kind(), "secrets"),
            resource(&sides.kcp, config_map_kind(), "configmaps"),
            resource(&sides.service, config_map_kind(), "configmaps"),
            resource(&sides.kcp, logical_cluster_kind(), "logicalclusters"),
            resource(&sides.kcp, binding_kind(), "apibindings"),
        ];
        Arc::new(Self {
            sides: sides.clone(),
            names: RwLock::new(known.into()),
            authored: RwLock::default(),
        })
    }

    pub fn register(&self, side: &Side, kind: &Arc<Gvk>, resource: &str) {
        let mut names = self.names.write();
        names.insert((side.clone(), Arc::clone(kind)), resource.into());
    }

    pub fn register_publication(&self, publication: &Publication) {
        let Sides { kcp, service } = &self.sides;
        let plan = &publication.plan;
        self.register(service, &publication.local_kind, &plan.local_resource);
        self.register(kcp, &publication.remote_kind, &plan.remote_resource);
        if !plan.compiled.drift().keeps_all() {
            self.keep_authors(publication);
        }
    }

    /// From now on, answers with a copy of the publication say who changed each field.
    pub fn keep_authors(&self, publication: &Publication) {
        let kind = Arc::clone(&publication.local_kind);
        self.authored.write().insert(kind);
    }
}

/// Maps scopes to endpoints.
pub struct PublishRouter {
    pub names: Arc<ResourceNames>,
    pub service: Connection,
    pub workspaces: Arc<Workspaces>,
}

impl Router for PublishRouter {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        let kind = (scope.side.clone(), Arc::clone(&scope.kind));
        let resource = Arc::clone(self.names.names.read().get(&kind)?);
        let connection = if scope.side == self.names.sides.service {
            self.service.clone()
        } else {
            self.workspaces.connection(&scope.cluster)?
        };
        Some(Endpoint {
            connection,
            resource,
        })
    }

    fn keeps_managed_fields(&self, scope: &Scope) -> bool {
        scope.side == self.names.sides.service && self.names.authored.read().contains(&scope.kind)
    }
}
