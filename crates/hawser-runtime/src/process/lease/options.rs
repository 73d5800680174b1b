//! The options of an election, and the identity of a candidate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

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
    pub marks: Marks,
    pub metrics: Arc<Metrics>,
}

/// What the holder writes on the Lease, in the same request as its record. Other labels and annotations stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub labels: BTreeMap<&'static str, String>,
    pub annotations: BTreeMap<&'static str, String>,
}

impl Marks {
    pub(super) fn write(&self, object: &mut Value) {
        for (field, marks) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for (name, value) in marks {
                object["metadata"][field][*name] = value.as_str().into();
            }
        }
    }
}

impl LeaseOptions {
    /// A Lease of this name, on the terms that agents of all kinds share.
    pub fn usual(namespace: &str, name: String, fence: &Fence, metrics: &Arc<Metrics>) -> Self {
        Self {
            lock: Lock::Lease,
            namespace: namespace.to_owned(),
            name,
            identity: identity(),
            terms: Terms::USUAL,
            fence: fence.clone(),
            marks: Marks::default(),
            metrics: Arc::clone(metrics),
        }
    }
}

impl Terms {
    /// The defaults that agents of all kinds share.
    pub const USUAL: Self = Self {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    /// For tests in which nothing runs out, however slow the machine is.
    #[cfg(test)]
    pub(crate) const LONG: Self = Self {
        duration: Duration::from_mins(2),
        renew_deadline: Duration::from_mins(1),
        retry: Duration::from_millis(200),
    };
    /// For tests that wait until a Lease has run out.
    #[cfg(test)]
    pub(crate) const SHORT: Self = Self {
        duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry: Duration::from_millis(200),
    };

    /// The time until which no other process can have taken over a Lease that was renewed at this time, less a fifth of
    /// its duration for differences between clocks and for active writes.
    pub(super) fn safe_until(&self, sent: Instant) -> Instant {
        sent + self.duration - self.duration / 5
    }
}

/// The identity of this process: where it runs, and a unique part.
pub fn identity() -> String {
    let host = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let host = match host.trim() {
        "" => "localhost",
        host => host,
    };
    format!("{host}_{}", Uuid::new_v4())
}
