//! Metrics that are the same for all dialects.

use std::collections::{BTreeMap, BTreeSet};

use super::dialect::FinishedPass;
use super::subjects::Subjects;
use crate::cluster::cache::Cache;
use crate::cluster::queue::{QueueKey, Urgency};
use crate::overview::recent::Direction;
use crate::process::metrics::Metrics;
use hawser_sync::reason::Class;
use hawser_sync::{Code, Effect, Outcome, Side};

/// Counts a pass by its outcomes, and measures the time of a live change from one side to the other.
pub fn count(metrics: &Metrics, ended: &FinishedPass<'_>) {
    for outcome in &ended.report.outcomes {
        let code = outcome.reason.code;
        metrics.pass(code.class().as_str(), code.as_str(), ended.took);
    }
    let is_problem = |outcome: &Outcome| {
        let class = outcome.reason.code.class();
        matches!(class, Class::Refused | Class::Retry)
    };
    if ended.report.outcomes.iter().any(is_problem) {
        metrics.recent.problem();
    }
    let wrote = |wanted: &[Effect]| {
        let mut happened = ended.report.happened.iter();
        happened.any(|(_, effect)| wanted.contains(effect))
    };
    let is_live = ended.urgency == Urgency::Live;
    let latency = is_live.then(|| ended.waited + ended.took);
    if wrote(&[Effect::Placed, Effect::Synced, Effect::Adopted]) {
        metrics.carried(Direction::Spec, latency);
    }
    if wrote(&[Effect::StatusSynced]) {
        metrics.carried(Direction::Status, latency);
    }
}

/// The numbers of objects that are out of sync.
#[derive(Debug, Default)]
pub struct OutOfSyncGauges {
    told: BTreeSet<(String, Code)>,
}

impl OutOfSyncGauges {
    /// Sets the current numbers, by the kind of a subject. Subjects without a kind do not count.
    pub fn take<Id: QueueKey>(
        &mut self,
        metrics: &Metrics,
        subjects: &Subjects<Id>,
        kind: impl Fn(&Id) -> Option<String>,
    ) {
        let mut counts: BTreeMap<(String, Code), usize> = BTreeMap::new();
        subjects.each_unsettled(|id, problem| {
            if let Some(kind) = kind(id) {
                *counts.entry((kind, problem.reason.code)).or_default() += 1;
            }
        });
        let known: BTreeSet<_> = counts.keys().cloned().collect();
        for (kind, code) in self.told.difference(&known) {
            metrics.out_of_sync(kind, *code, 0);
        }
        for ((kind, code), count) in counts {
            metrics.out_of_sync(&kind, code, count);
        }
        self.told = known;
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
