//! A transaction: an overlay over the committed state. Settlers complete it, then each changed object becomes one
//! change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::history::Change;
use super::key::{Key, Name, Range, Table};
use super::lineage::Departed;
use super::state::{CLUSTER_ANNOTATION, Read, StoreOptions, StoreState};
use super::stored::Stored;
use crate::status::Status;
use kube_lang::object::Object;
use kube_schema::json;

/// The maximum number of settling rounds; after that, the controllers disagree for ever.
const MAX_ROUNDS: usize = 64;

/// The maximum depth of a stored object, the same as that of a request, because stacks are sized for it.
const MAX_DEPTH: usize = json::MAX_LEVELS;

/// The number of objects that are searched linearly before there is an index.
const FEW: usize = 8;

/// A controller that reconciles objects within the transaction that changed them.
pub(crate) trait Settler: Send + Sync {
    /// Handles the keys that were written since its last call in this transaction, including its own writes. An error
    /// aborts the transaction and is its answer.
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status>;
}

/// One transaction. Reads see its own writes.
pub(crate) struct Tx<'a> {
    options: &'a StoreOptions,
    state: &'a StoreState,
    /// In the order of the first write, which is the order of the revisions.
    slots: Vec<Slot>,
    /// The index of all slots, once there are more than a few.
    index: HashMap<Key, usize>,
    /// Written since the last round of settling.
    dirty: Vec<usize>,
    definition_writes: u64,
    reported: Option<Key>,
}

/// The change of one object by a transaction.
struct Slot {
    key: Key,
    before: Option<Arc<Stored>>,
    after: Option<Arc<Stored>>,
    dirty: bool,
}

/// The result of a transaction before the commit.
pub(super) struct Pending {
    pub(super) changes: Vec<(Table, Arc<Change>, Departed)>,
    pub(super) definitions_changed: bool,
    pub(super) reported: Option<Arc<Stored>>,
}

