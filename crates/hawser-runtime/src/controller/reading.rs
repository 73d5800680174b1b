//! The objects that passes read from the caches. They are in memory as trees, up to a hundred times as large as their
//! JSON, until the pass ends.
//!
//! One pass reads a number of bytes of JSON whole. Of further objects it reads identity and labels, so that the number
//! and the size of objects that a consumer refers to costs no more. Of the passes over large trees only so many run at a
//! time, and fewer of one tenant. Of those that are larger than a tenant's share, one runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::shares::{PermitShares, Permits};
use crate::cluster::cache::{Cache, ObjectSize};
use hawser_sync::{Fingerprint, Found, Key, Labels, Scope, Seen, Store};
use kube_lang::object::Object;

/// The most bytes that one pass reads whole: twice an object as large as servers take, its copy and what is recorded of
/// both.
const MOST: usize = 8 << 20;
/// The most bytes of the trees that the passes of one tenant read,
const SHARE: usize = OBJECTS * MOST;
/// and of those of all passes.
const MOST_AT_ONCE: usize = 3 * SHARE;
/// Passes that read smaller trees are not counted.
const LARGE: usize = 256 << 10;
/// The bytes of a tree that a permit stands for.
const UNIT: usize = 128 << 10;
/// A pass reads its object, the copy, and what is recorded of both.
const OBJECTS: usize = 3;
/// The longest wait for the passes of others.
const PATIENCE: Duration = Duration::from_secs(10);

/// The permits to read large objects.
pub struct Reading {
    shares: PermitShares,
    /// For one pass at a time that needs more than a share.
    beyond: Arc<Semaphore>,
}

/// The part of one pass, and the caches as this pass reads them.
pub struct PassReading<'a> {
    reading: &'a Reading,
    tenant: &'a Arc<str>,
    cache: &'a Cache,
    /// What has been read whole.
    text: AtomicUsize,
    tree: AtomicUsize,
    permits: Mutex<ReadingPermits>,
}

#[derive(Default)]
struct ReadingPermits {
    share: Option<Permits>,
    beyond: Option<OwnedSemaphorePermit>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            shares: PermitShares::new(MOST_AT_ONCE / UNIT, SHARE / UNIT),
            beyond: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Reading {
    /// Waits until an object with such a tree may be read with what belongs to it; `None` if others do not end in time.
    pub async fn begin<'a>(
        &'a self,
        tenant: &'a Arc<str>,
        cache: &'a Cache,
        tree: usize,
    ) -> Option<PassReading<'a>> {
        let permits = timeout(PATIENCE, self.permits(tenant, tree)).await.ok()?;
        Some(PassReading {
            reading: self,
            tenant,
            cache,
            text: AtomicUsize::new(0),
            tree: AtomicUsize::new(0),
            permits: Mutex::new(permits),
        })
    }

    async fn permits(&self, tenant: &Arc<str>, tree: usize) -> ReadingPermits {
        if tree < LARGE {
            return ReadingPermits::default();
        }
        let needed = OBJECTS * tree;
        // Whoever waits for its turn beyond a share holds nothing that other tenants could use.
        let turn = async {
            if needed <= SHARE {
                return None;
            }
            let turn = Arc::clone(&self.beyond).acquire_owned().await;
            Some(turn.expect("the permit is never closed"))
        };
        let acquired = self.shares.acquire_after(tenant, units(needed), turn);
        let (share, beyond) = acquired.await;
        ReadingPermits {
            share: Some(share),
            beyond,
        }
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

impl PassReading<'_> {
    /// Whether what has been read fits beside what others read. Otherwise the pass is to end.
    pub fn fits(&self) -> bool {
        let tree = self.tree.load(Ordering::Relaxed);
        let mut permits = self.permits.lock();
        if tree > SHARE && permits.beyond.is_none() {
            permits.beyond = Arc::clone(&self.reading.beyond).try_acquire_owned().ok();
            if permits.beyond.is_none() {
                return false;
            }
        }
        let shares = &self.reading.shares;
        tree < LARGE || shares.grow(self.tenant, &mut permits.share, units(tree))
    }

    /// Whether an object of this size is read whole.
    fn take(&self, size: ObjectSize) -> bool {
        let before = self.text.load(Ordering::Relaxed);
        let fits = before + size.text <= MOST;
        if fits {
            self.text.store(before + size.text, Ordering::Relaxed);
            self.tree.fetch_add(size.tree, Ordering::Relaxed);
        }
        fits
    }
}

