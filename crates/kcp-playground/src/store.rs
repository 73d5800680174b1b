//! Objects of all logical clusters: one map, one revision, transactions, and a past to watch from.
//!
//! Every change of an object has a revision of its own; a transaction's changes become visible
//! together. Knows keys, JSON and labels; nothing of kinds, schemas or HTTP.
//!
//! Writers take turns (`writer`), and work on a shared lock until the commit, so that readers are kept
//! out only while finished states are put in place.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

mod history;
mod key;
mod lineage;
mod stored;
#[cfg(test)]
mod tests;
mod tx;
mod watching;

pub(crate) use history::{Change, Retention};
use history::{Contents, Ring};
pub(crate) use key::{Key, Name, Place, Range, Table};
use lineage::{Departed, Doubted, Lineages};
pub(crate) use lineage::{FOREGROUND, ORPHAN};
pub(crate) use stored::Stored;
pub(crate) use tx::{Outcome, Tx};
pub(crate) use watching::{Event, EventKind, Filter, Watch};

use super::status::Status;

/// The annotation by which clients of several clusters tell objects apart.
pub(crate) const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

/// How a store is set up.
#[derive(Clone, Debug)]
pub(crate) struct StoreOptions {
    pub retention: Retention,
    /// Clusters that are no kcp workspaces: their objects carry no [`CLUSTER_ANNOTATION`].
    pub plain_clusters: HashSet<Name>,
    /// What defines APIs: `(group, resource)`. A change there makes catalogs stale.
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

/// A controller that brings objects in step inside the transaction that disturbed them.
pub(crate) trait Settler: Send + Sync {
    /// Reacts to the keys that were written since its last call in this transaction, its own writes
    /// included. An error undoes the whole transaction and is its answer.
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status>;
}

/// Reading, inside a transaction or outside.
pub(crate) trait Read {
    fn get(&self, key: &Key) -> Option<Arc<Stored>>;
    /// In the order of lists.
    fn list(&self, range: &Range) -> Vec<Arc<Stored>>;
    /// The tables that hold objects, or have held some.
    fn tables(&self) -> Vec<Table>;
}

#[derive(Debug)]
struct StoreState {
    revision: u64,
    definitions: u64,
    tables: BTreeMap<Table, Contents>,
    ring: Ring,
    lineages: Lineages,
}

/// All objects of all clusters.
pub(crate) struct Store {
    options: StoreOptions,
    settlers: RwLock<Vec<Arc<dyn Settler>>>,
    /// Held through every transaction; `state` is locked for writing only by who holds it.
    writer: Mutex<HashSet<Name>>,
    state: RwLock<StoreState>,
    revision: watch::Sender<u64>,
    definitions: watch::Sender<u64>,
    doubted: Doubted,
}

/// What a list found.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
}

impl Store {
    pub(crate) fn new(options: StoreOptions) -> Arc<Self> {
        // Clients take 0 for "any"; the first object gets 2, so that 1 is a revision to watch from.
        let revision = 1;
        Arc::new(Self {
            settlers: RwLock::default(),
            writer: Mutex::default(),
            state: RwLock::new(StoreState {
                revision,
                definitions: 0,
                tables: BTreeMap::new(),
                ring: Ring::new(options.retention, revision),
                lineages: Lineages::default(),
            }),
            revision: watch::Sender::new(revision),
            definitions: watch::Sender::new(0),
            doubted: Doubted::default(),
            options,
        })
    }

    /// Adds a controller. Settlers run in the order in which they were added.
    pub(crate) fn add_settler(&self, settler: Arc<dyn Settler>) {
        self.settlers.write().push(settler);
    }

    /// Tells about every change of a definition (see [`StoreOptions::definitions`]). All watches are woken
    /// after it.
    pub(crate) fn watch_definitions(&self) -> watch::Receiver<u64> {
        self.definitions.subscribe()
    }

    /// Tells the revision after every commit.
    pub(crate) fn watch_revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The objects whose owners have changed since this was asked last, and owners that wait for
    /// their dependents: what garbage collection has to look at.
    pub(crate) fn take_doubts(&self) -> Vec<Key> {
        self.state.write().lineages.take_doubts()
    }

