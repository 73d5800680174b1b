//! The metrics of every process, under the names of controller-runtime and client-go and under those of Hawser.
//!
//! Defines these metrics and their labels; a dialect adds its own. Label values are bounded: they name no workspace and no object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

pub mod system;
pub mod text;

use crate::cluster::cache::Size;
use crate::cluster::connection::Observer;
use crate::cluster::queue::{Outcome, QueueState};
use crate::overview::recent::{Direction, Recent};
use text::{Counter, Gauge, Histogram, MetricFamily, Name, SECONDS};

/// The content type of the metrics page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The fate of an event for owners of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFate {
    Sent,
    Dropped,
    Refused,
}

/// Bounds in seconds of reconciles, as controller-runtime has them.
const RECONCILE_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

macro_rules! metrics {
    ($($field:ident: $number:ident = $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// All metrics. Methods only count; they never wait for readers.
        pub struct Metrics {
            $($field: MetricFamily<$number>,)*
            /// The last minutes, for people.
            pub recent: Recent,
        }

        impl Metrics {
            /// A process exports only metrics that it updates.
            pub fn new() -> Self {
                Self {
                    $($field: MetricFamily::unused(Name {
                        text: $name,
                        help: $help,
                        labels: &[$($label),*],
                        bounds: bounds($name),
                    }),)*
                    recent: Recent::default(),
                }
            }

            fn write(&self, out: &mut String) -> fmt::Result {
                $(self.$field.write(out)?;)*
                Ok(())
            }
        }

        /// The name of each of Hawser's metrics, with its labels.
        #[cfg(test)]
        const NAMES: &[(&str, &[&str])] = &[$(($name, &[$($label),*]),)*];
    };
}

fn bounds(name: &str) -> &'static [f64] {
    if name == "controller_runtime_reconcile_time_seconds" {
        RECONCILE_SECONDS
    } else {
        SECONDS
    }
}

metrics! {
    reconciles: Counter = "controller_runtime_reconcile_total" ["controller", "result"]
        "Total number of reconciles, by result.";
    reconcile_errors: Counter = "controller_runtime_reconcile_errors_total" ["controller"]
        "Total number of failed reconciles.";
    reconcile_panics: Counter = "controller_runtime_reconcile_panics_total" ["controller"]
        "Total number of reconciles that panicked.";
    reconcile_seconds: Histogram = "controller_runtime_reconcile_time_seconds" ["controller"]
        "Duration of reconciles in seconds.";
    max_workers: Gauge = "controller_runtime_max_concurrent_reconciles" ["controller"]
        "Maximum number of concurrent reconciles.";
    active_workers: Gauge = "controller_runtime_active_workers" ["controller"]
        "Number of running reconciles.";
    queue_depth: Gauge = "workqueue_depth" ["name", "controller"]
        "Number of queued items.";
    queue_adds: Counter = "workqueue_adds_total" ["name", "controller"]
        "Total number of queued items.";
    queue_retries: Counter = "workqueue_retries_total" ["name", "controller"]
        "Total number of items queued again after a failure.";
    queue_waits: Histogram = "workqueue_queue_duration_seconds" ["name", "controller"]
        "Time that items were queued, in seconds.";
    queue_works: Histogram = "workqueue_work_duration_seconds" ["name", "controller"]
        "Duration of reconciles in seconds.";
    queue_unfinished: Gauge = "workqueue_unfinished_work_seconds" ["name", "controller"]
        "Sum of the ages of running reconciles in seconds.";
    queue_longest: Gauge = "workqueue_longest_running_processor_seconds" ["name", "controller"]
        "Age of the longest-running reconcile in seconds.";
    requests: Counter = "rest_client_requests_total" ["code", "method", "host"]
        "Total number of requests, by status, method and server.";
    leading: Gauge = "leader_election_master_status" ["name"]
        "1 if this process leads, 0 if it is a standby.";
    build: Gauge = "hawser_build_info" ["version"]
        "Always 1.";
    passes: Counter = "hawser_passes_total" ["outcome", "reason"]
        "Total number of passes over an object, by outcome and reason.";
    pass_seconds: Histogram = "hawser_pass_seconds" ["outcome"]
        "Duration of passes in seconds.";
    side_requests: Counter = "hawser_requests_total" ["side", "verb", "code"]
        "Total number of requests, by side, verb and status; the status is empty without an answer.";
    queue_oldest: Gauge = "hawser_queue_oldest_seconds" ["name"]
        "Age of the oldest queued item in seconds.";
    latency: Histogram = "hawser_latency_seconds" ["direction"]
        "Time from seeing a change on one side to writing it to the other, in seconds.";
    cache_entries: Gauge = "hawser_cache_entries" ["side", "kind"]
        "Number of objects in a cache.";
    cache_bytes: Gauge = "hawser_cache_bytes" ["side", "kind"]
        "Size of the objects in a cache in bytes, compressed.";
    unreadable: Gauge = "hawser_unreadable_objects" ["side", "kind"]
        "Number of objects that are nested too deeply to be read.";
    left_out: Gauge = "hawser_cache_left_out_objects" ["side", "kind"]
        "Number of objects beyond the cache limit of their workspace.";
    largest: Gauge = "hawser_cache_largest_workspace_bytes" ["side", "kind"]
        "Size of the cached objects of the workspace with the most, in bytes.";
    cache_silence: Gauge = "hawser_cache_silence_seconds" ["side", "kind"]
        "Seconds since the last event or bookmark of a kind.";
    held_deletions: Gauge = "hawser_held_deletions" ["kind"]
        "Number of deletions of copies that wait for approval.";
    events: Counter = "hawser_events_total" ["result"]
        "Total number of events for owners of objects, by result.";
}

