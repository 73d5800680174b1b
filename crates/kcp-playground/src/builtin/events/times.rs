//! The two formats of times in events: whole seconds in the older fields, microseconds in the newer ones.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde_json::Value;

use crate::status::Status;
use kube_lang::object::Object;

const SECONDS: [&str; 2] = ["/firstTimestamp", "/lastTimestamp"];
const MICROSECONDS: [&str; 2] = ["/eventTime", "/series/lastObservedTime"];
/// The layout that Go's error messages name.
const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Writes times as a server with typed kinds does: in UTC, with the digits of their field.
pub(super) fn normalise(event: &mut Object) -> Result<(), Status> {
    let mut value = event.as_value().clone();
    for at in SECONDS {
        rewrite(&mut value, at, |text| {
            seconds(text).ok_or_else(|| refused(text, SECONDS_LAYOUT))
        })?;
    }
    for at in MICROSECONDS {
        rewrite(&mut value, at, |text| {
            let time = parse(text).filter(|_| has_microseconds(text));
            let time = time.ok_or_else(|| refused(text, MICROSECONDS_LAYOUT))?;
            let utc = time.to_zoned(TimeZone::fixed(Offset::UTC));
            let micros = time.subsec_nanosecond().unsigned_abs() / 1000;
            let whole = utc.strftime("%Y-%m-%dT%H:%M:%S");
            Ok(format!("{whole}.{micros:06}Z").into())
        })?;
    }
    *event = Object::new(value).map_err(Status::internal)?;
    Ok(())
}

/// A time in UTC and whole seconds; null for the zero time; `None` if the text is not a time.
pub(in crate::builtin) fn seconds(text: &str) -> Option<Value> {
    const NONE: &str = "0001-01-01T00:00:00Z";
    let time = parse(text)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(if time == NONE {
        Value::Null
    } else {
        time.into()
    })
}

fn rewrite(
    event: &mut Value,
    at: &str,
    form: impl FnOnce(&str) -> Result<Value, Status>,
) -> Result<(), Status> {
    if let Some(slot) = event.pointer_mut(at)
        && let Some(text) = slot.as_str()
    {
        *slot = form(text)?;
    }
    Ok(())
}

/// RFC 3339, with a required time zone.
fn parse(text: &str) -> Option<Timestamp> {
    let shape = text.as_bytes();
    let upright = shape.get(10) == Some(&b'T') && shape.get(4) == Some(&b'-');
    text.parse().ok().filter(|_| upright)
}

/// Exactly six digits after the decimal point.
fn has_microseconds(text: &str) -> bool {
    let Some((_, fraction)) = text.split_once('.') else {
        return false;
    };
    fraction.bytes().take_while(u8::is_ascii_digit).count() == 6
}

fn refused(text: &str, layout: &str) -> Status {
    Status::bad_request(format!(
        "Event in version \"v1\" cannot be handled as a Event: parsing time {text:?} as {layout:?}: cannot parse {text:?}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(field: &str, given: &str, expected: Option<&str>) {
        let mut event = Object::new(json!({field: given})).unwrap();
        let result = normalise(&mut event).ok();
        let found = result.map(|()| event.root()[field].clone());
        let expected = expected.map(|text| match text {
            "" => Value::Null,
            text => text.into(),
        });
        assert_eq!(found, expected, "{field} {given}");
    }

    #[test]
    fn times_are_written_in_utc_with_the_digits_of_their_field() {
        check(
            "firstTimestamp",
            "2026-01-02T03:04:05.678+02:00",
            Some("2026-01-02T01:04:05Z"),
        );
        check(
            "eventTime",
            "2026-01-02T03:04:05.000001+02:00",
            Some("2026-01-02T01:04:05.000001Z"),
        );
        check("lastTimestamp", "0001-01-01T01:00:00+01:00", Some(""));
        check("eventTime", "2026-01-02T03:04:05Z", None);
        check("eventTime", "2026-01-02T03:04:05.1Z", None);
        check("lastTimestamp", "yesterday", None);
        check("lastTimestamp", "2026-01-02", None);
    }
}
