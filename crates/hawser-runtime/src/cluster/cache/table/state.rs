//! The entries of a table, with their indexes and sums.

use std::sync::atomic::Ordering;

use super::TableState;
use super::coverage::{Coverage, Position};
use super::entry::{Completeness, Entry, PutOutcome, Uid};
use hawser_sync::Key;
use kube_lang::object::Object;

impl TableState {
    /// Whether an object came and went between two lists: the last one lacks this state of it, and its deletion was never
    /// reported. One that came back after a reported deletion, as with a label that the watch selects, may have gone again.
    pub(super) fn has_missed(&self, key: &Key, version: u64, object: &Object) -> bool {
        let is_buried = || {
            let tombstone = self.tombstones.get(key);
            tombstone.is_some_and(|it| {
                it.uid == Uid::from(object.uid().unwrap_or_default())
                    && (it.undated || version <= it.version)
            })
        };
        version <= self.listed && !self.entries.contains_key(key) && !is_buried()
    }

    pub(super) fn put(
        &mut self,
        coverage: &Coverage,
        key: &Key,
        version: u64,
        object: &Object,
    ) -> PutOutcome {
        let uid = Uid::from(object.uid().unwrap_or_default());
        if let Some(tombstone) = self.tombstones.get(key) {
            let dead = tombstone.undated && tombstone.uid == uid;
            if dead || version <= tombstone.version {
                return PutOutcome::Older;
            }
        }
        let known = self.entries.get(key);
        if known.is_some_and(|entry| version < entry.version) {
            return PutOutcome::Older;
        }
        self.revision += 1;
        let before = known.map_or(0, |entry| entry.charge);
        let kept = self.shares.keep(key, object, before);
        let news = match known {
            Some(entry) if entry.fingerprint == kept.fingerprint => PutOutcome::Same,
            _ => PutOutcome::Different,
        };
        let asked = known.is_some_and(|entry| entry.asked.load(Ordering::Relaxed));
        let answered = known.is_some_and(|entry| entry.answered);
        let indexed = coverage.place(|label| object.label(label));
        let before = known.and_then(|entry| entry.indexed);
        let labelled = known.map_or(&[][..], |entry| &entry.labelled);
        let shared = match self.entries.get_key_value(key) {
            Some((known, _)) => known.clone(),
            None => self.places.insert(key),
        };
        let key = &shared;
        let labels = Some(object).filter(|_| kept.extent != Completeness::Hidden);
        let labelled = self.places.relabel(key, labelled, labels);
        if indexed != before {
            self.unindex(before, key);
            if let Some(place) = indexed {
                self.index.insert(place.get(), key);
            }
        }
        self.tombstones.remove(key);
        let entry = Entry {
            version,
            asked: asked.into(),
            answered,
            uid,
            fingerprint: kept.fingerprint,
            in_deletion: object.in_deletion(),
            extent: kept.extent,
            charge: kept.charge,
            indexed,
            labelled,
            body: self.packer.pack(kept.text),
        };
        self.count(key, &entry);
        self.trees.forget(key);
        if let Some(before) = self.entries.insert(key.clone(), entry.into()) {
            self.uncount(key, &before);
        }
        news
    }

    /// Counts the body of an object that has not been read. Beyond the budget, the oldest of these bodies are dropped.
    pub(super) fn rest(&mut self, key: &Key, most: usize) {
        let Some((key, entry)) = self.entries.get_key_value(key) else {
            return;
        };
        if entry.extent != Completeness::Whole || entry.asked.load(Ordering::Relaxed) {
            return;
        }
        self.idle.push(key, entry.body.text_len());
        while self.idle.bytes > most
            && let Some(oldest) = self.idle.pop()
        {
            if let Some(entry) = self.entries.get_mut(&oldest) {
                let (bytes, charge) = (entry.body.len(), entry.charge);
                entry.shrink();
                self.trees.forget(&oldest);
                self.bytes = self.bytes + entry.body.len() - bytes;
                self.shares.recharge(&oldest, charge, entry.charge);
            }
        }
    }

    pub(super) fn take(&mut self, key: &Key) -> Option<(Key, Entry)> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.revision += 1;
        self.trees.forget(&key);
        self.uncount(&key, &entry);
        self.unindex(entry.indexed, &key);
        self.places.remove(&key, &entry.labelled);
        Some((key, *entry))
    }

    pub(super) fn count(&mut self, key: &Key, entry: &Entry) {
        self.bytes += entry.body.len();
        self.fragments += usize::from(entry.extent == Completeness::Fragment);
        self.shares.count(key, entry);
    }

    pub(super) fn uncount(&mut self, key: &Key, entry: &Entry) {
        self.bytes -= entry.body.len();
        self.fragments -= usize::from(entry.extent == Completeness::Fragment);
        self.shares.uncount(key, entry);
    }

    fn unindex(&mut self, place: Option<Position>, key: &Key) {
        if let Some(place) = place {
            self.index.remove(place.get(), key);
        }
    }
}
