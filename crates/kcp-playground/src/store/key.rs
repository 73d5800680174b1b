//! The place of an object: its table (API), its logical cluster, its namespace and its name.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A string that many objects share.
pub(crate) type Name = Arc<str>;

/// The objects of one API in all clusters. Objects of exports with different identities are in different tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Table {
    pub group: Name,
    pub resource: Name,
    /// The identity hash of the export that the API comes from; empty for an API of the cluster's own.
    pub identity: Name,
}

impl Table {
    pub(crate) fn new(group: &str, resource: &str, identity: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
            identity: identity.into(),
        }
    }

    /// The place of an object in this table.
    pub(crate) fn key(&self, cluster: &str, namespace: &str, name: &str) -> Key {
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

/// The place of an object within a table. The order is the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub cluster: Name,
    /// Empty for cluster-scoped objects.
    pub namespace: Name,
    pub name: Name,
}

impl Place {
    pub(super) fn area(&self) -> Area {
        Area {
            cluster: self.cluster.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let clusters = self.cluster.cmp(&other.cluster);
        clusters
            .then_with(|| in_keys(&self.namespace, &other.namespace))
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The common part of places that are adjacent in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) cluster: Name,
    pub(super) namespace: Name,
}

impl Ord for Area {
    fn cmp(&self, other: &Self) -> Ordering {
        let clusters = self.cluster.cmp(&other.cluster);
        clusters.then_with(|| in_keys(&self.namespace, &other.namespace))
    }
}

impl PartialOrd for Area {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of namespaces within keys, where a slash follows them: `a-b` is before `a`, as in etcd.
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

/// The key of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub table: Table,
    pub place: Place,
}

impl Key {
    pub(crate) fn cluster(&self) -> &Name {
        &self.place.cluster
    }

    pub(crate) fn namespace(&self) -> &Name {
        &self.place.namespace
    }

    pub(crate) fn name(&self) -> &Name {
        &self.place.name
    }

    /// Whether this is an object of that API, with any identity.
    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        &*self.table.group == group && &*self.table.resource == resource
    }
}

/// A part of one table: the range of a list or a watch, before any selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub table: Table,
    /// `None`: all clusters.
    pub cluster: Option<Name>,
    /// `None`: all namespaces of these clusters.
    pub namespace: Option<Name>,
}

impl Range {
    /// A whole table, in one cluster.
    pub(crate) fn in_cluster(table: &Table, cluster: &str) -> Self {
        Self {
            table: table.clone(),
            cluster: Some(cluster.into()),
            namespace: None,
        }
    }

    /// A whole table, in all clusters.
    pub(crate) fn everywhere(table: &Table) -> Self {
        Self {
            table: table.clone(),
            cluster: None,
            namespace: None,
        }
    }

    pub(super) fn covers(&self, place: &Place) -> bool {
        self.covers_area(&place.cluster, &place.namespace)
    }

    fn covers_area(&self, cluster: &Name, namespace: &Name) -> bool {
        let is = |wanted: &Option<Name>, found| wanted.as_ref().is_none_or(|name| name == found);
        is(&self.cluster, cluster) && is(&self.namespace, namespace)
    }

    /// The covered part of a sequence that is sorted by area.
    pub(super) fn select<'m, T>(
        &self,
        areas: &'m BTreeMap<Area, T>,
    ) -> impl Iterator<Item = &'m T> {
        areas
            .range(self.start()..)
            .take_while(|(area, _)| !self.is_past(area))
            .filter(|(area, _)| self.covers_area(&area.cluster, &area.namespace))
            .map(|(_, found)| found)
    }

    /// The first area that can be covered.
    fn start(&self) -> Area {
        let empty = Name::from("");
        Area {
            cluster: self.cluster.clone().unwrap_or_else(|| empty.clone()),
            namespace: match (&self.cluster, &self.namespace) {
                (Some(_), Some(namespace)) => namespace.clone(),
                _ => empty,
            },
        }
    }

    /// Whether nothing from here on can be covered.
    fn is_past(&self, area: &Area) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        area.cluster > *cluster
            || (area.cluster == *cluster
                && self
                    .namespace
                    .as_ref()
                    .is_some_and(|namespace| in_keys(&area.namespace, namespace).is_gt()))
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
