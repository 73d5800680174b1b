//! A transaction: an overlay over the committed state, brought to rest by settlers, then turned into
//! at most one change an object.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::history::Change;
use super::lineage::Departed;
use super::{CLUSTER_ANNOTATION, Key, Name, Range, Read, Settler, State, Store, Stored, Table};
use crate::object::Object;
use crate::playground::status::Status;

/// Rounds of settling after which controllers are taken to disagree for ever.
const MAX_ROUNDS: usize = 64;

/// Deeper than what any parser here accepts is never stored, or it could not be read again.
const MAX_DEPTH: usize = 100;

/// One transaction. Reads see its own writes.
pub struct Tx<'a> {
    store: &'a Store,
    state: &'a State,
    overlay: BTreeMap<Key, Option<Arc<Stored>>>,
    /// Keys in the order in which they were first written: the order of their revisions.
    order: Vec<Key>,
    /// Written since the last round of settling.
    dirty: Vec<Key>,
    /// The same keys, to ask.
    is_dirty: HashSet<Key>,
    definition_writes: u64,
    reported: Option<Key>,
}

/// What a transaction comes down to.
pub(super) struct Pending {
    pub(super) changes: Vec<(Table, Arc<Change>, Departed)>,
    pub(super) definitions_changed: bool,
    pub(super) reported: Option<Arc<Stored>>,
}

/// What a transaction answered.
#[derive(Debug)]
pub struct Outcome<T> {
    pub value: T,
    /// Of the store after the transaction.
    pub revision: u64,
    /// The object that was asked for with [`Tx::report`], as the transaction left it.
    pub reported: Option<Arc<Stored>>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(store: &'a Store, state: &'a State) -> Self {
        Self {
            store,
            state,
            overlay: BTreeMap::new(),
            order: Vec::new(),
            dirty: Vec::new(),
            is_dirty: HashSet::new(),
            definition_writes: 0,
            reported: None,
        }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        match self.overlay.get(key) {
            Some(written) => written.clone(),
            None => self.state.get(key),
        }
    }

    /// In the order of lists.
    pub fn list(&self, range: &Range) -> Vec<Arc<Stored>> {
        let committed = self.state.list(range);
        let mut written = self
            .overlay
            .iter()
            .filter(|(key, _)| key.table == range.table && range.covers(&key.place))
            .peekable();
        if written.peek().is_none() {
            return committed;
        }
        let mut merged: BTreeMap<_, _> = committed
            .into_iter()
            .map(|stored| (stored.key.place.clone(), stored))
            .collect();
        for (key, value) in written {
            match value {
                Some(stored) => merged.insert(key.place.clone(), Arc::clone(stored)),
                None => merged.remove(&key.place),
            };
        }
        merged.into_values().collect()
    }

    /// Writes an object, keeping the schema stamp that it had.
    pub fn put(&mut self, key: &Key, object: Object) -> Result<(), Status> {
        let stamp = self.get(key).map_or(0, |stored| stored.stamp);
        self.put_stamped(key, object, stamp)
    }

