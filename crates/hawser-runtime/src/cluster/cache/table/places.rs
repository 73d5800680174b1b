//! What is where in a table: by cluster and namespace, and by the labels that objects were looked for by.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use hawser_sync::subject::Labels;
use hawser_sync::{Key, Scope};
use kube_lang::object::Object;

/// How many labels are indexed. Whoever looks for more than these looks at all objects of a cluster.
const SOUGHT: usize = 16;

/// Cluster, name and value of a label, hashed. Whoever finds an object by it has to look at its labels.
pub(super) type Labelled = u64;

/// Names by namespace.
type Namespaces = HashMap<Option<Arc<str>>, HashSet<Arc<str>>>;

#[derive(Default)]
pub(super) struct Places {
    clusters: HashMap<Arc<str>, Namespaces>,
    /// Labels that objects were looked for by.
    sought: BTreeSet<Box<str>>,
    labelled: HashMap<Labelled, HashSet<Key>>,
}

impl Places {
    /// Takes in an object that was not known; where it stands by its labels.
    pub(super) fn insert(&mut self, key: &Key, object: &Object) -> Box<[Labelled]> {
        let namespaces = self.clusters.entry(Arc::clone(&key.cluster)).or_default();
        let names = namespaces.entry(key.namespace.clone()).or_default();
        names.insert(Arc::clone(&key.name));
        self.relabel(key, &[], object)
    }

    /// Takes in the labels of an object as they are now; where it stands by them.
    pub(super) fn relabel(
        &mut self,
        key: &Key,
        before: &[Labelled],
        object: &Object,
    ) -> Box<[Labelled]> {
        let place = |name: &str| Some(place(&key.cluster, name, object.label(name)?));
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

    /// Those of these labels by which nobody has looked for objects yet, as many as there is room for.
    pub(super) fn unsought(&self, labels: &Labels) -> Vec<Box<str>> {
        let names = labels.iter().map(|(name, _)| name);
        let new = names.filter(|name| !self.sought.contains(*name));
        let room = SOUGHT.saturating_sub(self.sought.len());
        new.take(room).map(Into::into).collect()
    }

    /// Takes in labels that objects are looked for by. Objects that are there have to be labelled anew.
    pub(super) fn seek(&mut self, names: Vec<Box<str>>) {
        self.sought.extend(names);
    }

    /// What has that one of these labels that fewest have; none where none of them is indexed.
    #[expect(
        clippy::option_option,
        reason = "whether anything is indexed, and whether anything has it"
    )]
    pub(super) fn fewest(&self, cluster: &str, labels: &Labels) -> Option<Option<&HashSet<Key>>> {
        let sought = labels
            .iter()
            .filter(|(name, _)| self.sought.contains(*name));
        let keys = sought.map(|(name, value)| self.labelled.get(&place(cluster, name, value)));
        keys.min_by_key(|keys| keys.map_or(0, HashSet::len))
    }

    /// The keys of a cluster.
    pub(super) fn of_cluster(&self, scope: Scope) -> impl Iterator<Item = Key> + use<'_> {
        let namespaces = self.clusters.get(&scope.cluster).into_iter().flatten();
        let keys = namespaces
            .flat_map(|(namespace, names)| names.iter().map(move |name| (namespace, name)));
        keys.map(move |(namespace, name)| key(&scope, namespace.as_ref(), name))
    }

    /// The keys of one namespace of it.
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

fn place(cluster: &str, name: &str, value: &str) -> Labelled {
    let mut hasher = DefaultHasher::new();
    (cluster, name, value).hash(&mut hasher);
    hasher.finish()
}
