//! Dates and durations, without a clock: every time comes from the object or the template.
//!
//! A time is the text that Go prints for it, so that it can be passed on, compared and shown; what is
//! no such text is no time. All zones but UTC and fixed offsets are refused: what is known of them
//! differs from machine to machine.

use gotmpl::Value;

use super::entry::{Answer, Entry, entry, text_arg};
use super::typed;
use super::values::string;
use crate::go_text::parse_duration;

pub(super) const TABLE: &[Entry] = &[
    entry("date", 2, 2, |a| formatted(text_arg(a, 0)?, &a[1], "UTC")),
    entry("htmlDate", 1, 1, |a| formatted("2006-01-02", &a[0], "UTC")),
    entry("dateInZone", 3, 3, |a| {
        formatted(text_arg(a, 0)?, &a[1], text_arg(a, 2)?)
    }),
    entry("date_in_zone", 3, 3, |a| {
        formatted(text_arg(a, 0)?, &a[1], text_arg(a, 2)?)
    }),
    entry("htmlDateInZone", 2, 2, |a| {
        formatted("2006-01-02", &a[0], text_arg(a, 1)?)
    }),
    entry("dateModify", 2, 2, |a| modify(a, Unreadable::Ignored)),
    entry("date_modify", 2, 2, |a| modify(a, Unreadable::Ignored)),
    entry("mustDateModify", 2, 2, |a| modify(a, Unreadable::Refused)),
    entry("must_date_modify", 2, 2, |a| modify(a, Unreadable::Refused)),
    entry("toDate", 2, 2, |a| to_date(a, Unreadable::Ignored)),
    entry("mustToDate", 2, 2, |a| to_date(a, Unreadable::Refused)),
    entry("unixEpoch", 1, 1, |a| {
        Ok(string(written(&a[0])?.seconds.to_string()))
    }),
    entry("duration", 1, 1, duration),
    entry("durationRound", 1, 1, duration_round),
];

/// The layout in which Go prints a time.
const PRINTED: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
/// The layout in JSON: RFC 3339.
const JSON: &str = "2006-01-02T15:04:05.999999999Z07:00";
const DAY: i64 = 86_400;
/// Between the years -9999 and 9999.
const MAX_SECONDS: i64 = 377_705_116_800;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    Ignored,
    Refused,
}

/// A moment, and the zone it is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    seconds: i64,
    nanos: u32,
    /// East of Greenwich, in seconds.
    offset: i64,
}

/// A moment in words of a calendar.
struct Civil {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    day_of_year: i64,
    of_day: i64,
}

impl Time {
    const ZERO: Self = Self {
        seconds: -62_135_596_800,
        nanos: 0,
        offset: 0,
    };

    fn checked(self) -> Result<Self, String> {
        if self.seconds.abs() > MAX_SECONDS {
            return Err("the date is outside of the supported years".to_owned());
        }
        Ok(self)
    }

    fn civil(self) -> Civil {
        let local = self.seconds + self.offset;
        let days = local.div_euclid(DAY);
        // Years begin in March here, so that the leap day is the last one.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil {
            year,
            month: usize::try_from(month).unwrap_or(1),
            day,
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            day_of_year: days - days_from(year, 1, 1) + 1,
            of_day: local.rem_euclid(DAY),
        }
    }
}

