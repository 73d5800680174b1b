//! The history: the change of each revision, as far back as it is retained.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use tokio::sync::watch;

use super::key::{Area, Name, Place, Range, Table};
use super::stored::Stored;

/// The change of one object by one write.
#[derive(Debug)]
pub(crate) struct Change {
    pub revision: u64,
    pub before: Option<Arc<Stored>>,
    pub after: Option<Arc<Stored>>,
}

impl Change {
    fn place(&self) -> &Place {
        match (&self.after, &self.before) {
            (Some(stored), _) | (None, Some(stored)) => &stored.key.place,
            (None, None) => unreachable!("a change has a state before it or after it"),
        }
    }

    /// The bytes that retaining this change keeps in memory.
    fn weight(&self) -> usize {
        self.before.as_ref().map_or(0, |stored| stored.pass()) + 256
    }
}

/// The number of changes that are searched from the end before the whole history is.
const FEW: usize = 8;

/// The objects of one API, and their retained changes.
#[derive(Debug)]
pub(super) struct Contents {
    /// By area, then by name, because most comparisons are of names.
    objects: BTreeMap<Area, BTreeMap<Name, Arc<Stored>>>,
    pub(super) changes: VecDeque<Arc<Change>>,
    /// Notified of the revision of each commit that changed this table.
    pub(super) wake: watch::Sender<u64>,
}

impl Contents {
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            wake: watch::Sender::new(0),
        }
    }

    pub(super) fn get(&self, place: &Place) -> Option<&Arc<Stored>> {
        self.objects.get(&place.area())?.get(&place.name)
    }

    pub(super) fn insert(&mut self, stored: &Arc<Stored>) {
        let place = &stored.key.place;
        let area = self.objects.entry(place.area()).or_default();
        area.insert(place.name.clone(), Arc::clone(stored));
    }

    pub(super) fn remove(&mut self, place: &Place) {
        if let Entry::Occupied(mut area) = self.objects.entry(place.area()) {
            area.get_mut().remove(&place.name);
            if area.get().is_empty() {
                area.remove();
            }
        }
    }

    /// The current objects of a range, in order.
    pub(super) fn select(&self, range: &Range) -> impl Iterator<Item = &Arc<Stored>> {
        range.select(&self.objects).flat_map(BTreeMap::values)
    }

    /// The objects of a range at a retained revision: the current ones, with later changes undone.
    pub(super) fn select_at(&self, range: &Range, revision: u64) -> Vec<Arc<Stored>> {
        let mut state: BTreeMap<&Place, Arc<Stored>> = self
            .select(range)
            .map(|stored| (&stored.key.place, Arc::clone(stored)))
            .collect();
        let later = self.changes.iter().rev();
        for change in later.take_while(|change| change.revision > revision) {
            let place = change.place();
            if !range.covers(place) {
                continue;
            }
            match &change.before {
                Some(before) => state.insert(place, Arc::clone(before)),
                None => state.remove(place),
            };
        }
        state.into_values().collect()
    }

    /// The changes after a revision, oldest first.
    pub(super) fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Change>> {
        // Most callers have seen nearly all changes.
        let late = self.changes.iter().rev().take(FEW + 1);
        let few = late.take_while(|change| change.revision > revision).count();
        let from = if few <= FEW {
            self.changes.len() - few
        } else {
            self.changes.partition_point(|c| c.revision <= revision)
        };
        self.changes.range(from..)
    }
}

/// The amount of history that is retained.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Changes, over all tables.
    pub changes: usize,
    /// Bytes of replaced objects. Takes precedence over `changes`.
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            changes: 131_072,
            bytes: 256 << 20,
        }
    }
}

/// The table of each retained revision: every revision is one change.
#[derive(Debug)]
pub(super) struct Ring {
    retention: Retention,
    slots: VecDeque<(Table, usize)>,
    bytes: usize,
    /// Changes after this revision are retained.
    pub(super) floor: u64,
}

impl Ring {
    pub(super) fn new(retention: Retention, floor: u64) -> Self {
        Self {
            retention,
            slots: VecDeque::new(),
            bytes: 0,
            floor,
        }
    }

    pub(super) fn push(&mut self, table: Table, change: &Change) {
        let weight = change.weight();
        self.bytes += weight;
        self.slots.push_back((table, weight));
    }

    /// The table whose oldest change is to be dropped, while there is too much.
    pub(super) fn overflow(&mut self) -> Option<Table> {
        let full = self.slots.len() > self.retention.changes || self.bytes > self.retention.bytes;
        if full { self.forget() } else { None }
    }

    pub(super) fn forget(&mut self) -> Option<Table> {
        let (table, weight) = self.slots.pop_front()?;
        self.bytes -= weight;
        self.floor += 1;
        Some(table)
    }
}
