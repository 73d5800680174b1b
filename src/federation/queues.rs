//! The keys of the queues: federated objects, and the workloads whose replicas are scheduled.

use std::sync::Arc;
use std::time::Duration;

use hawser_federation::check::CheckSettings;
use hawser_federation::scheduling::TARGETS;
use hawser_runtime::cluster::queue::{Queue, QueueKey, QueueState, Urgency};

/// Workloads that are checked at the same time.
pub const CHECKERS: usize = 16;

/// A federated object, by its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FederatedId {
    pub type_name: Arc<str>,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

/// The objects of a type are a tenant.
impl QueueKey for FederatedId {
    fn tenant(&self) -> &Arc<str> {
        &self.type_name
    }
}

/// A workload to be checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckedId(pub FederatedId);

/// The workloads of a namespace are a tenant.
impl QueueKey for CheckedId {
    fn tenant(&self) -> &Arc<str> {
        let Self(id) = self;
        id.namespace.as_ref().unwrap_or(&id.type_name)
    }
}

/// The workloads to be checked. Clones are handles to one queue.
#[derive(Clone)]
pub struct Checks {
    pub queue: Queue<CheckedId>,
    pub settings: CheckSettings,
    pub period: Duration,
}

impl Checks {
    pub fn new(settings: CheckSettings) -> Self {
        Self {
            queue: Queue::new(CHECKERS),
            settings,
            period: period(settings.period),
        }
    }

    pub fn add(&self, id: &FederatedId, after: Duration) {
        if TARGETS.iter().any(|(_, name)| *name == &*id.type_name) {
            let id = CheckedId(id.clone());
            self.queue.add_after(id, Urgency::Live, after);
        }
    }

    pub fn close(&self) {
        self.queue.close();
    }

    pub fn state(&self) -> QueueState {
        self.queue.state()
    }
}

pub fn period(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