/// Days since 1970.
fn days_from(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The elements of a layout, longest first where one begins with another.
const ELEMENTS: [&str; 28] = [
    "January", "Jan", "Monday", "Mon", "MST", "2006", "-07:00", "-0700", "-07", "Z07:00", "Z0700",
    "__2", "_2", "002", "01", "02", "03", "04", "05", "06", "15", "PM", "pm", "1", "2", "3", "4",
    "5",
];

/// One part of a layout.
enum LayoutPart<'l> {
    Element(&'static str),
    /// A point or a comma, then so many digits, kept or with the zeros at the end dropped.
    Fraction {
        sign: char,
        digits: usize,
        exact: bool,
    },
    Literal(&'l str),
}

fn next_part(layout: &str) -> (LayoutPart<'_>, &str) {
    let bytes = layout.as_bytes();
    if matches!(bytes[0], b'.' | b',') && bytes.len() > 1 && matches!(bytes[1], b'0' | b'9') {
        let digits = bytes[1..].iter().take_while(|b| **b == bytes[1]).count();
        let ends = bytes.get(1 + digits).is_none_or(|b| !b.is_ascii_digit());
        if ends {
            let part = LayoutPart::Fraction {
                sign: char::from(bytes[0]),
                digits: digits.min(9),
                exact: bytes[1] == b'0',
            };
            return (part, &layout[1 + digits..]);
        }
    }
    for element in ELEMENTS {
        if let Some(rest) = layout.strip_prefix(element) {
            // "Jan" and "Mon" are no elements where they begin another word.
            let word = matches!(element, "Jan" | "Mon");
            if word && rest.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            return (LayoutPart::Element(element), rest);
        }
    }
    let length = layout.chars().next().map_or(1, char::len_utf8);
    (LayoutPart::Literal(&layout[..length]), &layout[length..])
}

fn format(time: Time, layout: &str) -> String {
    let civil = time.civil();
    let (hour, minute, second) = (
        civil.of_day / 3600,
        civil.of_day / 60 % 60,
        civil.of_day % 60,
    );
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let month = MONTHS
        .get(civil.month.saturating_sub(1))
        .copied()
        .unwrap_or_default();
    let weekday = DAYS[civil.weekday];
    let mut out = String::new();
    let mut rest = layout;
    while !rest.is_empty() {
        let (part, left) = next_part(rest);
        rest = left;
        let text = match part {
            LayoutPart::Literal(text) => text.to_owned(),
            LayoutPart::Fraction {
                sign,
                digits,
                exact,
            } => fraction(time.nanos, sign, digits, exact),
            LayoutPart::Element(element) => match element {
                "January" => month.to_owned(),
                "Jan" => month.chars().take(3).collect(),
                "Monday" => weekday.to_owned(),
                "Mon" => weekday.chars().take(3).collect(),
                "2006" => format!("{:04}", civil.year),
                "06" => format!("{:02}", civil.year.rem_euclid(100)),
                "01" => format!("{:02}", civil.month),
                "1" => civil.month.to_string(),
                "02" => format!("{:02}", civil.day),
                "_2" => format!("{:2}", civil.day),
                "2" => civil.day.to_string(),
                "002" => format!("{:03}", civil.day_of_year),
                "__2" => format!("{:3}", civil.day_of_year),
                "15" => format!("{hour:02}"),
                "03" => format!("{twelve:02}"),
                "3" => twelve.to_string(),
                "PM" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
                "pm" => if hour < 12 { "am" } else { "pm" }.to_owned(),
                "04" => format!("{minute:02}"),
                "4" => minute.to_string(),
                "05" => format!("{second:02}"),
                "5" => second.to_string(),
                "MST" if time.offset == 0 => "UTC".to_owned(),
                // What has no name is told by its offset.
                "MST" if time.offset % 3600 == 0 => offset(time.offset, "-07"),
                "Z07:00" | "Z0700" if time.offset == 0 => "Z".to_owned(),
                "Z07:00" => offset(time.offset, "-07:00"),
                "Z0700" | "MST" => offset(time.offset, "-0700"),
                other => offset(time.offset, other),
            },
        };
        out.push_str(&text);
    }
    out
}

fn fraction(nanos: u32, sign: char, digits: usize, exact: bool) -> String {
    let all = format!("{nanos:09}");
    let mut digits = &all[..digits];
    if !exact {
        digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return String::new();
        }
    }
    format!("{sign}{digits}")
}

fn offset(seconds: i64, layout: &str) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    match layout {
        "-07:00" => format!("{sign}{hours:02}:{minutes:02}"),
        "-07" => format!("{sign}{hours:02}"),
        _ => format!("{sign}{hours:02}{minutes:02}"),
    }
}

/// The fields that parsing has read so far.
struct Read<'t> {
    rest: &'t str,
}

