//! One watch for all users of the same objects, until the last one is gone.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cluster::cache::{Cache, Coverage, SourceId, Table};
use crate::cluster::feed::{EventHandler, Feed, FeedHealth, Pace, Selection};
use hawser_sync::Side;
use kube_lang::object::Gvk;

/// The objects to watch.
pub struct WatchSpec {
    pub side: Side,
    pub kind: Arc<Gvk>,
    pub source: SourceId,
    pub coverage: Coverage,
    pub selection: Selection,
}

/// A feed with several users. When the last user drops it, the feed ends and its table is removed.
pub struct SharedWatch {
    cache: Arc<Cache>,
    feed: Feed,
}

impl SharedWatch {
    pub fn table(&self) -> &Arc<Table> {
        self.feed.table()
    }

    pub fn health(&self) -> FeedHealth {
        self.feed.health()
    }

    pub async fn completed(&self) {
        self.feed.completed().await;
    }

    pub fn is_complete(&self) -> bool {
        self.feed.table().is_complete()
    }
}

impl Drop for SharedWatch {
    fn drop(&mut self) {
        self.cache.remove(self.feed.table());
    }
}

#[derive(PartialEq, Eq, Hash)]
struct WatchId {
    side: Side,
    kind: Arc<Gvk>,
    source: SourceId,
    labelled: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    query: Option<String>,
    indexed: Vec<Arc<str>>,
    is_partitioned: bool,
}

/// The watches of a process.
pub struct WatchRegistry {
    cache: Arc<Cache>,
    pace: Pace,
    handler: Arc<dyn EventHandler>,
    running: Mutex<HashMap<WatchId, Weak<SharedWatch>>>,
}

impl WatchRegistry {
    pub fn new(cache: &Arc<Cache>, pace: Pace, handler: Arc<dyn EventHandler>) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::clone(cache),
            pace,
            handler,
            running: Mutex::default(),
        })
    }

    /// The running feed of these objects, or a new one.
    pub fn watch(&self, spec: WatchSpec) -> Arc<SharedWatch> {
        let id = WatchId {
            side: spec.side.clone(),
            kind: Arc::clone(&spec.kind),
            source: Arc::clone(&spec.source),
            labelled: spec.coverage.labelled.clone(),
            namespace: spec.coverage.namespace.clone(),
            query: spec.selection.query.clone(),
            indexed: spec.coverage.indexed.clone(),
            is_partitioned: spec.coverage.partition.is_some(),
        };
        let mut running = self.running.lock();
        running.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = running.get(&id).and_then(Weak::upgrade) {
            if spec.coverage.idle.is_none() {
                feed.table().keep_all();
            }
            return feed;
        }
        let WatchSpec {
            side,
            kind,
            source,
            coverage,
            selection,
        } = spec;
        let table = self.cache.add(&side, &kind, &source, coverage);
        let feed = Arc::new(SharedWatch {
            cache: Arc::clone(&self.cache),
            feed: Feed::start(selection, table, Arc::clone(&self.handler), self.pace),
        });
        running.insert(id, Arc::downgrade(&feed));
        feed
    }

    /// Expects kinds that are not served by this source, or by any, to be served any moment.
    pub fn expect(&self, source: Option<&SourceId>) {
        for (id, feed) in &*self.running.lock() {
            if source.is_none_or(|source| *source == id.source)
                && let Some(feed) = feed.upgrade()
            {
                feed.feed.expect();
            }
        }
    }

    /// Replaces the watches of a source, because they may have stopped sending events.
    pub fn doubt(&self, source: &SourceId) {
        for (id, feed) in &*self.running.lock() {
            if *source == id.source
                && let Some(feed) = feed.upgrade()
            {
                feed.feed.doubt();
            }
        }
    }

    /// The current watches.
    pub fn all(&self) -> Vec<Arc<SharedWatch>> {
        let running = self.running.lock();
        running.values().filter_map(Weak::upgrade).collect()
    }
}
