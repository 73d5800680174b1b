//! Deletions that look like a type or a database that vanished rather than like somebody's will.
//!
//! A definition that is deleted takes its objects with it, one event each and well before anybody can
//! know that the type is gone. So an object that vanished is given a moment; where most of them vanished
//! within that moment they are given a few seconds, in which the watch is either answered or not.

use std::collections::VecDeque;
use std::time::Duration;

/// How long one object's going is waited for others to go as well.
pub const MOMENT: Duration = Duration::from_millis(250);
/// How long it takes to know that a type is gone.
pub const DOUBT: Duration = Duration::from_secs(4);
/// Fewer than this many are nobody's concern.
const MANY: usize = 5;

/// When the owner's objects of one kind vanished.
#[derive(Debug, Default)]
pub struct Settling {
    vanished: VecDeque<Duration>,
}

impl Settling {
    pub fn vanished(&mut self, now: Duration) {
        self.forget(now);
        self.vanished.push_back(now);
    }

    /// How long the copy of an object that vanished at a time is to stay, with so many of its kind left.
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
        let mut settling = Settling::default();
        settling.vanished(at(0));
        assert_eq!(settling.wait(Some(at(0)), at(50), 9), Some(at(200)));
        assert_eq!(settling.wait(Some(at(0)), at(250), 9), None);
        assert_eq!(settling.wait(None, at(50), 9), None);
    }

    #[test]
    fn where_most_of_them_went_together_they_wait_until_it_is_known_why() {
        let mut settling = Settling::default();
        for n in 0..5 {
            settling.vanished(at(n));
        }
        assert_eq!(settling.wait(Some(at(0)), at(1000), 4), Some(at(3004)));
        assert_eq!(
            settling.wait(Some(at(0)), at(1000), 5),
            None,
            "most are still there"
        );
        assert_eq!(settling.wait(None, at(1000), 0), Some(at(3004)));
        assert_eq!(settling.wait(Some(at(0)), at(4004), 0), None);
    }
}
