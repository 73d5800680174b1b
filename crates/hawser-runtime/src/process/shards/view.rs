//! What a process has seen of all others that share the work: their Leases, by its own clock. Pure.
//!
//! Every Lease names its holder and the number of shards that this holder knows, in one annotation. It counts only
//! together with that holder: a process that knows nothing of shards leaves the annotation of the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::assignment::hash;
use crate::process::lease::{LeaseObserver, Marks};

/// The label of all Leases of processes that share work; its value is that of [`group`].
pub const LABEL: &str = "hawser.dev/lease-group";
/// The annotation with the number of shards and the holder: `3/host_uuid`.
const ANNOTATION: &str = "hawser.dev/shards";
/// The annotation by which a process tells the others something.
pub(super) const NOTE: &str = "hawser.dev/note";
/// The longest value of a label.
const LONGEST: usize = 63;

/// Which number of shards the leader has declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declaration {
    /// That of this process.
    Same,
    /// None: nobody leads.
    Nobody,
    /// Another one, or a leader that knows nothing of shards.
    Other,
}

/// The Leases of one group.
#[derive(Debug)]
pub(super) struct View {
    /// The name of the leader's Lease, with which those of others begin.
    pub(super) name: String,
    pub(super) count: usize,
    pub(super) leases: LeaseObserver,
}

/// The value of the label for the leader's Lease of this name.
pub fn group(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let end = name.floor_char_boundary(LONGEST - 17);
    format!("{}-{:016x}", &name[..end], hash(name.as_bytes()))
}

/// The marks of a Lease whose holder knows this number of shards.
pub fn marks(name: &str, count: usize, identity: &str) -> Marks {
    Marks {
        labels: [(LABEL, group(name))].into(),
        annotations: [(ANNOTATION, format!("{count}/{identity}"))].into(),
    }
}

pub(super) fn shard_name(name: &str, shard: usize) -> String {
    format!("{name}.shard-{shard}")
}

/// The name of the Lease by which a process shows that it is there. The unique part of its identity is enough.
pub(super) fn member_name(name: &str, identity: &str) -> String {
    let unique = identity.rsplit('_').next().unwrap_or(identity);
    format!("{name}.replica-{unique}")
}

impl View {
    /// Notes a complete list. A process deletes its own Lease when it ends, but nobody deletes that of a shard that is
    /// held: it counts until its holder has noticed.
    pub(super) fn observe(&mut self, leases: Vec<Value>, now: Instant) {
        let name = &*self.name;
        let is_of_shard = |lease: &str| suffix(name, lease).is_some_and(is_shard);
        self.leases.observe(leases, now, is_of_shard);
    }

    fn suffix<'l>(&self, lease: &'l str) -> Option<&'l str> {
        suffix(&self.name, lease)
    }

    /// The number of shards that a Lease declares for a holder.
    fn declared(&self, lease: &str, holder: &str) -> Option<usize> {
        let lease = self.leases.object(lease)?;
        declared(lease, holder)
    }

    /// What the leader has declared. A leader that has crashed counts until there is another.
    pub(super) fn declaration(&self) -> Declaration {
        if self.leases.object(&self.name).is_none() {
            return Declaration::Other;
        }
        match self.leases.named(&self.name) {
            None => Declaration::Nobody,
            Some(leader) if self.declared(&self.name, leader) == Some(self.count) => {
                Declaration::Same
            }
            Some(_) => Declaration::Other,
        }
    }

    /// The processes that are there.
    pub(super) fn members(&self, now: Instant) -> BTreeSet<String> {
        let names = self.leases.names();
        let members = names.filter(|lease| self.suffix(lease).is_some_and(is_member));
        let there = members.filter_map(|lease| {
            let holder = self.leases.holder(lease, now)?;
            // One with another number takes no shard of this number.
            (self.declared(lease, holder) == Some(self.count)).then(|| holder.to_owned())
        });
        there.collect()
    }

    /// What the others that are there tell, by identity.
    pub(super) fn notes(&self, me: &str, now: Instant) -> BTreeMap<String, String> {
        let names = self.leases.names();
        let members = names.filter(|lease| self.suffix(lease).is_some_and(is_member));
        let notes = members.filter_map(|lease| {
            let holder = self
                .leases
                .holder(lease, now)
                .filter(|holder| *holder != me)?;
            let note = self.leases.object(lease)?["metadata"]["annotations"][NOTE].as_str()?;
            Some((holder.to_owned(), note.to_owned()))
        });
        notes.collect()
    }

    /// The holder of each shard, if it may be alive.
    pub(super) fn holders(&self, now: Instant) -> Vec<Option<String>> {
        let holder = |shard| self.leases.holder(&shard_name(&self.name, shard), now);
        let shards = 0..self.count;
        shards
            .map(|shard| holder(shard).map(str::to_owned))
            .collect()
    }

    /// Whether a shard of another number of shards may be held.
    pub(super) fn others_hold(&self, now: Instant) -> bool {
        let names = self.leases.names();
        let mut shards = names.filter(|lease| self.suffix(lease).is_some_and(is_shard));
        shards.any(|lease| {
            let holder = self.leases.holder(lease, now);
            holder.is_some_and(|holder| self.declared(lease, holder) != Some(self.count))
        })
    }

    /// A Lease that nobody needs: of a process that is gone, or of a shard that there is no longer. It was seen unchanged
    /// for as long as `patience`, so that all others have seen that nobody holds it.
    pub(super) fn useless(&self, now: Instant, patience: Duration) -> Option<&Value> {
        let mut names = self.leases.names();
        let found = names.find(|lease| {
            let is_left = self.suffix(lease).is_some_and(|suffix| {
                let shard = suffix
                    .strip_prefix("shard-")
                    .and_then(|shard| shard.parse().ok());
                is_member(suffix) || shard.is_some_and(|shard: usize| shard >= self.count)
            });
            let is_free = self.leases.holder(lease, now).is_none();
            is_left && is_free && self.leases.unchanged(lease, now) >= patience
        });
        self.leases.object(found?)
    }
}

