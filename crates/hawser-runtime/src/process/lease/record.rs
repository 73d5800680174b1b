//! What a Lease says, and what follows from it for one candidate: pure, on the candidate's own clock.
//!
//! The times in a Lease are those of whoever wrote it, and clocks differ. So they are never compared with a
//! clock: a candidate notes when it saw a Lease change, and takes one over that has not changed for long enough.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// What counts of a Lease's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Nobody if empty.
    pub(super) holder: String,
    pub(super) seconds: u64,
    pub(super) acquired: String,
    pub(super) renewed: String,
    pub(super) transitions: u64,
}

/// What a candidate does about a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody else holds it.
    Wait { holder: String },
    /// It is to be written like this.
    Write(Record),
}

/// One who would like to hold a Lease.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    duration: Duration,
    /// What the Lease said last, and since when.
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

    /// Looks at what the Lease says `now`; none if there is no Lease. `clock` is what a wall clock shows.
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

    /// What the Lease says once this candidate gives it up.
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
    /// What a Lease says. What is missing or of another type counts as not said.
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

    /// Writes it into a Lease; what else stands there stays.
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
