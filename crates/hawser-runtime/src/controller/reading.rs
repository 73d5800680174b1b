//! The objects that passes read from the caches, in bytes. They are in memory as trees, many times as large, until the
//! pass ends.
//!
//! One pass reads a number of bytes whole. Of further objects it reads identity and labels, so that the number and the
//! size of objects that a consumer refers to costs no more. Of the passes over large objects only so many run at a time,
//! and fewer of one tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::shares::{PermitShares, Permits};
use crate::cluster::cache::Cache;
use hawser_sync::{Found, Key, Labels, Scope, Seen, Store};

/// The most bytes that one pass reads whole: twice an object as large as servers take, its copy and what is recorded of
/// both.
const MOST: usize = 8 << 20;
/// The most bytes of all passes over large objects.
const MOST_AT_ONCE: usize = 3 * MOST;
/// Passes that read less are not counted.
const LARGE: usize = 64 << 10;
/// The bytes that a permit stands for.
const UNIT: usize = 64 << 10;
/// A pass reads its object, the copy, and what is recorded of both.
const OBJECTS: usize = 3;
/// The longest wait for the passes of others.
const PATIENCE: Duration = Duration::from_secs(10);

/// The permits to read large objects.
pub(super) struct Reading(PermitShares);

/// The part of one pass.
pub(super) struct PassReading<'a> {
    reading: &'a Reading,
    tenant: &'a Arc<str>,
    store: PassStore<'a>,
    permits: Mutex<Option<Permits>>,
}

/// The caches, as one pass reads them.
pub(super) struct PassStore<'a> {
    cache: &'a Cache,
    bytes: AtomicUsize,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self(PermitShares::new(MOST_AT_ONCE / UNIT, MOST / UNIT))
    }

    /// Waits until an object of this size may be read with what belongs to it; `None` if others do not end in time.
    pub(super) async fn begin<'a>(
        &'a self,
        tenant: &'a Arc<str>,
        cache: &'a Cache,
        bytes: usize,
    ) -> Option<PassReading<'a>> {
        let permits = if bytes < LARGE {
            None
        } else {
            let permits = self.0.acquire(tenant, units(OBJECTS * bytes));
            Some(timeout(PATIENCE, permits).await.ok()?)
        };
        Some(PassReading {
            reading: self,
            tenant,
            store: PassStore {
                cache,
                bytes: AtomicUsize::new(0),
            },
            permits: Mutex::new(permits),
        })
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

impl<'a> PassReading<'a> {
    pub(super) fn store(&self) -> &PassStore<'a> {
        &self.store
    }

    /// Whether what has been read fits beside what others read. Otherwise the pass is to end.
    pub(super) fn fits(&self) -> bool {
        let bytes = self.store.bytes.load(Ordering::Relaxed);
        let mut permits = self.permits.lock();
        bytes < LARGE || self.reading.0.grow(self.tenant, &mut permits, units(bytes))
    }
}

impl PassStore<'_> {
    /// Whether an object of this size is read whole.
    fn take(&self, bytes: usize) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let fits = before + bytes <= MOST;
        if fits {
            self.bytes.store(before + bytes, Ordering::Relaxed);
        }
        fits
    }
}

impl Store for PassStore<'_> {
    fn get(&self, key: &Key) -> Seen {
        match self.cache.get(key) {
            Seen::Present(object) if !self.take(self.cache.bytes(key)) => {
                Seen::Present(object.left_out().into())
            }
            seen => seen,
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.cache
            .find_within(scope, labels, &|bytes| self.take(bytes))
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        self.cache.saw_deletion(key)
    }

    fn saw_end(&self, key: &Key) -> bool {
        self.cache.saw_end(key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::cache::{Coverage, Listed};
    use hawser_sync::Side;
    use kube_lang::object::{Gvk, Object};

    /// Objects of a megabyte each.
    fn cache(objects: usize) -> (Arc<Cache>, Scope) {
        let cache = Cache::new();
        let (side, kind) = (Side::new("here"), Arc::new(Gvk::new("", "v1", "ConfigMap")));
        cache.route(&side, "", &"source".into());
        let table = cache.add(&side, &kind, &"source".into(), Coverage::default());
        let scope = Scope::new(&side, &kind, "");
        for number in 0..objects {
            let key = scope.key(Some("default"), &number.to_string());
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": &*key.name, "namespace": "default", "uid": &*key.name,
                "resourceVersion": "1", "labels": {"a": "b"}},
                "data": {"k": "x".repeat(1 << 20)}});
            let object = Arc::new(Object::new(object).unwrap());
            table.upsert(&Listed {
                key,
                version: 1,
                object,
            });
        }
        table.finish(&table.keys().into_iter().collect(), 1);
        (cache, scope)
    }

    #[tokio::test]
    async fn beyond_a_number_of_bytes_a_pass_reads_identity_and_labels() {
        let (cache, scope) = cache(12);
        let (reading, tenant) = (Reading::new(), "a".into());
        let pass = reading.begin(&tenant, &cache, 1 << 20).await.unwrap();
        let whole = |object: &Object| usize::from(!object.is_fragment());
        let mut read = 0;
        for number in 0..12 {
            let key = scope.key(Some("default"), &number.to_string());
            let Seen::Present(object) = pass.store().get(&key) else {
                panic!("{key} is there");
            };
            assert_eq!(object.label("a"), Some("b"));
            read += whole(&object);
        }
        assert_eq!(read, MOST / (1 << 20) - 1);
        assert!(pass.fits());
        let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
        let other = reading.begin(&tenant, &cache, 0).await.unwrap();
        let Found::All(found) = other.store().find(&scope, &labels) else {
            panic!("all are known");
        };
        assert_eq!(found.len(), 12);
        assert_eq!(found.iter().map(|(_, o)| whole(o)).sum::<usize>(), read);
        assert!(
            !other.fits(),
            "the first one has all that the tenant may have"
        );
        drop(pass);
        assert!(other.fits());
    }

    #[tokio::test(start_paused = true)]
    async fn passes_over_large_objects_take_turns_and_small_ones_do_not_wait() {
        let (cache, _) = cache(0);
        let reading = Reading::new();
        let tenants: Vec<Arc<str>> = (0..5).map(|n: u8| n.to_string().into()).collect();
        let mut under_way = Vec::new();
        for tenant in &tenants[..3] {
            under_way.push(reading.begin(tenant, &cache, MOST).await.unwrap());
        }
        assert!(reading.begin(&tenants[3], &cache, MOST).await.is_none());
        assert!(
            reading
                .begin(&tenants[3], &cache, LARGE - 1)
                .await
                .is_some()
        );
        under_way.pop();
        assert!(reading.begin(&tenants[4], &cache, MOST).await.is_some());
    }
}