fn suffix<'l>(name: &str, lease: &'l str) -> Option<&'l str> {
    lease.strip_prefix(name)?.strip_prefix('.')
}

fn is_member(suffix: &str) -> bool {
    suffix.starts_with("replica-")
}

fn is_shard(suffix: &str) -> bool {
    suffix.starts_with("shard-")
}

fn declared(lease: &Value, holder: &str) -> Option<usize> {
    let text = lease["metadata"]["annotations"][ANNOTATION].as_str()?;
    let (count, of) = text.split_once('/')?;
    count.parse().ok().filter(|_| of == holder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(suffix: &str, holder: &str, annotation: &str) -> Value {
        json!({
            "metadata": {"name": format!("a{suffix}"), "annotations": {ANNOTATION: annotation}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        })
    }

    fn view(leases: &[Value]) -> View {
        let mut view = View {
            name: "a".to_owned(),
            count: 3,
            leases: LeaseObserver::default(),
        };
        view.observe(leases.to_vec(), Instant::now());
        view
    }

    #[test]
    fn a_declaration_counts_only_with_the_holder_that_it_names() {
        for (holder, annotation, expected) in [
            ("x", "3/x", Declaration::Same),
            ("x", "4/x", Declaration::Other),
            ("old", "3/x", Declaration::Other),
            ("x", "", Declaration::Other),
            ("x", "three/x", Declaration::Other),
            ("", "3/x", Declaration::Nobody),
        ] {
            let view = view(&[lease("", holder, annotation)]);
            assert_eq!(view.declaration(), expected, "{holder} {annotation}");
        }
        // Not labelled: its leader knows nothing of shards.
        assert_eq!(view(&[]).declaration(), Declaration::Other);
    }

    #[test]
    fn only_what_may_be_held_counts() {
        let seen = view(&[
            lease("", "x", "3/x"),
            lease(".replica-1", "x", "3/x"),
            lease(".replica-2", "y", "4/y"),
            lease(".replica-3", "", "3/z"),
            lease(".shard-1", "x", "3/x"),
            lease(".shard-7", "", "9/y"),
            lease("b.shard-2", "x", "3/x"),
        ]);
        let now = Instant::now();
        assert_eq!(seen.members(now), ["x".to_owned()].into());
        assert_eq!(seen.holders(now), [None, Some("x".to_owned()), None]);
        assert!(!seen.others_hold(now));
        let patience = Duration::from_secs(15);
        assert_eq!(seen.useless(now, patience), None);
        assert_eq!(
            seen.useless(now + patience, patience).unwrap()["metadata"]["name"],
            "a.replica-1"
        );
        assert_eq!(
            seen.useless(now, Duration::ZERO).unwrap()["metadata"]["name"],
            "a.replica-3"
        );
        let other = view(&[lease(".shard-7", "y", "9/y")]);
        assert!(other.others_hold(now));
        assert_eq!(other.useless(now, Duration::ZERO), None);
        assert!(view(&[lease(".shard-1", "y", "9/y")]).others_hold(now));
        assert!(view(&[lease(".shard-1", "old", "3/x")]).others_hold(now));
    }

    #[test]
    fn the_lease_of_a_shard_counts_when_somebody_deletes_it_and_that_of_a_process_does_not() {
        let mut seen = view(&[
            lease(".replica-1", "x", "3/x"),
            lease(".shard-1", "x", "3/x"),
            lease(".shard-2", "y", "9/y"),
        ]);
        let now = Instant::now();
        seen.observe(Vec::new(), now);
        assert_eq!(seen.members(now), BTreeSet::new());
        assert_eq!(seen.holders(now)[1].as_deref(), Some("x"));
        assert!(seen.others_hold(now));
        let later = now + Duration::from_secs(15);
        seen.observe(Vec::new(), later);
        assert!(seen.holders(later).iter().all(Option::is_none));
        assert!(!seen.others_hold(later));
    }

    #[test]
    fn a_group_is_the_value_of_a_label() {
        assert_eq!(group("syncs.one"), "syncs.one");
        let long = group(&"a".repeat(200));
        assert_eq!(long.len(), 63);
        assert_ne!(long, group(&"a".repeat(201)));
        assert_eq!(member_name("a", "host_b_12-34"), "a.replica-12-34");
    }
}
