//! Worker loops: they process many keys of a queue concurrently, each in its own task.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cluster::queue::{self, Queue, QueueKey, Work};
use hawser_sync::Report;
use hawser_sync::reason::Class;

/// The work on a key.
pub trait Reconciler: Send + Sync + 'static {
    type Key: QueueKey;

    fn reconcile(
        self: &Arc<Self>,
        work: &Work<Self::Key>,
    ) -> impl Future<Output = queue::Outcome> + Send;

    /// Observes the work on a key: its wait, its duration and its result; `None` if the work panicked, which is logged.
    fn worked(&self, _waited: Duration, _took: Duration, _outcome: Option<queue::Outcome>) {}
}

/// Works until the queue is closed, on this many keys at a time. Running work is finished first.
pub async fn work<R: Reconciler>(reconciler: Arc<R>, queue: &Queue<R::Key>, workers: usize) {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (reconciler, queue) = (Arc::clone(&reconciler), queue.clone());
        tasks.spawn(async move {
            while let Some(work) = queue.next().await {
                let started = Instant::now();
                let outcome = caught(reconciler.reconcile(&work)).await;
                reconciler.worked(work.waited, started.elapsed(), outcome);
                queue.done(work, outcome.unwrap_or(queue::Outcome::Failed(None)));
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// The result of work on one thing; `None` if it panicked. A panic must not cost other things their worker.
pub async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    // What is shared is behind locks that are released, and looked at anew by the next attempt.
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// The time for which a problem is reported at least, so that people can read it.
const TOLD: Duration = Duration::from_secs(10);

/// The time of the next pass over a subject. A waiting subject returns at the latest when a postponed request may be
/// sent. A refused subject waits for this time, unless a request was only postponed.
pub(crate) fn next(
    report: &Report,
    put_off: Option<Duration>,
    refused: Option<Duration>,
) -> queue::Outcome {
    let classes = report
        .outcomes
        .iter()
        .map(|outcome| outcome.reason.code.class());
    match (classes.max(), report.recheck) {
        (Some(Class::Retry | Class::Working), _) | (None, Some(_)) => queue::Outcome::Failed(None),
        (Some(Class::Refused), _) => {
            let put_off = put_off.map(|wait| wait.max(TOLD));
            queue::Outcome::Failed(put_off.or(refused))
        }
        (_, Some(after)) => queue::Outcome::Again(put_off.map_or(after, |wait| wait.min(after))),
        (_, None) => queue::Outcome::Settled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_sync::{Code, LinkId, Outcome};

    fn report(code: Code) -> Report {
        Report {
            outcomes: vec![Outcome {
                link: LinkId::new("copy"),
                reason: code.into(),
                copy: None,
                current: false,
                drift: None,
            }],
            happened: Vec::new(),
            reverted: Vec::new(),
            requests: 0,
            recheck: Some(Duration::from_secs(30)),
            asked: Vec::new(),
            fingerprints: Vec::new(),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_paused_is_looked_at_when_the_pause_ends() {
        let paused = |left| next(&report(Code::Paused), Some(seconds(left)), None);
        assert_eq!(paused(2), queue::Outcome::Again(seconds(2)));
        // Something else may happen to it before.
        assert_eq!(paused(3_600), queue::Outcome::Again(seconds(30)));
        let held = next(&report(Code::Held), None, None);
        assert_eq!(held, queue::Outcome::Again(seconds(30)));
    }
}
