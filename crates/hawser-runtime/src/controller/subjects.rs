//! The subjects of a dialect between passes: waiting keys, and the answers of subjects at rest.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::queue::{Queue, QueueKey};
use hawser_sync::Settled;

/// The answers of the last pass over each subject of a tenant that is at rest.
type SettledSubjects<Id> = HashMap<Id, Arc<Settled>>;

/// The subjects of a dialect.
#[derive(Debug)]
pub struct Subjects<Id> {
    pub queue: Queue<Id>,
    /// By tenant.
    rested: Mutex<HashMap<Arc<str>, SettledSubjects<Id>>>,
}

impl<Id: QueueKey> Subjects<Id> {
    pub fn new(queue: Queue<Id>) -> Arc<Self> {
        Arc::new(Self {
            queue,
            rested: Mutex::default(),
        })
    }

    /// The rules of these subjects changed: their answers are forgotten, and failed subjects are retried at once.
    pub fn renew(&self, meant: impl Fn(&Id) -> bool) {
        self.queue.retry(&meant);
        self.forget_rested(meant);
    }

    /// Removes these subjects: nothing of them waits or is remembered any longer.
    pub fn forget(&self, is_gone: impl Fn(&Id) -> bool) {
        self.queue.forget(&is_gone);
        self.forget_rested(is_gone);
    }

    /// Removes all subjects of a tenant.
    pub fn forget_tenant(&self, tenant: &str) {
        self.queue.forget_tenant(tenant);
        self.rested.lock().remove(tenant);
    }

    fn forget_rested(&self, meant: impl Fn(&Id) -> bool) {
        let mut rested = self.rested.lock();
        for of_tenant in rested.values_mut() {
            of_tenant.retain(|id, _| !meant(id));
        }
    }

    pub(super) fn rested(&self, id: &Id) -> Option<Arc<Settled>> {
        self.rested.lock().get(id.tenant())?.get(id).cloned()
    }

    pub(super) fn remember(&self, id: &Id, settled: Option<Settled>) {
        let mut rested = self.rested.lock();
        if let Some(settled) = settled {
            let of_tenant = rested.entry(Arc::clone(id.tenant())).or_default();
            of_tenant.insert(id.clone(), Arc::new(settled));
        } else if let Some(of_tenant) = rested.get_mut(id.tenant()) {
            of_tenant.remove(id);
        }
    }
}
