//! The running agent of one member, or of several.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use hawser_runtime::cluster::queue::QueueState;
use hawser_runtime::controller::lifecycle;

use super::applier::{Applier, Shared, WORKERS};
use super::membership::Membership;
use super::numbers::MemberMetrics;
use super::sides::{MemberAccess, MemberSides};

/// The members that the process acts for, by their names.
#[derive(Clone, Default)]
pub struct RunningMembers(Arc<Mutex<BTreeMap<String, RunningMember>>>);

/// It works until it is dropped.
struct RunningMember {
    applier: Arc<Applier>,
    working: JoinSet<()>,
    membership: AbortOnDropHandle<()>,
}

impl RunningMembers {
    /// Begins to act for a member.
    pub fn start(&self, name: &str, member: MemberAccess, shared: &Shared) {
        let sides = MemberSides::new(name, shared.hub.clone(), member);
        let applier = Applier::new(&sides, shared);
        let mut working = JoinSet::new();
        working.spawn(Arc::clone(&applier).run());
        let membership = tokio::spawn(Membership::new(&applier).run());
        let acting = RunningMember {
            applier,
            working,
            membership: AbortOnDropHandle::new(membership),
        };
        self.0.lock().insert(name.to_owned(), acting);
    }

    /// Ends the agent of a member; active work is finished within the time limit.
    pub async fn end(&self, name: &str) {
        let acting = self.0.lock().remove(name);
        if let Some(acting) = acting {
            lifecycle::drain(acting.finish()).await;
        }
    }

    pub async fn end_all(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        lifecycle::drain(join_all(all.into_values().map(RunningMember::finish))).await;
    }

    /// The numbers of the queues of all members together.
    pub fn count(&self, numbers: &MemberMetrics) {
        let all = self.0.lock();
        let states = all.values().map(|one| one.applier.events.queue.state());
        let state = states.fold(QueueState::default(), QueueState::with);
        let workers = WORKERS * all.len();
        numbers.metrics.queue("work", workers, state);
    }
}

impl RunningMember {
    async fn finish(mut self) {
        drop(self.membership);
        self.applier.close();
        while self.working.join_next().await.is_some() {}
    }
}
