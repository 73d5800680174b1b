//! The interface of a dialect of the engine to the controller.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::brakes::Deletion;
use crate::cluster::cache::Change;
use crate::cluster::queue::{self, QueueKey, Urgency};
use crate::cluster::trace::TraceContext;
use crate::cluster::troubles::DueTrouble;
use hawser_sync::{Answer, Failure, Key, Outcome, Reason, Report, Request};
use kube_lang::object::Gvk;

/// The part of a dialect that all of its passes share.
pub trait Dialect: Send + Sync + 'static {
    type Id: QueueKey;
    type Pass: PassDialect;

    /// The time until a refused subject is retried if nothing happens to it. `None`: it is retried like a failed one.
    const REFUSED: Option<Duration>;

    /// Begins a pass over a subject; `None` if there is nothing to do now.
    fn begin(self: &Arc<Self>, id: &Self::Id) -> Option<Self::Pass>;

    /// A pass learned something from an answer: queue the other subjects that depend on it. No event with news follows.
    fn learned(&self, _by: &Self::Id, _change: &Change) {}

    /// Observes the work on a subject, like [`Reconciler::worked`](super::Reconciler::worked).
    fn worked(&self, _waited: Duration, _took: Duration, _outcome: Option<queue::Outcome>) {}
}

/// A dialect in one pass over one subject.
pub trait PassDialect: hawser_sync::Dialect + Send {
    /// The fingerprint of everything except objects that the pass depends on. Taken before the pass: later changes are
    /// for the next one.
    fn rules(&self) -> u64 {
        0
    }

    /// The subject is at rest and none of its answers has changed: there is no pass.
    fn rested(&self) {}

    /// Looks up what has to be known before the first round.
    fn prepare(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Whether requests are still sent for this subject; otherwise the reason. Asked right before each request.
    fn check_active(&self) -> Result<(), String>;

    /// The deletion that the brake has to judge before this request; `None` if the request deletes nothing.
    fn deletion(&self, request: &Request) -> Option<Deletion>;

    /// Whether the dialect allows the request. Asked before the brake.
    fn allows(&self, _request: &Request) -> impl Future<Output = Result<(), Withheld>> + Send {
        async { Ok(()) }
    }

    /// A request was postponed because another writer undoes it each time.
    fn contested(&self) {}

    /// The trace that the object belongs to. Asked for each request and each log line.
    fn trace(&self) -> Option<TraceContext> {
        None
    }

    /// Observes the answer to a request. Not called for requests that were withheld.
    fn answered(&self, _request: &Request, _answer: &Answer) {}

    /// Whether requests wait for their turn among those of the subject's tenant.
    fn takes_turns(&self) -> bool {
        true
    }

    /// The memory of the object as a tree, if that is large.
    fn tree_bytes(&self) -> usize {
        0
    }

    /// Whether the pass may compute for long, so that it runs where it blocks nothing else.
    fn is_heavy(&self) -> bool {
        false
    }

    /// The copy that the pass wants to keep, by the kind and key under which the brake counts it.
    fn keeps(&self) -> Option<(Arc<Gvk>, Key)>;

    /// Whether a problem belongs to this subject, and is not logged elsewhere.
    fn is_own(&self, _reason: &Reason) -> bool {
        true
    }

    /// Logs an outcome. `news` is a problem that was not logged yet; without it, the line is for debugging.
    fn log(&self, outcome: &Outcome, news: Option<DueTrouble>);

    /// Notes the result of the pass; returns the time of the next pass.
    fn settled(&self, ended: &FinishedPass<'_>) -> queue::Outcome;
}

/// A finished pass.
#[derive(Debug)]
pub struct FinishedPass<'a> {
    /// Without contents of objects, because others see it.
    pub report: &'a Report,
    /// The time at which postponed requests may be sent.
    pub put_off: Option<Duration>,
    /// Whether anything was written.
    pub wrote: bool,
    pub urgency: Urgency,
    /// The wait before the pass, from the time at which the subject was ready.
    pub waited: Duration,
    pub took: Duration,
    /// The time of the next pass, by the outcomes.
    pub next: queue::Outcome,
}

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
