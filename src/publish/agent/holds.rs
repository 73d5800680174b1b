//! Deletions that other replicas hold. Each replica tells of its own by a note on its Lease: the leader writes all of them
//! into conditions, and a replica that takes a shard goes on holding what was held there. Whatever was held in a shard is
//! remembered for a time, because the note of a replica that has released it no longer tells of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use hawser_runtime::controller::HeldDeletions;

/// The time for which holds of a shard are remembered after a replica has last told of them: as long as those of an
/// earlier process.
const REMEMBERED: Duration = Duration::from_mins(10);

/// The held deletions of one published resource in one replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldNote {
    pub(super) count: usize,
    pub(super) why: String,
    pub(super) ids: String,
    /// The shards of the workspaces whose objects are held.
    pub(super) shards: BTreeSet<usize>,
}

/// By the uid of the published resource.
pub(super) type HeldNotes = BTreeMap<String, HeldNote>;

/// The holds of other replicas, and those that this replica has left with a shard.
#[derive(Debug, Default)]
pub struct OtherHolds(Mutex<KnownHolds>);

#[derive(Debug, Default)]
struct KnownHolds {
    /// The notes of replicas that are there, by identity; without empty ones.
    there: BTreeMap<String, HeldNotes>,
    /// When holds were last there, by the uid of the published resource, the shard and the id of the hold.
    left: BTreeMap<(String, usize, String), Instant>,
}

impl KnownHolds {
    fn remember(&mut self, notes: &HeldNotes, now: Instant) {
        self.left
            .retain(|_, seen| now.duration_since(*seen) < REMEMBERED);
        for (uid, note) in notes {
            for shard in &note.shards {
                for id in note.ids.split(',') {
                    self.left.insert((uid.clone(), *shard, id.to_owned()), now);
                }
            }
        }
    }
}

impl OtherHolds {
    /// Stores the notes of all other replicas that are there; returns whether any differs.
    pub(super) fn hear(&self, notes: &BTreeMap<String, String>) -> bool {
        let read = notes.iter().map(|(identity, text)| {
            // Of another version, perhaps.
            let notes: HeldNotes = serde_json::from_str(text).unwrap_or_default();
            (identity.clone(), notes)
        });
        let there = read.filter(|(_, notes)| !notes.is_empty()).collect();
        let mut known = self.0.lock();
        let before = std::mem::replace(&mut known.there, there);
        // Whoever is gone, or has released a shard, no longer tells of its holds.
        let now = Instant::now();
        for notes in before.values() {
            known.remember(notes, now);
        }
        known.there != before
    }

    /// Remembers holds of this replica, before it leaves a shard.
    pub(super) fn leave(&self, own: &HeldNotes) {
        self.0.lock().remember(own, Instant::now());
    }

    /// All held deletions of a published resource, with those of this replica.
    pub fn with(&self, own: Option<HeldDeletions>, uid: &str) -> Option<HeldDeletions> {
        let known = self.0.lock();
        let others = known.there.values().filter_map(|notes| notes.get(uid));
        let others = others.map(|note| HeldDeletions {
            count: note.count,
            why: note.why.clone(),
            ids: note.ids.clone(),
        });
        own.into_iter().chain(others).reduce(|mut all, one| {
            all.count += one.count;
            for id in one.ids.split(',') {
                if !all.ids.split(',').any(|known| known == id) {
                    all.ids = format!("{},{id}", all.ids);
                }
            }
            all
        })
    }

    /// The holds for a published resource that there were on a shard.
    pub(super) fn of_shard(&self, uid: &str, shard: usize) -> BTreeSet<String> {
        let now = Instant::now();
        let known = self.0.lock();
        let notes = known.there.values().filter_map(|notes| notes.get(uid));
        let held = notes.filter(|note| note.shards.contains(&shard));
        let held = held.flat_map(|note| note.ids.split(','));
        let left = known.left.iter().filter(|((of, at, _), seen)| {
            of == uid && *at == shard && now.duration_since(**seen) < REMEMBERED
        });
        let left = left.map(|((.., id), _)| &**id);
        held.chain(left).map(str::to_owned).collect()
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

    #[tokio::test(start_paused = true)]
    async fn holds_are_remembered_when_a_shard_is_released_or_lost() {
        let others = OtherHolds::default();
        others.hear(&notes("one", 30, "hold-a,hold-b"));
        // They were there until now, however long ago they were first told of.
        advance(REMEMBERED * 2).await;
        let released = BTreeMap::from([("one".to_owned(), "{}".to_owned())]);
        assert!(others.hear(&released));
        assert!(!others.hear(&released));
        let both = BTreeSet::from(["hold-a".to_owned(), "hold-b".to_owned()]);
        assert_eq!(others.of_shard("uid", 2), both);
        assert_eq!(others.with(None, "uid"), None);

        let own: HeldNotes = serde_json::from_str(&notes("me", 3, "hold-c")["me"]).unwrap();
        others.leave(&own);
        assert!(others.of_shard("uid", 2).contains("hold-c"));
        advance(REMEMBERED).await;
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
