//! Times and durations: how they are written, and their parts.

use jiff::{Timestamp, civil, tz::TimeZone};

use crate::schema::rules::{
    fault::{Answer, Fault, Meter},
    value::Val,
};

/// The years that a timestamp may be in: 1 to 9999.
pub(super) fn is_in_range(time: &Timestamp) -> bool {
    (-62_135_596_800..=253_402_300_799).contains(&time.as_second())
}

/// RFC 3339 as Go reads it: a `T`, and a zone.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let zoned = text.ends_with('Z')
        || (bytes.len() > 6
            && matches!(bytes[bytes.len() - 6], b'+' | b'-')
            && text.is_char_boundary(bytes.len() - 6));
    if bytes.get(10) != Some(&b'T') || !zoned || !text.is_ascii() {
        return None;
    }
    text.parse::<Timestamp>().ok().filter(is_in_range)
}

/// What the format `date-time` takes is more than that.
pub(crate) fn parse_date_time(text: &str) -> Option<Timestamp> {
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

pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    if text.len() != 10 {
        return None;
    }
    let date: civil::Date = text.parse().ok()?;
    let zoned = date.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

/// A duration as Go writes it: `1h30m`, `-1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        total = total.checked_add(scaled(number, nanos_of(unit)?)?)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn nanos_of(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(unit)?;
    let mut part = unit;
    for digit in fraction.bytes().take(18) {
        part /= 10;
        total += part * i128::from(digit - b'0');
    }
    Some(total)
}

/// What the format `duration` takes: the same, and words: `3 days`.
pub(crate) fn parse_worded_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
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
        total = total.checked_add(scaled(number, nanos)?)?;
        rest = after.trim_start();
    }
    i64::try_from(total).ok()
}

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], _meter: &Meter) -> Option<Answer<'a>> {
    if !name.starts_with("get") {
        return None;
    }
    let zone = match arguments {
        [Val::Duration(nanos)] => return of_duration(name, *nanos).map(|n| Ok(Val::Int(n))),
        [Val::Time(_)] => TimeZone::UTC,
        [Val::Time(_), Val::Text(zone)] => match named_zone(zone.as_str()) {
            Some(zone) => zone,
            None => {
                return Some(Err(Fault::Error(format!(
                    "unknown time zone {}",
                    zone.as_str()
                ))));
            }
        },
        _ => return None,
    };
    let Some(Val::Time(time)) = arguments.first() else {
        return None;
    };
    let there = time.to_zoned(zone);
    let part = match name {
        "getFullYear" => i64::from(there.year()),
        "getMonth" => i64::from(there.month()) - 1,
        "getDate" => i64::from(there.day()),
        "getDayOfMonth" => i64::from(there.day()) - 1,
        "getDayOfWeek" => i64::from(there.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(there.day_of_year()) - 1,
        "getHours" => i64::from(there.hour()),
        "getMinutes" => i64::from(there.minute()),
        "getSeconds" => i64::from(there.second()),
        "getMilliseconds" => i64::from(there.millisecond()),
        _ => return None,
    };
    Some(Ok(Val::Int(part)))
}

fn of_duration(name: &str, nanos: i64) -> Option<i64> {
    Some(match name {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return None,
    })
}

/// A zone by name or as a distance from UTC: `+02:00`.
fn named_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" || name.is_empty() {
        return Some(TimeZone::UTC);
    }
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).ok();
    };
    let hours_only: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = hours_only
        .checked_mul(3600)?
        .checked_add(minutes.checked_mul(60)?)?;
    let seconds = if hours.starts_with('-') {
        -seconds
    } else {
        seconds
    };
    Some(jiff::tz::Offset::from_seconds(seconds).ok()?.to_time_zone())
}
