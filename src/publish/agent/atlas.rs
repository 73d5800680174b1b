//! Where the engine's requests go: the service cluster, or the endpoint that serves a workspace.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::publication::{
    Publication, config_map_kind, logical_cluster_kind, namespace_kind, secret_kind,
};
use super::workspaces::Workspaces;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::wire::{Atlas, Place};
use hawser_sync::{Scope, Side};
use kube_lang::object::Gvk;

/// What kinds are called in paths.
type Resources = HashMap<(Side, Arc<Gvk>), Arc<str>>;

/// See the module.
pub struct Places {
    sides: Sides,
    service: Connection,
    workspaces: Arc<Workspaces>,
    resources: RwLock<Resources>,
}

impl Places {
    pub fn new(sides: &Sides, service: &Connection, workspaces: &Arc<Workspaces>) -> Self {
        let resource = |side: &Side, kind, name: &str| ((side.clone(), kind), Arc::from(name));
        let known = [
            resource(&sides.service, secret_kind(), "secrets"),
            resource(&sides.service, namespace_kind(), "namespaces"),
            resource(&sides.kcp, namespace_kind(), "namespaces"),
            resource(&sides.kcp, secret_kind(), "secrets"),
            resource(&sides.kcp, config_map_kind(), "configmaps"),
            resource(&sides.service, config_map_kind(), "configmaps"),
            resource(&sides.kcp, logical_cluster_kind(), "logicalclusters"),
        ];
        Self {
            sides: sides.clone(),
            service: service.clone(),
            workspaces: Arc::clone(workspaces),
            resources: RwLock::new(known.into()),
        }
    }

    /// What a related kind is called in paths.
    pub fn learn_kind(&self, side: &Side, kind: &Arc<Gvk>, resource: &str) {
        let mut resources = self.resources.write();
        resources.insert((side.clone(), Arc::clone(kind)), resource.into());
    }

    /// What the kinds of a publication are called in paths.
    pub fn learn(&self, publication: &Publication) {
        let Sides { kcp, service } = &self.sides;
        let (local, remote) = (&publication.local_kind, &publication.remote_kind);
        let mut resources = self.resources.write();
        let local_resource = Arc::clone(&publication.plan.local_resource);
        resources.insert((service.clone(), Arc::clone(local)), local_resource);
        let remote_resource = Arc::clone(&publication.plan.remote_resource);
        resources.insert((kcp.clone(), Arc::clone(remote)), remote_resource);
    }
}

impl Atlas for Places {
    fn place(&self, scope: &Scope) -> Option<Place> {
        let kind = (scope.side.clone(), Arc::clone(&scope.kind));
        let resource = Arc::clone(self.resources.read().get(&kind)?);
        let connection = if scope.side == self.sides.service {
            self.service.clone()
        } else {
            self.workspaces.connection(&scope.cluster)?
        };
        Some(Place {
            connection,
            resource,
        })
    }
}
