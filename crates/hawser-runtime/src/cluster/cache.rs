//! The caches: tables that feeds keep current, read by key and by labels.
//!
//! A table holds the objects of one kind from one source, or those of them that carry a label. Objects are kept as
//! bytes with a fingerprint, so most events end at a comparison of fingerprints. The newest version of an object wins:
//! an event that was under way before a write cannot undo the answer to that write.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use super::document;
use hawser_sync::Labels;
use hawser_sync::Question;
use hawser_sync::{
    Answer, Failure, Fingerprint, FingerprintSource, Found, Key, Request, Scope, Seen, Side, Store,
};
use kube_lang::object::{Gvk, Object};

mod forms;
mod table;

pub use forms::{Forms, LabelledForms};
pub(in crate::cluster) use table::wanted_changed;
pub use table::{
    Change, ChangeType, Coverage, Finished, KeptByAll, Listed, ObjectSize, Partition, Size, Table,
    TenantMark, WantedParts, version,
};

/// The source of a cluster's objects: an endpoint that serves many clusters, or the cluster itself.
pub type SourceId = Arc<str>;

/// The tables of a kind from one source, each with a part of it.
type SourceTables = Arc<[Arc<Table>]>;
type TablesByKind = HashMap<(Side, Arc<Gvk>, SourceId), SourceTables>;

/// All tables of a process.
#[derive(Default)]
pub struct Cache {
    tables: RwLock<TablesByKind>,
    /// The source of each cluster.
    routes: RwLock<HashMap<Side, HashMap<Arc<str>, SourceId>>>,
    /// The bytes that are kept of a cluster on this side, for each kind and source.
    most: Option<(Side, usize)>,
}

impl Cache {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Keeps at most these bytes of a cluster on this side, for each kind and source. Of objects beyond that, identity
    /// and labels are kept.
    pub fn limited(side: &Side, most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: Some((side.clone(), most)),
            ..Self::default()
        })
    }

    /// Routes a cluster to the tables of this source.
    pub fn route(&self, side: &Side, cluster: &str, source: &SourceId) {
        let mut routes = self.routes.write();
        let of_side = routes.entry(side.clone()).or_default();
        of_side.insert(cluster.into(), Arc::clone(source));
    }

    /// Makes all objects of this cluster unknown, even if tables still hold them.
    pub fn unroute(&self, side: &Side, cluster: &str) {
        if let Some(of_side) = self.routes.write().get_mut(side) {
            of_side.remove(cluster);
        }
    }

    pub fn source(&self, side: &Side, cluster: &str) -> Option<SourceId> {
        let routes = self.routes.read();
        routes.get(side)?.get(cluster).cloned()
    }

    /// Adds an empty table, which a feed fills.
    pub fn add(
        &self,
        side: &Side,
        kind: &Arc<Gvk>,
        source: &SourceId,
        coverage: Coverage,
    ) -> Arc<Table> {
        let limit = self.most.as_ref().filter(|(limited, _)| limited == side);
        let most = limit.map(|(_, most)| *most);
        let table = Arc::new(Table::new(side, kind, source, coverage, most));
        let key = (side.clone(), Arc::clone(kind), Arc::clone(source));
        let mut tables = self.tables.write();
        let of_source = tables.entry(key).or_default();
        let all = of_source.iter().chain([&table]);
        *of_source = all.cloned().collect();
        table
    }

    /// Removes a table; its objects are unknown from now on.
    pub fn remove(&self, table: &Arc<Table>) {
        let key = (
            table.side().clone(),
            Arc::clone(table.kind()),
            Arc::clone(table.source()),
        );
        let mut tables = self.tables.write();
        if let Slot::Occupied(mut of_source) = tables.entry(key) {
            let others = of_source.get().iter();
            let others = others.filter(|other| !Arc::ptr_eq(other, table));
            let others: SourceTables = others.cloned().collect();
            if others.is_empty() {
                of_source.remove();
            } else {
                of_source.insert(others);
            }
        }
    }

    /// The sizes of the tables, for metrics.
    pub fn sizes(&self) -> Vec<(Side, Arc<Gvk>, Size)> {
        let mut sizes: BTreeMap<(Side, Arc<Gvk>), Size> = BTreeMap::new();
        for ((side, kind, _), tables) in &*self.tables.read() {
            let size = sizes.entry((side.clone(), Arc::clone(kind))).or_default();
            for table in &**tables {
                *size += table.size();
            }
        }
        sizes.into_iter().map(|((s, k), n)| (s, k, n)).collect()
    }

    /// The key of a table, so that what is kept about its object shares its parts.
    pub fn shared(&self, key: &Key) -> Option<Key> {
        let tables = self.tables(&key.scope());
        let known = tables.iter().find_map(|table| table.known(key));
        known.map(|(key, _)| key)
    }

    /// The newest known version of the object of a request, for [`Self::learn`]; asked before the request is sent.
    pub fn known_version(&self, request: &Request) -> Option<u64> {
        let key = request.key()?;
        let tables = self.tables(&key.scope());
        let versions = tables.iter().filter_map(|table| table.known_version(key));
        versions.max()
    }

    /// Stores the answer to a request. Returns the part of it that the caches keep, because a pass knows no more of an
    /// object than the next one, and the changes that it makes. `known` is the version of the object that was known when
    /// the request was sent. An answer that the last list has overtaken counts as none: no event will follow it.
    pub fn learn(
        &self,
        request: &Request,
        answer: Answer,
        known: Option<u64>,
    ) -> (Answer, Vec<Change>) {
        let mut changes = Vec::new();
        let answer = match (request.key(), answer) {
            (Some(key), Answer::Object(object)) => self
                .learn_object(key, object, &mut changes)
                .map_or_else(overtaken, Answer::Object),
            (Some(key), Answer::Gone) => {
                let tables = self.tables(&key.scope());
                changes.extend(
                    tables
                        .iter()
                        .filter_map(|table| table.learn_gone(key, known)),
                );
                Answer::Gone
            }
            (None, Answer::Listed(mut list)) => {
                let learned = list.iter_mut().try_for_each(|(key, object)| {
                    *object = self.learn_object(key, Arc::clone(object), &mut changes)?;
                    Some(())
                });
                learned.map_or_else(overtaken, |()| Answer::Listed(list))
            }
            // It may have been created: that an earlier one was deleted proves nothing now.
            (Some(key), answer @ Answer::Failed(Failure::Unavailable(_)))
                if matches!(request, Request::Create { .. }) =>
            {
                for table in self.tables(&key.scope()).iter() {
                    table.doubt_deletion(key);
                }
                answer
            }
            (_, answer) => answer,
        };
        (answer, changes)
    }

    /// Stores an object, and returns the part of it that the caches keep; `None` if a list has overtaken it.
    fn learn_object(
        &self,
        key: &Key,
        object: Arc<Object>,
        changes: &mut Vec<Change>,
    ) -> Option<Arc<Object>> {
        let tables = self.tables(&key.scope());
        let stored = document::without_managed_fields(&object);
        for table in tables.iter() {
            changes.extend(table.learn(key, &stored).ok()?);
        }
        if tables.iter().any(|table| table.leaves_out(key)) {
            Some(object.left_out().into())
        } else {
            Some(object)
        }
    }

    /// The keys of the objects that may have these labels, as far as they are known; `None` if these are more than
    /// `most`.
    pub(crate) fn keys_of_few(
        &self,
        scope: &Scope,
        labels: &Labels,
        most: usize,
    ) -> Option<Vec<Key>> {
        let mut keys = Vec::new();
        for table in self.tables(scope).iter() {
            keys.append(&mut table.keys_of_few(&scope.cluster, labels, most)?);
        }
        Some(keys)
    }

    /// The size of an object; nothing if the object is not known.
    pub fn object_size(&self, key: &Key) -> ObjectSize {
        let tables = self.tables(&key.scope());
        let sizes = tables.iter().map(|table| table.object_size(key));
        sizes.max_by_key(|size| size.text).unwrap_or_default()
    }

    /// Finds objects by labels. `keep` decides by their size which of them are read whole; of the others, identity and
    /// labels are.
    pub(crate) fn find_within(
        &self,
        scope: &Scope,
        labels: &Labels,
        keep: &dyn Fn(ObjectSize) -> bool,
    ) -> Found {
        let found = self.tables(scope).iter().find_map(|table| {
            match table.find(&scope.cluster, labels, keep) {
                Found::All(all) => Some(all),
                Found::Unknown => None,
            }
        });
        found.map_or(Found::Unknown, Found::All)
    }

    fn tables(&self, scope: &Scope) -> SourceTables {
        let Some(source) = self.source(&scope.side, &scope.cluster) else {
            return SourceTables::default();
        };
        let key = (scope.side.clone(), Arc::clone(&scope.kind), source);
        self.tables.read().get(&key).cloned().unwrap_or_default()
    }
}

