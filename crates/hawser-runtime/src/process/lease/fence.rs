//! The fence: it decides whether this process may still write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::connection::WriteGuard;

/// Open while no other process can hold the Lease. It closes if it is not extended, even if everything else in the
/// process is blocked. Clones and checks are cheap.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    /// In nanoseconds from the start.
    until: AtomicU64,
    closed: AtomicBool,
}

/// A write that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another agent may lead")]
pub struct Fenced;

// === impl Fence ===

impl Fence {
    /// For a process without election.
    pub fn always_open() -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            until: AtomicU64::new(u64::MAX),
            closed: AtomicBool::new(false),
        }))
    }

    /// For a candidate: closed until it is elected.
    pub fn closed() -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            until: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }))
    }

    /// A guard for everything that a connection writes.
    pub fn guard(&self) -> Arc<WriteGuard> {
        let fence = self.clone();
        Arc::new(move |_| fence.check().map_err(|fenced| fenced.to_string()))
    }

    /// Whether a write may begin now.
    pub fn check(&self) -> Result<(), Fenced> {
        let until = self.0.until.load(Ordering::Acquire);
        let open = !self.0.closed.load(Ordering::Acquire)
            && (until == u64::MAX || nanoseconds(self.0.begun.elapsed()) < until);
        if open { Ok(()) } else { Err(Fenced) }
    }

    pub(super) fn extend(&self, then: Instant) {
        let until = then.saturating_duration_since(self.0.begun);
        self.0.until.store(nanoseconds(until), Ordering::Release);
    }

    /// Closes the fence for good.
    pub(super) fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_that_is_not_extended_closes_by_itself() {
        let fence = Fence::closed();
        assert_eq!(fence.check(), Err(Fenced));
        fence.extend(Instant::now() + Duration::from_secs(12));
        advance(Duration::from_secs(11)).await;
        assert_eq!(fence.check(), Ok(()));
        let other = fence.clone();
        other.extend(Instant::now() + Duration::from_secs(12));
        advance(Duration::from_secs(11)).await;
        assert_eq!(fence.check(), Ok(()));
        advance(Duration::from_secs(1)).await;
        assert_eq!(fence.check(), Err(Fenced));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_fence_stays_closed() {
        let fence = Fence::closed();
        fence.extend(Instant::now() + Duration::from_secs(12));
        fence.close();
        assert_eq!(fence.check(), Err(Fenced));
        fence.extend(Instant::now() + Duration::from_secs(12));
        assert_eq!(fence.check(), Err(Fenced));
    }

    #[tokio::test(start_paused = true)]
    async fn who_writes_alone_always_may() {
        let fence = Fence::always_open();
        advance(Duration::from_hours(100_000)).await;
        assert_eq!(fence.check(), Ok(()));
    }
}
