//! The options of an election.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fence::Fence;
use super::lock::Lock;
use crate::process::metrics::Metrics;

/// The timing of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Others wait this long for a holder that does not renew.
    pub duration: Duration,
    /// A holder that could not renew for this long gives up.
    pub renew_deadline: Duration,
    /// The longest pause between two attempts.
    pub retry: Duration,
}

/// The options of the election.
#[derive(Clone)]
pub struct LeaseOptions {
    pub lock: Lock,
    pub namespace: String,
    pub name: String,
    /// Unique for each process.
    pub identity: String,
    pub terms: Terms,
    /// Open while this process holds the Lease and no other process can.
    pub fence: Fence,
    pub metrics: Arc<Metrics>,
}

impl Terms {
    /// The defaults that agents of all kinds share.
    pub const USUAL: Self = Self {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    /// The time until which no other process can have taken over a Lease that was renewed at this time, less a fifth of
    /// its duration for differences between clocks and for active writes.
    pub(super) fn safe_until(&self, sent: Instant) -> Instant {
        sent + self.duration - self.duration / 5
    }
}
