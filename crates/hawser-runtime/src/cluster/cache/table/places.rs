//! The indexes of a table: by cluster and namespace, and by labels.
//!
//! The index is built when a pass first selects objects by labels, and then contains all labels of all objects. Consumers
//! may choose the labels of a selection, so an index of selected labels could be filled, or built again and again.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hawser_sync::Labels;
use hawser_sync::{Key, Scope};
use kube_lang::object::Object;

/// Cluster, name and value of a label, hashed with a secret key, so that collisions cannot be chosen.
pub(super) type Labelled = u64;

/// Names by namespace.
type Namespaces = HashMap<Option<Arc<str>>, HashSet<Arc<str>>>;

#[derive(Default)]
pub(super) struct Places {
    clusters: HashMap<Arc<str>, Namespaces>,
    /// Whether labels are indexed.
    by_label: bool,
    /// By label and object, the latter hashed like a label.
    labelled: BTreeMap<(Labelled, u64), Arc<Key>>,
    random: RandomState,
}

impl Places {
    /// Adds an object that was not known.
    pub(super) fn insert(&mut self, key: &Key) {
        let namespaces = self.clusters.entry(Arc::clone(&key.cluster)).or_default();
        let names = namespaces.entry(key.namespace.clone()).or_default();
        names.insert(Arc::clone(&key.name));
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
            let (id, shared) = (self.random.hash_one(key), Arc::new(key.clone()));
            for gone in before.iter().filter(|one| now.binary_search(one).is_err()) {
                self.labelled.remove(&(*gone, id));
            }
            let new = now.iter().filter(|one| before.binary_search(one).is_err());
            let new = new.map(|place| ((*place, id), Arc::clone(&shared)));
            self.labelled.extend(new);
        }
        now.into()
    }

    pub(super) fn remove(&mut self, key: &Key, labelled: &[Labelled]) {
        self.unlabel(key, labelled);
        let Slot::Occupied(mut namespaces) = self.clusters.entry(Arc::clone(&key.cluster)) else {
            return;
        };
        if let Slot::Occupied(mut names) = namespaces.get_mut().entry(key.namespace.clone()) {
            names.get_mut().remove(&key.name);
            if names.get().is_empty() {
                names.remove();
            }
        }
        if namespaces.get().is_empty() {
            namespaces.remove();
        }
    }

    fn unlabel(&mut self, key: &Key, labelled: &[Labelled]) {
        let id = self.random.hash_one(key);
        for place in labelled {
            self.labelled.remove(&(*place, id));
        }
    }

    /// The number of labels of objects that are indexed.
    #[cfg(test)]
    pub(super) fn indexed_labels(&self) -> usize {
        self.labelled.len()
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
        let mut all: Vec<_> = places.iter().map(|one| (*one, self.at(*one))).collect();
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
        fewest.map(|place| self.at(place))
    }

    fn at(&self, place: Labelled) -> impl Iterator<Item = &Key> {
        let keys = self.labelled.range((place, 0)..=(place, u64::MAX));
        keys.map(|(_, key)| &**key)
    }

    /// The positions of objects with these labels; `None` if labels are not indexed.
    pub(super) fn positions(&self, cluster: &str, labels: &Labels) -> Option<Vec<Labelled>> {
        let place = |(name, value): (&str, &str)| self.place(cluster, name, value);
        self.by_label.then(|| labels.iter().map(place).collect())
    }

    fn place(&self, cluster: &str, name: &str, value: &str) -> Labelled {
        self.random.hash_one((cluster, name, value))
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
        namespaces.map(|(_, names)| names.len()).sum()
    }

    /// The keys of a cluster.
    pub(super) fn of_cluster(&self, scope: Scope) -> impl Iterator<Item = Key> + use<'_> {
        let namespaces = self.clusters.get(&scope.cluster).into_iter().flatten();
        let keys = namespaces
            .flat_map(|(namespace, names)| names.iter().map(move |name| (namespace, name)));
        keys.map(move |(namespace, name)| scope.key_of(namespace.clone(), Arc::clone(name)))
    }

    /// The keys of one namespace.
    pub(super) fn of_namespace(
        &self,
        scope: Scope,
        namespace: &str,
    ) -> impl Iterator<Item = Key> + use<'_> {
        let namespace = Some(Arc::from(namespace));
        let namespaces = self.clusters.get(&scope.cluster);
        let names = namespaces.and_then(|namespaces| namespaces.get(&namespace));
        let names = names.into_iter().flatten();
        names.map(move |name| scope.key_of(namespace.clone(), Arc::clone(name)))
    }
}
