//! The rates of events: for each object, for each tenant, and none where they are refused. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The same event of the same object is sent once in this time, with a count.
const SAME: Duration = Duration::from_mins(10);
/// The burst of a tenant's events,
const BURST: u32 = 25;
/// and the interval of further ones.
const REFILL: Duration = Duration::from_secs(10);
/// The pause for a tenant that does not accept events.
const QUIET: Duration = Duration::from_mins(10);
/// The pause for a tenant after its events time out or get a 429.
const LATE: Duration = Duration::from_mins(1);
/// The number of events that are remembered. Others are sent each time, at the rate of their tenant.
const MOST: usize = 10_000;
/// The interval of the clean-up.
const SWEEP: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Rates {
    told: HashMap<u64, ReportedEvent>,
    /// The objects whose last event told of a problem.
    troubled: HashMap<u64, ToldProblem>,
    /// The time at which each tenant's whole burst is available again.
    full_at: HashMap<Arc<str>, Duration>,
    quiet_until: HashMap<Arc<str>, Duration>,
    swept: Duration,
}

#[derive(Clone, Copy, Debug)]
struct ReportedEvent {
    at: Duration,
    /// Occurrences that were not sent: how many, and since when.
    since: Option<(u32, Duration)>,
}

/// The problem of an object that was told last.
#[derive(Clone, Copy, Debug)]
struct ToldProblem {
    print: u64,
    at: Duration,
}

/// The number of occurrences of an event, and the time since the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) count: u32,
    pub(super) first: Duration,
}

impl Rates {
    /// Whether to send an event of a tenant. The hash covers the object and the text. An event that begins or ends a
    /// problem of its object, or tells of another one, is sent even if the same was sent a moment ago: the last event
    /// has to be the one that holds.
    pub(super) fn allow(
        &mut self,
        tenant: &Arc<str>,
        print: u64,
        trouble: Option<(u64, bool)>,
        now: Duration,
    ) -> Option<Counted> {
        self.sweep(now);
        if self.quiet_until.get(tenant).is_some_and(|t| now < *t) {
            return None;
        }
        let turns = match trouble {
            Some((object, true)) => match self.troubled.get(&object) {
                Some(last) => last.print != print,
                None => self.troubled.len() < MOST,
            },
            Some((object, false)) => self.troubled.contains_key(&object),
            None => false,
        };
        let told = self.told.get_mut(&print);
        let mut before = None;
        if let Some(told) = told {
            if !turns && now.saturating_sub(told.at) < SAME {
                let (count, since) = told.since.unwrap_or((0, now));
                told.since = Some((count.saturating_add(1), since));
                return None;
            }
            before = told.since;
        }
        self.spend(tenant, now)?;
        match trouble {
            Some((object, true)) if turns || self.troubled.contains_key(&object) => {
                self.troubled.insert(object, ToldProblem { print, at: now });
            }
            Some((object, false)) => {
                self.troubled.remove(&object);
            }
            _ => {}
        }
        if self.told.len() < MOST || self.told.contains_key(&print) {
            let told = ReportedEvent {
                at: now,
                since: None,
            };
            self.told.insert(print, told);
        }
        let (more, since) = before.unwrap_or((0, now));
        Some(Counted {
            count: more.saturating_add(1),
            first: now.saturating_sub(since),
        })
    }

    /// Whether the last event of an object told of a problem.
    pub(super) fn is_troubled(&self, object: u64) -> bool {
        self.troubled.contains_key(&object)
    }

    /// A tenant does not accept events.
    pub(super) fn refused(&mut self, tenant: &Arc<str>, now: Duration) {
        let until = now.saturating_add(QUIET);
        self.quiet_until.insert(Arc::clone(tenant), until);
    }

    /// A tenant does not respond in time.
    pub(super) fn late(&mut self, tenant: &Arc<str>, now: Duration) {
        let until = now.saturating_add(LATE);
        self.quiet_until.insert(Arc::clone(tenant), until);
    }

    fn spend(&mut self, tenant: &Arc<str>, now: Duration) -> Option<()> {
        let full_at = self.full_at.get(tenant).map_or(now, |at| (*at).max(now));
        let then = full_at.saturating_add(REFILL);
        if then.saturating_sub(now) > REFILL * BURST {
            return None;
        }
        self.full_at.insert(Arc::clone(tenant), then);
        Some(())
    }

    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        // Kept twice as long as needed, for what was counted to be told.
        self.told
            .retain(|_, told| now.saturating_sub(told.at) < SAME * 2);
        // A problem that lasts is told again within this time.
        self.troubled
            .retain(|_, last| now.saturating_sub(last.at) < SAME * 2);
        self.full_at.retain(|_, at| *at > now);
        self.quiet_until.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const ONCE: Option<Counted> = Some(Counted {
        count: 1,
        first: Duration::ZERO,
    });

