//! Deletions that look like a vanished type or database rather than a request.
//!
//! A deleted CRD takes its objects with it, one event each and well before anybody can know that the type is gone. So
//! the copy of a vanished object waits a moment; if most objects vanished within that moment, their copies wait a few
//! seconds, in which the watch either gets a response or not.

use std::collections::VecDeque;
use std::time::Duration;

/// The time for which a deletion waits for others.
pub const MOMENT: Duration = Duration::from_millis(250);
/// The time after which a vanished type is known.
pub const DOUBT: Duration = Duration::from_secs(4);
/// Fewer deletions are not delayed.
const MANY: usize = 5;

/// The times at which the owner's objects of one kind vanished.
#[derive(Debug, Default)]
pub struct DeletionDelays {
    vanished: VecDeque<Duration>,
}

impl DeletionDelays {
    pub fn vanished(&mut self, now: Duration) {
        self.forget(now);
        self.vanished.push_back(now);
    }

    /// The time that the copy of an object has to stay that vanished at a time, with this many of its kind left.
    pub fn wait(&mut self, gone: Option<Duration>, now: Duration, left: usize) -> Option<Duration> {
        self.forget(now);
        let one = gone.map_or(Duration::ZERO, |gone| (gone + MOMENT).saturating_sub(now));
        let many = self.vanished.len() >= MANY && self.vanished.len() > left;
        let all = match self.vanished.back() {
            Some(last) if many => (*last + DOUBT).saturating_sub(now),
            _ => Duration::ZERO,
        };
        let wait = one.max(all);
        (!wait.is_zero()).then_some(wait)
    }

    fn forget(&mut self, now: Duration) {
        while self.vanished.front().is_some_and(|at| *at + DOUBT <= now) {
            self.vanished.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_of_many_waits_a_moment() {
        let mut deletion_delays = DeletionDelays::default();
        deletion_delays.vanished(at(0));
        assert_eq!(deletion_delays.wait(Some(at(0)), at(50), 9), Some(at(200)));
        assert_eq!(deletion_delays.wait(Some(at(0)), at(250), 9), None);
        assert_eq!(deletion_delays.wait(None, at(50), 9), None);
    }

    #[test]
    fn where_most_of_them_went_together_they_wait_until_it_is_known_why() {
        let mut deletion_delays = DeletionDelays::default();
        for n in 0..5 {
            deletion_delays.vanished(at(n));
        }
        assert_eq!(
            deletion_delays.wait(Some(at(0)), at(1000), 4),
            Some(at(3004))
        );
        assert_eq!(
            deletion_delays.wait(Some(at(0)), at(1000), 5),
            None,
            "most are still there"
        );
        assert_eq!(deletion_delays.wait(None, at(1000), 0), Some(at(3004)));
        assert_eq!(deletion_delays.wait(Some(at(0)), at(4004), 0), None);
    }
}
