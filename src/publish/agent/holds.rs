//! Deletions that other replicas hold. Each replica tells of its own by a note on its Lease: the leader writes all of them
//! into conditions, and a replica that takes a shard goes on holding what was held there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::publishing::Publishing;
use hawser_runtime::controller::HeldDeletions;
use kube_lang::object::Gvk;

/// The time for which holds of other replicas are remembered: as long as those of an earlier process.
const REMEMBERED: Duration = Duration::from_mins(10);

/// The held deletions of one published resource in one replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldNote {
    count: usize,
    why: String,
    ids: String,
    /// The shards of the workspaces whose objects are held.
    shards: BTreeSet<usize>,
}

/// By the uid of the published resource.
type HeldNotes = BTreeMap<String, HeldNote>;

/// The holds of other replicas.
#[derive(Debug, Default)]
pub struct OtherHolds(Mutex<Vec<RememberedNotes>>);

#[derive(Debug)]
struct RememberedNotes {
    identity: String,
    notes: HeldNotes,
    /// Whether the replica is there, and when it was last.
    is_there: bool,
    seen: Instant,
}

impl OtherHolds {
    /// Stores the notes of all other replicas that are there; returns whether any differs.
    fn hear(&self, notes: &BTreeMap<String, String>) -> bool {
        let now = Instant::now();
        let mut known = self.0.lock();
        let mut differs = false;
        for one in &mut *known {
            differs |= one.is_there && !notes.contains_key(&one.identity) && !one.notes.is_empty();
            one.is_there = false;
        }
        for (identity, text) in notes {
            // Of another version, perhaps.
            let notes: HeldNotes = serde_json::from_str(text).unwrap_or_default();
            let before = known.iter().position(|one| one.identity == *identity);
            let before = before.map(|at| known.swap_remove(at));
            differs |= before.map(|one| one.notes).unwrap_or_default() != notes;
            known.push(RememberedNotes {
                identity: identity.clone(),
                notes,
                is_there: true,
                seen: now,
            });
        }
        known.retain(|one| one.is_there || now.duration_since(one.seen) < REMEMBERED);
        differs
    }

    /// All held deletions of a published resource, with those of this replica.
    pub fn with(&self, own: Option<HeldDeletions>, uid: &str) -> Option<HeldDeletions> {
        let known = self.0.lock();
        let there = known.iter().filter(|one| one.is_there);
        let others = there.filter_map(|one| one.notes.get(uid));
        let others = others.map(|note| HeldDeletions {
            count: note.count,
            why: note.why.clone(),
            ids: note.ids.clone(),
        });
        own.into_iter().chain(others).reduce(|mut all, one| {
            all.count += one.count;
            if !all.ids.split(',').any(|id| id == one.ids) {
                all.ids = format!("{},{}", all.ids, one.ids);
            }
            all
        })
    }

    /// The holds for a published resource that other replicas had on a shard.
    fn of_shard(&self, uid: &str, shard: usize) -> BTreeSet<String> {
        let known = self.0.lock();
        let notes = known.iter().filter_map(|one| one.notes.get(uid));
        let held = notes.filter(|note| note.shards.contains(&shard));
        held.flat_map(|note| note.ids.split(',').map(str::to_owned))
            .collect()
    }
}

