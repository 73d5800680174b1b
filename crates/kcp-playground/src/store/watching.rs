//! Watching: a cursor over the remembered changes of one range, woken when its table changes.
//!
//! Nothing is queued for a watcher. It reads on from where it was, so a slow one costs nothing until
//! what it has not read yet is forgotten, and then it is told so.

use std::sync::Arc;

use tokio::sync::watch;

use super::history::{Change, Contents};
use super::{Range, Store, Stored};
use crate::status::Status;

/// Which objects of a range are wanted.
pub(crate) trait Filter: Send + Sync {
    fn matches(&self, object: &Stored) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    Added,
    Modified,
    /// Removed, or no longer matching.
    Deleted,
}

/// What a watcher is told.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub kind: EventKind,
    /// Of the change. For `Deleted` it is not the object's own: the object is its last matching state.
    pub revision: u64,
    pub object: Arc<Stored>,
}

/// A watcher's place in history.
pub(crate) struct Watch {
    store: Arc<Store>,
    range: Range,
    filter: Option<Arc<dyn Filter>>,
    position: u64,
    /// The last poll stopped at its limit.
    behind: bool,
    wake: watch::Receiver<u64>,
}

impl Store {
    /// Watches what happens in the range after `revision`, which may lie in the future.
    pub(crate) fn watch(
        self: &Arc<Self>,
        range: Range,
        filter: Option<Arc<dyn Filter>>,
        revision: u64,
    ) -> Watch {
        let known = self.wake_of(&range);
        let wake = known.unwrap_or_else(|| {
            let _turn = self.writer.lock();
            let mut state = self.state.write();
            let contents = state.tables.entry(range.table.clone());
            contents.or_insert_with(Contents::new).wake.subscribe()
        });
        Watch {
            store: Arc::clone(self),
            range,
            filter,
            position: revision,
            behind: false,
            wake,
        }
    }

    fn wake_of(&self, range: &Range) -> Option<watch::Receiver<u64>> {
        let state = self.state.read();
        Some(state.tables.get(&range.table)?.wake.subscribe())
    }
}

impl Watch {
    /// Everything up to this revision has been told.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// What happened since, oldest first, at most `limit` changes looked at; then, or when nothing of
    /// it is wanted, `changed` tells when to go on.
    /// Refused with 410 when the watcher was too slow, or came too late.
    pub(crate) fn poll(&mut self, limit: usize) -> Result<Vec<Event>, Status> {
        self.wake.borrow_and_update();
        let store = Arc::clone(&self.store);
        let state = store.state.read();
        if self.position < state.ring.floor {
            return Err(Status::too_old(self.position, state.ring.floor));
        }
        let mut events = Vec::new();
        self.behind = false;
        let Some(contents) = state.tables.get(&self.range.table) else {
            return Ok(events);
        };
        for (looked_at, change) in contents.after(self.position).enumerate() {
            if looked_at == limit {
                self.behind = true;
                return Ok(events);
            }
            events.extend(self.seen(change));
            self.position = change.revision;
        }
        self.position = self.position.max(state.revision);
        Ok(events)
    }

    /// Waits for something that [`Self::poll`] may find.
    pub(crate) async fn changed(&mut self) {
        if self.behind {
            return;
        }
        if self.wake.changed().await.is_err() {
            // The sender lives in the store, which this watch keeps alive.
            std::future::pending::<()>().await;
        }
    }

    /// The state, if it is one that is watched for.
    fn matching<'s>(&self, state: Option<&'s Arc<Stored>>) -> Option<&'s Arc<Stored>> {
        state.filter(|stored| {
            self.range.covers(&stored.key.place)
                && self.filter.as_ref().is_none_or(|f| f.matches(stored))
        })
    }

    fn seen(&self, change: &Change) -> Option<Event> {
        let before = self.matching(change.before.as_ref());
        let after = self.matching(change.after.as_ref());
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => (EventKind::Added, after),
            (Some(_), Some(after)) => (EventKind::Modified, after),
            (Some(before), None) => (EventKind::Deleted, before),
        };
        Some(Event {
            kind,
            revision: change.revision,
            object: Arc::clone(object),
        })
    }
}
