//! The back-off of keys that keep failing. Pure: the caller passes the random number.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);

/// The longest wait that a server can cause.
pub const LONGEST: Duration = Duration::from_mins(5);

/// The wait after this many consecutive failures, spread by a fifth either way so that keys that failed together do not
/// come back together.
pub(super) fn backoff(failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(30);
    // With the spread on top the longest wait is exactly the longest allowed.
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST * 5 / 6);
    let spread = u32::try_from(random % 401).expect("less than 401") + 800;
    wait * spread / 1000
}

/// The wait after a failure for which a server may have named a time.
pub(super) fn wait_after(failures: u32, asked: Option<Duration>, random: u64) -> Duration {
    let asked = asked.unwrap_or_default().min(LONGEST);
    backoff(failures, random).max(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failures: u32, random: u64, millis: u64) {
        assert_eq!(
            backoff(failures, random),
            Duration::from_millis(millis),
            "failure {failures} with {random}"
        );
    }

    #[test]
    fn the_wait_doubles_and_ends_at_five_minutes() {
        const MIDDLE: u64 = 200;
        check(1, MIDDLE, 50);
        check(2, MIDDLE, 100);
        check(3, MIDDLE, 200);
        check(6, MIDDLE, 1_600);
        check(13, MIDDLE, 204_800);
        check(14, MIDDLE, 250_000);
        check(u32::MAX, MIDDLE, 250_000);
    }

    #[test]
    fn the_wait_is_spread_by_a_fifth_either_way() {
        check(1, 0, 40);
        check(1, 400, 60);
        check(1, 401, 40);
        check(100, 400, 300_000);
        check(100, u64::MAX, 200_000 + 250 * (u64::MAX % 401));
    }

    #[test]
    fn a_server_can_ask_for_more_time_but_not_for_ever() {
        let asked = |seconds| wait_after(1, Some(Duration::from_secs(seconds)), 200);
        assert_eq!(wait_after(1, None, 200), Duration::from_millis(50));
        assert_eq!(asked(0), Duration::from_millis(50));
        assert_eq!(asked(7), Duration::from_secs(7));
        assert_eq!(asked(u64::MAX), LONGEST);
    }
}