    #[test]
    fn the_same_is_told_once_in_ten_minutes_and_counted() {
        let (mut rates, tenant) = (Rates::default(), "a".into());
        assert_eq!(rates.allow(&tenant, 1, None, at(1000)), ONCE);
        for time in [1000, 1200, 1400, 1599] {
            assert_eq!(rates.allow(&tenant, 1, None, at(time)), None);
        }
        assert_eq!(rates.allow(&tenant, 2, None, at(1599)), ONCE);
        let counted = Counted {
            count: 5,
            first: at(600),
        };
        assert_eq!(rates.allow(&tenant, 1, None, at(1600)), Some(counted));
        assert_eq!(rates.allow(&tenant, 1, None, at(2200)), ONCE);
        assert_eq!(rates.allow(&tenant, 1, None, at(9000)), ONCE);
    }

    #[test]
    fn the_begin_and_the_end_of_a_problem_are_told_however_soon() {
        let (mut rates, tenant) = (Rates::default(), "a".into());
        let (fine, refused) = (1, 2);
        let mut tell = |print, seconds| {
            let trouble = Some((7, print == refused));
            rates.allow(&tenant, print, trouble, at(seconds)).is_some()
        };
        assert!(tell(fine, 1000));
        assert!(!tell(fine, 1001));
        assert!(tell(refused, 1002));
        assert!(!tell(refused, 1003));
        assert!(tell(fine, 1004));
        assert!(!tell(fine, 1005));
        assert!(tell(refused, 1006));
        assert!(rates.is_troubled(7));
        assert!(!rates.is_troubled(8));
        rates.sweep(at(1006) + SAME * 2);
        assert!(!rates.is_troubled(7));
    }

    #[test]
    fn a_problem_that_returns_after_another_one_is_told_however_soon() {
        let (mut rates, tenant) = (Rates::default(), "a".into());
        let mut tell = |print, seconds| {
            let told = rates.allow(&tenant, print, Some((7, true)), at(seconds));
            told.is_some()
        };
        let (taken, failed) = (1, 2);
        assert!(tell(taken, 1000));
        assert!(tell(failed, 1000));
        assert!(!tell(failed, 1000));
        assert!(tell(taken, 1000));
        assert!(!tell(taken, 1001));
    }

    #[test]
    fn too_many_problems_silence_nobody_and_make_nobody_louder() {
        let mut rates = Rates::default();
        for object in 0..MOST as u64 {
            let told = ToldProblem {
                print: 0,
                at: at(0),
            };
            rates.troubled.insert(object, told);
        }
        let (tenant, more) = ("a".into(), Some((u64::MAX, true)));
        assert!(rates.allow(&tenant, 1, more, at(1)).is_some());
        assert!(rates.allow(&tenant, 1, more, at(2)).is_none());
        assert_eq!(rates.troubled.len(), MOST);
    }

    #[test]
    fn a_tenant_has_a_burst_and_then_one_in_ten_seconds() {
        let (mut rates, a, b) = (Rates::default(), "a".into(), "b".into());
        let mut prints = 0..;
        let mut allowed = |tenant, time, tried: usize| {
            let tries = prints.by_ref().take(tried);
            let answers = tries.map(|print| rates.allow(tenant, print, None, at(time)));
            answers.flatten().count()
        };
        assert_eq!(allowed(&a, 0, 100), 25);
        assert_eq!(allowed(&a, 9, 100), 0);
        assert_eq!(allowed(&a, 10, 100), 1);
        assert_eq!(allowed(&b, 10, 100), 25);
        assert_eq!(allowed(&a, 45, 100), 3);
        assert_eq!(allowed(&a, 100_000, 100), 25);
    }

    #[test]
    fn what_the_rate_of_a_tenant_dropped_is_told_later() {
        let (mut rates, tenant) = (Rates::default(), "a".into());
        for print in 0..25 {
            assert_eq!(rates.allow(&tenant, print, None, at(0)), ONCE);
        }
        assert_eq!(rates.allow(&tenant, 25, None, at(5)), None);
        assert_eq!(rates.allow(&tenant, 25, None, at(10)), ONCE);
    }

    #[test]
    fn a_tenant_that_refuses_events_is_left_alone_for_ten_minutes() {
        let (mut rates, a, b) = (Rates::default(), "a".into(), "b".into());
        rates.refused(&a, at(0));
        assert_eq!(rates.allow(&a, 1, None, at(599)), None);
        assert_eq!(rates.allow(&b, 2, None, at(599)), ONCE);
        assert_eq!(rates.allow(&a, 1, None, at(600)), ONCE);
        rates.late(&a, at(700));
        assert_eq!(rates.allow(&a, 3, None, at(759)), None);
        assert_eq!(rates.allow(&a, 3, None, at(760)), ONCE);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_in_time() {
        let mut rates = Rates::default();
        for print in 0..2 * MOST as u64 {
            let tenant = format!("tenant {}", print / 20).into();
            rates.allow(&tenant, print, None, at(0));
        }
        assert_eq!(rates.told.len(), MOST);
        // Those who have filled it silence nobody.
        assert_eq!(
            rates.allow(&"other".into(), u64::MAX - 1, None, at(0)),
            ONCE
        );
        assert_eq!(rates.told.len(), MOST);
        rates.refused(&"quiet".into(), at(0));
        assert_eq!(rates.allow(&"a".into(), u64::MAX, None, at(1200)), ONCE);
        let kept = (
            rates.told.len(),
            rates.full_at.len(),
            rates.quiet_until.len(),
        );
        assert_eq!(kept, (1, 1, 0));
    }
}
