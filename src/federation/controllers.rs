//! Metrics of reconciles, under the names and results of KubeFed's controllers: one for each type, named by the kind
//! of its federated objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use tokio::time::Instant;

use hawser_runtime::cluster::queue::Outcome;
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::metrics::text::{Histogram, MetricFamily, Name};

/// The controller of `FederatedTypeConfig`s.
pub const TYPES: &str = "federatedtypeconfig";
/// The controller of replicas.
pub const PREFERENCES: &str = "replicaschedulingpreference";

/// Seconds, as KubeFed counts them.
pub const SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0,
    50.0, 75.0, 100.0, 1000.0,
];

const RESULTS: [&str; 4] = ["success", "error", "needs_recheck", "not_synced"];

/// The end of a reconcile.
pub type Reconciled = Result<Outcome, NotSynced>;

/// A list that the reconcile needs is not complete. Holds when it is tried again.
#[derive(Clone, Copy, Debug)]
pub struct NotSynced(pub Outcome);

/// All controllers by name.
pub struct Controllers {
    metrics: Arc<Metrics>,
    /// The durations of reconciles once more, by the two names that KubeFed has given up.
    durations: MetricFamily<Histogram>,
    sums: MetricFamily<Histogram>,
    known: Mutex<BTreeMap<String, ControllerLoad>>,
}

#[derive(Clone, Copy, Default)]
struct ControllerLoad {
    busy: usize,
    most: usize,
}

/// A reconcile under way. It panicked if it is dropped by a panic before its end.
pub struct RunningReconcile<'a> {
    of: &'a Controllers,
    controller: &'a str,
    began: Instant,
}

impl Controllers {
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        let deprecated = |text, bounds| {
            MetricFamily::new(Name {
                text,
                help: "Duration of reconciles in seconds. Deprecated: use controller_runtime_reconcile_time_seconds.",
                labels: &["controller"],
                bounds,
            })
        };
        Self {
            metrics: Arc::clone(metrics),
            durations: deprecated("controller_runtime_reconcile_duration_seconds", SECONDS),
            sums: deprecated("controller_runtime_reconcile_quantile_seconds", &[]),
            known: Mutex::default(),
        }
    }

    /// Has a controller exported from now on; `most` of its reconciles run at the same time.
    pub fn announce(&self, controller: &str, most: usize) {
        self.metrics.announce(controller, &RESULTS);
        self.durations.of(&[controller]);
        self.sums.of(&[controller]);
        self.known
            .lock()
            .entry(controller.to_owned())
            .or_default()
            .most = most;
        self.count();
    }

    pub fn begin<'a>(&'a self, controller: &'a str) -> RunningReconcile<'a> {
        self.change(controller, |load| load.busy += 1);
        RunningReconcile {
            of: self,
            controller,
            began: Instant::now(),
        }
    }

    /// The metrics of KubeFed alone, as text.
    pub fn write(&self, out: &mut String) {
        // Writing to a text does not fail.
        let _ = self.durations.write(out);
        let mut summary = String::new();
        let _ = self.sums.write(&mut summary);
        // Without bounds it is a summary without quantiles.
        for line in summary.lines().filter(|line| !line.contains("_bucket{")) {
            out.push_str(&line.replace("_seconds histogram", "_seconds summary"));
            out.push('\n');
        }
    }

    /// How many reconciles run, by controller.
    pub fn running(&self) -> Vec<(String, usize)> {
        let known = self.known.lock();
        let running = known.iter();
        running
            .map(|(controller, load)| (controller.clone(), load.busy))
            .collect()
    }

    /// Sets how many reconciles run.
    pub fn count(&self) {
        for (controller, load) in &*self.known.lock() {
            self.metrics.workers(controller, load.most, load.busy);
        }
    }

    fn change(&self, controller: &str, change: impl FnOnce(&mut ControllerLoad)) {
        if let Some(load) = self.known.lock().get_mut(controller) {
            change(load);
        }
    }
}

impl RunningReconcile<'_> {
    /// Counts the result, and returns the outcome for the queue.
    pub fn end(self, ended: Reconciled) -> Outcome {
        let (outcome, result) = match ended {
            Ok(outcome @ Outcome::Settled) => (outcome, "success"),
            Ok(outcome @ Outcome::Again(_)) => (outcome, "needs_recheck"),
            Ok(outcome @ Outcome::Failed(_)) => (outcome, "error"),
            Err(NotSynced(outcome)) => (outcome, "not_synced"),
        };
        let (metrics, took) = (&self.of.metrics, self.began.elapsed());
        metrics.reconciled(self.controller, result, took);
        for family in [&self.of.durations, &self.of.sums] {
            family.of(&[self.controller]).observe(took.as_secs_f64());
        }
        outcome
    }
}

impl Drop for RunningReconcile<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let (metrics, took) = (&self.of.metrics, self.began.elapsed());
            metrics.reconciled(self.controller, "error", took);
            metrics.panicked(self.controller, true);
        }
        let controller = self.controller;
        self.of
            .change(controller, |load| load.busy = load.busy.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    fn says(controllers: &Controllers, line: &str) -> bool {
        controllers.count();
        let told = controllers.metrics.render();
        told.lines().any(|said| said == line)
    }

    #[test]
    fn every_result_is_exported_before_the_first_reconcile_and_counted_by_controller() {
        let controllers = Controllers::new(&Arc::new(Metrics::new()));
        controllers.announce("federatedsecret", 16);
        let total = |result: &str, count: u32| {
            format!(
                "controller_runtime_reconcile_total{{controller=\"federatedsecret\",result=\"{result}\"}} {count}"
            )
        };
        for result in RESULTS {
            assert!(says(&controllers, &total(result, 0)), "{result}");
        }
        let soon = Outcome::Again(Duration::ZERO);
        let rows = [
            (Ok(Outcome::Settled), "success"),
            (Ok(soon), "needs_recheck"),
            (Ok(Outcome::Failed(None)), "error"),
            (Err(NotSynced(soon)), "not_synced"),
        ];
        for (ended, result) in rows {
            let running = controllers.begin("federatedsecret");
            let active =
                "controller_runtime_active_workers{controller=\"federatedsecret\"} 1".to_owned();
            assert!(says(&controllers, &active), "{result}");
            running.end(ended);
            assert!(says(&controllers, &total(result, 1)), "{result}");
        }
        let panicking = catch_unwind(AssertUnwindSafe(|| {
            let _running = controllers.begin("federatedsecret");
            panic!("as a mistake");
        }));
        assert!(panicking.is_err());
        for line in [
            &*total("error", 2),
            "controller_runtime_reconcile_errors_total{controller=\"federatedsecret\"} 2",
            "controller_runtime_reconcile_panics_total{controller=\"federatedsecret\"} 1",
            "controller_runtime_active_workers{controller=\"federatedsecret\"} 0",
            "controller_runtime_max_concurrent_reconciles{controller=\"federatedsecret\"} 16",
        ] {
            assert!(says(&controllers, line), "{line}");
        }
        let mut told = String::new();
        controllers.write(&mut told);
        for line in [
            "controller_runtime_reconcile_duration_seconds_bucket{controller=\"federatedsecret\",le=\"1000\"} 4",
            "# TYPE controller_runtime_reconcile_quantile_seconds summary",
            "controller_runtime_reconcile_quantile_seconds_count{controller=\"federatedsecret\"} 4",
        ] {
            assert!(told.lines().any(|said| said == line), "{line}: {told}");
        }
        assert!(!told.contains("quantile_seconds_bucket"), "{told}");
    }
}
