//! Leases, in which leader election keeps its record.

use serde_json::{Value, json};

use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::field::FieldError;

pub(super) struct Leases;

/// A time in UTC with six digits after the decimal point, as the server writes it.
fn micro_time(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    const WHOLE: usize = "2006-01-02T15:04:05".len();
    let wrong = |rest: &str, part: &str| {
        format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {part:?}")
    };
    let Some((_, rest)) = text.split_at_checked(WHOLE) else {
        return Err(wrong(text, "2006"));
    };
    let digits = rest.strip_prefix('.').unwrap_or_default();
    let digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    if digits < 6 {
        return Err(wrong(rest, ".000000"));
    }
    if digits > 6 {
        return Err(wrong(&rest[7..], "Z07:00"));
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| wrong(text, "2006"))?;
    Ok(format!("{time:.6}"))
}

impl Strategy for Leases {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        lease: &mut Object,
    ) -> Result<(), Status> {
        let spec = lease.root_mut().entry("spec").or_insert_with(|| json!({}));
        let Some(spec) = spec.as_object_mut() else {
            return Ok(());
        };
        // Fields of features that are disabled by default.
        for field in ["strategy", "preferredHolder"] {
            spec.remove(field);
        }
        for field in ["acquireTime", "renewTime"] {
            if let Some(Value::String(text)) = spec.get_mut(field) {
                *text = micro_time(text).map_err(|why| {
                    Status::bad_request(format!(
                        "Lease in version \"v1\" cannot be handled as a Lease: {why}"
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, lease: &Object) -> Vec<FieldError> {
        let rows = [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ];
        rows.into_iter()
            .filter_map(|(field, least, detail)| {
                let number = lease
                    .as_value()
                    .pointer("/spec")?
                    .get(field)
                    .and_then(Value::as_i64)?;
                (number < least)
                    .then(|| FieldError::invalid(format!("spec.{field}"), number, detail))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::micro_time;

    #[track_caller]
    fn refused(text: &str, rest: &str, part: &str) {
        let why = micro_time(text).unwrap_err();
        let end = format!("cannot parse {rest:?} as {part:?}");
        assert!(why.ends_with(&end), "{why}");
    }

    #[test]
    fn times_of_leases_have_six_digits_and_are_in_utc() {
        for (text, written) in [
            ("2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00.000000Z"),
            (
                "2020-01-01T01:00:00.000001+01:00",
                "2020-01-01T00:00:00.000001Z",
            ),
        ] {
            assert_eq!(micro_time(text).as_deref(), Ok(written));
        }
        refused("2020-01-01T00:00:00Z", "Z", ".000000");
        refused("2020-01-01T01:00:00+01:00", "+01:00", ".000000");
        refused("2020-01-01T00:00:00.0000001Z", "1Z", "Z07:00");
        refused("never", "never", "2006");
    }
}
