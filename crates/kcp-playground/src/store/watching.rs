//! Watching: a cursor over the retained changes of one range, woken when its table changes.
//!
//! There is no queue for a watcher. It continues from its position, so a slow watcher costs nothing until its next
//! change is dropped; then it gets an error.

use std::sync::Arc;

use tokio::sync::watch;

use super::history::{Change, Contents};
use super::{Range, Store, Stored};
use crate::status::Status;

/// The filter for objects of a range.
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

/// An event for a watcher.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub kind: EventKind,
    /// The revision of the change. For `Deleted`, the object is its last matching state, with another revision.
    pub revision: u64,
    pub object: Arc<Stored>,
}

/// The position of a watcher in the history.
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
    /// Watches changes in the range after `revision`, which may be in the future.
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
    /// All changes up to this revision have been returned.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The events since the last poll, oldest first, from at most `limit` changes. If there are more changes, or none
    /// that match, `changed` tells when to poll again. Refused with 410 if the watcher was too slow, or began too late.
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

    /// Waits until [`Self::poll`] may find something.
    pub(crate) async fn changed(&mut self) {
        if self.behind {
            return;
        }
        if self.wake.changed().await.is_err() {
            // The sender is in the store, which this watch keeps alive.
            std::future::pending::<()>().await;
        }
    }

    /// The state, if it matches the filter.
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
