//! The parts of times and durations.

use jiff::tz::{Offset, TimeZone};

use crate::{
    fault::{Fault, Meter},
    time::offset,
    value::{Answer, Val},
};

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
    let Some(there) = time.local(&zone) else {
        return Some(Err(Fault::new("timestamp overflow")));
    };
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
    if name.contains(':') {
        return offset(name).map(Offset::to_time_zone);
    }
    TimeZone::get(name).ok()
}
