//! Custom resources of a cluster: from its `CustomResourceDefinition`s to the resources that it serves.
//!
//! This module knows definitions, their life cycle and their compilation; it does not know bindings or HTTP.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) mod definitions;
mod establish;
mod fitted;
mod order;
mod serve;
#[cfg(test)]
mod tests;

use establish::TABLE;
pub(crate) use establish::{GROUP, PLURAL, mark_definition};
pub(crate) use fitted::FittedSchema;
pub(crate) use order::prefer;
pub(crate) use serve::{Origin, serve};

use super::catalog::Resource;
use super::store::{Name, Range, Read, Settler, Stored};
use kube_schema::crd::Definition;

/// The controller that establishes definitions and cleans up after them, for a store.
pub(crate) fn settler() -> Arc<dyn Settler> {
    Arc::new(establish::Establish)
}

/// The compiled definitions of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// By cluster, then by name of the definition: the revision, and the resources.
    cache: Mutex<HashMap<Name, HashMap<Name, CachedResources>>>,
}

type CachedResources = (u64, Vec<Arc<Resource>>);

/// Identifies the definitions that a catalog was built from. Equal for equal states, even if transactions were undone
/// in between; a counter of writes would differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<u64>);

/// The state of a cluster's definitions; `None` while a transaction is changing them.
pub(crate) fn fingerprint(read: &dyn Read, cluster: &str) -> Option<Fingerprint> {
    let stored = read.list(&Range::in_cluster(&TABLE, cluster));
    stored
        .iter()
        .map(|stored| Some(stored.revision).filter(|revision| *revision > 0))
        .collect::<Option<Vec<u64>>>()
        .map(Fingerprint)
}

impl Compiled {
    /// The resources of the established definitions of a cluster.
    pub(crate) fn resources(&self, read: &dyn Read, cluster: &str) -> Vec<Arc<Resource>> {
        let stored = read.list(&Range::in_cluster(&TABLE, cluster));
        let mut cache = self.cache.lock();
        let cache = cache.entry(cluster.into()).or_default();
        cache.retain(|name, _| stored.iter().any(|stored| stored.key.name() == name));
        let mut resources = Vec::new();
        for stored in &stored {
            let known = cache
                .get(stored.key.name())
                .filter(|(revision, _)| *revision == stored.revision && *revision > 0);
            let served = match known {
                Some((_, served)) => served.clone(),
                None => compile(stored),
            };
            if stored.revision > 0 {
                let entry = (stored.revision, served.clone());
                cache.insert(stored.key.name().clone(), entry);
            }
            resources.extend(served);
        }
        resources
    }
}

/// The resources of one stored definition; none before it is established.
fn compile(stored: &Stored) -> Vec<Arc<Resource>> {
    let crd = stored.cached();
    if !establish::is_established(crd) {
        return Vec::new();
    }
    // Stored definitions were validated; a definition that still fails serves nothing.
    let Ok(mut definition) = Definition::from_crd(crd.as_value()) else {
        return Vec::new();
    };
    establish::accept_names(crd, &mut definition.names);
    let origin = Origin {
        identity: "",
        uid: crd.uid().unwrap_or_default(),
    };
    let closing = crd.in_deletion();
    serve(definition, &origin)
        .into_iter()
        .map(|mut resource| {
            if closing {
                resource.strategy = Some(Arc::new(definitions::Closing));
            }
            Arc::new(resource)
        })
        .collect()
}

pub(crate) fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    // Zero stands for "none".
    hasher.finish().max(1)
}
