//! The limit of a table for the objects of each cluster. An object beyond it is *left out*: only its identity and labels
//! are kept, so it is known to exist, and nothing is concluded from the missing content.

use std::collections::HashMap;
use std::sync::Arc;

use hawser_sync::{Fingerprint, Key};
use kube_lang::object::Object;

use super::entry::{Completeness, Entry, charge};

/// The most bytes of identity and labels of an object that is left out, with their index.
const IDENTITY: usize = 16 << 10;

/// The bytes of each cluster. Without a limit, nothing is counted.
#[derive(Default)]
pub(super) struct ClusterBudgets {
    most: Option<usize>,
    clusters: HashMap<Arc<str>, Share>,
    left_out: usize,
}

#[derive(Default)]
struct Share {
    objects: usize,
    bytes: usize,
    /// Objects of which not even the labels are kept.
    hidden: usize,
}

/// The parts of an object that the table keeps.
pub(super) struct StoredParts {
    pub(super) fingerprint: Fingerprint,
    pub(super) text: Vec<u8>,
    pub(super) extent: Completeness,
    pub(super) charge: usize,
}

impl ClusterBudgets {
    pub(super) fn new(most: Option<usize>) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Decides which parts of an object are kept; `before` are the bytes that count for it so far.
    pub(super) fn keep(&self, key: &Key, object: &Object, before: usize) -> StoredParts {
        let (fingerprint, text) = Fingerprint::with_text(object);
        let bytes = charge(text.len(), object);
        if self.fits(key, before, bytes) {
            let extent = if object.is_fragment() {
                Completeness::Fragment
            } else {
                Completeness::Whole
            };
            return StoredParts {
                fingerprint,
                text,
                extent,
                charge: bytes,
            };
        }
        let (fingerprint, mut text) = Fingerprint::with_text(&object.left_out());
        let mut extent = Completeness::LeftOut { bytes };
        let mut kept = charge(text.len(), object);
        if kept > IDENTITY {
            let name = Object::empty(&key.kind, key.namespace.as_deref(), &key.name);
            text = Fingerprint::with_text(&name).1;
            kept = text.len();
            extent = Completeness::Hidden;
        }
        StoredParts {
            fingerprint,
            // Its copy may still be as large as it was when it was kept.
            charge: before.max(kept),
            text,
            extent,
        }
    }

    /// Whether the kept parts of an object answer questions about it. An object that is left out and would fit now has
    /// to be read, and so has one of which not even the labels are kept.
    pub(super) fn settles(&self, key: &Key, entry: &Entry) -> bool {
        match entry.extent {
            Completeness::Whole | Completeness::Fragment | Completeness::Cut => true,
            Completeness::LeftOut { bytes } => !self.fits(key, entry.charge, bytes),
            Completeness::Hidden => false,
        }
    }

    /// Whether the labels of all objects of a cluster are known.
    pub(super) fn knows_labels(&self, cluster: &str) -> bool {
        let share = self.clusters.get(cluster);
        share.is_none_or(|share| share.hidden == 0)
    }

    fn fits(&self, key: &Key, before: usize, bytes: usize) -> bool {
        let Some(most) = self.most else {
            return true;
        };
        let share = self.clusters.get(&key.cluster);
        let counted = share.map_or(0, |share| share.bytes);
        counted - before + bytes <= most
    }

    pub(super) fn count(&mut self, key: &Key, entry: &Entry) {
        self.left_out += usize::from(entry.is_left_out());
        if self.most.is_some() {
            let share = self.clusters.entry(Arc::clone(&key.cluster)).or_default();
            share.objects += 1;
            share.bytes += entry.charge;
            share.hidden += usize::from(entry.extent == Completeness::Hidden);
        }
    }

    pub(super) fn uncount(&mut self, key: &Key, entry: &Entry) {
        self.left_out -= usize::from(entry.is_left_out());
        let Some(share) = self.clusters.get_mut(&key.cluster) else {
            return;
        };
        share.objects -= 1;
        share.bytes -= entry.charge;
        share.hidden -= usize::from(entry.extent == Completeness::Hidden);
        if share.objects == 0 {
            self.clusters.remove(&key.cluster);
        }
    }

    /// Counts an object with other bytes.
    pub(super) fn recharge(&mut self, key: &Key, before: usize, now: usize) {
        if let Some(share) = self.clusters.get_mut(&key.cluster) {
            share.bytes = share.bytes - before + now;
        }
    }

    /// The number of objects that are left out.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The bytes of the cluster with the most.
    pub(super) fn largest(&self) -> usize {
        let bytes = self.clusters.values().map(|share| share.bytes);
        bytes.max().unwrap_or_default()
    }
}
