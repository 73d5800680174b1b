//! The record in a Lease, and a candidate's next step. Pure, on the candidate's own clock.
//!
//! The times in a Lease are those of its writer, and clocks differ. So they are never compared with a clock: a
//! candidate notes when it saw the Lease change, and takes over a Lease that has not changed for long enough.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// The relevant fields of a Lease's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if nobody holds it.
    pub(super) holder: String,
    pub(super) seconds: u64,
    pub(super) acquired: String,
    pub(super) renewed: String,
    pub(super) transitions: u64,
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait: somebody else holds it.
    Wait { holder: String },
    /// Write this record.
    Write(Record),
}

/// A candidate for a Lease.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    duration: Duration,
    /// The last record of the Lease, and the time since when.
    seen: Option<(Record, Instant)>,
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(identity: String, duration: Duration) -> Self {
        Self {
            identity,
            duration,
            seen: None,
        }
    }

    /// Observes the Lease at `now`; `None` if there is no Lease. `clock` is the wall-clock time.
    pub(super) fn look(&mut self, lease: Option<Record>, now: Instant, clock: &str) -> Step {
        let Some(lease) = lease else {
            self.seen = None;
            return Step::Write(self.mine(clock, clock, 0));
        };
        let since = match &self.seen {
            Some((seen, since)) if *seen == lease => *since,
            _ => now,
        };
        self.seen = Some((lease.clone(), since));
        if lease.holder == self.identity {
            return Step::Write(self.mine(&lease.acquired, clock, lease.transitions));
        }
        let patience = Duration::from_secs(lease.seconds.max(1));
        let alive = !lease.holder.is_empty() && now.duration_since(since) < patience;
        if alive {
            return Step::Wait {
                holder: lease.holder,
            };
        }
        Step::Write(self.mine(clock, clock, lease.transitions + 1))
    }

    /// The record after this candidate releases the Lease.
    pub(super) fn given_up(lease: &Record, clock: &str) -> Record {
        Record {
            holder: String::new(),
            // Zero is not allowed.
            seconds: 1,
            acquired: clock.to_owned(),
            renewed: clock.to_owned(),
            transitions: lease.transitions,
        }
    }

    fn mine(&self, acquired: &str, renewed: &str, transitions: u64) -> Record {
        Record {
            holder: self.identity.clone(),
            // Others may wait longer than necessary, never shorter.
            seconds: self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0),
            acquired: acquired.to_owned(),
            renewed: renewed.to_owned(),
            transitions,
        }
    }
}

// === impl Record ===

impl Record {
    /// Reads the record of a Lease. Missing fields and fields of another type are left out.
    pub(super) fn read(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| spec[field].as_u64().unwrap_or_default();
        Self {
            holder: text("holderIdentity"),
            seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number("leaseTransitions"),
        }
    }

    /// Writes the record into a Lease; other fields stay.
    pub(super) fn write(&self, lease: &mut Value) {
        let fields = json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        });
        let Some(lease) = lease.as_object_mut() else {
            return;
        };
        let spec = lease.entry("spec").or_insert_with(|| Map::new().into());
        if let (Some(spec), Value::Object(fields)) = (spec.as_object_mut(), fields) {
            spec.extend(fields);
        }
    }
}

#[cfg(test)]
mod tests;
