//! The record in a Lease, and a candidate's next step. Pure, on the candidate's own clock.
//!
//! The times in a Lease are those of its writer, and clocks differ. So they are never compared with a clock: a
//! candidate notes when it saw the Lease change, and takes over a Lease that has not changed for long enough.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

/// The relevant fields of a Lease's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if it has no holder.
    pub(super) holder: String,
    pub(super) seconds: u64,
    pub(super) acquired: String,
    pub(super) renewed: String,
    pub(super) transitions: u64,
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait: another process holds it.
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

    /// The record after this candidate takes a Lease that it has seen to be free.
    pub(super) fn taken(&self, lease: Option<&Record>, clock: &str) -> Record {
        self.mine(clock, clock, lease.map_or(0, |lease| lease.transitions + 1))
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
    /// Reads a record. Missing fields and fields of another type are left out.
    pub(super) fn read(fields: &Value, transitions: &str) -> Self {
        let text = |field: &str| fields[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| fields[field].as_u64().unwrap_or_default();
        Self {
            holder: text("holderIdentity"),
            seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number(transitions),
        }
    }

    /// Writes the record among other fields, which stay.
    pub(super) fn write(&self, fields: &mut Value, transitions: &str) {
        if !fields.is_object() {
            *fields = Map::new().into();
        }
        fields["holderIdentity"] = self.holder.as_str().into();
        fields["leaseDurationSeconds"] = self.seconds.into();
        fields["acquireTime"] = self.acquired.as_str().into();
        fields["renewTime"] = self.renewed.as_str().into();
        fields[transitions] = self.transitions.into();
    }
}

#[cfg(test)]
mod tests;