/// The answer of a transaction.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub value: T,
    /// The revision of the store after the transaction.
    pub revision: u64,
    /// The object that [`Tx::report`] named, as the transaction left it.
    pub reported: Option<Arc<Stored>>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(options: &'a StoreOptions, state: &'a StoreState) -> Self {
        Self {
            options,
            state,
            slots: Vec::new(),
            index: HashMap::new(),
            dirty: Vec::new(),
            definition_writes: 0,
            reported: None,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        match self.slot(key) {
            Some(slot) => self.slots[slot].after.clone(),
            None => self.state.get(key),
        }
    }

    /// The slot of an object, if the transaction has one.
    fn slot(&self, key: &Key) -> Option<usize> {
        if self.slots.len() > FEW {
            return self.index.get(key).copied();
        }
        self.slots.iter().position(|slot| slot.key == *key)
    }

    /// The slot of an object, created if there is none.
    fn slot_for(&mut self, key: &Key) -> usize {
        if let Some(slot) = self.slot(key) {
            return slot;
        }
        let before = self.state.get(key);
        self.slots.push(Slot {
            key: key.clone(),
            after: before.clone(),
            before,
            dirty: false,
        });
        let known = self.index.len();
        if self.slots.len() > FEW {
            let unknown = self.slots.iter().enumerate().skip(known);
            self.index
                .extend(unknown.map(|(place, slot)| (slot.key.clone(), place)));
        }
        self.slots.len() - 1
    }

    /// In the order of lists.
    pub(crate) fn list(&self, range: &Range) -> Vec<Arc<Stored>> {
        let committed = self.state.list(range);
        let here = |slot: &&Slot| slot.key.table == range.table && range.covers(&slot.key.place);
        let mut written = self.slots.iter().filter(here).peekable();
        if written.peek().is_none() {
            return committed;
        }
        let mut merged: BTreeMap<_, _> = committed
            .into_iter()
            .map(|stored| (stored.key.place.clone(), stored))
            .collect();
        for slot in written {
            let place = &slot.key.place;
            match &slot.after {
                Some(stored) => merged.insert(place.clone(), Arc::clone(stored)),
                None => merged.remove(place),
            };
        }
        merged.into_values().collect()
    }

    /// Writes an object, and keeps its schema stamp.
    pub(crate) fn put(&mut self, key: &Key, object: Object) -> Result<(), Status> {
        let there = self.get(key);
        self.put_stamped(key, object, there.map_or(0, |stored| stored.stamp))
    }

    /// Writes an object that the schema with this stamp has pruned and defaulted. The commit finds out whether it
    /// changed: an unchanged object is not written.
    pub(crate) fn put_stamped(
        &mut self,
        key: &Key,
        object: Object,
        stamp: u64,
    ) -> Result<(), Status> {
        let mut object = Object::new(object.into_value())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        if !is_shallow(object.as_value(), MAX_DEPTH) {
            return Err(Status::bad_request(format!(
                "the object is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        if !self.options.plain_clusters.contains(key.cluster()) {
            object.set_annotation(CLUSTER_ANNOTATION, key.cluster());
        }
        let slot = self.slot_for(key);
        let before = self.slots[slot].before.as_ref();
        let base = before.map_or(0, |stored| stored.revision);
        let metadata = object.metadata_mut();
        if base == 0 {
            metadata.remove("resourceVersion");
        } else {
            metadata.insert("resourceVersion".into(), base.to_string().into());
        }
        let stored = Stored::pending(key.clone(), object, stamp);
        self.note(slot, Some(Arc::new(stored)));
        Ok(())
    }

    /// Removes an object; returns whether it existed.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let slot = self.slot_for(key);
        let there = self.slots[slot].after.is_some();
        if there {
            self.note(slot, None);
        }
        there
    }

    fn note(&mut self, place: usize, after: Option<Arc<Stored>>) {
        let slot = &mut self.slots[place];
        slot.after = after;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(place);
        }
        let mut definitions = self.options.definitions.iter();
        if definitions.any(|(group, resource)| slot.key.is(group, resource)) {
            self.definition_writes += 1;
        }
    }

    /// Names the object for the answer, as the settlers leave it.
    pub(crate) fn report(&mut self, key: &Key) {
        self.reported = Some(key.clone());
    }

    /// The objects of a cluster that reference an owner with this uid, without the changes of this transaction.
    pub(crate) fn dependents(&self, cluster: &Name, uid: &str) -> Vec<Key> {
        let owner = (cluster.clone(), uid.into());
        self.state.lineages.dependents(&owner)
    }

    /// Whether an owner is known to be gone, so that it need not be looked up.
    pub(crate) fn is_gone(&self, cluster: &Name, uid: &str) -> bool {
        self.state.lineages.is_gone(&(cluster.clone(), uid.into()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Calls the settlers until they write nothing more.
    pub(super) fn settle(&mut self, settlers: &[Arc<dyn Settler>]) -> Result<(), Status> {
        for _ in 0..MAX_ROUNDS {
            let mut changed = Vec::with_capacity(self.dirty.len());
            for place in self.dirty.drain(..) {
                let slot = &mut self.slots[place];
                slot.dirty = false;
                changed.push(slot.key.clone());
            }
            if changed.is_empty() {
                return Ok(());
            }
            for settler in settlers {
                settler.settle(self, &changed)?;
            }
        }
        let names = self.dirty.iter().map(|place| &self.slots[*place]);
        let names: Vec<&str> = names.map(|slot| &**slot.key.name()).collect();
        Err(Status::internal(format!(
            "controllers do not come to rest about {}",
            names.join(", ")
        )))
    }

    /// Determines the real changes, and assigns a revision to each.
    pub(super) fn finish(self, names: &mut HashSet<Name>) -> Pending {
        let mut revision = self.state.revision;
        let mut changes = Vec::with_capacity(self.slots.len());
        let mut reported = None;
        let mut is_reported = false;
        for slot in self.slots {
            let Slot {
                key, before, after, ..
            } = slot;
            let reports = self.reported.as_ref() == Some(&key);
            is_reported |= reports;
            if !differs(before.as_deref(), after.as_deref()) {
                if reports {
                    reported = before;
                }
                continue;
            }
            revision += 1;
            let after = after.map(|pending| {
                let pending = Arc::try_unwrap(pending).unwrap_or_else(|held| {
                    Stored::pending(held.key.clone(), held.object(), held.stamp)
                });
                let mut committed = pending.committed(revision);
                share(&mut committed.key.place.cluster, names);
                share(&mut committed.key.place.namespace, names);
                share(&mut committed.key.table.group, names);
                share(&mut committed.key.table.resource, names);
                share(&mut committed.key.table.identity, names);
                Arc::new(committed)
            });
            if reports {
                reported.clone_from(&after);
            }
            let departed = match (&before, &after) {
                (Some(before), None) => self.state.lineages.departing(before),
                _ => None,
            };
            let change = Change {
                revision,
                before,
                after,
            };
            changes.push((key.table, Arc::new(change), departed));
        }
        if !is_reported {
            let unwritten = self.reported.as_ref();
            reported = unwritten.and_then(|key| self.state.get(key));
        }
        Pending {
            changes,
            definitions_changed: self.definition_writes > 0,
            reported,
        }
    }

    /// Ends without any change.
    pub(super) fn abandon<T>(self, value: T) -> Outcome<T> {
        let reported = self.reported.as_ref().and_then(|key| self.get(key));
        Outcome {
            value,
            revision: self.state.revision,
            reported,
        }
    }
}

impl Read for Tx<'_> {
    fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        Tx::get(self, key)
    }

    fn list(&self, range: &Range) -> Vec<Arc<Stored>> {
        Tx::list(self, range)
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = self.state.tables();
        for Slot { key, .. } in &self.slots {
            if !tables.contains(&key.table) {
                tables.push(key.table.clone());
            }
        }
        tables
    }
}

/// Whether a write changed anything. Serialisation is canonical (sorted fields), so texts are compared.
fn differs(before: Option<&Stored>, after: Option<&Stored>) -> bool {
    match (before, after) {
        (None, None) => false,
        (Some(before), Some(after)) => !after.is_as(before),
        _ => true,
    }
}

/// Lets equal strings share their memory.
fn share(name: &mut Name, names: &mut HashSet<Name>) {
    match names.get(name) {
        Some(known) => *name = Arc::clone(known),
        None => {
            names.insert(Arc::clone(name));
        }
    }
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match (value, depth.checked_sub(1)) {
        (Value::Array(items), Some(rest)) => items.iter().all(|item| is_shallow(item, rest)),
        (Value::Object(map), Some(rest)) => map.values().all(|item| is_shallow(item, rest)),
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}
