//! The members of a fleet, by name.

use std::sync::Arc;

use crate::types::cluster::MemberCluster;

/// The members of a fleet, sorted by name. A copy shares the members.
#[derive(Clone, Debug, Default)]
pub struct Members(Arc<[Arc<MemberCluster>]>);

impl FromIterator<Arc<MemberCluster>> for Members {
    fn from_iter<T: IntoIterator<Item = Arc<MemberCluster>>>(members: T) -> Self {
        let mut members: Vec<Arc<MemberCluster>> = members.into_iter().collect();
        members.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Self(members.into())
    }
}

impl FromIterator<MemberCluster> for Members {
    fn from_iter<T: IntoIterator<Item = MemberCluster>>(members: T) -> Self {
        members.into_iter().map(Arc::new).collect()
    }
}

impl Members {
    pub fn get(&self, name: &str) -> Option<&MemberCluster> {
        self.position(name).map(|at| self.at(at))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &MemberCluster> {
        self.0.iter().map(|one| &**one)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The position of a member in the order of names.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let found = self
            .0
            .binary_search_by(|one| one.metadata.name.as_str().cmp(name));
        found.ok()
    }

    /// The member at a position, which is one of this fleet.
    pub(crate) fn at(&self, position: usize) -> &MemberCluster {
        &self.0[position]
    }
}
