//! Metrics that are polled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::dispatch;
use super::numbers::AgentMetrics;
use super::passes::CONTROLLER;
use super::publishing::{self, Publishing};
use hawser_runtime::cluster::events::{Counts, Recorder};
use hawser_runtime::controller::telemetry::CacheGauges;
use hawser_runtime::process::metrics::EventFate;

/// The interval of metrics that are polled.
const INTERVAL: Duration = Duration::from_secs(5);

/// The side of the service cluster in metrics.
const SERVICE: &str = "service";

/// Updates polled metrics at intervals.
pub fn watch_numbers(
    publishing: Arc<Publishing>,
    metrics: Arc<AgentMetrics>,
    recorder: Recorder,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let agent = metrics;
        let metrics = &agent.metrics;
        let mut told = Counts::default();
        let mut caches = CacheGauges::default();
        let mut with_brakes: BTreeSet<String> = BTreeSet::new();
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let passes = publishing.dispatch.subjects.queue.state();
            metrics.queue(CONTROLLER, dispatch::WORKERS, passes);
            let looks = publishing.queue.state();
            metrics.queue(publishing::CONTROLLER, publishing::WORKERS, looks);
            let gone = caches.take(metrics, &publishing.cache, |side| {
                if &*side.0 == "kcp" { "kcp" } else { SERVICE }
            });
            for (_, kind) in gone.iter().filter(|(side, _)| *side == SERVICE) {
                agent.forget(kind);
            }
            let running = publishing.dispatch.running();
            let mut held: BTreeMap<String, usize> = BTreeMap::new();
            for publication in running.values() {
                let kind = &publication.local_kind;
                *held.entry(kind.kind.clone()).or_default() += publishing.brakes.count(kind);
            }
            for kind in with_brakes.iter().filter(|kind| !held.contains_key(*kind)) {
                metrics.held_deletions(kind, 0);
            }
            for (kind, count) in &held {
                metrics.held_deletions(kind, *count);
            }
            with_brakes = held.into_keys().collect();
            agent.out_of_sync.take(|count| {
                publishing.dispatch.subjects.each_unsettled(|id, problem| {
                    if let Some(publication) = running.get(&id.publication) {
                        count(&publication.remote_kind.kind, problem.reason.code);
                    }
                });
            });
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
                metrics.events(fate, count);
            }
            told = now;
        }
    }))
}