    /// Writes an object that was pruned and defaulted by the schema with that stamp. Whether anything
    /// changed is found out at the commit: an object written as it was is not written.
    pub fn put_stamped(&mut self, key: &Key, object: Object, stamp: u64) -> Result<(), Status> {
        let mut object = Object::new(object.into_value())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        if !is_shallow(object.as_value(), MAX_DEPTH) {
            return Err(Status::bad_request(format!(
                "the object is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        if !self.store.options.plain_clusters.contains(key.cluster()) {
            object.set_annotation(CLUSTER_ANNOTATION, key.cluster());
        }
        let base = self.state.get(key).map_or(0, |stored| stored.revision);
        let metadata = object.metadata_mut();
        if base == 0 {
            metadata.remove("resourceVersion");
        } else {
            metadata.insert("resourceVersion".into(), base.to_string().into());
        }
        let stored = Stored::pending(key.clone(), object, stamp);
        self.note(key, Some(Arc::new(stored)));
        Ok(())
    }

    /// Removes an object; says whether there was one.
    pub fn remove(&mut self, key: &Key) -> bool {
        let there = self.get(key).is_some();
        if there {
            self.note(key, None);
        }
        there
    }

    fn note(&mut self, key: &Key, value: Option<Arc<Stored>>) {
        let table = &key.table;
        let defines = (table.group.clone(), table.resource.clone());
        if self.store.options.definitions.contains(&defines) {
            self.definition_writes += 1;
        }
        if self.overlay.insert(key.clone(), value).is_none() {
            self.order.push(key.clone());
        }
        if self.is_dirty.insert(key.clone()) {
            self.dirty.push(key.clone());
        }
    }

    /// Marks the object that the answer shall show, as the settlers leave it.
    pub fn report(&mut self, key: &Key) {
        self.reported = Some(key.clone());
    }

    /// The objects of a cluster that name an owner of this uid, but for what this transaction does to
    /// them.
    pub fn dependents(&self, cluster: &Name, uid: &str) -> Vec<Key> {
        let owner = (cluster.clone(), uid.into());
        self.state.lineages.dependents(&owner)
    }

    /// Whether an owner is known to have gone: it need not be looked for.
    pub fn is_gone(&self, cluster: &Name, uid: &str) -> bool {
        self.state.lineages.is_gone(&(cluster.clone(), uid.into()))
    }

    pub fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Calls the settlers until they have nothing more to say.
    pub(super) fn settle(&mut self, settlers: &[Arc<dyn Settler>]) -> Result<(), Status> {
        for _ in 0..MAX_ROUNDS {
            let changed = std::mem::take(&mut self.dirty);
            self.is_dirty.clear();
            if changed.is_empty() {
                return Ok(());
            }
            for settler in settlers {
                settler.settle(self, &changed)?;
            }
        }
        let names: Vec<&str> = self.dirty.iter().map(|key| &**key.name()).collect();
        Err(Status::internal(format!(
            "controllers do not come to rest about {}",
            names.join(", ")
        )))
    }

    /// Decides what really changed and gives each change its revision.
    pub(super) fn finish(mut self, names: &mut HashSet<Name>) -> Pending {
        let mut revision = self.state.revision;
        let mut changes = Vec::new();
        for key in &self.order {
            let before = self.state.get(key);
            let written = self.overlay.get(key).and_then(Option::as_deref);
            if !differs(before.as_deref(), written) {
                continue;
            }
            revision += 1;
            let written = self.overlay.insert(key.clone(), None).flatten();
            let after = written.map(|pending| {
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
            let departed = match (&before, &after) {
                (Some(before), None) => self.state.lineages.departing(before),
                _ => None,
            };
            let change = Change {
                revision,
                before,
                after,
            };
            changes.push((key.table.clone(), Arc::new(change), departed));
        }
        let reported = self.reported.as_ref().and_then(|key| {
            let committed = changes
                .iter()
                .rev()
                .find_map(|(_, change, _)| change.after.as_ref().filter(|after| after.key == *key));
            match (committed, self.overlay.get(key)) {
                (Some(stored), _) => Some(Arc::clone(stored)),
                (None, Some(None)) => None,
                (None, _) => self.state.get(key),
            }
        });
        Pending {
            changes,
            definitions_changed: self.definition_writes > 0,
            reported,
        }
    }

    /// Answers without having changed anything.
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
        for key in &self.order {
            if !tables.contains(&key.table) {
                tables.push(key.table.clone());
            }
        }
        tables
    }

    fn definitions(&self) -> u64 {
        self.state.definitions + self.definition_writes
    }
}

/// Whether a write changed anything. Serialisation is canonical (fields sorted), so bytes decide.
fn differs(before: Option<&Stored>, after: Option<&Stored>) -> bool {
    match (before, after) {
        (None, None) => false,
        (Some(before), Some(after)) => before.body() != after.body(),
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
