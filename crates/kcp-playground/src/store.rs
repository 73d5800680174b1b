//! Objects of all logical clusters: one map, one revision, transactions, and a history for watches.
//!
//! Every change of an object has a revision of its own; the changes of a transaction become visible together. The store
//! knows keys, JSON and labels; it does not know kinds, schemas or HTTP.
//!
//! Writers take turns (`writer`). They hold a shared lock until the commit, so readers are blocked only while the
//! results are put in place.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

mod history;
mod key;
mod lineage;
mod state;
mod stored;
#[cfg(test)]
mod tests;
mod tx;
mod watching;

pub(crate) use history::Retention;
pub(crate) use key::{Key, Name, Place, Range, Table};
use lineage::Doubted;
use state::StoreState;
pub(crate) use state::{Read, StoreOptions};
pub(crate) use stored::{FOREGROUND, ORPHAN, Stored};
pub(crate) use tx::{Outcome, Settler, Tx};
pub(crate) use watching::{Event, EventKind, Filter, Watch};

use super::status::Status;

/// All objects of all clusters.
pub(crate) struct Store {
    options: StoreOptions,
    settlers: RwLock<Vec<Arc<dyn Settler>>>,
    /// Held during every transaction. Only its holder locks `state` for writing.
    writer: Mutex<HashSet<Name>>,
    state: RwLock<StoreState>,
    revision: watch::Sender<u64>,
    definitions: watch::Sender<u64>,
    doubted: Doubted,
}

/// The result of a list.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
}

impl Store {
    pub(crate) fn new(options: StoreOptions) -> Arc<Self> {
        // Revision 0 means "any" for clients. The first object gets revision 2, so that a watch can begin at 1.
        let revision = 1;
        Arc::new(Self {
            settlers: RwLock::default(),
            writer: Mutex::default(),
            state: RwLock::new(StoreState::new(revision, options.retention)),
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

    /// Notifies about every change of a definition (see [`StoreOptions::definitions`]). All watches are woken after it.
    pub(crate) fn watch_definitions(&self) -> watch::Receiver<u64> {
        self.definitions.subscribe()
    }

    /// Notifies about the revision after every commit.
    pub(crate) fn watch_revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The objects whose owners have changed since the last call, and owners that wait for their dependents, for
    /// garbage collection.
    pub(crate) fn take_doubts(&self) -> Vec<Key> {
        self.state.write().lineages.take_doubts()
    }

    /// Waits until [`Self::take_doubts`] has something to return. For a single caller.
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

    /// The current objects of a range, and the current revision.
    pub(crate) fn snapshot(&self, range: &Range) -> Snapshot {
        let state = self.state.read();
        Snapshot {
            revision: state.revision,
            items: state.list(range),
        }
    }

    /// The objects of a range at `revision`: an error if that is no longer retained, or in the future.
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

    /// Drops the history: a watch or a list from any earlier revision is refused with 410.
    pub(crate) fn compact(&self) {
        let _turn = self.writer.lock();
        let mut state = self.state.write();
        while let Some(table) = state.ring.forget() {
            state.drop_oldest_change(&table);
        }
    }

    /// One transaction: the changes of `f` and then of the settlers become visible together or, after an error, not at
    /// all.
    pub(crate) fn write<T>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Status>,
    ) -> Result<Outcome<T>, Status> {
        let mut names = self.writer.lock();
        let (value, pending) = {
            let state = self.state.read();
            let mut tx = Tx::new(&self.options, &state);
            let value = f(&mut tx)?;
            tx.settle(&self.settlers.read())?;
            (value, tx.finish(&mut names))
        };
        Ok(self.commit(value, pending))
    }

    /// Executes a transaction without committing it. Objects of the outcome keep their earlier revision.
    pub(crate) fn dry_run<T>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Status>,
    ) -> Result<Outcome<T>, Status> {
        let _turn = self.writer.lock();
        let state = self.state.read();
        let mut tx = Tx::new(&self.options, &state);
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
                // Every watch checks whether its resource is still served.
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

/// Each read sees the state at its time. Several reads of one state use [`Store::read`].
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
