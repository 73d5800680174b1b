//! The fair queue: what is worked on next, when something comes back, and who waits for whom.
//!
//! A key waits at most once. Adding it again while it waits can only bring it forward; adding it while
//! it runs makes it ready right after, so nothing that happened is lost and no key ever runs twice at
//! once. Tenants take turns, so that one with ten thousand keys delays another one's single key by one
//! turn; live changes go before initial and resync work, which still get every eighth turn.
//!
//! [`Fair`] is the pure part and knows no clock; [`Queue`] is the handle that workers wait on. Neither
//! knows what a key means.

mod backoff;
mod fair;
mod turns;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use backoff::LONGEST;
pub use fair::{Fair, Take, Taken};

/// Why a key is to be looked at, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Somebody changed something just now.
    Live,
    /// It was found by a first list, or it comes back after a wait.
    Initial,
    /// To be sure.
    Resync,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something happens.
    Settled,
    /// All is well, and it is to be looked at again after this time.
    Again(Duration),
    /// Again with back-off, and not before this time where a server named one.
    Failed(Option<Duration>),
}

/// How many keys wait, by what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub live: usize,
    pub initial: usize,
    pub resync: usize,
    /// Not ready yet.
    pub delayed: usize,
}

impl Depth {
    /// How many could be worked on now, had a worker the time.
    pub fn ready(self) -> usize {
        self.live + self.initial + self.resync
    }
}

/// A queue that any number of tasks add to and workers take from. Clones are handles to one queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    /// Held for one operation at a time, never over an await.
    state: Mutex<State<K>>,
    /// Wakes one worker. Whoever stops waiting wakes the next one, which then looks for itself.
    changed: Notify,
    random: RandomState,
    start: Instant,
}

struct State<K> {
    fair: Fair<K>,
    closed: bool,
}

/// A key in the hands of a worker, to be given back with [`Queue::done`]. One that is dropped, by a
/// panic or an aborted task, counts as failed.
pub struct Work<K: Clone + Eq + Hash> {
    pub key: K,
    pub tenant: Arc<str>,
    pub urgency: Urgency,
    /// How long it was ready before a worker had time.
    pub waited: Duration,
    /// One more than the failures in a row before.
    pub attempt: u32,
    shared: Arc<Shared<K>>,
    outcome: Outcome,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// A queue for so many workers. One tenant can hold a quarter of them, and all tenants together
    /// whose keys take long half, so that the others always find one free soon.
    pub fn new(workers: usize) -> Self {
        Self::of(Fair::new(workers / 4).with_slow(workers / 2))
    }

    /// A queue of which one tenant can hold so many workers, and at least one.
    pub fn with_share(per_tenant: usize) -> Self {
        Self::of(Fair::new(per_tenant))
    }

    fn of(fair: Fair<K>) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    fair,
                    closed: false,
                }),
                changed: Notify::new(),
                random: RandomState::new(),
                start: Instant::now(),
            }),
        }
    }

    /// Something happened to a key.
    pub fn add(&self, key: K, tenant: &Arc<str>, urgency: Urgency) {
        let now = self.shared.now();
        self.shared
            .change(|fair| fair.add(key, tenant, urgency, now));
    }

    /// A key is to be looked at after a time, or earlier when something happens.
    pub fn add_after(&self, key: K, tenant: &Arc<str>, urgency: Urgency, after: Duration) {
        let at = self.shared.now().saturating_add(after);
        self.shared
            .change(|fair| fair.add_after(key, tenant, urgency, at));
    }

    /// The next key, as soon as there is one; none once the queue is closed. Dropping the future
    /// loses nothing.
    pub async fn next(&self) -> Option<Work<K>> {
        let _baton = Baton(&self.shared.changed);
        loop {
            let changed = self.shared.changed.notified();
            match self.shared.take()? {
                Take::Key(taken) => return Some(self.work(taken)),
                Take::Empty => changed.await,
                Take::Wait(until) => match self.shared.start.checked_add(until) {
                    // At the time itself or at a change before it: both mean to look again.
                    Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                    // Beyond what the clock can tell.
                    None => changed.await,
                },
            }
        }
    }

    /// Gives a key back.
    pub fn done(&self, mut work: Work<K>, outcome: Outcome) {
        work.outcome = outcome;
        // Dropping it says so, to the queue that it came from.
        drop(work);
    }

    /// Drops every waiting key that the caller names; one that runs does not come back.
    pub fn forget(&self, gone: impl FnMut(&K) -> bool) {
        self.shared.change(|fair| fair.forget(gone));
    }

    /// Lets keys that failed come back at once: what they failed for has changed.
    pub fn retry(&self, meant: impl FnMut(&K) -> bool) {
        let now = self.shared.now();
        self.shared.change(|fair| fair.retry(meant, now));
    }

    /// Hands out nothing more: every worker that waits or comes back is told to end.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    pub fn depth(&self) -> Depth {
        self.shared.state.lock().fair.depth()
    }

    /// How long the oldest ready key has been waiting.
    pub fn oldest(&self) -> Option<Duration> {
        let now = self.shared.now();
        self.shared.state.lock().fair.oldest(now)
    }

    /// How many keys are in the hands of workers.
    pub fn busy(&self) -> usize {
        self.shared.state.lock().fair.busy()
    }

    fn work(&self, taken: Taken<K>) -> Work<K> {
        Work {
            key: taken.key,
            tenant: taken.tenant,
            urgency: taken.urgency,
            waited: taken.waited,
            attempt: taken.attempt,
            shared: Arc::clone(&self.shared),
            outcome: Outcome::Failed(None),
        }
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

impl<K: Clone + Eq + Hash> Shared<K> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn change(&self, change: impl FnOnce(&mut Fair<K>)) {
        change(&mut self.state.lock().fair);
        self.changed.notify_one();
    }

    /// What to do now; none once the queue is closed.
    fn take(&self) -> Option<Take<K>> {
        let mut state = self.state.lock();
        let now = self.now();
        (!state.closed).then(|| state.fair.take(now))
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        let now = self.shared.now();
        let random = self.shared.random.hash_one((&self.key, now));
        let (key, outcome) = (&self.key, self.outcome);
        self.shared
            .change(|fair| fair.done(key, outcome, now, random));
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .field("urgency", &self.urgency)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Wakes the next worker when one stops waiting, with a key or without: a change that woke one may
/// have been for two, and a worker that leaves may have been the only one to know when to wake up.
struct Baton<'a>(&'a Notify);

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
