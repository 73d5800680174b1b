//! What a process counts about itself, under the names that dashboards of the original know and under ours.
//!
//! Knows every metric and its labels. No label has values without bound: no workspace, no object is named.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

pub mod system;
pub mod text;

use crate::cluster::connection::Observer;
use text::{Counter, Family, Gauge, Histogram, Name};

/// Of what kind the text is that metrics are served as.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How the work on one item of a controller ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    Success,
    /// To be looked at again, at once or at a time.
    Requeue,
    RequeueAfter,
    Error,
}

/// Which way a change travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Spec,
    Status,
}

/// What became of an event for the people who own an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFate {
    Sent,
    Dropped,
    Refused,
}

/// A queue as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueState {
    pub depth: usize,
    /// How long the item has waited that has waited longest.
    pub oldest: Duration,
    /// What is being worked on: for how long in all, and the longest of it.
    pub unfinished: Duration,
    pub longest: Duration,
}

macro_rules! metrics {
    ($($field:ident: $number:ident = $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// All numbers. Methods only count; they never wait for whoever reads.
        pub struct Metrics {
            $($field: Family<$number>,)*
            heard: Mutex<Vec<Heard>>,
        }

        impl Metrics {
            /// Everything at zero.
            pub fn new() -> Self {
                Self {
                    $($field: Family::new(Name {
                        text: $name,
                        help: $help,
                        labels: &[$($label),*],
                    }),)*
                    heard: Mutex::default(),
                }
            }

            fn write(&self, out: &mut String) -> fmt::Result {
                $(self.$field.write(out)?;)*
                Ok(())
            }
        }

        /// The name of each metric of ours, with its labels.
        #[cfg(test)]
        const NAMES: &[(&str, &[&str])] = &[$(($name, &[$($label),*]),)*];
    };
}

metrics! {
    published: Gauge = "sync_agent_published_resource" []
        "PublishedResources that this agent serves.";
    reconciles: Counter = "controller_runtime_reconcile_total" ["controller", "result"]
        "Items that were worked on, by how it ended.";
    reconcile_errors: Counter = "controller_runtime_reconcile_errors_total" ["controller"]
        "Items that could not be finished.";
    reconcile_panics: Counter = "controller_runtime_reconcile_panics_total" ["controller"]
        "Items that broke what worked on them.";
    reconcile_seconds: Histogram = "controller_runtime_reconcile_time_seconds" ["controller"]
        "Time that the work on an item took.";
    max_workers: Gauge = "controller_runtime_max_concurrent_reconciles" ["controller"]
        "Items that can be worked on at the same time.";
    active_workers: Gauge = "controller_runtime_active_workers" ["controller"]
        "Items that are being worked on.";
    queue_depth: Gauge = "workqueue_depth" ["name", "controller"]
        "Items that wait.";
    queue_adds: Counter = "workqueue_adds_total" ["name", "controller"]
        "Items that were put in line.";
    queue_retries: Counter = "workqueue_retries_total" ["name", "controller"]
        "Items that were put in line again after a failure.";
    queue_waits: Histogram = "workqueue_queue_duration_seconds" ["name", "controller"]
        "Time that items waited.";
    queue_works: Histogram = "workqueue_work_duration_seconds" ["name", "controller"]
        "Time that items were worked on.";
    queue_unfinished: Gauge = "workqueue_unfinished_work_seconds" ["name", "controller"]
        "Time that items have been worked on that are not finished, in all.";
    queue_longest: Gauge = "workqueue_longest_running_processor_seconds" ["name", "controller"]
        "Time that the item has been worked on that is worked on longest.";
    requests: Counter = "rest_client_requests_total" ["code", "method", "host"]
        "Requests, by status, method and server.";
    leading: Gauge = "leader_election_master_status" ["name"]
        "1 where this process is the one that works, 0 where it stands by.";
    build: Gauge = "hawser_build_info" ["version"]
        "Always 1.";
    passes: Counter = "hawser_passes_total" ["outcome", "reason"]
        "Passes over an object, by outcome and reason.";
    pass_seconds: Histogram = "hawser_pass_seconds" ["outcome"]
        "Time that passes took.";
    side_requests: Counter = "hawser_requests_total" ["side", "verb", "code"]
        "Requests, by side, verb and status; the status is empty where no answer came.";
    orphaned_copies: Gauge = "hawser_orphaned_copies" ["kind"]
        "Copies of workspaces that do not bind the API any more.";
    queue_oldest: Gauge = "hawser_queue_oldest_seconds" ["name"]
        "Time that the item has waited that waits longest.";
    latency: Histogram = "hawser_latency_seconds" ["direction"]
        "Time from a change being seen on one side to its being written to the other.";
    cache_entries: Gauge = "hawser_cache_entries" ["side", "kind"]
        "Objects in a cache.";
    cache_bytes: Gauge = "hawser_cache_bytes" ["side", "kind"]
        "Bytes of the objects in a cache.";
    unreadable: Gauge = "hawser_unreadable_objects" ["side", "kind"]
        "Objects that are nested too deeply to be read.";
    cache_age: Gauge = "hawser_cache_silence_seconds" ["side", "kind"]
        "Time since the server last said anything about a kind.";
    held_deletions: Gauge = "hawser_held_deletions" ["kind"]
        "Deletions of copies that wait for approval.";
    events: Counter = "hawser_events_total" ["result"]
        "Events for owners of objects, by what became of them.";
}

/// When something was last heard of a kind.
struct Heard {
    side: &'static str,
    kind: String,
    at: Instant,
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
    /// All of it as text.
    pub fn render(&self) -> String {
        self.build.of(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        for heard in self.heard.lock().iter() {
            let age = heard.at.elapsed().as_secs_f64();
            self.cache_age.of(&[heard.side, &heard.kind]).set(age);
        }
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = self.write(&mut out);
        system::write(&mut out);
        out
    }

    /// How many PublishedResources are served.
    #[allow(clippy::doc_markdown)]
    pub fn published(&self, count: usize) {
        self.published.of(&[]).set(number(count));
    }

    pub fn reconciled(&self, controller: &str, result: Reconciled, took: Duration) {
        let label = match result {
            Reconciled::Success => "success",
            Reconciled::Requeue => "requeue",
            Reconciled::RequeueAfter => "requeue_after",
            Reconciled::Error => "error",
        };
        self.reconciles.of(&[controller, label]).add(1);
        self.reconcile_seconds.of(&[controller]).observe(took);
        let errors = self.reconcile_errors.of(&[controller]);
        errors.add(u64::from(result == Reconciled::Error));
    }

    pub fn panicked(&self, controller: &str) {
        self.reconcile_panics.of(&[controller]).add(1);
    }

    /// How many items can be worked on at a time, and how many are.
    pub fn workers(&self, controller: &str, most: usize, active: usize) {
        self.max_workers.of(&[controller]).set(number(most));
        self.active_workers.of(&[controller]).set(number(active));
    }

    pub fn queue(&self, controller: &str, state: QueueState) {
        let labels = &[controller, controller];
        self.queue_depth.of(labels).set(number(state.depth));
        self.queue_unfinished
            .of(labels)
            .set(state.unfinished.as_secs_f64());
        self.queue_longest
            .of(labels)
            .set(state.longest.as_secs_f64());
        self.queue_oldest
            .of(&[controller])
            .set(state.oldest.as_secs_f64());
    }

    pub fn queue_added(&self, controller: &str) {
        self.queue_adds.of(&[controller, controller]).add(1);
    }

    pub fn queue_retried(&self, controller: &str) {
        self.queue_retries.of(&[controller, controller]).add(1);
    }

    /// An item was taken from the queue.
    pub fn queue_waited(&self, controller: &str, waited: Duration) {
        self.queue_waits
            .of(&[controller, controller])
            .observe(waited);
    }

    /// The work on an item is done.
    pub fn queue_worked(&self, controller: &str, worked: Duration) {
        self.queue_works
            .of(&[controller, controller])
            .observe(worked);
    }

    /// `code` is none where no answer came.
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

    /// This process is the one that works.
    pub fn leads(&self, lease: &str) {
        self.leading.of(&[lease]).set(1.0);
    }

    /// Another process is the one that works, if any.
    pub fn stands_by(&self, lease: &str) {
        self.leading.of(&[lease]).set(0.0);
    }

    /// A pass over one object is over; outcome and reason are of closed sets.
    pub fn pass(&self, outcome: &'static str, reason: &'static str, took: Duration) {
        self.passes.of(&[outcome, reason]).add(1);
        self.pass_seconds.of(&[outcome]).observe(took);
    }

    /// A change that was seen on one side is written to the other.
    pub fn latency(&self, direction: Direction, took: Duration) {
        let label = match direction {
            Direction::Spec => "spec",
            Direction::Status => "status",
        };
        self.latency.of(&[label]).observe(took);
    }

    /// How many objects of a kind are in a cache.
    pub fn cache(&self, side: &'static str, kind: &str, entries: usize) {
        self.cache_entries.of(&[side, kind]).set(number(entries));
    }

    /// How many bytes they take, and how many of them cannot be read whole.
    pub fn cached(&self, side: &'static str, kind: &str, bytes: usize, unreadable: usize) {
        self.cache_bytes.of(&[side, kind]).set(number(bytes));
        self.unreadable.of(&[side, kind]).set(number(unreadable));
    }

    /// The server said something about a kind, be it that nothing changed.
    pub fn heard(&self, side: &'static str, kind: &str) {
        let at = Instant::now();
        let mut all = self.heard.lock();
        match all
            .iter_mut()
            .find(|heard| heard.side == side && heard.kind == kind)
        {
            Some(heard) => heard.at = at,
            None => all.push(Heard {
                side,
                kind: kind.to_owned(),
                at,
            }),
        }
    }

    /// A kind is not served any more.
    pub fn forget(&self, side: &'static str, kind: &str) {
        self.heard
            .lock()
            .retain(|heard| heard.side != side || heard.kind != kind);
        self.cache_entries.remove(&[side, kind]);
        self.cache_bytes.remove(&[side, kind]);
        self.unreadable.remove(&[side, kind]);
        self.cache_age.remove(&[side, kind]);
        self.held_deletions.remove(&[kind]);
        self.orphaned_copies.remove(&[kind]);
    }

    /// How many deletions of a kind wait for approval.
    pub fn held_deletions(&self, kind: &str, count: usize) {
        self.held_deletions.of(&[kind]).set(number(count));
    }

    pub fn orphaned_copies(&self, kind: &str, count: usize) {
        self.orphaned_copies.of(&[kind]).set(number(count));
    }

    pub fn event(&self, fate: EventFate) {
        let label = match fate {
            EventFate::Sent => "sent",
            EventFate::Dropped => "dropped",
            EventFate::Refused => "refused",
        };
        self.events.of(&[label]).add(1);
    }

    /// What counts the requests of a connection.
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

/// Counts of things fit into what a gauge can tell apart.
#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
