//! What is known of many objects: tables that feeds keep up, asked by key and by labels.
//!
//! A table is one kind as one source shows it, or that part of it which carries a label. Objects
//! are kept as bytes with a print beside them: most events end at a comparison of prints. The
//! newest state of an object wins, so that an answer to a write, put in at once, is never undone by
//! an event that was on its way before it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use hawser_sync::decide::Question;
use hawser_sync::subject::Labels;
use hawser_sync::{Answer, Found, Key, Print, Prints, Request, Scope, Seen, Side, Store};
use kube_lang::object::{Gvk, Object};

mod table;

pub use table::{Change, Coverage, Finished, Listed, Size, Table, What, version};

/// Where the objects of a cluster come from: an endpoint that serves many of them, or the cluster
/// itself.
pub type SourceId = Arc<str>;

/// The tables of a kind from one source, each with a part of it.
type Shelf = Vec<Arc<Table>>;
type Shelves = HashMap<(Side, Arc<Gvk>, SourceId), Shelf>;

/// All tables of a process.
#[derive(Default)]
pub struct Cache {
    shelves: RwLock<Shelves>,
    /// Which source a cluster is served by.
    routes: RwLock<HashMap<(Side, Arc<str>), SourceId>>,
}

impl Cache {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on this cluster is looked for in the tables of this source.
    pub fn route(&self, side: &Side, cluster: &str, source: &SourceId) {
        let route = (side.clone(), Arc::from(cluster));
        self.routes.write().insert(route, Arc::clone(source));
    }

    /// Nothing is known of this cluster any more, whatever tables still hold.
    pub fn unroute(&self, side: &Side, cluster: &str) {
        self.routes
            .write()
            .remove(&(side.clone(), Arc::from(cluster)));
    }

    pub fn source(&self, side: &Side, cluster: &str) -> Option<SourceId> {
        let routes = self.routes.read();
        routes.get(&(side.clone(), Arc::from(cluster))).cloned()
    }

    /// A table that has nothing yet, which a feed fills.
    pub fn add(
        &self,
        side: &Side,
        kind: &Arc<Gvk>,
        source: &SourceId,
        coverage: Coverage,
    ) -> Arc<Table> {
        let table = Arc::new(Table::new(side, kind, coverage));
        let shelf = (side.clone(), Arc::clone(kind), Arc::clone(source));
        let mut shelves = self.shelves.write();
        shelves.entry(shelf).or_default().push(Arc::clone(&table));
        table
    }

    /// Takes a table out; what it knew is unknown from now on.
    pub fn remove(&self, table: &Arc<Table>) {
        self.shelves.write().retain(|_, shelf| {
            shelf.retain(|other| !Arc::ptr_eq(other, table));
            !shelf.is_empty()
        });
    }

    /// What tables hold, for metrics.
    pub fn sizes(&self) -> Vec<(Side, Arc<Gvk>, Size)> {
        let mut sizes: BTreeMap<(Side, Arc<Gvk>), Size> = BTreeMap::new();
        for ((side, kind, _), shelf) in &*self.shelves.read() {
            let size = sizes.entry((side.clone(), Arc::clone(kind))).or_default();
            for table in shelf {
                *size += table.size();
            }
        }
        sizes.into_iter().map(|((s, k), n)| (s, k, n)).collect()
    }

    /// Takes the answer to a request, and answers what became different by it.
    pub fn take(&self, request: &Request, answer: &Answer) -> Vec<Change> {
        let mut changes = Vec::new();
        match (request.key(), answer) {
            (Some(key), Answer::Object(object)) => self.put(key, object, &mut changes),
            (Some(key), Answer::Gone) => {
                let tables = self.tables(&key.scope());
                changes.extend(tables.iter().filter_map(|table| table.learn_gone(key)));
            }
            (None, Answer::Listed(list)) => {
                for (key, object) in list {
                    self.put(key, object, &mut changes);
                }
            }
            _ => {}
        }
        changes
    }

    /// How many bytes there are of an object; none where it is not known.
    pub fn bytes(&self, key: &Key) -> usize {
        let tables = self.tables(&key.scope());
        tables
            .iter()
            .map(|table| table.bytes(key))
            .max()
            .unwrap_or(0)
    }

    fn tables(&self, scope: &Scope) -> Shelf {
        let Some(source) = self.source(&scope.side, &scope.cluster) else {
            return Shelf::new();
        };
        let shelf = (scope.side.clone(), Arc::clone(&scope.kind), source);
        self.shelves.read().get(&shelf).cloned().unwrap_or_default()
    }

    /// Puts an object into the tables that it belongs into, where there are any.
    fn put(&self, key: &Key, object: &Arc<Object>, changes: &mut Vec<Change>) {
        let tables = self.tables(&key.scope());
        changes.extend(tables.iter().filter_map(|table| table.learn(key, object)));
    }
}

impl Store for Cache {
    fn get(&self, key: &Key) -> Seen {
        let mut answer = None;
        for table in &self.tables(&key.scope()) {
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
        let found = self.tables(scope).into_iter().find_map(|table| {
            match table.find(&scope.cluster, labels) {
                Found::All(all) => Some(all),
                Found::Unknown => None,
            }
        });
        found.map_or(Found::Unknown, Found::All)
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        let tables = self.tables(&key.scope());
        tables.iter().any(|table| table.saw_deletion(key))
    }

    fn saw_end(&self, key: &Key) -> bool {
        let tables = self.tables(&key.scope());
        tables.iter().any(|table| table.saw_end(key))
    }

    fn learn(&self, request: &Request, answer: &Answer) {
        self.take(request, answer);
    }
}

impl Prints for Cache {
    fn print(&self, question: &Question) -> Option<Print> {
        match question {
            Question::Object(key) => {
                let mut answer = None;
                for table in &self.tables(&key.scope()) {
                    match table.print(key)? {
                        Some(print) if print != Print::ABSENT => return Some(print),
                        print => answer = answer.or(print),
                    }
                }
                answer
            }
            Question::Marked(scope, labels) => {
                let tables = self.tables(scope);
                tables
                    .iter()
                    .find_map(|t| t.print_of(&scope.cluster, labels))
            }
        }
    }
}

#[cfg(test)]
mod tests;
