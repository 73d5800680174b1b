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
//! | `subjects` | the queue of a dialect's subjects, the answers of those at rest, and the problems of the others |
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

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::info_span;

use crate::cluster::cache::Cache;
use crate::cluster::queue::{self, QueueKey, Work};
use crate::cluster::trace::TraceContext;
use crate::cluster::troubles::{self, ProblemLog};
use crate::cluster::wire::{GuardedClient, Router};
use hawser_sync::reason::Class;
use hawser_sync::{Key, Question, Reason, Report, Seen, Settled, Store as _, run};

pub mod brakes;
mod client;
mod dialect;
mod evaluation;
mod index;
pub mod lifecycle;
mod reading;
mod shares;
mod subjects;
pub mod telemetry;
mod watches;
pub(crate) mod workers;

pub use brakes::{BrakeRegistry, Deletion, HeldDeletions};
use client::PassClient;
pub use dialect::{Dialect, FinishedPass, PassDialect, Withheld};
pub use evaluation::Evaluation;
pub use index::{CopyIndex, ReverseIndex};
pub use reading::{PassReading, Reading};
pub use subjects::{Subjects, Unsettled};
pub use watches::{SharedWatch, WatchRegistry, WatchSpec};
pub use workers::{Reconciler, caught, work};

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
    troubles: Arc<ProblemLog>,
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
        troubles: &Arc<ProblemLog>,
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
            reading: Reading::default(),
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
            self.subjects.note_absent(id);
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
            reading = self.reading.begin(id.tenant(), cache, pass.tree_bytes()) => reading,
            () = work.given_up() => None,
        };
        let Some(reading) = reading else {
            return queue::Outcome::Failed(None);
        };
        pass.prepare().await;
        let client = PassClient {
            dialect: &*self.dialect,
            client: &self.client,
            router: &*self.router,
            brakes: &self.brakes,
            evaluation: &self.evaluation,
            pass: &pass,
            work,
            reading: &reading,
            passed: Mutex::default(),
        };
        let mut report = run(&pass, rested.as_deref(), &reading, &client).await;
        let took = started.elapsed();
        let passed = client.passed.into_inner();
        drop(reading);
        self.clean_report(id.tenant(), &mut report).await;
        if let Some((kind, key)) = pass.keeps()
            && !passed.deletions.contains(&key)
        {
            self.brakes.withdraw(&kind, &key);
        }
        report.share_keys(|key| cache.shared(key));
        // Nobody forgets a subject that was withdrawn meanwhile.
        let active = pass.check_active().is_ok();
        let settled = active.then(|| Settled::of(&report, rules)).flatten();
        self.subjects.remember(id, settled);
        if active {
            self.subjects.note(id, &report);
        }
        let trace = pass.trace();
        let trace = trace.as_ref().map(TraceContext::trace_id);
        let _logs = trace.map(|trace_id| info_span!("pass", trace_id).entered());
        for outcome in &report.outcomes {
            let news = if pass.is_own(&outcome.reason) {
                let about = (id, &outcome.link);
                self.troubles.note(&about, id.tenant(), &outcome.reason)
            } else {
                None
            };
            pass.log(outcome, news);
        }
        pass.settled(&FinishedPass {
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
        let quotable = QuotableObjects::of(&self.client.cache, &report.asked, copies);
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
struct QuotableObjects {
    keys: Vec<Key>,
    /// The bytes that it takes to look through them.
    bytes: usize,
    /// Whether these are all.
    is_whole: bool,
}

impl QuotableObjects {
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
        let bytes = cache.object_size(&key).text + EACH;
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
    QuotableObjects::of(cache, &[], keys).clean(cache, &mut [reason]);
}

#[cfg(test)]
mod tests;
