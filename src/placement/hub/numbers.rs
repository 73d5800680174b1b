//! The metrics, under the names that dashboards of KubeFleet use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use hawser_placement::hub::evictions::{is_over, was_valid};
use hawser_placement::status::Step;
use hawser_placement::types::eviction::Eviction;
use hawser_placement::types::placement::Placement;
use hawser_placement::types::{ConditionStatus, condition};
use hawser_runtime::cluster::queue::{Outcome, QueueState};
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::metrics::text::{Counter, Gauge, Histogram, MetricFamily, Name};

use super::key::PlacementId;
use super::runs::numbers::RunNumbers;

const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const MILLISECONDS: &[f64] = &[
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0, 10_000.0,
];

/// The labels of the last status of a placement that was counted.
type StatusLabels = [String; 6];

/// All numbers of the process.
pub struct HubMetrics {
    pub metrics: Arc<Metrics>,
    statuses: MetricFamily<Gauge>,
    /// The last status of each placement: its series ends with the next one.
    last: Mutex<HashMap<PlacementId, StatusLabels>>,
    evictions: MetricFamily<Gauge>,
    /// Evictions with a series: whether they are completed, and whether they are valid.
    evicted: Mutex<HashMap<String, [&'static str; 2]>>,
    cycles: MetricFamily<Histogram>,
    scheduling: MetricFamily<Gauge>,
    reconciles: MetricFamily<Counter>,
    errors: MetricFamily<Counter>,
    times: MetricFamily<Histogram>,
    most: MetricFamily<Gauge>,
    active: MetricFamily<Gauge>,
    joins: MetricFamily<Counter>,
    leaves: MetricFamily<Counter>,
    silent: MetricFamily<Gauge>,
    pub runs: RunNumbers,
}

impl HubMetrics {
    pub fn new() -> Arc<Self> {
        let name = |text, help, labels, bounds| Name {
            text,
            help,
            labels,
            bounds,
        };
        let of = &["controller"];
        Arc::new(Self {
            metrics: Arc::new(Metrics::new()),
            statuses: MetricFamily::unused(name(
                "fleet_workload_placement_status_last_timestamp_seconds",
                "Time of the last change of a placement's status.",
                &[
                    "namespace",
                    "name",
                    "generation",
                    "conditionType",
                    "status",
                    "reason",
                ],
                SECONDS,
            )),
            last: Mutex::default(),
            evictions: MetricFamily::unused(name(
                "fleet_workload_eviction_complete",
                "Time at which an eviction ended.",
                &["name", "isCompleted", "isValid"],
                SECONDS,
            )),
            evicted: Mutex::default(),
            cycles: MetricFamily::unused(name(
                "scheduling_cycle_duration_milliseconds",
                "Duration of rounds of decisions about a placement, scheduling included, in milliseconds.",
                &["is_failed", "needs_requeue"],
                MILLISECONDS,
            )),
            scheduling: MetricFamily::new(name(
                "scheduling_active_workers",
                "Number of running passes of the hub.",
                &[],
                SECONDS,
            )),
            reconciles: MetricFamily::unused(name(
                "fleet_workload_reconcile_total",
                "Number of passes by their result.",
                &["controller", "result"],
                SECONDS,
            )),
            errors: MetricFamily::unused(name(
                "fleet_workload_reconcile_errors_total",
                "Number of failed passes.",
                of,
                SECONDS,
            )),
            times: MetricFamily::unused(name(
                "fleet_workload_reconcile_time_seconds",
                "Duration of passes in seconds.",
                of,
                SECONDS,
            )),
            most: MetricFamily::unused(name(
                "fleet_workload_max_concurrent_reconciles",
                "Number of passes that may run at the same time.",
                of,
                SECONDS,
            )),
            active: MetricFamily::unused(name(
                "fleet_workload_active_workers",
                "Number of passes that run.",
                of,
                SECONDS,
            )),
            joins: MetricFamily::new(name(
                "join_result_counter",
                "Number of members that joined.",
                &[],
                SECONDS,
            )),
            leaves: MetricFamily::new(name(
                "leave_result_counter",
                "Number of members that left.",
                &[],
                SECONDS,
            )),
            silent: MetricFamily::new(name(
                "hawser_silent_members",
                "Number of members whose heartbeat is lost.",
                &[],
                SECONDS,
            )),
            runs: RunNumbers::default(),
        })
    }

