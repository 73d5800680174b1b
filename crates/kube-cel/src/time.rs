//! Times and durations as text, and the arithmetic of times.

use std::fmt;

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime},
    tz::{Offset, TimeZone},
};
use kube_lang::go_text;

/// A moment in the years 1 to 9999, and how far from UTC it is told.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// In UTC.
    pub(super) at: DateTime,
    pub(super) offset: Offset,
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

impl Time {
    pub(super) fn new(at: DateTime, offset: Offset) -> Option<Self> {
        (at.year() > 0).then_some(Self { at, offset })
    }

    pub(super) fn of_second(second: i64) -> Option<Self> {
        let at = EPOCH.checked_add(SignedDuration::from_secs(second)).ok()?;
        Self::new(at, Offset::UTC)
    }

    pub(super) fn second(&self) -> i64 {
        let since = self.at.duration_since(EPOCH);
        since.as_secs() - i64::from(since.subsec_nanos() < 0)
    }

    pub(super) fn plus(&self, nanos: i64) -> Option<Self> {
        let at = self
            .at
            .checked_add(SignedDuration::from_nanos(nanos))
            .ok()?;
        Self::new(at, self.offset)
    }

    /// As a clock shows it in a zone.
    pub(super) fn local(&self, zone: &TimeZone) -> Option<DateTime> {
        // The last hours of all have no timestamp; no zone changes in them.
        let moment = TimeZone::UTC.to_timestamp(self.at);
        let offset = zone.to_offset(moment.unwrap_or(Timestamp::MAX));
        self.at
            .checked_add(SignedDuration::from_secs(i64::from(offset.seconds())))
            .ok()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let east = self.offset.seconds();
        let local = SignedDuration::from_secs(i64::from(east));
        let local = self.at.checked_add(local).unwrap_or(self.at);
        if east == 0 {
            return write!(f, "{local}Z");
        }
        let sign = if east < 0 { '-' } else { '+' };
        let (hours, minutes) = (east.abs() / 3600, east.abs() / 60 % 60);
        write!(f, "{local}{sign}{hours:02}:{minutes:02}")
    }
}

/// RFC 3339 as Go reads it: a `T`, and a zone.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    if text.as_bytes().get(10) != Some(&b'T') || !text.is_ascii() {
        return None;
    }
    let (time, offset) = if let Some(time) = text.strip_suffix('Z') {
        (time, Offset::UTC)
    } else {
        let (time, zone) = text.split_at(text.len() - 6);
        (time, zone.starts_with(['+', '-']).then(|| offset(zone))??)
    };
    // What else may stand in a time elsewhere, Go does not know.
    let clock = time.get(11..).filter(|clock| clock.len() >= 8)?;
    if !clock
        .bytes()
        .all(|c| c.is_ascii_digit() || c == b':' || c == b'.')
    {
        return None;
    }
    let local: DateTime = time.parse().ok()?;
    let back = SignedDuration::from_secs(-i64::from(offset.seconds()));
    Time::new(local.checked_add(back).ok()?, offset)
}

/// A distance from UTC: `+02:00`.
pub(super) fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = hours
        .checked_mul(3600)?
        .checked_add(minutes.checked_mul(60)?)?;
    Offset::from_seconds(seconds.checked_mul(sign)?).ok()
}

/// Parses the format `date-time`, which accepts more than RFC 3339.
pub(super) fn parse_date_time(text: &str) -> Option<Time> {
    let upper = text.to_ascii_uppercase();
    parse_time(&upper).or_else(|| {
        // Without a zone it is UTC, and a zone can do without its colon.
        let with_zone = if upper.len() > 5
            && upper.is_ascii()
            && matches!(upper.as_bytes()[upper.len() - 5], b'+' | b'-')
        {
            let (time, zone) = upper.split_at(upper.len() - 2);
            format!("{time}:{zone}")
        } else {
            format!("{upper}Z")
        };
        parse_time(&with_zone)
    })
}

pub(super) fn parse_date(text: &str) -> Option<Time> {
    if text.len() != 10 {
        return None;
    }
    let date: Date = text.parse().ok()?;
    Time::new(date.into(), Offset::UTC)
}

/// Parses the format `duration`: Go durations, and words such as `3 days`.
pub(super) fn parse_worded_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = go_text::parse_duration(text) {
        return Some(nanos);
    }
    let mut total: i128 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let unit_end = after
            .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ' && c != 'μ')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let nanos = match unit {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "wks" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        total = total.checked_add(go_text::times(number, nanos)?)?;
        rest = after.trim_start();
    }
    i64::try_from(total).ok()
}
