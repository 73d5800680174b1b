//! The fair queue: it decides which key is worked on next, and when a key comes back.
//!
//! A key waits at most once. Adding a waiting key again can only bring it forward. Adding a running key makes it ready
//! right after the run, so no change is lost and no key runs twice at once. Tenants take turns: a tenant with ten
//! thousand keys delays another one's single key by one turn. Live changes come before initial and resync work, which
//! still get every eighth turn.
//!
//! [`Fair`] is the pure part and has no clock; [`Queue`] is the handle that workers wait on. Neither knows what a key
//! means.

mod backoff;
mod fair;
mod state;
mod turns;

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use backoff::LONGEST;
use fair::HANGS;
pub use fair::{Due, Fair, Take, Taken};
pub use state::{Depth, Outcome, QueueState, Urgency};

/// A key of a queue.
pub trait QueueKey: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The tenant of the key: tenants take turns, and share workers and requests.
    fn tenant(&self) -> &Arc<str>;
}

/// Each name is a separate tenant.
impl QueueKey for Arc<str> {
    fn tenant(&self) -> &Self {
        self
    }
}

/// A queue that any number of tasks add to and workers take from. Clones are handles to one queue.
pub struct Queue<K> {
    shared: Arc<QueueShared<K>>,
}

struct QueueShared<K> {
    /// Held for one operation at a time, never over an await.
    state: Mutex<LockedQueue<K>>,
    /// Wakes one worker. A worker that stops waiting wakes the next one, which then looks for itself.
    changed: Notify,
    random: RandomState,
    start: Instant,
}

struct LockedQueue<K> {
    fair: Fair<K>,
    /// Notified when a run is to end.
    under_way: HashMap<K, watch::Sender<bool>>,
    closed: bool,
}

/// A key that a worker runs, to be returned with [`Queue::done`]. If it is dropped, by a panic or an aborted task, the
/// run counts as failed.
pub struct Work<K: QueueKey> {
    pub key: K,
    pub urgency: Urgency,
    /// The time for which it was ready before a worker took it.
    pub waited: Duration,
    /// One more than the failures in a row before.
    pub attempt: u32,
    given_up: watch::Receiver<bool>,
    shared: Arc<QueueShared<K>>,
    outcome: Outcome,
}

impl<K: QueueKey> Queue<K> {
    /// A queue for this many workers. One tenant can hold a quarter of them, and all tenants with long runs together
    /// half, so that the others soon find a free one.
    pub fn new(workers: usize) -> Self {
        Self::of(
            Fair::new(workers / 4)
                .with_slow(workers / 2)
                .with_workers(workers),
        )
    }

    /// A queue in which one tenant can hold this many workers, at least one.
    pub fn with_share(per_tenant: usize) -> Self {
        Self::of(Fair::new(per_tenant))
    }

    fn of(fair: Fair<K>) -> Self {
        Self {
            shared: Arc::new(QueueShared {
                state: Mutex::new(LockedQueue {
                    fair,
                    under_way: HashMap::new(),
                    closed: false,
                }),
                changed: Notify::new(),
                random: RandomState::new(),
                start: Instant::now(),
            }),
        }
    }

    /// Adds a key, because something happened to it.
    pub fn add(&self, key: K, urgency: Urgency) {
        let (tenant, at) = (Arc::clone(key.tenant()), self.shared.now());
        self.shared
            .change(|fair| fair.add(key, &tenant, Due { at, urgency }, at));
    }

    /// Adds a key for a later time; it runs earlier if something happens to it.
    pub fn add_after(&self, key: K, urgency: Urgency, after: Duration) {
        let (tenant, now) = (Arc::clone(key.tenant()), self.shared.now());
        let at = now.saturating_add(after);
        self.shared
            .change(|fair| fair.add(key, &tenant, Due { at, urgency }, now));
    }

