//! The indexes of a table: by cluster and namespace, and by labels.
//!
//! The index is built when a pass first selects objects by labels, and then contains all labels of all objects. Consumers
//! may choose the labels of a selection, so an index of selected labels could be filled, or built again and again.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hawser_sync::Labels;
use hawser_sync::{Key, KeyPlace};
use kube_lang::object::Object;

/// Cluster, name and value of a label, hashed with a secret key.
pub(super) type Labelled = u64;

type Namespaces = HashMap<Option<Arc<str>>, NamespaceKeys>;

/// The keys of a namespace, which share its place.
struct NamespaceKeys {
    place: Arc<KeyPlace>,
    keys: HashSet<Key>,
}

#[derive(Default)]
pub(super) struct Places {
    clusters: HashMap<Arc<str>, Namespaces>,
    /// Whether labels are indexed.
    by_label: bool,
    labelled: KeysByHash,
}

/// Keys by hashed values of labels. Few or many objects may have the same values, so each key has an entry of its own.
#[derive(Default)]
pub(super) struct KeysByHash {
    /// By the hash of the values, and that of the key.
    keys: BTreeMap<(u64, u64), Key>,
    /// Makes hashes, so that collisions cannot be chosen.
    random: RandomState,
}

impl KeysByHash {
    pub(super) fn insert(&mut self, values: u64, key: &Key) {
        let place = (values, self.random.hash_one(key));
        self.keys.insert(place, key.clone());
    }

    pub(super) fn remove(&mut self, values: u64, key: &Key) {
        self.keys.remove(&(values, self.random.hash_one(key)));
    }

    pub(super) fn get(&self, values: u64) -> impl Iterator<Item = &Key> + use<'_> {
        let keys = self.keys.range((values, 0)..=(values, u64::MAX));
        keys.map(|(_, key)| key)
    }
}

impl Places {
    /// Adds an object that was not known; returns its key, in the memory of those of its namespace.
    pub(super) fn insert(&mut self, key: &Key) -> Key {
        let namespaces = self.clusters.entry(Arc::clone(&key.cluster)).or_default();
        let namespace = namespaces.entry(key.namespace.clone());
        let NamespaceKeys { place, keys } = namespace.or_insert_with(|| NamespaceKeys {
            place: Arc::clone(&key.place),
            keys: HashSet::new(),
        });
        let key = key.at(place);
        keys.insert(key.clone());
        key
    }

    /// Updates the labels of an object, of which none are indexed without it; returns its positions by label, sorted.
    pub(super) fn relabel(
        &mut self,
        key: &Key,
        before: &[Labelled],
        object: Option<&Object>,
    ) -> Box<[Labelled]> {
        if !self.by_label {
            return Box::default();
        }
        let place = |(name, value): (&str, &str)| self.place(&key.cluster, name, value);
        let labels = object.into_iter().flat_map(Object::labels);
        let mut now: Vec<Labelled> = labels.map(place).collect();
        now.sort_unstable();
        if *now != *before {
            for gone in before.iter().filter(|one| now.binary_search(one).is_err()) {
                self.labelled.remove(*gone, key);
            }
            for new in now.iter().filter(|one| before.binary_search(one).is_err()) {
                self.labelled.insert(*new, key);
            }
        }
        now.into()
    }

    pub(super) fn remove(&mut self, key: &Key, labelled: &[Labelled]) {
        for place in labelled {
            self.labelled.remove(*place, key);
        }
        let Slot::Occupied(mut namespaces) = self.clusters.entry(Arc::clone(&key.cluster)) else {
            return;
        };
        if let Slot::Occupied(mut namespace) = namespaces.get_mut().entry(key.namespace.clone()) {
            namespace.get_mut().keys.remove(key);
            if namespace.get().keys.is_empty() {
                namespace.remove();
            }
        }
        if namespaces.get().is_empty() {
            namespaces.remove();
        }
    }

    /// The number of labels of objects that are indexed.
    #[cfg(test)]
    pub(super) fn indexed_labels(&self) -> usize {
        self.labelled.keys.len()
    }

    /// Whether labels are indexed.
    pub(super) fn has_labels(&self) -> bool {
        self.by_label
    }

    /// Starts to index labels. Objects that are already there have to be indexed again.
    pub(super) fn index_labels(&mut self) {
        self.by_label = true;
    }

    /// The objects with the label that the fewest have; `None` without labels, or if these are not indexed.
    pub(super) fn fewest<'p>(
        &'p self,
        cluster: &str,
        labels: &Labels,
    ) -> Option<impl Iterator<Item = &'p Key> + use<'p>> {
        let places = self.positions(cluster, labels)?;
        let keys = |place| self.labelled.get(place);
        let mut all: Vec<_> = places.iter().map(|one| (*one, keys(*one))).collect();
        let fewest = loop {
            // The one that ends first is the shortest.
            let ended = all.iter_mut().find_map(|(place, keys)| {
                let is_over = keys.next().is_none();
                is_over.then_some(*place)
            });
            if ended.is_some() || all.is_empty() {
                break ended;
            }
        };
        fewest.map(keys)
    }

    /// The positions of objects with these labels; `None` if labels are not indexed.
    pub(super) fn positions(&self, cluster: &str, labels: &Labels) -> Option<Vec<Labelled>> {
        let place = |(name, value): (&str, &str)| self.place(cluster, name, value);
        self.by_label.then(|| labels.iter().map(place).collect())
    }

    fn place(&self, cluster: &str, name: &str, value: &str) -> Labelled {
        self.labelled.random.hash_one((cluster, name, value))
    }

    /// The number of clusters that have objects.
    pub(super) fn clusters(&self) -> usize {
        self.clusters.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.clusters.keys().map(|cluster| &**cluster)
    }

    /// The number of objects of a cluster.
    pub(super) fn count(&self, cluster: &str) -> usize {
        let namespaces = self.clusters.get(cluster).into_iter().flatten();
        namespaces.map(|(_, namespace)| namespace.keys.len()).sum()
    }

    /// The keys of a cluster.
    pub(super) fn of_cluster(&self, cluster: &str) -> impl Iterator<Item = &Key> + use<'_> {
        let namespaces = self.clusters.get(cluster).into_iter().flatten();
        namespaces.flat_map(|(_, namespace)| &namespace.keys)
    }

    /// The keys of one namespace.
    pub(super) fn of_namespace(
        &self,
        cluster: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &Key> + use<'_> {
        let namespaces = self.clusters.get(cluster);
        let namespace = namespaces.and_then(|them| them.get(&Some(namespace.into())));
        namespace.into_iter().flat_map(|namespace| &namespace.keys)
    }
}
