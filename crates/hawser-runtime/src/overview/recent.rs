//! Counts and latencies of the last minutes.
//!
//! Kept as one histogram for each minute and direction, so that they cost little and old minutes can be dropped.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The number of minutes that are kept.
pub const MINUTES: u32 = 15;
/// The bounds of latencies grow by this factor, from a millisecond.
const STEP: f64 = 1.25;
/// The number of bounds: more than five minutes.
const BOUNDS: usize = 58;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Spec,
    Status,
}

/// The running counts of a process.
#[derive(Debug)]
pub struct Recent {
    started: Instant,
    minutes: Mutex<VecDeque<MinuteCounts>>,
}

#[derive(Clone, Debug)]
struct MinuteCounts {
    /// Minutes since the start.
    number: u64,
    spec: DirectionCounts,
    status: DirectionCounts,
    problems: u32,
}

#[derive(Clone, Debug)]
struct DirectionCounts {
    changes: u32,
    /// The number of latencies below each bound and above the one before.
    latencies: Box<[u32]>,
}

/// The changes of the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecentChanges {
    /// The oldest first; the last one is under way.
    pub minutes: Vec<Minute>,
    pub spec: Latency,
    pub status: Latency,
}

/// The number of changes that were carried in one minute, and of passes that ended with a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Minute {
    pub spec: u32,
    pub status: u32,
    pub problems: u32,
}

/// Latencies of live changes, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latency {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("–");
        }
        write!(f, "{:.0} / {:.0} ms", self.p50, self.p99)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            minutes: Mutex::default(),
        }
    }
}

impl Recent {
    /// A change was carried to the other side; its latency is known if it was a live one.
    pub fn changed(&self, direction: Direction, latency: Option<Duration>) {
        self.count(|minute| {
            let counts = match direction {
                Direction::Spec => &mut minute.spec,
                Direction::Status => &mut minute.status,
            };
            counts.changes += 1;
            if let Some(latency) = latency {
                counts.latencies[bucket(latency)] += 1;
            }
        });
    }

    /// A pass ended with a problem.
    pub fn problem(&self) {
        self.count(|minute| minute.problems += 1);
    }

    fn count(&self, count: impl FnOnce(&mut MinuteCounts)) {
        let number = self.started.elapsed().as_secs() / 60;
        let mut minutes = self.minutes.lock();
        if minutes.back().is_none_or(|last| last.number < number) {
            minutes.push_back(MinuteCounts::new(number));
            while minutes.len() > MINUTES as usize {
                minutes.pop_front();
            }
        }
        if let Some(minute) = minutes.back_mut() {
            count(minute);
        }
    }

    pub fn changes(&self) -> RecentChanges {
        let now = self.started.elapsed().as_secs() / 60;
        let first = (now + 1).saturating_sub(MINUTES.into());
        let minutes = self.minutes.lock();
        let of = |number| {
            let known = minutes.iter().find(|minute| minute.number == number);
            known.map_or_else(Minute::default, |known| Minute {
                spec: known.spec.changes,
                status: known.status.changes,
                problems: known.problems,
            })
        };
        let young = minutes.iter().filter(|minute| minute.number >= first);
        RecentChanges {
            minutes: (first..=now).map(of).collect(),
            spec: latency(young.clone().map(|minute| &minute.spec)),
            status: latency(young.map(|minute| &minute.status)),
        }
    }
}

impl MinuteCounts {
    fn new(number: u64) -> Self {
        let counts = || DirectionCounts {
            changes: 0,
            latencies: vec![0; BOUNDS + 1].into(),
        };
        Self {
            number,
            spec: counts(),
            status: counts(),
            problems: 0,
        }
    }
}

fn bound(index: usize) -> f64 {
    let exponent = i32::try_from(index).unwrap_or(i32::MAX);
    STEP.powi(exponent)
}

fn bucket(latency: Duration) -> usize {
    let milliseconds = latency.as_secs_f64() * 1000.0;
    let found = (0..BOUNDS).find(|index| milliseconds <= bound(*index));
    found.unwrap_or(BOUNDS)
}

fn latency<'c>(counts: impl Iterator<Item = &'c DirectionCounts>) -> Latency {
    let mut all = [0_u64; BOUNDS + 1];
    for counts in counts {
        for (sum, count) in all.iter_mut().zip(&counts.latencies) {
            *sum += u64::from(*count);
        }
    }
    let count: u64 = all.iter().sum();
    // The bound below which this many of a hundred are.
    let quantile = |percent: u64| {
        let wanted = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = all.iter().position(|number| {
            seen += number;
            seen >= wanted
        });
        found.map_or(0.0, |index| (bound(index) * 10.0).round() / 10.0)
    };
    Latency {
        count,
        p50: quantile(50),
        p99: quantile(99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_latency_is_told_by_the_bound_above_it() {
        let recent = Recent::default();
        assert_eq!(recent.changes().spec, Latency::default());
        for _ in 0..98 {
            recent.changed(Direction::Spec, Some(milliseconds(10)));
        }
        for _ in 0..2 {
            recent.changed(Direction::Spec, Some(milliseconds(900)));
        }
        let spec = recent.changes().spec;
        assert_eq!(spec.count, 100);
        assert!((10.0..=12.5).contains(&spec.p50), "{spec:?}");
        assert!((900.0..=1125.0).contains(&spec.p99), "{spec:?}");
        recent.changed(Direction::Status, Some(Duration::MAX));
        assert!(recent.changes().status.p50 > 300_000.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_without_changes_is_there_and_old_ones_are_not() {
        let recent = Recent::default();
        recent.changed(Direction::Status, None);
        recent.problem();
        tokio::time::advance(Duration::from_mins(2)).await;
        recent.changed(Direction::Spec, None);
        let (spec, status, problems) = (1, 1, 1);
        let quiet = Minute::default();
        let (first, last) = (
            Minute {
                status,
                problems,
                ..quiet
            },
            Minute { spec, ..quiet },
        );
        assert_eq!(recent.changes().minutes, [first, quiet, last]);
        tokio::time::advance(Duration::from_mins(14)).await;
        let later = recent.changes();
        assert_eq!(later.minutes.len(), MINUTES as usize);
        assert_eq!(later.minutes[0], last);
        assert_eq!(later.minutes[1], quiet);
        tokio::time::advance(Duration::from_hours(1)).await;
        recent.changed(Direction::Spec, Some(milliseconds(1)));
        assert_eq!(recent.changes().spec.count, 1);
    }
}
