//! The metrics that only the agent has.

use std::sync::Arc;

use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::metrics::text::{Gauge, MetricFamily, Name};

/// All metrics of the agent.
pub struct AgentMetrics {
    pub metrics: Arc<Metrics>,
    published: MetricFamily<Gauge>,
    orphaned_copies: MetricFamily<Gauge>,
}

impl AgentMetrics {
    pub fn new() -> Arc<Self> {
        let gauge = |text, help, labels| MetricFamily::unused(Name::new(text, help, labels));
        Arc::new(Self {
            metrics: Arc::new(Metrics::new()),
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
        })
    }

    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.published.write(&mut out);
        let _ = self.orphaned_copies.write(&mut out);
        out + &self.metrics.render()
    }

    /// Sets the number of served `PublishedResource`s.
    pub fn published(&self, count: usize) {
        self.published.of(&[]).set(number(count));
    }

    pub fn orphaned_copies(&self, kind: &str, count: usize) {
        self.orphaned_copies.of(&[kind]).set(number(count));
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
    fn a_kind_that_is_no_longer_published_has_no_orphans() {
        let metrics = AgentMetrics::new();
        metrics.orphaned_copies("Bucket", 2);
        assert_line(&metrics, "hawser_orphaned_copies{kind=\"Bucket\"} 2");
        metrics.forget("Bucket");
        assert!(!metrics.render().contains("Bucket"));
    }
}