    pub fn render(&self) -> String {
        let mut out = self.metrics.render();
        // Writing to a text does not fail.
        let _ = self.statuses.write(&mut out);
        let _ = self.evictions.write(&mut out);
        let _ = self.cycles.write(&mut out);
        let _ = self.scheduling.write(&mut out);
        let _ = self.reconciles.write(&mut out);
        let _ = self.errors.write(&mut out);
        let _ = self.times.write(&mut out);
        let _ = self.most.write(&mut out);
        let _ = self.active.write(&mut out);
        let _ = self.joins.write(&mut out);
        let _ = self.leaves.write(&mut out);
        let _ = self.silent.write(&mut out);
        let _ = self.runs.write(&mut out);
        out
    }

    /// The status of a placement was written: its first condition that is not True counts, or that all are.
    pub fn placement(&self, id: &PlacementId, placement: &Placement) {
        let prefix = match id.namespace {
            None => "ClusterResourcePlacement",
            Some(_) => "ResourcePlacement",
        };
        let steps = Step::all(placement.spec.reports_diff()).iter();
        let types = std::iter::once("Scheduled").chain(steps.map(|step| step.name()));
        let mut told = (
            "Completed".to_owned(),
            ConditionStatus::True,
            "Completed".to_owned(),
        );
        for type_ in types {
            let type_ = format!("{prefix}{type_}");
            let found = condition(&placement.status.conditions, &type_);
            match found {
                Some(found) if found.status == ConditionStatus::True => {}
                Some(found) => {
                    told = (type_, found.status, found.reason.clone());
                    break;
                }
                // Without clusters nothing follows.
                None => break,
            }
        }
        let labels = [
            id.namespace.as_deref().unwrap_or_default().to_owned(),
            id.name.to_string(),
            placement.metadata.generation.to_string(),
            told.0,
            format!("{:?}", told.1),
            told.2,
        ];
        self.forget_placement(id);
        let now = Timestamp::now().as_duration().as_secs_f64();
        self.statuses
            .of(&labels.each_ref().map(String::as_str))
            .set(now);
        self.last.lock().insert(id.clone(), labels);
    }

    pub fn forget_placement(&self, id: &PlacementId) {
        if let Some(labels) = self.last.lock().remove(id) {
            self.statuses.remove(&labels.each_ref().map(String::as_str));
        }
    }

    /// The status of an eviction was written.
    pub fn eviction(&self, eviction: &Eviction) {
        let word = |is: bool| if is { "true" } else { "false" };
        let said = [is_over(eviction), was_valid(eviction)].map(word);
        let name = &*eviction.metadata.name;
        let before = self.evicted.lock().insert(name.to_owned(), said);
        if let Some([completed, valid]) = before {
            self.evictions.remove(&[name, completed, valid]);
        }
        let now = Timestamp::now().as_duration().as_secs_f64();
        self.evictions.of(&[name, said[0], said[1]]).set(now);
    }

    /// The series of an eviction ends with it.
    pub fn keep_evictions(&self, is_there: impl Fn(&str) -> bool) {
        self.evicted.lock().retain(|name, [completed, valid]| {
            let is_kept = is_there(name);
            if !is_kept {
                self.evictions.remove(&[name, completed, valid]);
            }
            is_kept
        });
    }

    /// Counts a round of decisions about a placement, of which the schedule is a part.
    pub fn cycle(&self, took: Duration, is_failed: bool, is_asked_again: bool) {
        let word = |is: bool| if is { "true" } else { "false" };
        self.cycles
            .of(&[word(is_failed), word(is_asked_again)])
            .observe(took.as_secs_f64() * 1000.0);
    }

    pub fn joined(&self) {
        self.joins.of(&[]).add(1);
    }

    pub fn left(&self) {
        self.leaves.of(&[]).add(1);
    }

    /// A pass of a controller.
    pub fn worked(&self, waited: Duration, took: Duration, outcome: Option<Outcome>) {
        self.metrics.worked("hub", waited, took, outcome);
        let result = match outcome {
            Some(Outcome::Settled) => "success",
            Some(Outcome::Again(_)) => "requeue_after",
            Some(Outcome::Failed(_)) | None => "error",
        };
        self.reconciles.of(&["hub", result]).add(1);
        self.errors.of(&["hub"]).add(u64::from(result == "error"));
        self.times.of(&["hub"]).observe(took.as_secs_f64());
    }

    pub fn count(&self, silent: usize, workers: usize, state: QueueState) {
        #[allow(clippy::cast_precision_loss)]
        let number = |count: usize| count as f64;
        self.silent.of(&[]).set(number(silent));
        self.most.of(&["hub"]).set(number(workers));
        self.active.of(&["hub"]).set(number(state.busy));
        self.scheduling.of(&[]).set(number(state.busy));
        self.metrics.queue("hub", workers, state);
    }
}