impl Publishing {
    /// Tells others of the deletions that this replica holds, and hears of theirs.
    pub async fn exchange_holds(
        self: Arc<Self>,
        told: watch::Sender<String>,
        mut heard: watch::Receiver<BTreeMap<String, String>>,
    ) {
        let mut owners = self.owners.subscribe();
        let mut before = HeldNotes::new();
        loop {
            let changed = tokio::select! {
                changed = owners.changed() => changed,
                changed = heard.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            let notes = heard.borrow_and_update().clone();
            if self.others.hear(&notes) {
                self.report_all();
            }
            let held = self.own_holds();
            for (uid, note) in held.iter().filter(|(uid, _)| !before.contains_key(*uid)) {
                let publication = self.dispatch.publication(uid);
                let name = publication.as_ref().map_or("", |one| &one.plan.name);
                let (count, ids) = (note.count, &note.ids);
                warn!(
                    publishedresource = name,
                    count, ids, "deletions of copies are held: {}", note.why
                );
            }
            let text = serde_json::to_string(&held).unwrap_or_default();
            told.send_if_modified(|told| {
                let differs = *told != text;
                *told = text;
                differs
            });
            before = held;
        }
    }

    fn own_holds(&self) -> HeldNotes {
        let running = self.dispatch.running();
        let held = running.iter().filter_map(|(uid, publication)| {
            let kind = &publication.local_kind;
            let held = self.brakes.held(kind)?;
            let tenants = self.brakes.held_tenants(kind);
            let shards = tenants
                .iter()
                .filter_map(|cluster| self.dispatch.share.shard(cluster));
            let note = HeldNote {
                count: held.count,
                why: held.why,
                ids: held.ids,
                shards: shards.collect(),
            };
            (note.count > 0).then(|| (uid.to_string(), note))
        });
        held.collect()
    }

    /// Goes on holding the deletions that another replica held in a shard.
    pub fn resume_holds(&self, shard: usize) {
        for (uid, publication) in &*self.dispatch.running() {
            for id in self.others.of_shard(uid, shard) {
                self.brakes.resume(&publication.local_kind, &id);
            }
        }
    }

    /// Another replica may work on a shard: its deletions are held there.
    pub fn leave_holds(&self, shard: usize) {
        let share = &self.dispatch.share;
        let is_meant = |cluster: &str| share.shard(cluster) == Some(shard);
        let running = self.dispatch.running();
        let kinds: BTreeSet<&Arc<Gvk>> = running.values().map(|one| &one.local_kind).collect();
        for kind in kinds {
            self.brakes.leave(kind, is_meant);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn notes(identity: &str, count: usize, id: &str) -> BTreeMap<String, String> {
        let note = HeldNote {
            count,
            why: "a mass".to_owned(),
            ids: id.to_owned(),
            shards: [2].into(),
        };
        let notes = HeldNotes::from([("uid".to_owned(), note)]);
        [(identity.to_owned(), serde_json::to_string(&notes).unwrap())].into()
    }

    #[tokio::test(start_paused = true)]
    async fn holds_of_all_replicas_are_told_together_and_remembered_after_a_crash() {
        let others = OtherHolds::default();
        let own = HeldDeletions {
            count: 20,
            why: "a mass".to_owned(),
            ids: "hold-a".to_owned(),
        };
        assert_eq!(others.with(None, "uid"), None);
        assert!(others.hear(&notes("one", 30, "hold-b")));
        assert!(!others.hear(&notes("one", 30, "hold-b")));
        let all = others.with(Some(own.clone()), "uid").unwrap();
        assert_eq!((all.count, &*all.ids), (50, "hold-a,hold-b"));
        assert_eq!(others.with(None, "other"), None);
        assert_eq!(others.of_shard("uid", 2), ["hold-b".to_owned()].into());
        assert_eq!(others.of_shard("uid", 1), BTreeSet::new());

        // It is gone, and the next one that takes its shard goes on.
        assert!(others.hear(&BTreeMap::new()));
        assert_eq!(others.with(Some(own.clone()), "uid"), Some(own));
        assert_eq!(others.of_shard("uid", 2), ["hold-b".to_owned()].into());
        advance(REMEMBERED).await;
        others.hear(&[("two".to_owned(), "unreadable".to_owned())].into());
        assert_eq!(others.of_shard("uid", 2), BTreeSet::new());
    }

    #[test]
    fn a_hold_that_several_replicas_go_on_with_is_told_once() {
        let others = OtherHolds::default();
        others.hear(&notes("one", 30, "hold-a"));
        let own = HeldDeletions {
            count: 20,
            why: "a mass".to_owned(),
            ids: "hold-a".to_owned(),
        };
        let all = others.with(Some(own), "uid").unwrap();
        assert_eq!((all.count, &*all.ids), (50, "hold-a"));
    }
}