impl<'t> Read<'t> {
    /// A number of at least and at most so many digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if digits < least {
            return None;
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    fn literal(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// One of some names, in any case, whole or by its first three letters; which.
    fn name(&mut self, names: &[&str], length: Option<usize>) -> Option<usize> {
        let found = names.iter().position(|name| {
            let name = &name[..length.unwrap_or(name.len())];
            self.rest
                .get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        })?;
        self.rest = &self.rest[length.unwrap_or(names[found].len())..];
        Some(found)
    }

    fn sign(&mut self) -> Option<i64> {
        let sign = match self.rest.bytes().next()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        Some(sign)
    }

    fn offset(&mut self, layout: &str) -> Option<i64> {
        if layout.starts_with('Z') && self.literal("Z").is_some() {
            return Some(0);
        }
        let sign = self.sign()?;
        let hours = self.number(2, 2)?;
        if layout.contains(':') {
            self.literal(":")?;
        }
        let minutes = if layout == "-07" {
            0
        } else {
            self.number(2, 2)?
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }

    fn fraction(&mut self) -> Option<u32> {
        let digits = self
            .rest
            .bytes()
            .take(9)
            .take_while(u8::is_ascii_digit)
            .count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        format!("{number:0<9}").parse().ok()
    }

    fn done(&self) -> bool {
        self.rest.is_empty()
    }

    fn zone(&mut self) -> Option<&'t str> {
        let length = self
            .rest
            .bytes()
            .take_while(|b| {
                b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-')
            })
            .count();
        let (zone, rest) = self.rest.split_at(length);
        self.rest = rest;
        (!zone.is_empty()).then_some(zone)
    }
}

fn parse(text: &str, layout: &str) -> Option<Time> {
    let (mut year, mut month, mut day) = (0, 1, 1);
    let (mut hour, mut minute, mut second, mut nanos, mut east) = (0, 0, 0, 0, 0);
    let mut afternoon = None;
    let mut read = Read { rest: text };
    let mut rest = layout;
    while !rest.is_empty() {
        let (part, left) = next_part(rest);
        rest = left;
        match part {
            LayoutPart::Literal(text) => read.literal(text)?,
            LayoutPart::Fraction { sign, exact, .. } => {
                let there = read.rest.starts_with(sign);
                if there {
                    read.rest = &read.rest[1..];
                    nanos = read.fraction()?;
                } else if exact {
                    return None;
                }
            }
            LayoutPart::Element(element) => match element {
                "January" => month = i64::try_from(read.name(&MONTHS, None)?).ok()? + 1,
                "Jan" => month = i64::try_from(read.name(&MONTHS, Some(3))?).ok()? + 1,
                "Monday" => drop(read.name(&DAYS, None)?),
                "Mon" => drop(read.name(&DAYS, Some(3))?),
                "2006" => year = read.number(4, 4)?,
                "06" => {
                    let short = read.number(2, 2)?;
                    year = short + if short >= 69 { 1900 } else { 2000 };
                }
                "01" => month = read.number(2, 2)?,
                "1" => month = read.number(1, 2)?,
                "02" => day = read.number(2, 2)?,
                "2" => day = read.number(1, 2)?,
                "_2" => {
                    let _ = read.literal(" ");
                    day = read.number(1, 2)?;
                }
                "15" | "03" => hour = read.number(2, 2)?,
                "3" => hour = read.number(1, 2)?,
                "04" => minute = read.number(2, 2)?,
                "4" => minute = read.number(1, 2)?,
                "05" | "5" => {
                    second = read.number(if element == "05" { 2 } else { 1 }, 2)?;
                    // A fraction is read wherever seconds stand, as in Go.
                    let asked = matches!(rest.bytes().next(), Some(b'.' | b','));
                    if !asked && read.rest.starts_with('.') {
                        read.rest = &read.rest[1..];
                        nanos = read.fraction()?;
                    }
                }
                "PM" | "pm" => afternoon = Some(read.name(&["AM", "PM"], None)? == 1),
                "MST" => {
                    let zone = read.zone()?;
                    let fixed = zone.starts_with(['+', '-']);
                    if zone != "UTC" && zone != "GMT" && zone != "Z" && !fixed {
                        return None;
                    }
                }
                "002" | "__2" => return None,
                other => east = read.offset(other)?,
            },
        }
    }
    if let Some(afternoon) = afternoon {
        hour = hour % 12 + if afternoon { 12 } else { 0 };
    }
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    let fits = (1..=length).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !fits || !read.done() {
        return None;
    }
    let seconds = days_from(year, month, day) * DAY + hour * 3600 + minute * 60 + second - east;
    Some(Time {
        seconds,
        nanos,
        offset: east,
    })
}

/// The moment that a value stands for: seconds since 1970, or a time as it is printed.
fn time(value: &Value) -> Result<Time, String> {
    match value {
        Value::Int(seconds) => Time {
            seconds: *seconds,
            nanos: 0,
            offset: 0,
        }
        .checked(),
        Value::String(text) => parse(text, PRINTED).ok_or_else(|| {
            "text is not a date, and templates have no clock: convert it with toDate".to_owned()
        }),
        _ => Err("the date is missing, and templates have no clock: pass a date".to_owned()),
    }
}

/// The moment of a function that takes nothing but times.
fn written(value: &Value) -> Result<Time, String> {
    match value {
        Value::Int(_) => Err("wrong type for value; expected time.Time; got int64".to_owned()),
        value => time(value),
    }
}

fn formatted(layout: &str, value: &Value, zone: &str) -> Answer {
    let mut time = time(value)?;
    // Times without a zone of their own are told in UTC.
    if matches!(zone, "UTC" | "" | "Local" | "GMT") {
        time.offset = 0;
    } else {
        return Err(format!(
            "the time zone {zone:?} is not supported: use UTC, because the known zones differ between machines"
        ));
    }
    Ok(string(format(time, layout)))
}

/// The time as a value.
fn time_value(time: Time) -> Answer {
    typed::time(&format(time, PRINTED), &format(time, JSON))
}

fn to_date(args: &[Value], unreadable: Unreadable) -> Answer {
    let (layout, text) = (text_arg(args, 0)?, text_arg(args, 1)?);
    let time = match (parse(text, layout), unreadable) {
        (Some(time), _) => time.checked()?,
        (None, Unreadable::Ignored) => Time::ZERO,
        (None, Unreadable::Refused) => {
            return Err(format!("parsing time {text:?} as {layout:?}: cannot parse"));
        }
    };
    time_value(time)
}

fn modify(args: &[Value], unreadable: Unreadable) -> Answer {
    let by = parse_duration(text_arg(args, 0)?).map(i128::from);
    let mut time = written(&args[1])?;
    let by = match (by, unreadable) {
        (Some(by), _) => by,
        (None, Unreadable::Ignored) => 0,
        (None, Unreadable::Refused) => {
            return Err(format!("time: invalid duration {:?}", text_arg(args, 0)?));
        }
    };
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos) + by;
    time.seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|e| e.to_string())?;
    time.nanos = u32::try_from(nanos.rem_euclid(1_000_000_000)).map_err(|e| e.to_string())?;
    time_value(time.checked()?)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all functions of the table have one type"
)]
fn duration(args: &[Value]) -> Answer {
    let seconds: i64 = match &args[0] {
        Value::Int(seconds) => *seconds,
        Value::String(text) => text.parse().unwrap_or_default(),
        _ => 0,
    };
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    Ok(string(match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all functions of the table have one type"
)]
fn duration_round(args: &[Value]) -> Answer {
    let nanos: i128 = match &args[0] {
        Value::Int(nanos) => i128::from(*nanos),
        Value::String(text) => parse_duration(text).map_or(0, i128::from),
        _ => 0,
    };
    let seconds = nanos.unsigned_abs();
    let second: u128 = 1_000_000_000;
    for (unit, length) in [
        ("y", 365 * 24 * 3600),
        ("mo", 30 * 24 * 3600),
        ("d", 24 * 3600),
        ("h", 3600),
        ("m", 60),
        ("s", 1),
    ] {
        if seconds > length * second {
            return Ok(string(format!("{}{unit}", seconds / (length * second))));
        }
    }
    Ok(string("0s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round_trip(text: &str, layout: &str, printed: &str) {
        let time = parse(text, layout).unwrap();
        assert_eq!(format(time, PRINTED), printed);
        assert_eq!(parse(printed, PRINTED), Some(time));
    }

    #[test]
    fn a_time_is_the_text_that_it_prints() {
        round_trip("2024-02-29", "2006-01-02", "2024-02-29 00:00:00 +0000 UTC");
        round_trip(
            "2024-07-01T10:20:30.5+02:00",
            "2006-01-02T15:04:05Z07:00",
            "2024-07-01 10:20:30.5 +0200 +02",
        );
        round_trip("0001-01-01", "2006-01-02", "0001-01-01 00:00:00 +0000 UTC");
        round_trip(
            "3:04PM 5 Mar 99",
            "3:04PM 2 Jan 06",
            "1999-03-05 15:04:00 +0000 UTC",
        );
    }

    #[test]
    fn what_is_no_date_is_none() {
        for (text, layout) in [
            ("2023-02-29", "2006-01-02"),
            ("2024-13-01", "2006-01-02"),
            ("2024-01-01x", "2006-01-02"),
            ("", "2006"),
            ("24:00", "15:04"),
        ] {
            assert_eq!(parse(text, layout), None, "{text}");
        }
    }
}
