//! The keys of the hub's queue.

use std::sync::Arc;

use hawser_runtime::cluster::queue::QueueKey;
use hawser_sync::Key;

use super::objects;

/// A placement by its name; without a namespace it is one of the cluster scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacementId {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

/// The unit of work in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HubKey {
    Placement(PlacementId),
    Member(Arc<str>),
    /// An override; without a namespace it is one of the cluster scope.
    Override(PlacementId),
    /// An update run; without a namespace it is one of the cluster scope.
    Run(PlacementId),
}

impl PlacementId {
    pub fn key(&self) -> Key {
        let kind = match self.namespace {
            None => "ClusterResourcePlacement",
            Some(_) => "ResourcePlacement",
        };
        objects::key(kind, self.namespace.as_deref(), &self.name)
    }
}

impl QueueKey for HubKey {
    fn tenant(&self) -> &Arc<str> {
        match self {
            Self::Placement(id) | Self::Override(id) | Self::Run(id) => &id.name,
            Self::Member(name) => name,
        }
    }
}
