//! Which of several Leases are held, by this process's own clock: a Lease is held until it was seen unchanged for as
//! long as it lasts. The holder of a Lease that somebody deletes does not know that at once, and its Lease may still
//! count. Pure.

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
    /// When the last list was received.
    last: Option<Instant>,
}

#[derive(Debug)]
struct SeenLease {
    record: Record,
    since: Instant,
    /// When it was missing for the first time, although it was held until then.
    vanished: Option<Instant>,
    object: Value,
}

impl LeaseObserver {
    /// Notes a complete list, which was received at `now`. A Lease that was held and is missing still counts for as long
    /// as it lasts, if `is_kept`: its holder may have renewed it right before somebody deleted it.
    pub fn observe(&mut self, leases: Vec<Value>, now: Instant, is_kept: impl Fn(&str) -> bool) {
        let last = self.last.replace(now).unwrap_or(now);
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
                vanished: None,
                object,
            };
            self.seen.insert(name, seen);
        }
        for (name, mut missing) in before {
            if missing.vanished.is_none() && missing.is_held(last) {
                missing.vanished = Some(now);
            }
            if missing.is_held(now) && is_kept(&name) {
                self.seen.insert(name, missing);
            }
        }
    }

    /// The names of all Leases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.keys().map(String::as_str)
    }

    /// The process that may still hold a Lease.
    pub fn holder(&self, name: &str, now: Instant) -> Option<&str> {
        let is_held = self.seen.get(name)?.is_held(now);
        self.named(name).filter(|_| is_held)
    }

    /// For how long a Lease was seen unchanged.
    pub fn unchanged(&self, name: &str, now: Instant) -> Duration {
        let seen = self.seen.get(name);
        seen.map_or(Duration::ZERO, |seen| now.duration_since(seen.since))
    }

    /// The process that a Lease names, whether it still holds the Lease or not.
    pub fn named(&self, name: &str) -> Option<&str> {
        let holder = &*self.seen.get(name)?.record.holder;
        (!holder.is_empty()).then_some(holder)
    }

    /// The Lease as it was last listed.
    pub fn object(&self, name: &str) -> Option<&Value> {
        Some(&self.seen.get(name)?.object)
    }
}

impl SeenLease {
    fn is_held(&self, now: Instant) -> bool {
        let patience = Duration::from_secs(self.record.seconds.max(1));
        let since = self.vanished.unwrap_or(self.since);
        !self.record.holder.is_empty() && now.duration_since(since) < patience
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
            observer.observe(leases, Instant::now(), |_| false);
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

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_deleted_while_it_is_held_counts_until_its_holder_has_noticed() {
        let mut observer = LeaseObserver::default();
        let mut see = |leases| {
            observer.observe(leases, Instant::now(), |name| name == "a");
            ["a", "b"].map(|name| observer.holder(name, Instant::now()).is_some())
        };
        let both = |renewed| vec![lease("a", "one", renewed), lease("b", "one", renewed)];
        assert_eq!(see(both("1")), [true, true]);
        // The holder may have renewed it until now, unseen.
        advance(Duration::from_secs(40)).await;
        assert_eq!(see(Vec::new()), [true, false]);
        advance(Duration::from_secs(14)).await;
        assert_eq!(see(Vec::new()), [true, false]);
        advance(Duration::from_secs(1)).await;
        assert_eq!(see(Vec::new()), [false, false]);

        // Its holder makes it again, and releases it before it is deleted.
        assert_eq!(see(both("2")), [true, true]);
        assert_eq!(see(Vec::new()), [true, false]);
        advance(Duration::from_secs(14)).await;
        assert_eq!(see(both("3")), [true, true]);
        assert_eq!(see(vec![lease("a", "", "4")]), [false, false]);
        assert_eq!(see(Vec::new()), [false, false]);

        // Nobody has renewed a Lease that comes back unchanged, and one that has run out is not kept.
        assert_eq!(see(both("5")), [true, true]);
        advance(Duration::from_secs(9)).await;
        assert_eq!(see(Vec::new()), [true, false]);
        advance(Duration::from_secs(6)).await;
        assert_eq!(see(both("5")), [false, true]);
        assert_eq!(see(Vec::new()), [false, false]);
        assert_eq!(observer.names().count(), 0);
    }
}
