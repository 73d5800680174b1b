//! The committed state of a store, and its settings.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::history::{Change, Contents, Retention, Ring};
use super::key::{Key, Name, Range, Table};
use super::lineage::{Departed, Lineages};
use super::stored::Stored;

/// The annotation by which clients distinguish objects of several clusters.
pub(crate) const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

/// The settings of a store.
#[derive(Clone, Debug)]
pub(crate) struct StoreOptions {
    pub retention: Retention,
    /// Clusters without kcp: their objects have no [`CLUSTER_ANNOTATION`].
    pub plain_clusters: HashSet<Name>,
    /// The resources that define APIs: `(group, resource)`. Their changes invalidate catalogs.
    pub definitions: HashSet<(Name, Name)>,
    pub clock: fn() -> Timestamp,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            plain_clusters: HashSet::new(),
            definitions: HashSet::from([(
                "apiextensions.k8s.io".into(),
                "customresourcedefinitions".into(),
            )]),
            clock: Timestamp::now,
        }
    }
}

/// Reads, within a transaction or outside.
pub(crate) trait Read {
    fn get(&self, key: &Key) -> Option<Arc<Stored>>;
    /// In the order of lists.
    fn list(&self, range: &Range) -> Vec<Arc<Stored>>;
    /// The tables that contain objects, or have contained some.
    fn tables(&self) -> Vec<Table>;
}

#[derive(Debug)]
pub(super) struct StoreState {
    pub(super) revision: u64,
    pub(super) definitions: u64,
    pub(super) tables: BTreeMap<Table, Contents>,
    pub(super) ring: Ring,
    pub(super) lineages: Lineages,
}

impl StoreState {
    pub(super) fn new(revision: u64, retention: Retention) -> Self {
        Self {
            revision,
            definitions: 0,
            tables: BTreeMap::new(),
            ring: Ring::new(retention, revision),
            lineages: Lineages::default(),
        }
    }

    pub(super) fn take_in(&mut self, change: &Change, departed: Departed) -> bool {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        self.lineages.note(before, after, departed)
    }

    pub(super) fn apply(&mut self, table: Table, change: Arc<Change>) -> watch::Sender<u64> {
        self.revision = change.revision;
        self.ring.push(table.clone(), &change);
        let contents = self.tables.entry(table).or_insert_with(Contents::new);
        match (&change.before, &change.after) {
            (_, Some(after)) => contents.insert(after),
            (Some(before), None) => contents.remove(&before.key.place),
            (None, None) => {}
        }
        contents.changes.push_back(change);
        let wake = contents.wake.clone();
        while let Some(table) = self.ring.overflow() {
            self.drop_oldest_change(&table);
        }
        wake
    }

    pub(super) fn drop_oldest_change(&mut self, table: &Table) {
        if let Some(contents) = self.tables.get_mut(table) {
            contents.changes.pop_front();
        }
    }
}

impl Read for StoreState {
    fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        let contents = self.tables.get(&key.table)?;
        contents.get(&key.place).cloned()
    }

    fn list(&self, range: &Range) -> Vec<Arc<Stored>> {
        match self.tables.get(&range.table) {
            Some(contents) => contents.select(range).cloned().collect(),
            None => Vec::new(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        self.tables.keys().cloned().collect()
    }
}
