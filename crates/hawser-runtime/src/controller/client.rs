//! The client of a pass of the engine. Before it passes a request to the guarded client, it checks in this order whether
//! the dialect still wants requests for this subject, allows this one, and whether the brake allows the deletion.

use std::time::Duration;

use parking_lot::Mutex;

use super::reading::PassReading;
use super::{Controller, Dialect, PassDialect as _};
use crate::cluster::queue::{QueueKey as _, Work};
use hawser_sync::{Answer, Cluster, Contest, Failure, Key, Request};

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

/// The client of one pass.
pub(super) struct PassClient<'a, D: Dialect> {
    pub(super) controller: &'a Controller<D>,
    pub(super) pass: &'a D::Pass,
    pub(super) work: &'a Work<D::Id>,
    pub(super) reading: &'a PassReading<'a>,
    pub(super) passed: Mutex<Passed>,
}

/// The requests that went through the client, and those that did not.
#[derive(Debug, Default)]
pub(super) struct Passed {
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
        let (controller, pass) = (self.controller, self.pass);
        pass.check_active().map_err(Failure::Unavailable)?;
        if self.passed.lock().is_crowded {
            let why = "other large objects of the workspace are processed first".to_owned();
            return Err(Failure::NotSent(why).into());
        }
        let deletion = pass.deletion(request);
        if let Some(deletion) = &deletion {
            self.passed.lock().deletions.push(deletion.key.clone());
        }
        pass.allows(request).await?;
        if let Some(deletion) = &deletion {
            controller.brakes.ask(deletion)?;
        }
        let is_wanted = || pass.check_active();
        let tenant = pass.takes_turns().then(|| self.work.key.tenant());
        let (client, router) = (&controller.client, &*controller.router);
        let sent = tokio::select! {
            biased;
            () = self.work.given_up() => {
                let why = "no answer in time, and others wait for the worker".to_owned();
                let answer = Answer::Failed(Failure::Unavailable(why));
                let changes = client.cache.learn(request, &answer);
                Ok((answer, changes))
            }
            sent = client.send(router, tenant, &is_wanted, request) => sent,
        };
        let (answer, changes) = sent.map_err(|Contest { place, wait }| {
            pass.contested();
            Withheld {
                failure: Failure::Contested(place),
                put_off: Some(wait),
            }
        })?;
        pass.answered(request, &answer);
        for change in changes {
            controller.dialect.learned(&self.work.key, &change);
        }
        Ok(answer)
    }
}

impl<D: Dialect> Cluster for PassClient<'_, D> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        if self.pass.is_heavy() {
            let evaluation = &self.controller.evaluation;
            evaluation.run(self.work.key.tenant(), work).await;
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
