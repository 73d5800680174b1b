//! One controller for all dialects: workers take subjects from the fair queue, run the engine over them, and return
//! them.
//!
//! | module | content |
//! |---|---|
//! | [`brakes`] | the brakes of all kinds of copies, and the approvals of owners |
//! | `client` | the client of a pass, and the checks before a request |
//! | `evaluation` | the threads for computations, and their limits for each tenant |
//! | `index` | the subjects whose passes read an object, and the subject of a copy |
//! | `reading` | the bytes of the caches that passes read at a time |
//! | `shares` | permits of which one tenant may have a part |
//! | [`lifecycle`] | tasks of every process beside its passes: heartbeat, renewal of credentials, draining |
//! | `subjects` | the queue of a dialect's subjects, and the answers of those at rest |
//! | [`telemetry`] | metrics that are the same for all dialects |
//! | `watches` | one watch for all users of the same objects |
//! | `workers` | worker loops, and the time of a key's next pass |
//!
//! A dialect has three parts. Its *state* is plain data behind one lock: configuration, and notes about subjects
//! between passes. Its [`EventHandler`](crate::cluster::feed::EventHandler) maps events to subjects and adds these to
//! [`Subjects`]. Its [`Dialect`] begins passes, each a [`PassDialect`] that defines the subject, the permitted
//! deletions, and the notes at the end.
//!
//! # Locks
//!
//! Locks are taken in this order: the dialect's configuration, its state, [`Subjects`], [`BrakeRegistry`],
//! [`WatchRegistry`], a table of the cache. No lock is held over an await. Event handlers are called without locks, the
//! observer of the brakes with the lock of the brakes.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::cache::{Cache, Change};
use crate::cluster::queue::{self, QueueKey, Urgency, Work};
use crate::cluster::troubles::{self, DueTrouble, Troubles};
use crate::cluster::wire::{GuardedClient, Router};
use hawser_sync::reason::Class;
use hawser_sync::{
    Answer, Key, Outcome, Question, Reason, Report, Request, Seen, Settled, Store as _, run,
};
use kube_lang::object::Gvk;

pub mod brakes;
mod client;
mod evaluation;
mod index;
pub mod lifecycle;
mod reading;
mod shares;
mod subjects;
pub mod telemetry;
mod watches;
mod workers;

pub use brakes::{BrakeRegistry, Deletion};
use client::PassClient;
pub use client::Withheld;
use evaluation::Evaluation;
pub use index::{CopyIndex, ReverseIndex};
use reading::Reading;
pub use subjects::Subjects;
pub use watches::{SharedWatch, WatchRegistry, WatchSpec};
pub use workers::{Reconciler, work};

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

    /// Observes the work on a subject, like [`Reconciler::worked`].
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

    /// Observes the answer to a request. Not called for requests that were withheld.
    fn answered(&self, _request: &Request, _answer: &Answer) {}

    /// Whether requests wait for their turn among those of the subject's tenant.
    fn takes_turns(&self) -> bool {
        true
    }

    /// The size of the object in bytes, if that is large.
    fn bytes(&self) -> usize {
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
    fn settled(&self, ended: &Ended<'_>) -> queue::Outcome;
}

/// A finished pass.
#[derive(Debug)]
pub struct Ended<'a> {
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

/// The maximum size of the objects that are searched for the contents of messages: two objects of the largest size that
/// servers accept, and their records.
const MOST_QUOTABLE: usize = 6 << 20;
/// The cost of an object beside its bytes.
const EACH: usize = 1 << 10;
/// The most objects that are looked through of those with the same labels.
const MOST_FOUND: usize = 256;
/// More bytes are looked through on a separate thread.
const MOST_INLINE: usize = 64 << 10;

/// Runs the passes of a dialect.
pub struct Controller<D: Dialect> {
    dialect: Arc<D>,
    subjects: Arc<Subjects<D::Id>>,
    client: Arc<GuardedClient>,
    router: Arc<dyn Router>,
    brakes: Arc<BrakeRegistry>,
    troubles: Arc<Troubles>,
    evaluation: Evaluation,
    reading: Reading,
}

impl<D: Dialect> Controller<D> {
    pub fn new(
        dialect: &Arc<D>,
        subjects: &Arc<Subjects<D::Id>>,
        client: &Arc<GuardedClient>,
        router: Arc<dyn Router>,
        brakes: &Arc<BrakeRegistry>,
        troubles: &Arc<Troubles>,
    ) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Arc::new(Self {
            dialect: Arc::clone(dialect),
            subjects: Arc::clone(subjects),
            client: Arc::clone(client),
            router,
            brakes: Arc::clone(brakes),
            troubles: Arc::clone(troubles),
            evaluation: Evaluation::new(processors),
            reading: Reading::new(),
        })
    }

    /// Works until the queue is closed; running passes are finished first.
    pub async fn run(self: Arc<Self>, workers: usize) {
        let queue = self.subjects.queue.clone();
        work(self, &queue, workers).await;
    }
}

impl<D: Dialect> Reconciler for Controller<D> {
    type Key = D::Id;

