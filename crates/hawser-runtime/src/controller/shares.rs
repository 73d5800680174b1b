//! Permits of which each tenant may hold a share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of tenants that are kept before those without a permit are dropped.
const KEPT: usize = 128;

/// Permits for all tenants together, and the part of each.
pub(super) struct PermitShares {
    all: Arc<Semaphore>,
    share: usize,
    tenants: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// Some permits, returned when this is dropped.
pub(super) struct Permits {
    of_tenant: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Permits {
    pub(super) fn number(&self) -> usize {
        self.of_all.num_permits()
    }

    pub(super) fn add(&mut self, more: Self) {
        self.of_tenant.merge(more.of_tenant);
        self.of_all.merge(more.of_all);
    }
}

impl PermitShares {
    pub(super) fn new(all: usize, share: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            share,
            tenants: Mutex::default(),
        }
    }

    /// Waits for this number of permits, at most the tenant's share. Tenants come in the order of their requests.
    pub(super) async fn acquire(&self, tenant: &Arc<str>, number: usize) -> Permits {
        let (permits, ()) = self.acquire_after(tenant, number, async {}).await;
        permits
    }

    /// The same, after something else that one pass of each tenant waits for at a time.
    pub(super) async fn acquire_after<T>(
        &self,
        tenant: &Arc<str>,
        number: usize,
        first: impl Future<Output = T>,
    ) -> (Permits, T) {
        let number = self.part(number);
        let of_tenant = self.share_of(tenant).acquire_many_owned(number).await;
        let before = first.await;
        let of_all = Arc::clone(&self.all).acquire_many_owned(number).await;
        let permits = Permits {
            of_tenant: of_tenant.expect("the share of a tenant is never closed"),
            of_all: of_all.expect("the permits are never closed"),
        };
        (permits, before)
    }

    /// Adds permits up to this number, or to what a tenant may have, if they are free.
    pub(super) fn grow(
        &self,
        tenant: &Arc<str>,
        permits: &mut Option<Permits>,
        number: usize,
    ) -> bool {
        let before = permits.as_ref().map_or(0, Permits::number);
        let more = self.part(number.min(self.share).saturating_sub(before));
        if more == 0 {
            return true;
        }
        let of_tenant = self.share_of(tenant).try_acquire_many_owned(more);
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(more);
        let (Ok(of_tenant), Ok(of_all)) = (of_tenant, of_all) else {
            return false;
        };
        let more = Permits { of_tenant, of_all };
        match permits {
            Some(permits) => permits.add(more),
            None => *permits = Some(more),
        }
        true
    }

    fn part(&self, number: usize) -> u32 {
        u32::try_from(number.min(self.share)).unwrap_or(u32::MAX)
    }

    fn share_of(&self, tenant: &Arc<str>) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        if let Some(share) = tenants.get(tenant).and_then(Weak::upgrade) {
            return share;
        }
        if tenants.len() >= KEPT {
            tenants.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.share));
        tenants.insert(Arc::clone(tenant), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tenants_without_permits_are_forgotten() {
        let shares = PermitShares::new(2, 1);
        for i in 0..10 * KEPT {
            shares.acquire(&i.to_string().into(), 1).await;
        }
        assert!(shares.tenants.lock().len() <= KEPT);
    }

    #[tokio::test]
    async fn a_tenant_has_its_part_and_whoever_wants_more_takes_all_of_that() {
        let shares = PermitShares::new(10, 4);
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut of_a = Some(shares.acquire(&a, 100).await);
        assert_eq!(of_a.as_ref().unwrap().number(), 4);
        assert!(
            shares.grow(&a, &mut of_a, 100),
            "it has all that it can have"
        );
        assert!(!shares.grow(&a, &mut None, 1));
        let mut of_b = None;
        assert!(shares.grow(&b, &mut of_b, 1) && shares.grow(&b, &mut of_b, 3));
        assert_eq!(of_b.as_ref().unwrap().number(), 3);
        let of_c = shares.acquire(&c, 3).await;
        assert!(!shares.grow(&b, &mut of_b, 4), "others have them");
        drop(of_c);
        assert!(shares.grow(&b, &mut of_b, 4));
        drop((of_a, of_b));
        assert_eq!(shares.all.available_permits(), 10);
    }
}
