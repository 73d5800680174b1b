//! The client of a pass of the engine. Before it passes a request to the guarded client, it checks in this order whether
//! the dialect still wants requests for this subject, allows this one, and whether the brake allows the deletion.

use std::time::Duration;

use parking_lot::Mutex;

use super::brakes::BrakeRegistry;
use super::dialect::{Dialect, PassDialect as _, Withheld};
use super::evaluation::Evaluation;
use super::reading::PassReading;
use crate::cluster::queue::{QueueKey as _, Work};
use crate::cluster::trace;
use crate::cluster::wire::{GuardedClient, Router};
use hawser_sync::{Answer, Cluster, Failure, Key, Request, WriteConflict};

/// The client of one pass.
pub(super) struct PassClient<'a, D: Dialect> {
    pub(super) dialect: &'a D,
    pub(super) client: &'a GuardedClient,
    pub(super) router: &'a dyn Router,
    pub(super) brakes: &'a BrakeRegistry,
    pub(super) evaluation: &'a Evaluation,
    pub(super) pass: &'a D::Pass,
    pub(super) work: &'a Work<D::Id>,
    pub(super) reading: &'a PassReading<'a>,
    pub(super) passed: Mutex<SentRequests>,
}

/// The requests that went through the client, and those that did not.
#[derive(Debug, Default)]
pub(super) struct SentRequests {
    /// The deletions that the brake was asked about.
    pub(super) deletions: Vec<Key>,
    /// The earliest time at which a postponed request may be sent.
    pub(super) put_off: Option<Duration>,
    pub(super) wrote: bool,
    /// The pass has read more than there is room for beside others.
    is_crowded: bool,
}

impl<D: Dialect> PassClient<'_, D> {
    /// Sends a request if everybody allows it.
    async fn send_if_allowed(&self, request: &Request) -> Result<Answer, Withheld> {
        let pass = self.pass;
        pass.check_active().map_err(Failure::Unavailable)?;
        if self.passed.lock().is_crowded {
            let why = "other large objects are processed first".to_owned();
            return Err(Failure::NotSent(why).into());
        }
        let deletion = pass.deletion(request);
        if let Some(deletion) = &deletion {
            self.passed.lock().deletions.push(deletion.key.clone());
        }
        pass.allows(request).await?;
        if let Some(deletion) = &deletion {
            self.brakes.ask(deletion)?;
        }
        let is_wanted = || pass.check_active();
        let tenant = pass.takes_turns().then(|| self.work.key.tenant());
        let (client, router) = (self.client, self.router);
        let sent = tokio::select! {
            biased;
            () = self.work.given_up() => {
                let why = "no answer in time; given up because other objects wait for the worker".to_owned();
                let answer = Answer::Failed(Failure::Unavailable(why));
                Ok(client.cache.learn(request, answer, None))
            }
            sent = trace::within(pass.trace(), client.send(router, tenant, &is_wanted, request)) => sent,
        };
        let (answer, changes) = sent.map_err(|WriteConflict { place, wait }| {
            pass.contested();
            Withheld {
                failure: Failure::Contested(place),
                put_off: Some(wait),
            }
        })?;
        pass.answered(request, &answer);
        for change in changes {
            self.dialect.learned(&self.work.key, &change);
        }
        Ok(answer)
    }
}

impl<D: Dialect> Cluster for PassClient<'_, D> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        if self.pass.is_heavy() {
            self.evaluation.run(self.work.key.tenant(), work).await;
        } else {
            work();
        }
        if !self.reading.fits() {
            self.passed.lock().is_crowded = true;
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        let sent = self.send_if_allowed(request).await;
        let mut passed = self.passed.lock();
        match sent {
            Ok(answer) => {
                passed.wrote |= request.writes() && !matches!(answer, Answer::Failed(_));
                answer
            }
            Err(Withheld { failure, put_off }) => {
                passed.put_off = passed.put_off.into_iter().chain(put_off).min();
                Answer::Failed(failure)
            }
        }
    }
}