    /// Waits until there is something for [`Self::take_doubts`]. For one who asks.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    pub(crate) fn clock(&self) -> fn() -> Timestamp {
        self.options.clock
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// Reads one consistent state. Must not write, and must not be called within a transaction.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&dyn Read) -> T) -> T {
        f(&*self.state.read())
    }

    /// What the range holds now, and the revision of "now".
    pub(crate) fn snapshot(&self, range: &Range) -> Snapshot {
        let state = self.state.read();
        Snapshot {
            revision: state.revision,
            items: state.list(range),
        }
    }

    /// What the range held at `revision`: refused when that is forgotten or still to come.
    pub(crate) fn snapshot_at(&self, range: &Range, revision: u64) -> Result<Snapshot, Status> {
        let state = self.state.read();
        if revision > state.revision {
            return Err(Status::too_new(revision, state.revision));
        }
        if revision < state.ring.floor {
            return Err(Status::too_old(revision, state.ring.floor));
        }
        let items = match state.tables.get(&range.table) {
            Some(contents) => contents.select_at(range, revision),
            None => Vec::new(),
        };
        Ok(Snapshot { revision, items })
    }

    /// Forgets the past: a watch or a list from any earlier revision is refused with 410.
    pub(crate) fn compact(&self) {
        let _turn = self.writer.lock();
        let mut state = self.state.write();
        while let Some(table) = state.ring.forget() {
            state.drop_oldest_change(&table);
        }
    }

    /// One transaction: what `f` and then the settlers do becomes visible together, or, on an error,
    /// not at all.
    pub(crate) fn write<T>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Status>,
    ) -> Result<Outcome<T>, Status> {
        let mut names = self.writer.lock();
        let (value, pending) = {
            let state = self.state.read();
            let mut tx = Tx::new(self, &state);
            let value = f(&mut tx)?;
            tx.settle(&self.settlers.read())?;
            (value, tx.finish(&mut names))
        };
        Ok(self.commit(value, pending))
    }

    /// Does everything of a transaction except committing it. Objects of the outcome have no revision
    /// beyond the one that they had before.
    pub(crate) fn dry_run<T>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Status>,
    ) -> Result<Outcome<T>, Status> {
        let _turn = self.writer.lock();
        let state = self.state.read();
        let mut tx = Tx::new(self, &state);
        let value = f(&mut tx)?;
        tx.settle(&self.settlers.read())?;
        Ok(tx.abandon(value))
    }

    fn commit<T>(&self, value: T, pending: tx::Pending) -> Outcome<T> {
        let tx::Pending {
            changes,
            definitions_changed,
            reported,
        } = pending;
        let mut wakes = Vec::new();
        let mut doubts = false;
        let (revision, definitions) = {
            let mut state = self.state.write();
            for (table, change, departed) in changes {
                doubts |= state.take_in(&change, departed);
                wakes.push(state.apply(table, change));
            }
            if definitions_changed {
                state.definitions += 1;
                // Every watch looks whether it still shows what it should.
                wakes.extend(state.tables.values().map(|contents| contents.wake.clone()));
            }
            (state.revision, state.definitions)
        };
        if definitions_changed {
            self.definitions.send_replace(definitions);
        }
        for wake in wakes {
            wake.send_replace(revision);
        }
        self.revision.send_if_modified(|seen| {
            let newer = revision > *seen;
            *seen = revision;
            newer
        });
        if doubts {
            self.doubted.notify_one();
        }
        Outcome {
            value,
            revision,
            reported,
        }
    }
}

impl StoreState {
    fn take_in(&mut self, change: &Change, departed: Departed) -> bool {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        self.lineages.note(before, after, departed)
    }

    fn apply(&mut self, table: Table, change: Arc<Change>) -> watch::Sender<u64> {
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

    fn drop_oldest_change(&mut self, table: &Table) {
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

/// Each question is answered by the state of its moment: what needs more than one is asked in
/// [`Store::read`].
impl Read for Store {
    fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.state.read().get(key)
    }

    fn list(&self, range: &Range) -> Vec<Arc<Stored>> {
        self.state.read().list(range)
    }

    fn tables(&self) -> Vec<Table> {
        self.state.read().tables()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}
