//! An index of owner references, for garbage collection.
//!
//! Objects without owners and dependents cost nothing here. Another module decides what to delete.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::key::{Key, Name};
use super::stored::{Lineage, Stored};

/// An owner: its cluster, because owners are in the cluster of their dependents, and its uid.
type OwnerId = (Name, Box<str>);

/// All dependents by owner, and the objects to check.
#[derive(Debug, Default)]
pub(super) struct Lineages {
    dependents: HashMap<OwnerId, BTreeSet<Key>>,
    /// Owners that wait for their dependents.
    waiting: HashMap<OwnerId, Key>,
    /// Owners that are gone and still referenced.
    gone: HashSet<OwnerId>,
    /// The objects to check, each once, in the order of their changes.
    doubts: Vec<Key>,
    doubted: HashSet<Key>,
}

impl Lineages {
    /// The uid of a removed object, if others may reference it.
    pub(super) fn departing(&self, before: &Stored) -> Departed {
        if self.dependents.is_empty() {
            return None;
        }
        let owner = (before.key.cluster().clone(), before.object().uid()?.into());
        self.dependents.contains_key(&owner).then_some(owner)
    }

    /// Records a change. Returns whether there is something to check.
    pub(super) fn note(
        &mut self,
        before: Option<&Stored>,
        after: Option<&Stored>,
        departed: Departed,
    ) -> bool {
        let lineage = |stored: Option<&Stored>| stored.and_then(|s| s.lineage.as_deref()).cloned();
        let (was, is) = (lineage(before), lineage(after));
        if was.is_none() && is.is_none() && departed.is_none() {
            return false;
        }
        let before_doubts = self.doubts.len();
        if let (Some(was), Some(stored)) = (&was, before) {
            self.forget(was, &stored.key);
        }
        if let (Some(is), Some(stored)) = (is, after) {
            let cluster = stored.key.cluster();
            for owner in &is.owners {
                let owner = (cluster.clone(), owner.clone());
                let all = self.dependents.entry(owner).or_default();
                all.insert(stored.key.clone());
            }
            if is.waits {
                // Dependents come first, then the owners that wait for them, in the order of a controller.
                let owner = (cluster.clone(), is.uid);
                self.doubt(self.dependents(&owner));
                self.waiting.insert(owner, stored.key.clone());
            }
            self.doubt([stored.key.clone()]);
        }
        if let Some(owner) = departed {
            let dependents = self.dependents(&owner);
            if !dependents.is_empty() {
                self.gone.insert(owner);
            }
            self.doubt(dependents);
        }
        self.doubts.len() > before_doubts
    }

    fn doubt(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            if self.doubted.insert(key.clone()) {
                self.doubts.push(key);
            }
        }
    }

    fn forget(&mut self, was: &Lineage, key: &Key) {
        let cluster = key.cluster();
        for owner in &was.owners {
            let owner = (cluster.clone(), owner.clone());
            // An owner that waits for its dependents is checked when one of them may be gone.
            self.doubt(self.waiting.get(&owner).cloned());
            let Some(all) = self.dependents.get_mut(&owner) else {
                continue;
            };
            all.remove(key);
            if all.is_empty() {
                self.dependents.remove(&owner);
                self.gone.remove(&owner);
            }
        }
        self.waiting.remove(&(cluster.clone(), was.uid.clone()));
    }

    pub(super) fn take_doubts(&mut self) -> Vec<Key> {
        self.doubted.clear();
        std::mem::take(&mut self.doubts)
    }

    pub(super) fn dependents(&self, owner: &OwnerId) -> Vec<Key> {
        let found = self.dependents.get(owner);
        found.into_iter().flatten().cloned().collect()
    }

    pub(super) fn is_gone(&self, owner: &OwnerId) -> bool {
        self.gone.contains(owner)
    }
}

/// An owner that is removed by a change, if it is referenced.
pub(super) type Departed = Option<OwnerId>;

/// Notified when there is something to check.
pub(super) type Doubted = Arc<tokio::sync::Notify>;
