//! Metrics that are the same for all dialects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::Mutex;

use super::dialect::FinishedPass;
use crate::cluster::cache::Cache;
use crate::cluster::queue::Urgency;
use crate::overview::recent::Direction;
use crate::process::metrics::Metrics;
use crate::process::metrics::text::{Gauge, MetricFamily, Name};
use hawser_sync::reason::Class;
use hawser_sync::{Code, Effect, Outcome, Report, Side};

/// The effects that carry a change, by its direction.
const CARRYING: [(Direction, &[Effect]); 2] = [
    (
        Direction::Spec,
        &[Effect::Placed, Effect::Synced, Effect::Adopted],
    ),
    (Direction::Status, &[Effect::StatusSynced]),
];

/// The directions in which a pass carried changes.
pub fn carried(report: &Report) -> impl Iterator<Item = Direction> {
    let wrote = move |wanted: &[Effect]| {
        let mut happened = report.happened.iter();
        happened.any(|(_, effect)| wanted.contains(effect))
    };
    let carrying = CARRYING
        .into_iter()
        .filter(move |(_, effects)| wrote(effects));
    carrying.map(|(direction, _)| direction)
}

/// Whether an outcome counts as a failure.
pub fn is_failure(outcome: &Outcome) -> bool {
    let class = outcome.reason.code.class();
    matches!(class, Class::Refused | Class::Retry)
}

/// Counts a pass by its outcomes, and measures the time of a live change from one side to the other.
pub fn count(metrics: &Metrics, ended: &FinishedPass<'_>) {
    for outcome in &ended.report.outcomes {
        let code = outcome.reason.code;
        metrics.pass(code.class().as_str(), code.as_str(), ended.took);
    }
    if ended.report.outcomes.iter().any(is_failure) {
        metrics.recent.problem();
    }
    let is_live = ended.urgency == Urgency::Live;
    let latency = is_live.then(|| ended.waited + ended.took);
    for direction in carried(ended.report) {
        metrics.carried(direction, latency);
    }
}

/// The numbers of objects that are out of sync.
pub struct OutOfSyncGauges {
    gauge: MetricFamily<Gauge>,
    told: Mutex<BTreeSet<(String, Code)>>,
}

impl OutOfSyncGauges {
    /// Sets the current numbers. `each` calls back with the kind and the reason of each object that is out of sync.
    pub fn take(&self, each: impl FnOnce(&mut dyn FnMut(&str, Code))) {
        let mut counts: BTreeMap<(String, Code), u32> = BTreeMap::new();
        each(&mut |kind, code| *counts.entry((kind.to_owned(), code)).or_default() += 1);
        let mut told = self.told.lock();
        for (kind, code) in told.iter().filter(|known| !counts.contains_key(*known)) {
            self.gauge.remove(&labels(kind, *code));
        }
        for ((kind, code), count) in &counts {
            self.gauge.of(&labels(kind, *code)).set((*count).into());
        }
        *told = counts.into_keys().collect();
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.gauge.write(out)
    }
}

impl Default for OutOfSyncGauges {
    fn default() -> Self {
        Self {
            gauge: MetricFamily::unused(Name::new(
                "hawser_out_of_sync_objects",
                "Number of objects that are out of sync, by the class and code of the reason.",
                &["kind", "class", "reason"],
            )),
            told: Mutex::default(),
        }
    }
}

fn labels(kind: &str, code: Code) -> [&str; 3] {
    [kind, code.class().as_str(), code.as_str()]
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::queue;

    #[test]
    fn the_latency_of_a_live_change_is_its_wait_and_its_pass() {
        let metrics = Metrics::new();
        let report = Report {
            outcomes: Vec::new(),
            happened: vec![(None, Effect::Synced)],
            reverted: Vec::new(),
            requests: 2,
            recheck: None,
            asked: Vec::new(),
            fingerprints: Vec::new(),
        };
        for urgency in [Urgency::Live, Urgency::Initial, Urgency::Resync] {
            let ended = FinishedPass {
                report: &report,
                put_off: None,
                wrote: true,
                urgency,
                waited: Duration::from_secs(2),
                took: Duration::from_secs(1),
                next: queue::Outcome::Settled,
            };
            count(&metrics, &ended);
        }
        let text = metrics.render();
        for line in [
            "hawser_latency_seconds_sum{direction=\"spec\"} 3\n",
            "hawser_latency_seconds_count{direction=\"spec\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