    async fn reconcile(self: &Arc<Self>, work: &Work<D::Id>) -> queue::Outcome {
        let (id, cache) = (&work.key, &*self.client.cache);
        let Some(pass) = self.dialect.begin(id) else {
            return queue::Outcome::Settled;
        };
        let rules = pass.rules();
        let rested = self.subjects.rested(id);
        if rested.as_ref().is_some_and(|it| it.holds(rules, cache)) {
            pass.rested();
            return queue::Outcome::Settled;
        }
        let started = Instant::now();
        let reading = tokio::select! {
            reading = self.reading.begin(id.tenant(), cache, pass.bytes()) => reading,
            () = work.given_up() => None,
        };
        let Some(reading) = reading else {
            return queue::Outcome::Failed(None);
        };
        pass.prepare().await;
        let client = PassClient {
            controller: self,
            pass: &pass,
            work,
            reading: &reading,
            passed: Mutex::default(),
        };
        let mut report = run(&pass, rested.as_deref(), reading.store(), &client).await;
        let took = started.elapsed();
        let passed = client.passed.into_inner();
        drop(reading);
        self.clean_report(id.tenant(), &mut report).await;
        if let Some((kind, key)) = pass.keeps()
            && !passed.deletions.contains(&key)
        {
            self.brakes.withdraw(&kind, &key);
        }
        // Nobody forgets a subject that was withdrawn meanwhile.
        let active = pass.check_active().is_ok();
        let settled = active.then(|| Settled::of(&report, rules)).flatten();
        self.subjects.remember(id, settled);
        for outcome in &report.outcomes {
            let news = if pass.is_own(&outcome.reason) {
                let about = (id, &outcome.link);
                self.troubles.note(&about, id.tenant(), &outcome.reason)
            } else {
                None
            };
            pass.log(outcome, news);
        }
        pass.settled(&Ended {
            report: &report,
            put_off: passed.put_off,
            wrote: passed.wrote,
            urgency: work.urgency,
            waited: work.waited,
            took,
            next: workers::next(&report, passed.put_off, D::REFUSED),
        })
    }

    fn worked(&self, waited: Duration, took: Duration, outcome: Option<queue::Outcome>) {
        self.dialect.worked(waited, took, outcome);
    }
}

impl<D: Dialect> Controller<D> {
    /// Removes contents of the pass's objects from the messages of a report.
    async fn clean_report(&self, tenant: &Arc<str>, report: &mut Report) {
        let is_trouble = |reason: &&mut Reason| {
            matches!(reason.code.class(), Class::Refused | Class::Retry)
                && !reason.detail.is_empty()
        };
        let copies: Vec<_> = report
            .outcomes
            .iter()
            .filter_map(|o| o.copy.clone())
            .collect();
        let reasons = report
            .outcomes
            .iter_mut()
            .map(|outcome| &mut outcome.reason);
        let mut troubles: Vec<_> = reasons.filter(is_trouble).collect();
        if troubles.is_empty() {
            return;
        }
        let quotable = Quotable::of(&self.client.cache, &report.asked, copies);
        let is_large = quotable.bytes > MOST_INLINE;
        let mut clean = || quotable.clean(&self.client.cache, &mut troubles);
        if is_large {
            self.evaluation.run(tenant, clean).await;
        } else {
            clean();
        }
    }
}

/// The objects that messages of a pass may quote, as far as they are looked through.
struct Quotable {
    keys: Vec<Key>,
    /// The bytes that it takes to look through them.
    bytes: usize,
    /// Whether these are all.
    is_whole: bool,
}

impl Quotable {
    fn of(cache: &Cache, asked: &[Question], copies: Vec<Key>) -> Self {
        let mut all = Self {
            keys: Vec::new(),
            bytes: 0,
            is_whole: true,
        };
        for key in copies {
            all.add(cache, key);
        }
        for question in asked {
            match question {
                Question::Object(key) => all.add(cache, key.clone()),
                Question::Marked(scope, labels) => {
                    match cache.keys_of_few(scope, labels, MOST_FOUND) {
                        Some(keys) => keys.into_iter().for_each(|key| all.add(cache, key)),
                        None => all.is_whole = false,
                    }
                }
            }
        }
        all
    }

    fn add(&mut self, cache: &Cache, key: Key) {
        let bytes = cache.bytes(&key) + EACH;
        if self.bytes + bytes > MOST_QUOTABLE {
            self.is_whole = false;
        } else {
            self.bytes += bytes;
            self.keys.push(key);
        }
    }

    fn clean(&self, cache: &Cache, reasons: &mut [&mut Reason]) {
        let known = self.keys.iter().filter_map(|key| match cache.get(key) {
            Seen::Present(object) => Some(Some(object)),
            Seen::Absent | Seen::Unknown => None,
        });
        let others = (!self.is_whole).then_some(None);
        troubles::clean(reasons, self.keys.iter(), known.chain(others));
    }
}

/// Removes contents of these objects from a reason.
pub fn clean(cache: &Cache, keys: impl IntoIterator<Item = Key>, reason: &mut Reason) {
    let keys = keys.into_iter().collect();
    Quotable::of(cache, &[], keys).clean(cache, &mut [reason]);
}

#[cfg(test)]
mod tests;