impl Store for PassReading<'_> {
    fn get(&self, key: &Key) -> Seen {
        match self.cache.get(key) {
            Seen::Present(object) if !self.take(self.cache.object_size(key)) => {
                Seen::Present(object.left_out().into())
            }
            seen => seen,
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.cache
            .find_within(scope, labels, &|size| self.take(size))
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        self.cache.saw_deletion(key)
    }

    fn saw_end(&self, key: &Key) -> bool {
        self.cache.saw_end(key)
    }

    fn fingerprint_of(&self, key: &Key, object: &Object) -> Fingerprint {
        self.cache.fingerprint_of(key, object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::cache::{Coverage, Listed};
    use hawser_sync::Side;
    use kube_lang::object::Gvk;

    /// Objects of a megabyte of JSON and two megabytes of a tree each.
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
                "data": {"k": "x".repeat(1 << 20), "colons": ":".repeat(11_000)}});
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
        let (reading, tenant) = (Reading::default(), "a".into());
        let pass = reading.begin(&tenant, &cache, 1 << 20).await.unwrap();
        let whole = |object: &Object| usize::from(!object.is_fragment());
        let mut read = 0;
        for number in 0..12 {
            let key = scope.key(Some("default"), &number.to_string());
            let Seen::Present(object) = pass.get(&key) else {
                panic!("{key} is there");
            };
            assert_eq!(object.label("a"), Some("b"));
            read += whole(&object);
        }
        assert_eq!(read, MOST / (1 << 20) - 1);
        assert!(pass.fits());
        let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
        let other = reading.begin(&tenant, &cache, 0).await.unwrap();
        let Found::All(found) = other.find(&scope, &labels) else {
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

    #[tokio::test]
    async fn the_fingerprint_of_an_object_that_a_pass_read_is_the_one_in_the_table() {
        let (cache, scope) = cache(1);
        let (reading, tenant) = (Reading::default(), "a".into());
        let pass = reading.begin(&tenant, &cache, 0).await.unwrap();
        let key = scope.key(Some("default"), "0");
        let Seen::Present(read) = pass.get(&key) else {
            panic!("it is there");
        };
        assert_eq!(pass.fingerprint_of(&key, &read), Fingerprint::of(&read));
        // The version stands for the content: a fingerprint that is computed would differ.
        let mut other = Object::clone(&read);
        other.root_mut().remove("data");
        assert_eq!(pass.fingerprint_of(&key, &other), Fingerprint::of(&read));
    }

    #[tokio::test(start_paused = true)]
    async fn passes_over_large_objects_take_turns_and_small_ones_do_not_wait() {
        let (cache, _) = cache(0);
        let reading = Reading::default();
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

    #[tokio::test(start_paused = true)]
    async fn of_trees_that_are_larger_than_a_share_one_is_read_at_a_time() {
        let (cache, _) = cache(0);
        let reading = Reading::default();
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        let first = reading.begin(&a, &cache, SHARE).await.unwrap();
        assert!(reading.begin(&b, &cache, SHARE).await.is_none());
        assert!(reading.begin(&b, &cache, MOST).await.is_some());
        let grows = reading.begin(&b, &cache, 0).await.unwrap();
        let size = ObjectSize {
            text: 1,
            tree: SHARE + 1,
        };
        assert!(grows.take(size) && !grows.fits());
        drop(first);
        assert!(grows.fits());
        assert!(reading.begin(&a, &cache, SHARE).await.is_none());
        drop(grows);
        assert!(reading.begin(&a, &cache, SHARE).await.is_some());
    }
}
