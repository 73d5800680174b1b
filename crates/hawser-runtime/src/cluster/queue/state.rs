//! What goes into a queue with a key, what comes back, and the numbers of a queue.

use std::time::Duration;

/// The reason to look at a key, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Something changed just now.
    Live,
    /// The key comes from a first list, or returns after a wait.
    Initial,
    /// A periodic check.
    Resync,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Settled,
    /// Successful; the key is processed again after this time.
    Again(Duration),
    /// Failed: retried with back-off, and not before this time if a server named one.
    Failed(Option<Duration>),
}

/// The number of waiting keys, by the reason for the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub live: usize,
    pub initial: usize,
    pub resync: usize,
    /// Not ready yet.
    pub delayed: usize,
}

impl Depth {
    /// The number of keys that could run now if a worker were free.
    pub fn ready(self) -> usize {
        self.live + self.initial + self.resync
    }
}

/// The numbers of a queue, now and since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Keys that could run now.
    pub ready: usize,
    /// The time for which the oldest of them has been ready.
    pub oldest: Duration,
    /// Keys that run.
    pub busy: usize,
    /// The sum of the times for which the busy keys have been running.
    pub unfinished: Duration,
    /// The longest of these times.
    pub longest: Duration,
    /// The number of times that a key became ready; adding a ready key again does not count.
    pub adds: u64,
    /// The number of times that a key came back because it had failed.
    pub retries: u64,
}

impl QueueState {
    /// The numbers of two queues together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            ready: self.ready + other.ready,
            oldest: self.oldest.max(other.oldest),
            busy: self.busy + other.busy,
            unfinished: self.unfinished + other.unfinished,
            longest: self.longest.max(other.longest),
            adds: self.adds + other.adds,
            retries: self.retries + other.retries,
        }
    }
}
