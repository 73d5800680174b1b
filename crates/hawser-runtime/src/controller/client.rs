//! The client that a pass writes through. Before a request it asks, in this order: does the dialect still want requests
//! for this subject, does it allow this one, does the brake allow the deletion, does another writer undo the write each
//! time. Right before the request leaves the process it asks the first question again, and the connection asks whether
//! this process may still write.

use std::time::Duration;

use parking_lot::Mutex;

use super::{Controller, Dialect, PassDialect as _, SubjectKey as _};
use crate::cluster::wire;
use hawser_sync::contest::Imposed;
use hawser_sync::{Answer, Cluster, Contest, Failure, Key, Request, Seen, Store as _};

/// The reason why a request is withheld, and the time at which it may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub failure: Failure,
    pub put_off: Option<Duration>,
}

impl From<Failure> for Withheld {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            put_off: None,
        }
    }
}

/// A client for one pass.
pub(super) struct GuardedClient<'a, D: Dialect> {
    controller: &'a Controller<D>,
    pass: &'a D::Pass,
    id: &'a D::Id,
    passed: Mutex<Passed>,
}

/// The requests that went through the client, and those that did not.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The deletions that the brake was asked about.
    pub(super) deletions: Vec<Key>,
    /// The earliest time at which a postponed request may be sent.
    pub(super) put_off: Option<Duration>,
    pub(super) wrote: bool,
}

impl<'a, D: Dialect> GuardedClient<'a, D> {
    pub(super) fn new(controller: &'a Controller<D>, pass: &'a D::Pass, id: &'a D::Id) -> Self {
        Self {
            controller,
            pass,
            id,
            passed: Mutex::default(),
        }
    }

    pub(super) fn into_passed(self) -> Passed {
        self.passed.into_inner()
    }

    async fn may_send(&self, request: &Request) -> Result<Imposed, Withheld> {
        self.pass.check_active().map_err(Failure::Unavailable)?;
        let deletion = self.pass.deletion(request);
        if let Some(deletion) = &deletion {
            self.passed.lock().deletions.push(deletion.key.clone());
        }
        self.pass.allows(request).await?;
        if let Some(deletion) = &deletion {
            self.controller.brakes.ask(deletion)?;
        }
        let written = request.key().filter(|_| request.writes());
        let live = match written.map(|key| self.controller.cache.get(key)) {
            Some(Seen::Present(live)) => Some(live),
            _ => None,
        };
        let now = self.controller.started.elapsed();
        let contests = &self.controller.contests;
        let judged = contests.lock().judge(request, live.as_deref(), now);
        judged.map_err(|Contest { place, wait }| {
            self.pass.contested();
            Withheld {
                failure: Failure::Contested(place),
                put_off: Some(wait),
            }
        })
    }
}

impl<D: Dialect> Cluster for GuardedClient<'_, D> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        if self.pass.is_heavy() {
            let evaluation = &self.controller.evaluation;
            evaluation.run(self.id.tenant(), work).await;
        } else {
            work();
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        let controller = self.controller;
        let imposed = match self.may_send(request).await {
            Ok(imposed) => imposed,
            Err(Withheld { failure, put_off }) => {
                let mut passed = self.passed.lock();
                passed.put_off = passed.put_off.into_iter().chain(put_off).min();
                return Answer::Failed(failure);
            }
        };
        // Much may have happened when its turn has come.
        let check_active = || self.pass.check_active();
        let tenant = self.pass.takes_turns().then(|| self.id.tenant());
        let answer = wire::send(&*controller.router, tenant, &check_active, request).await;
        if request.writes() && !matches!(answer, Answer::Failed(_)) {
            self.passed.lock().wrote = true;
            let now = controller.started.elapsed();
            controller.contests.lock().made(imposed, now);
        }
        self.pass.answered(request, &answer);
        // What it learns is known to everybody at once.
        for change in controller.cache.learn(request, &answer) {
            controller.dialect.learned(self.id, &change);
        }
        answer
    }
}