    /// The next key, as soon as there is one; `None` once the queue is closed. Cancel-safe.
    pub async fn next(&self) -> Option<Work<K>> {
        let shared = &self.shared;
        let _wake_next = WakeNext(&shared.changed);
        loop {
            let changed = shared.changed.notified();
            let (take, given_up) = {
                let mut state = shared.state.lock();
                let now = shared.now();
                let take = (!state.closed).then(|| state.fair.take(now))?;
                let (ends, given_up) = watch::channel(false);
                if let Take::Key(taken) = &take {
                    state.under_way.insert(taken.key.clone(), ends);
                }
                (take, given_up)
            };
            match take {
                Take::Key(taken) => {
                    return Some(Work {
                        key: taken.key,
                        urgency: taken.urgency,
                        waited: taken.waited,
                        attempt: taken.attempt,
                        given_up,
                        shared: Arc::clone(shared),
                        outcome: Outcome::Failed(None),
                    });
                }
                Take::Empty => changed.await,
                Take::Wait(until) => match shared.start.checked_add(until) {
                    // At the time itself or at a change before it: both mean to look again.
                    Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                    // Beyond what the clock can tell.
                    None => changed.await,
                },
            }
        }
    }

    /// Returns a key after its run.
    pub fn done(&self, mut work: Work<K>, outcome: Outcome) {
        work.outcome = outcome;
        // Dropping it says so, to the queue that it came from.
        drop(work);
    }

    /// Drops every waiting key that the caller selects; a running one does not come back.
    pub fn forget(&self, gone: impl FnMut(&K) -> bool) {
        self.shared.change(|fair| fair.forget(gone));
    }

    /// Drops every key of one tenant, like [`Queue::forget`].
    pub fn forget_tenant(&self, tenant: &str) {
        self.shared.change(|fair| fair.forget_tenant(tenant));
    }

    /// Makes failed keys ready at once, because the cause of their failures has changed.
    pub fn retry(&self, meant: impl FnMut(&K) -> bool) {
        let now = self.shared.now();
        self.shared.change(|fair| fair.retry(meant, now));
    }

    /// The same for all keys of a tenant.
    pub fn retry_tenant(&self, tenant: &str) {
        let now = self.shared.now();
        self.shared.change(|fair| fair.retry_tenant(tenant, now));
    }

    /// Closes the queue: every worker that waits or returns ends.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    pub fn depth(&self) -> Depth {
        self.shared.state.lock().fair.depth()
    }

    pub fn state(&self) -> QueueState {
        let now = self.shared.now();
        self.shared.state.lock().fair.state(now)
    }

    /// The time until a key runs, if it waits or runs.
    pub fn due(&self, key: &K) -> Option<Duration> {
        let now = self.shared.now();
        let due = self.shared.state.lock().fair.due(key)?;
        Some(due.saturating_sub(now))
    }

    /// Whether a key runs that was dropped meanwhile.
    pub fn is_forgotten(&self, key: &K) -> bool {
        self.shared.state.lock().fair.is_forgotten(key)
    }

    /// The number of running keys.
    pub fn busy(&self) -> usize {
        self.shared.state.lock().fair.busy()
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<K: QueueKey> QueueShared<K> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn change(&self, change: impl FnOnce(&mut Fair<K>)) {
        change(&mut self.state.lock().fair);
        self.changed.notify_one();
    }

    /// Notifies the runs that have to end.
    fn give_up(&self) {
        let now = self.now();
        let mut state = self.state.lock();
        for key in state.fair.give_up(now) {
            let ends = state.under_way.get(&key);
            // A run that has ended meanwhile need not be told.
            let _ = ends.map(|ends| ends.send(true));
        }
    }
}

impl<K: QueueKey> Work<K> {
    /// Resolves when the run is to end: it takes long, and another tenant waits for its worker.
    pub async fn given_up(&self) {
        let mut given_up = self.given_up.clone();
        loop {
            let told = given_up.wait_for(|given_up| *given_up);
            // Dropped by nobody before the run ends.
            if tokio::time::timeout(HANGS, told).await.is_ok() {
                return;
            }
            self.shared.give_up();
        }
    }
}

impl<K: QueueKey> Drop for Work<K> {
    fn drop(&mut self) {
        self.shared.state.lock().under_way.remove(&self.key);
        let now = self.shared.now();
        let random = self.shared.random.hash_one((&self.key, now));
        let (key, outcome) = (&self.key, self.outcome);
        self.shared
            .change(|fair| fair.done(key, outcome, now, random));
    }
}

impl<K: QueueKey> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .field("urgency", &self.urgency)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Wakes the next worker when one stops waiting, with or without a key: one notification may stand for two changes, and
/// a worker that leaves may have been the only one that knew the next wake-up time.
struct WakeNext<'a>(&'a Notify);

impl Drop for WakeNext<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
