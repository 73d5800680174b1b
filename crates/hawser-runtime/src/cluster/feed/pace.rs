//! The timing of feeds.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The waits of a feed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A watch that says nothing for this long, not even a bookmark, is replaced.
    pub silence: Duration,
    /// The first and the longest wait before a retry.
    pub retry: (Duration, Duration),
    /// The shortest and the longest duration of a watch in seconds. Watches get a random duration between the two, so
    /// that they do not all end at once.
    pub lasts: (u64, u64),
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            // Servers send a bookmark about once a minute.
            silence: Duration::from_secs(90),
            retry: (Duration::from_millis(200), Duration::from_secs(10)),
            lasts: (300, 600),
        }
    }
}

impl Pace {
    pub(super) fn watch_seconds(&self) -> u64 {
        let (least, most) = self.lasts;
        least + random() % (most.saturating_sub(least) + 1)
    }
}

/// The page size of lists: smaller after a page failed.
#[derive(Clone)]
pub(super) struct PageSize {
    now: usize,
    most: usize,
}

/// The page size without failures.
const PAGE: usize = 500;

impl Default for PageSize {
    fn default() -> Self {
        Self {
            now: PAGE,
            most: PAGE,
        }
    }
}

impl PageSize {
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// A page failed; returns whether a smaller one may succeed.
    pub(super) fn shrink(&mut self) -> bool {
        let can = self.now > 1;
        self.most = (self.now / 2).max(1);
        self.now = self.most;
        can
    }

    /// A page succeeded.
    pub(super) fn grow(&mut self) {
        self.now = (self.now * 2).min(self.most);
    }

    /// A whole list succeeded: the next one may use a larger page.
    pub(super) fn list_succeeded(&mut self) {
        self.most = (self.most * 2).min(PAGE);
        self.grow();
    }
}

/// Doubling waits with a random part.
#[derive(Clone)]
pub(super) struct Backoff {
    limits: (Duration, Duration),
    next: Duration,
}

impl Backoff {
    pub(super) fn new(limits: (Duration, Duration)) -> Self {
        Self {
            limits,
            next: limits.0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.next = self.limits.0;
    }

    pub(super) fn is_long(&self) -> bool {
        self.next >= self.limits.0 * 8
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.75 + fraction() / 2.0);
        self.next = (self.next * 2).min(self.limits.1);
        pause
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// A random number between 0 and 1.
fn fraction() -> f64 {
    let random = u32::try_from(random() >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}
