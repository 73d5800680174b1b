//! The indexes of a table: by cluster and namespace, and by the labels that objects are looked for by.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hawser_sync::Labels;
use hawser_sync::{Key, Scope};
use kube_lang::object::Object;

/// The number of indexed labels. A search by other labels examines all objects of a cluster.
const MAX_INDEXED_LABELS: usize = 16;

/// Cluster, name and value of a label, hashed with a key that nobody knows: nobody can choose two that are the same.
pub(super) type Labelled = u64;

/// Names by namespace.
type Namespaces = HashMap<Option<Arc<str>>, HashSet<Arc<str>>>;

#[derive(Default)]
pub(super) struct Places {
    clusters: HashMap<Arc<str>, Namespaces>,
    /// The indexed labels.
    sought: BTreeSet<Box<str>>,
    labelled: HashMap<Labelled, HashSet<Key>>,
    random: RandomState,
}

impl Places {
    /// Adds an object that was not known; returns its positions by label.
    pub(super) fn insert(&mut self, key: &Key, object: &Object) -> Box<[Labelled]> {
        let namespaces = self.clusters.entry(Arc::clone(&key.cluster)).or_default();
        let names = namespaces.entry(key.namespace.clone()).or_default();
        names.insert(Arc::clone(&key.name));
        self.relabel(key, &[], object)
    }

    /// Updates the labels of an object; returns its positions by label.
    pub(super) fn relabel(
        &mut self,
        key: &Key,
        before: &[Labelled],
        object: &Object,
    ) -> Box<[Labelled]> {
        let place = |name: &str| Some(self.place(&key.cluster, name, object.label(name)?));
        let sought = self.sought.iter().map(AsRef::as_ref);
        let now: Box<[Labelled]> = sought.filter_map(place).collect();
        if *now != *before {
            self.unlabel(key, before);
            for place in &now {
                self.labelled.entry(*place).or_default().insert(key.clone());
            }
        }
        now
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
        for place in labelled {
            if let Slot::Occupied(mut keys) = self.labelled.entry(*place) {
                keys.get_mut().remove(key);
                if keys.get().is_empty() {
                    keys.remove();
                }
            }
        }
    }

    /// The labels among these that are not indexed yet, as many as there is room for.
    pub(super) fn unindexed(&self, labels: &Labels) -> Vec<Box<str>> {
        let names = labels.iter().map(|(name, _)| name);
        let new = names.filter(|name| !self.sought.contains(*name));
        let room = MAX_INDEXED_LABELS.saturating_sub(self.sought.len());
        new.take(room).map(Into::into).collect()
    }

    /// Adds labels to the index. Objects that are already there have to be indexed anew.
    pub(super) fn index_labels(&mut self, names: Vec<Box<str>>) {
        self.sought.extend(names);
    }

    /// The candidates by the label that the fewest objects have; `None` if none of these labels is indexed.
    #[expect(
        clippy::option_option,
        reason = "whether anything is indexed, and whether anything has it"
    )]
    pub(super) fn fewest(&self, cluster: &str, labels: &Labels) -> Option<Option<&HashSet<Key>>> {
        let sought = labels
            .iter()
            .filter(|(name, _)| self.sought.contains(*name));
        let keys = sought.map(|(name, value)| self.labelled.get(&self.place(cluster, name, value)));
        keys.min_by_key(|keys| keys.map_or(0, HashSet::len))
    }

    /// The positions of objects with these labels; `None` if one of these is not indexed.
    pub(super) fn positions(&self, cluster: &str, labels: &Labels) -> Option<Vec<Labelled>> {
        let place = |(name, value): (&str, &str)| {
            let is_sought = self.sought.contains(name);
            is_sought.then(|| self.place(cluster, name, value))
        };
        labels.iter().map(place).collect()
    }

    fn place(&self, cluster: &str, name: &str, value: &str) -> Labelled {
        self.random.hash_one((cluster, name, value))
    }

    /// The number of clusters that have objects.
    pub(super) fn clusters(&self) -> usize {
        self.clusters.len()
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
        keys.map(move |(namespace, name)| key(&scope, namespace.as_ref(), name))
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
        names.map(move |name| key(&scope, namespace.as_ref(), name))
    }
}

fn key(scope: &Scope, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Key {
    Key {
        side: scope.side.clone(),
        kind: Arc::clone(&scope.kind),
        cluster: Arc::clone(&scope.cluster),
        namespace: namespace.cloned(),
        name: Arc::clone(name),
    }
}
