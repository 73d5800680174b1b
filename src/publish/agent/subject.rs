//! The subjects of passes.

use std::sync::Arc;

use crate::publish::marks::Remote;
use hawser_runtime::cluster::queue::QueueKey;

/// An object of a workspace under a published resource: the subject of passes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId {
    /// The uid of the published resource.
    pub publication: Arc<str>,
    pub cluster: Arc<str>,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl SubjectId {
    pub fn remote(&self) -> Remote {
        Remote {
            cluster: self.cluster.to_string(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: self.name.to_string(),
        }
    }
}

impl QueueKey for SubjectId {
    fn tenant(&self) -> &Arc<str> {
        &self.cluster
    }
}
