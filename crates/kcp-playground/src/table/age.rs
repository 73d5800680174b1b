//! Ages, with two or three digits.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

const NEVER: &str = "<unknown>";
const WRONG: &str = "<invalid>";

/// The age of a timestamp in the format of metadata; unknown if it is missing.
pub(super) fn since(moment: Option<&str>, now: Timestamp) -> String {
    match moment {
        None | Some("" | "null") => NEVER.to_owned(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(moment) => of_seconds(now.duration_since(moment).as_secs()),
            Err(_) => WRONG.to_owned(),
        },
    }
}

/// A duration with two or three digits.
pub(super) fn of_seconds(seconds: i64) -> String {
    // Small differences between clocks do not matter.
    if seconds < -1 {
        return WRONG.to_owned();
    }
    match seconds.max(0) {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => pair((s / MINUTE, "m"), (s % MINUTE, "s")),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => pair((s / HOUR, "h"), (s % HOUR / MINUTE, "m")),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => pair((s / DAY, "d"), (s % DAY / HOUR, "h")),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => pair((s / YEAR, "y"), (s % YEAR / DAY, "d")),
        s => format!("{}y", s / YEAR),
    }
}

/// The smaller unit is omitted if it is zero.
fn pair((large, large_unit): (i64, &str), (small, small_unit): (i64, &str)) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_two_or_three_figures() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (312, "5m12s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 5 * HOUR, "7d5h"),
            (8 * DAY + 5 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 4 * DAY, "3y4d"),
            (8 * YEAR + 4 * DAY, "8y"),
        ] {
            assert_eq!(of_seconds(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn what_is_no_moment_has_no_age() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (moment, expected) in [
            (None, "<unknown>"),
            (Some(""), "<unknown>"),
            (Some("soon"), "<invalid>"),
            (Some("2026-03-01T11:58:30.25Z"), "89s"),
            (Some("2026-03-01T13:00:00+01:00"), "0s"),
            (Some("2026-03-01T12:01:00Z"), "<invalid>"),
        ] {
            assert_eq!(since(moment, now), expected, "{moment:?}");
        }
    }
}
