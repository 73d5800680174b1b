//! One watch for everybody who wants the same objects, for as long as anybody does.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use hawser_runtime::cluster::cache::{Cache, Change, Coverage, SourceId, Table};
use hawser_runtime::cluster::feed::{Feed, Health, Listener, Pace, Selection};
use hawser_sync::Side;
use kube_lang::object::Gvk;

/// What somebody wants to be watched.
pub struct Wanted {
    pub side: Side,
    pub kind: Arc<Gvk>,
    pub source: SourceId,
    pub coverage: Coverage,
    pub selection: Selection,
}

/// Who is told by all feeds of a process, from the tasks that read them: it must not take long.
pub trait Hears: Send + Sync {
    fn changed(&self, source: &SourceId, change: Change);
    /// The first list is complete, and all of it was told.
    fn completed(&self, source: &SourceId, table: &Arc<Table>);
}

/// A feed that several may hold. With the last of them it ends, and its table is taken out.
pub struct Watched {
    cache: Arc<Cache>,
    feed: Feed,
}

impl Watched {
    pub fn table(&self) -> &Arc<Table> {
        self.feed.table()
    }

    pub fn health(&self) -> Health {
        self.feed.health()
    }

    pub async fn completed(&self) {
        self.feed.completed().await;
    }

    pub fn is_complete(&self) -> bool {
        self.feed.table().is_complete()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.cache.remove(self.feed.table());
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Id {
    side: Side,
    kind: Arc<Gvk>,
    source: SourceId,
    labelled: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    query: Option<String>,
    indexed: Vec<Arc<str>>,
}

/// The feeds of a process.
pub struct Feeds {
    cache: Arc<Cache>,
    pace: Pace,
    hears: Arc<dyn Hears>,
    running: Mutex<HashMap<Id, Weak<Watched>>>,
}

/// Tells of one source.
struct Teller {
    source: SourceId,
    hears: Arc<dyn Hears>,
}

impl Listener for Teller {
    fn changed(&self, change: Change) {
        self.hears.changed(&self.source, change);
    }

    fn completed(&self, table: &Arc<Table>) {
        self.hears.completed(&self.source, table);
    }
}

impl Feeds {
    pub fn new(cache: &Arc<Cache>, pace: Pace, hears: Arc<dyn Hears>) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::clone(cache),
            pace,
            hears,
            running: Mutex::default(),
        })
    }

    /// The running feed of these objects, or a new one.
    pub fn watch(&self, wanted: Wanted) -> Arc<Watched> {
        let id = Id {
            side: wanted.side.clone(),
            kind: Arc::clone(&wanted.kind),
            source: Arc::clone(&wanted.source),
            labelled: wanted.coverage.labelled.clone(),
            namespace: wanted.coverage.namespace.clone(),
            query: wanted.selection.query.clone(),
            indexed: wanted.coverage.indexed.clone(),
        };
        let mut running = self.running.lock();
        running.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = running.get(&id).and_then(Weak::upgrade) {
            if wanted.coverage.idle.is_none() {
                feed.table().keep_all();
            }
            return feed;
        }
        let Wanted {
            side,
            kind,
            source,
            coverage,
            selection,
        } = wanted;
        let table = self.cache.add(&side, &kind, &source, coverage);
        let teller = Teller {
            source,
            hears: Arc::clone(&self.hears),
        };
        let feed = Arc::new(Watched {
            cache: Arc::clone(&self.cache),
            feed: Feed::start(selection, table, Arc::new(teller), self.pace),
        });
        running.insert(id, Arc::downgrade(&feed));
        feed
    }

    /// What is not served by this source now, or by any, may be served any moment.
    pub fn expect(&self, source: Option<&SourceId>) {
        for (id, feed) in &*self.running.lock() {
            if source.is_none_or(|source| *source == id.source)
                && let Some(feed) = feed.upgrade()
            {
                feed.feed.expect();
            }
        }
    }

    /// What is watched now.
    pub fn all(&self) -> Vec<Arc<Watched>> {
        let running = self.running.lock();
        running.values().filter_map(Weak::upgrade).collect()
    }
}
