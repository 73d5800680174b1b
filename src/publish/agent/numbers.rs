//! The metrics that only the agent has.

use std::sync::Arc;

use crate::publish::drift;
use hawser_runtime::controller::telemetry::OutOfSyncGauges;
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::metrics::text::{Counter, Gauge, MetricFamily, Name};
use hawser_sync::DriftMode;

/// All metrics of the agent.
pub struct AgentMetrics {
    pub metrics: Arc<Metrics>,
    pub out_of_sync: OutOfSyncGauges,
    published: MetricFamily<Gauge>,
    orphaned_copies: MetricFamily<Gauge>,
    drifted_fields: MetricFamily<Counter>,
    shards_held: MetricFamily<Gauge>,
}

impl AgentMetrics {
    pub fn new() -> Arc<Self> {
        let gauge = |text, help, labels| MetricFamily::unused(Name::new(text, help, labels));
        Arc::new(Self {
            metrics: Arc::new(Metrics::new()),
            out_of_sync: OutOfSyncGauges::default(),
            published: gauge(
                "sync_agent_published_resource",
                "Number of PublishedResources that this agent serves.",
                &[],
            ),
            orphaned_copies: gauge(
                "hawser_orphaned_copies",
                "Number of copies of workspaces that no longer bind the API.",
                &["kind"],
            ),
            shards_held: gauge(
                "hawser_shards_held",
                "Number of shards whose workspaces this replica works on.",
                &[],
            ),
            drifted_fields: MetricFamily::unused(Name::new(
                "hawser_drifted_fields_total",
                "Number of times that a field of a copy was reverted or reported, because another writer had changed it.",
                &["publishedresource", "mode"],
            )),
        })
    }

    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.published.write(&mut out);
        let _ = self.orphaned_copies.write(&mut out);
        let _ = self.drifted_fields.write(&mut out);
        let _ = self.shards_held.write(&mut out);
        let _ = self.out_of_sync.write(&mut out);
        out + &self.metrics.render()
    }

    /// Sets the number of served `PublishedResource`s.
    pub fn published(&self, count: usize) {
        self.published.of(&[]).set(number(count));
    }

    pub fn orphaned_copies(&self, kind: &str, count: usize) {
        self.orphaned_copies.of(&[kind]).set(number(count));
    }

    pub fn shards_held(&self, count: usize) {
        self.shards_held.of(&[]).set(number(count));
    }

    /// Counts fields of a copy that other writers changed.
    pub fn drifted(&self, resource: &str, mode: DriftMode, fields: usize) {
        if fields == 0 {
            return;
        }
        let mode = drift::mode(mode);
        let fields = u64::try_from(fields).unwrap_or(u64::MAX);
        self.drifted_fields.of(&[resource, mode]).add(fields);
    }

    /// Removes the numbers of a kind that is no longer published.
    pub fn forget(&self, kind: &str) {
        self.orphaned_copies.remove(&[kind]);
    }
}

#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_line(metrics: &AgentMetrics, line: &str) {
        let text = metrics.render();
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }

    #[test]
    fn the_number_of_published_resources_has_the_name_that_dashboards_use() {
        let metrics = AgentMetrics::new();
        metrics.published(0);
        assert_line(&metrics, "sync_agent_published_resource 0");
        metrics.published(2);
        assert_line(&metrics, "sync_agent_published_resource 2");
        assert_line(&metrics, "# TYPE sync_agent_published_resource gauge");
    }

    #[test]
    fn drifted_fields_are_counted_by_resource_and_mode() {
        let metrics = AgentMetrics::new();
        metrics.drifted("buckets", DriftMode::Report, 0);
        assert!(!metrics.render().contains("drifted"));
        metrics.drifted("buckets", DriftMode::Report, 2);
        metrics.drifted("buckets", DriftMode::Report, 1);
        assert_line(
            &metrics,
            "hawser_drifted_fields_total{publishedresource=\"buckets\",mode=\"Report\"} 3",
        );
    }

    #[test]
    fn a_kind_that_is_no_longer_published_has_no_orphans() {
        let metrics = AgentMetrics::new();
        metrics.orphaned_copies("Bucket", 2);
        assert_line(&metrics, "hawser_orphaned_copies{kind=\"Bucket\"} 2");
        metrics.forget("Bucket");
        assert!(!metrics.render().contains("Bucket"));
    }
}
