//! Metrics that are the same for all dialects.

use std::collections::BTreeSet;

use super::dialect::FinishedPass;
use crate::cluster::cache::Cache;
use crate::cluster::queue::Urgency;
use crate::process::metrics::{Direction, Metrics};
use hawser_sync::{Effect, Side};

/// Counts a pass by its outcomes, and measures the time of a live change from one side to the other.
pub fn count(metrics: &Metrics, ended: &FinishedPass<'_>) {
    for outcome in &ended.report.outcomes {
        let code = outcome.reason.code;
        metrics.pass(code.class().as_str(), code.as_str(), ended.took);
    }
    if ended.urgency != Urgency::Live {
        return;
    }
    let wrote = |wanted: &[Effect]| {
        let mut happened = ended.report.happened.iter();
        happened.any(|(_, effect)| wanted.contains(effect))
    };
    let took = ended.waited + ended.took;
    if wrote(&[Effect::Placed, Effect::Synced, Effect::Adopted]) {
        metrics.latency(Direction::Spec, took);
    }
    if wrote(&[Effect::StatusSynced]) {
        metrics.latency(Direction::Status, took);
    }
}

/// The sizes of caches; kinds that are no longer watched are removed.
#[derive(Debug, Default)]
pub struct CacheGauges {
    told: BTreeSet<(&'static str, String)>,
}

impl CacheGauges {
    /// Sets the current sizes, by the names of the sides in metrics. Returns the sides and kinds that are no longer
    /// watched.
    pub fn take(
        &mut self,
        metrics: &Metrics,
        cache: &Cache,
        label: impl Fn(&Side) -> &'static str,
    ) -> BTreeSet<(&'static str, String)> {
        let mut gone = std::mem::take(&mut self.told);
        for (side, kind, size) in cache.sizes() {
            let side = label(&side);
            metrics.cache(side, &kind.kind, size);
            let name = (side, kind.kind.clone());
            gone.remove(&name);
            self.told.insert(name);
        }
        for (side, kind) in &gone {
            metrics.forget(side, kind);
        }
        gone
    }
}