fn overtaken() -> Answer {
    let why = "a list that is newer than the answer lacks the object".to_owned();
    Answer::Failed(Failure::Unavailable(why))
}

impl Store for Cache {
    fn get(&self, key: &Key) -> Seen {
        let mut answer = None;
        for table in self.tables(&key.scope()).iter() {
            match table.get(key) {
                Some(Seen::Present(object)) => return Seen::Present(object),
                // One that is not complete yet may be the one that has it.
                Some(Seen::Unknown) => answer = Some(Seen::Unknown),
                Some(Seen::Absent) => answer = answer.or(Some(Seen::Absent)),
                None => {}
            }
        }
        answer.unwrap_or(Seen::Unknown)
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.find_within(scope, labels, &|_| true)
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        let tables = self.tables(&key.scope());
        tables.iter().any(|table| table.saw_deletion(key))
    }

    fn saw_end(&self, key: &Key) -> bool {
        let tables = self.tables(&key.scope());
        tables.iter().any(|table| table.saw_end(key))
    }

    fn fingerprint_of(&self, key: &Key, object: &Object) -> Fingerprint {
        let tables = self.tables(&key.scope());
        let kept = tables
            .iter()
            .find_map(|table| table.fingerprint_at(key, object));
        kept.unwrap_or_else(|| Fingerprint::of(object))
    }
}

impl FingerprintSource for Cache {
    fn fingerprint(&self, question: &Question) -> Option<Fingerprint> {
        match question {
            Question::Object(key) => {
                let mut answer = None;
                for table in self.tables(&key.scope()).iter() {
                    match table.fingerprint(key)? {
                        Some(fingerprint) if fingerprint != Fingerprint::ABSENT => {
                            return Some(fingerprint);
                        }
                        fingerprint => answer = answer.or(fingerprint),
                    }
                }
                answer
            }
            Question::Marked(scope, labels) => {
                let tables = self.tables(scope);
                tables
                    .iter()
                    .find_map(|t| t.fingerprint_of(&scope.cluster, labels))
            }
        }
    }
}

#[cfg(test)]
mod tests;