/// Counts the requests of one side to one server.
pub struct Requests {
    metrics: Arc<Metrics>,
    side: &'static str,
    host: String,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics as text.
    pub fn render(&self) -> String {
        self.build.of(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = self.write(&mut out);
        system::write(&mut out);
        out
    }

    /// Counts an item: its wait, its duration and its result; `None` if the work panicked.
    pub fn worked(
        &self,
        controller: &str,
        waited: Duration,
        took: Duration,
        outcome: Option<Outcome>,
    ) {
        let result = match outcome {
            Some(Outcome::Settled) => "success",
            Some(Outcome::Again(Duration::ZERO)) => "requeue",
            // What was refused waits for somebody to change it: no error of the process.
            Some(Outcome::Again(_) | Outcome::Failed(Some(_))) => "requeue_after",
            Some(Outcome::Failed(None)) | None => "error",
        };
        self.reconciled(controller, result, took);
        self.panicked(controller, outcome.is_none());
        self.taken(controller, waited, took);
    }

    /// Counts a reconcile of a controller with its own names of results, of which `error` is one.
    pub fn reconciled(&self, controller: &str, result: &str, took: Duration) {
        self.reconciles.of(&[controller, result]).add(1);
        self.reconcile_seconds
            .of(&[controller])
            .observe(took.as_secs_f64());
        let errors = self.reconcile_errors.of(&[controller]);
        errors.add(u64::from(result == "error"));
    }

    pub fn panicked(&self, controller: &str, panicked: bool) {
        let panics = self.reconcile_panics.of(&[controller]);
        panics.add(u64::from(panicked));
    }

    /// Counts an item that a queue gave away: its wait, and how long it took.
    pub fn taken(&self, queue: &str, waited: Duration, took: Duration) {
        let labels = &[queue, queue];
        self.queue_waits.of(labels).observe(waited.as_secs_f64());
        self.queue_works.of(labels).observe(took.as_secs_f64());
    }

    /// Has a controller exported before its first reconcile, with these results.
    pub fn announce(&self, controller: &str, results: &[&str]) {
        for result in results {
            self.reconciles.of(&[controller, result]);
        }
        self.reconcile_seconds.of(&[controller]);
        self.reconcile_errors.of(&[controller]);
        self.reconcile_panics.of(&[controller]);
    }

    /// Sets the state of a queue and its number of workers.
    pub fn queue(&self, controller: &str, workers: usize, state: QueueState) {
        self.workers(controller, workers, state.busy);
        self.shared_queue(controller, state);
    }

    /// Sets how many reconciles of a controller run, and how many may.
    pub fn workers(&self, controller: &str, most: usize, busy: usize) {
        self.max_workers.of(&[controller]).set(number(most));
        self.active_workers.of(&[controller]).set(number(busy));
    }

    /// Sets the state of a queue that several controllers share.
    pub fn shared_queue(&self, queue: &str, state: QueueState) {
        let labels = &[queue, queue];
        self.queue_depth.of(labels).set(number(state.ready));
        let seconds = [
            (&self.queue_unfinished, state.unfinished),
            (&self.queue_longest, state.longest),
        ];
        for (gauge, time) in seconds {
            gauge.of(labels).set(time.as_secs_f64());
        }
        let oldest = self.queue_oldest.of(&[queue]);
        oldest.set(state.oldest.as_secs_f64());
        self.queue_adds.of(labels).reach(state.adds);
        self.queue_retries.of(labels).reach(state.retries);
    }

    /// `code` is `None` if there was no response.
    pub fn request(&self, side: &str, method: &Method, host: &str, code: Option<u16>) {
        let code = code.map(|code| code.to_string());
        let verb = match *method {
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        };
        let status = code.as_deref();
        self.side_requests
            .of(&[side, verb, status.unwrap_or_default()])
            .add(1);
        let status = status.unwrap_or("<error>");
        self.requests.of(&[status, method.as_str(), host]).add(1);
    }

    /// This process leads.
    pub fn leads(&self, lease: &str) {
        self.leading.of(&[lease]).set(1.0);
    }

    /// Another process leads, or none.
    pub(crate) fn set_standby(&self, lease: &str) {
        self.leading.of(&[lease]).set(0.0);
    }

    /// Counts a pass over one object; outcome and reason are from closed sets.
    pub fn pass(&self, outcome: &'static str, reason: &'static str, took: Duration) {
        self.passes.of(&[outcome, reason]).add(1);
        self.pass_seconds.of(&[outcome]).observe(took.as_secs_f64());
    }

    /// Counts a change that was carried from one side to the other. The latency of live changes is measured.
    pub fn carried(&self, direction: Direction, latency: Option<Duration>) {
        self.recent.changed(direction, latency);
        let label = match direction {
            Direction::Spec => "spec",
            Direction::Status => "status",
        };
        if let Some(latency) = latency {
            self.latency.of(&[label]).observe(latency.as_secs_f64());
        }
    }

    /// Sets the sizes of the tables of a kind.
    pub fn cache(&self, side: &str, kind: &str, size: Size) {
        let labels = &[side, kind];
        self.cache_entries.of(labels).set(number(size.entries));
        self.cache_bytes.of(labels).set(number(size.bytes));
        self.unreadable.of(labels).set(number(size.fragments));
        self.left_out.of(labels).set(number(size.left_out));
        self.largest.of(labels).set(number(size.largest));
        self.cache_silence
            .of(labels)
            .set(size.silence.as_secs_f64());
    }

    /// Removes the sizes of a kind that is no longer watched.
    pub fn forget(&self, side: &str, kind: &str) {
        let caches = [
            &self.cache_entries,
            &self.cache_bytes,
            &self.unreadable,
            &self.left_out,
            &self.largest,
            &self.cache_silence,
        ];
        for gauge in caches {
            gauge.remove(&[side, kind]);
        }
    }

    /// Sets the number of deletions of a kind that wait for approval.
    pub fn held_deletions(&self, kind: &str, count: usize) {
        self.held_deletions.of(&[kind]).set(number(count));
    }

    pub fn events(&self, fate: EventFate, count: u64) {
        let label = match fate {
            EventFate::Sent => "sent",
            EventFate::Dropped => "dropped",
            EventFate::Refused => "refused",
        };
        self.events.of(&[label]).add(count);
    }

    /// The observer of a connection's requests.
    pub fn requests(self: &Arc<Self>, side: &'static str, host: &str) -> Requests {
        Requests {
            metrics: Arc::clone(self),
            side,
            host: host.to_owned(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Observer for Requests {
    fn answered(&self, call: &Method, code: Option<u16>) {
        self.metrics.request(self.side, call, &self.host, code);
    }
}

/// Converts a count to the value of a gauge.
#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
