//! What becomes known of passes: events for consumers, numbers for whoever runs the agent.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::dispatch::Dispatch;
use super::events::{Announcer, Counts, Recorder};
use super::passes::{Finished, Pass, WORKERS};
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::queue::Urgency;
use hawser_runtime::process::metrics::{Direction, EventFate, Metrics, QueueState, Reconciled};
use hawser_sync::Effect;
use hawser_sync::reason::Class;

/// What the passes are called in numbers, as the original calls them.
const CONTROLLER: &str = "syncagent-sync";
/// How often numbers are taken that nobody tells.
const INTERVAL: Duration = Duration::from_secs(5);

/// Tells consumers and counts.
pub struct Observing {
    pub metrics: Arc<Metrics>,
    pub announcer: Announcer,
}

impl Finished for Observing {
    fn finished(&self, pass: &Pass<'_>) {
        self.count(pass);
        let own = pass.publication.anchor(pass.id);
        self.announcer.announce(own, pass.report);
    }

    fn broke(&self) {
        self.metrics.panicked(CONTROLLER);
    }
}

impl Observing {
    fn count(&self, pass: &Pass<'_>) {
        let Pass {
            report,
            took,
            waited,
            urgency,
            ..
        } = pass;
        let mut result = Reconciled::Success;
        for outcome in &report.outcomes {
            let code = outcome.reason.code;
            self.metrics
                .pass(code.class().as_str(), code.as_str(), *took);
            result = match code.class() {
                Class::Retry | Class::Working => Reconciled::Error,
                _ => result,
            };
        }
        self.metrics.reconciled(CONTROLLER, result, *took);
        self.metrics.queue_waited(CONTROLLER, *waited);
        self.metrics.queue_worked(CONTROLLER, *took);
        self.metrics.queue_added(CONTROLLER);
        if result == Reconciled::Error {
            self.metrics.queue_retried(CONTROLLER);
        }
        if *urgency != Urgency::Live {
            return;
        }
        let wrote = |wanted: &[Effect]| {
            report
                .happened
                .iter()
                .any(|(_, effect)| wanted.contains(effect))
        };
        if wrote(&[Effect::Placed, Effect::Synced, Effect::Adopted]) {
            self.metrics.latency(Direction::Spec, *waited + *took);
        }
        if wrote(&[Effect::StatusSynced]) {
            self.metrics.latency(Direction::Status, *waited + *took);
        }
    }
}

/// Takes numbers now and then.
pub fn watch_numbers(
    metrics: Arc<Metrics>,
    cache: Arc<Cache>,
    dispatch: Arc<Dispatch>,
    recorder: Recorder,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut told = Counts::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let state = QueueState {
                depth: dispatch.queue.depth().ready(),
                oldest: dispatch.queue.oldest().unwrap_or_default(),
                ..QueueState::default()
            };
            metrics.queue(CONTROLLER, state);
            metrics.workers(CONTROLLER, WORKERS, dispatch.queue.busy());
            for (side, kind, size) in cache.sizes() {
                let side = if &*side.0 == "kcp" { "kcp" } else { "service" };
                metrics.cache(side, &kind.kind, size.entries);
                metrics.cached(side, &kind.kind, size.bytes, size.fragments);
            }
            let now = recorder.counts();
            let fates = [
                (EventFate::Sent, now.sent - told.sent),
                (
                    EventFate::Dropped,
                    now.overflowed + now.held_back - told.overflowed - told.held_back,
                ),
                (EventFate::Refused, now.failed - told.failed),
            ];
            for (fate, count) in fates {
                for _ in 0..count {
                    metrics.event(fate);
                }
            }
            told = now;
        }
    }))
}
