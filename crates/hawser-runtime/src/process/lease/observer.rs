//! Which of several Leases are held, by this process's own clock: a Lease is held until it was seen unchanged for as
//! long as it lasts. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::lock::Lock;
use super::record::Record;

/// The Leases of a list, by name.
#[derive(Debug, Default)]
pub struct LeaseObserver {
    seen: BTreeMap<String, SeenLease>,
}

#[derive(Debug)]
struct SeenLease {
    record: Record,
    since: Instant,
    object: Value,
}

impl LeaseObserver {
    /// Notes a complete list, which was received at `now`.
    pub fn observe(&mut self, leases: Vec<Value>, now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for object in leases {
            let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else {
                continue;
            };
            let record = Lock::Lease.read(&object);
            let known = before.remove(&name).filter(|known| known.record == record);
            let since = known.map_or(now, |known| known.since);
            let seen = SeenLease {
                record,
                since,
                object,
            };
            self.seen.insert(name, seen);
        }
    }

    /// The names of all Leases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.keys().map(String::as_str)
    }

    /// The process that may still hold a Lease.
    pub fn holder(&self, name: &str, now: Instant) -> Option<&str> {
        let seen = self.seen.get(name)?;
        let patience = Duration::from_secs(seen.record.seconds.max(1));
        let is_held = now.duration_since(seen.since) < patience;
        self.named(name).filter(|_| is_held)
    }

    /// The process that a Lease names, whether it still holds the Lease or not.
    pub fn named(&self, name: &str) -> Option<&str> {
        let holder = &*self.seen.get(name)?.record.holder;
        (!holder.is_empty()).then_some(holder)
    }

    /// The Lease as it was listed.
    pub fn object(&self, name: &str) -> Option<&Value> {
        Some(&self.seen.get(name)?.object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    fn lease(name: &str, holder: &str, renewed: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_held_until_it_was_seen_unchanged_for_its_duration() {
        let mut observer = LeaseObserver::default();
        let mut see = |leases| {
            observer.observe(leases, Instant::now());
            observer.holder("a", Instant::now()).map(str::to_owned)
        };
        // However old its time is.
        assert_eq!(see(vec![lease("a", "one", "1999")]).as_deref(), Some("one"));
        advance(Duration::from_secs(14)).await;
        assert_eq!(see(vec![lease("a", "one", "1999")]).as_deref(), Some("one"));
        advance(Duration::from_secs(1)).await;
        assert_eq!(see(vec![lease("a", "one", "1999")]), None);
        assert_eq!(see(vec![lease("a", "one", "2000")]).as_deref(), Some("one"));
        assert_eq!(see(vec![lease("a", "", "2001")]), None);
        assert_eq!(see(vec![lease("a", "one", "2002")]).as_deref(), Some("one"));
        assert_eq!(see(Vec::new()), None);
        assert_eq!(observer.names().count(), 0);
    }
}
