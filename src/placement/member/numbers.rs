//! The metrics, under the names that dashboards of KubeFleet use.

use std::sync::Arc;
use std::time::Duration;

use hawser_placement::types::work::{ManifestCondition, WorkStatus};
use hawser_placement::types::{Condition, condition};
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::metrics::text::{Counter, Histogram, MetricFamily, Name};

/// The value where a condition is not looked for, as differences are where objects are applied.
const SKIPPED: &str = "Skipped";

/// All numbers of the process.
pub struct MemberMetrics {
    pub metrics: Arc<Metrics>,
    times: MetricFamily<Histogram>,
    works: MetricFamily<Counter>,
    manifests: MetricFamily<Counter>,
}

impl MemberMetrics {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            metrics: Arc::new(Metrics::new()),
            times: MetricFamily::new(Name::new(
                "work_apply_time_seconds",
                "Duration of passes that apply a Work.",
                &[],
            )),
            works: MetricFamily::unused(Name::new(
                "fleet_work_processing_requests_total",
                "Number of processed Works by the reasons of their conditions.",
                &[
                    "apply_status",
                    "availability_status",
                    "diff_reporting_status",
                ],
            )),
            manifests: MetricFamily::unused(Name::new(
                "fleet_manifest_processing_requests_total",
                "Number of processed manifests by the reasons of their conditions.",
                &[
                    "apply_status",
                    "availability_status",
                    "diff_reporting_status",
                    "drift_detection_status",
                    "diff_detection_status",
                ],
            )),
        })
    }

    pub fn render(&self) -> String {
        let mut out = self.metrics.render();
        // Writing to a text does not fail.
        let _ = self.times.write(&mut out);
        let _ = self.works.write(&mut out);
        let _ = self.manifests.write(&mut out);
        out
    }

    /// A Work was gone through, to this end.
    pub fn processed(&self, status: &WorkStatus, took: Duration) {
        self.times.of(&[]).observe(took.as_secs_f64());
        self.works.of(&reasons(&status.conditions)).add(1);
        for one in &status.manifest_conditions {
            let ManifestCondition {
                drift_details,
                diff_details,
                conditions,
                ..
            } = one;
            let [apply, availability, reporting] = reasons(conditions);
            let found = |is: bool| if is { "Found" } else { "NotFound" };
            let drift = found(drift_details.is_some());
            let diff = found(diff_details.is_some());
            self.manifests
                .of(&[apply, availability, reporting, drift, diff])
                .add(1);
        }
    }
}

fn reasons(conditions: &[Condition]) -> [&str; 3] {
    ["Applied", "Available", "DiffReported"].map(|type_| {
        let found = condition(conditions, type_);
        found.map_or(SKIPPED, |found| &found.reason)
    })
}
