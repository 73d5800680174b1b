//! Where an object lives: its table (which API), its logical cluster, its namespace and its name.

use std::cmp::Ordering;
use std::sync::Arc;

/// A string that many objects share.
pub type Name = Arc<str>;

/// One API's objects in all clusters. Objects of exports with different identities never meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    pub group: Name,
    pub resource: Name,
    /// The identity hash of the export that the API comes from; empty for an API of the cluster's own.
    pub identity: Name,
}

impl Table {
    pub fn new(group: &str, resource: &str, identity: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
            identity: identity.into(),
        }
    }

    /// Where an object of this table is.
    pub fn key(&self, cluster: &str, namespace: &str, name: &str) -> Key {
        Key {
            table: self.clone(),
            place: Place {
                cluster: cluster.into(),
                namespace: namespace.into(),
                name: name.into(),
            },
        }
    }
}

/// Where in a table an object is. The order is the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub cluster: Name,
    /// Empty for what has no namespace.
    pub namespace: Name,
    pub name: Name,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let clusters = self.cluster.cmp(&other.cluster);
        let namespaces = || in_keys(&self.namespace, &other.namespace);
        clusters
            .then_with(namespaces)
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of namespaces within keys, where a slash follows them: `a-b` is before `a`, as it is where
/// etcd keeps objects.
fn in_keys(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let shared = one.len().min(other.len());
    let next = |name: &[u8]| name.get(shared).copied().unwrap_or(b'/');
    one[..shared].cmp(&other[..shared]).then_with(|| {
        if one.len() == other.len() {
            Ordering::Equal
        } else {
            next(one).cmp(&next(other))
        }
    })
}

/// The address of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub table: Table,
    pub place: Place,
}

impl Key {
    pub fn cluster(&self) -> &Name {
        &self.place.cluster
    }

    pub fn namespace(&self) -> &Name {
        &self.place.namespace
    }

    pub fn name(&self) -> &Name {
        &self.place.name
    }

    /// Whether this is an object of that API, whatever its identity.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        &*self.table.group == group && &*self.table.resource == resource
    }
}

/// A part of one table: what a list or a watch covers before any selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub table: Table,
    /// `None`: all clusters.
    pub cluster: Option<Name>,
    /// `None`: all namespaces. Narrows only within one cluster or across all of them alike.
    pub namespace: Option<Name>,
}

impl Range {
    /// A whole table, in one cluster.
    pub fn in_cluster(table: &Table, cluster: &str) -> Self {
        Self {
            table: table.clone(),
            cluster: Some(cluster.into()),
            namespace: None,
        }
    }

    /// A whole table, in all clusters.
    pub fn everywhere(table: &Table) -> Self {
        Self {
            table: table.clone(),
            cluster: None,
            namespace: None,
        }
    }

    pub(super) fn covers(&self, place: &Place) -> bool {
        self.cluster.as_ref().is_none_or(|c| *c == place.cluster)
            && self
                .namespace
                .as_ref()
                .is_none_or(|n| *n == place.namespace)
    }

    /// The first place that can be covered.
    pub(super) fn start(&self) -> Place {
        let empty = Name::from("");
        Place {
            cluster: self.cluster.clone().unwrap_or_else(|| empty.clone()),
            namespace: match (&self.cluster, &self.namespace) {
                (Some(_), Some(namespace)) => namespace.clone(),
                _ => empty.clone(),
            },
            name: empty,
        }
    }

    /// Whether nothing from here on can be covered.
    pub(super) fn is_past(&self, place: &Place) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        place.cluster > *cluster
            || (place.cluster == *cluster
                && self
                    .namespace
                    .as_ref()
                    .is_some_and(|namespace| in_keys(&place.namespace, namespace).is_gt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_their_keys() {
        let place = |namespace: &str, name: &str| Place {
            cluster: "c".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let key = |place: &Place| format!("{}/{}", place.namespace, place.name);
        let names = ["a", "a-b", "a0", "ab", "b", "b-c-d", "b-c"];
        let mut places: Vec<Place> = names
            .iter()
            .flat_map(|namespace| ["x", "x-y", "x.y"].map(|name| place(namespace, name)))
            .collect();
        places.sort();
        let keys: Vec<String> = places.iter().map(key).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(place("", "x") < place("a", ""));
    }
}
