//! The subjects of passes.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::publish::marks::Remote;
use hawser_runtime::cluster::queue::QueueKey;
use hawser_sync::{Key, KeyParts};

/// An object of a workspace under a published resource: the subject of passes. It is a key, so that notes about subjects
/// share the keys of caches.
///
/// The kind of the object is the one that the published resource had when the subject was made. If it has another one
/// now, the subject is still the same, so kinds are not compared.
#[derive(Clone, Debug)]
pub struct SubjectId {
    /// The uid of the published resource.
    pub publication: Arc<str>,
    pub object: Key,
}

impl SubjectId {
    pub fn remote(&self) -> Remote {
        Remote {
            cluster: self.cluster.to_string(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: self.name.to_string(),
        }
    }

    fn identity(&self) -> (&str, &str, Option<&str>, &str) {
        let namespace = self.namespace.as_deref();
        (&self.publication, &self.cluster, namespace, &self.name)
    }
}

impl Deref for SubjectId {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.object
    }
}

impl PartialEq for SubjectId {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for SubjectId {}

impl Hash for SubjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for SubjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SubjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl QueueKey for SubjectId {
    fn tenant(&self) -> &Arc<str> {
        &self.cluster
    }
}
