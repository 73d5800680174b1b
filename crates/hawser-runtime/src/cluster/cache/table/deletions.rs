//! The deletions of a table.

use std::collections::{HashMap, VecDeque};

use hawser_sync::Key;

use super::entry::Uid;

/// The number of deletions that are remembered; older ones are settled.
const MAX_TOMBSTONES: usize = 20_000;

/// An answer with an object that was gone by the last list, before anybody knew of it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cluster::cache) struct Outdated;

/// A deletion that is remembered.
pub(super) struct Tombstone {
    pub(super) uid: Uid,
    /// Versions up to this one are older than the deletion.
    pub(super) version: u64,
    /// The deletion is known from its event, or from the answer that reported it.
    pub(super) witnessed: bool,
    /// The object was in deletion, or had no finalizer.
    pub(super) ended: bool,
    /// The deletion is known from an answer without a version: older states of this uid may still arrive.
    pub(super) undated: bool,
}

/// The remembered deletions of a table, by key.
#[derive(Default)]
pub(super) struct Tombstones {
    all: HashMap<Key, Tombstone>,
    order: VecDeque<Key>,
}

impl Tombstones {
    pub(super) fn get(&self, key: &Key) -> Option<&Tombstone> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Tombstone> {
        self.all.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.order.clear();
    }

    pub(super) fn record(&mut self, key: &Key, tombstone: Tombstone) {
        if self.all.insert(key.clone(), tombstone).is_none() {
            self.order.push_back(key.clone());
        }
        while self.order.len() > MAX_TOMBSTONES {
            if let Some(oldest) = self.order.pop_front() {
                self.all.remove(&oldest);
            }
        }
    }
}
