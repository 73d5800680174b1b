//! Numbers in one canonical form. JSON does not tell `1` from `1.0`, and API servers print both as `1`, but `serde_json`
//! keeps them apart: values are brought into this form before they are compared with an answer of a server or with a
//! recorded state.

use serde_json::{Number, Value};

/// The first float that is too large for a `u64`.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
/// The first that is too large for an `i64`; its negative is the smallest that fits.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Makes integers of all whole floats that fit 64 bits, at any depth. Floats beyond stay floats: no
/// text of theirs is ever read as an integer.
pub fn unify(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) = integer(number) {
                *number = integer;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unify),
        Value::Object(fields) => fields.values_mut().for_each(unify),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Equality of two values; numbers are compared by their value, so `1` equals `1.0`.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || integer(a).as_ref().unwrap_or(a) == integer(b).as_ref().unwrap_or(b)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let matches = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(matches)
        }
        _ => a == b,
    }
}

/// The integer that a whole float is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and within the range of the type, both checked before"
)]
fn integer(number: &Number) -> Option<Number> {
    if !number.is_f64() {
        return None;
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
    if (-TWO_TO_63..TWO_TO_63).contains(&float) {
        Some((float as i64).into())
    } else if (TWO_TO_63..TWO_TO_64).contains(&float) {
        Some((float as u64).into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the cases read better so")]
    fn check(before: Value, after: &str) {
        let mut value = before.clone();
        unify(&mut value);
        assert_eq!(value.to_string(), after);
        assert!(same(&before, &value), "{before} {value}");
        let read: Value = serde_json::from_str(after).unwrap();
        assert_eq!(read, value, "what is written is read back");
    }

    #[test]
    fn whole_floats_become_integers_where_they_fit() {
        check(json!(1.0), "1");
        check(json!(-0.0), "0");
        check(json!(1e18), "1000000000000000000");
        check(json!(1e19), "10000000000000000000");
        check(json!(-TWO_TO_63), "-9223372036854775808");
        check(json!(TWO_TO_63), "9223372036854775808");
        check(json!({"a": [{"b": 2.0}, 2.5]}), r#"{"a":[{"b":2},2.5]}"#);
    }

    #[test]
    fn other_numbers_stay_as_they_are() {
        check(json!(TWO_TO_64), "1.8446744073709552e+19");
        check(json!(1e300), "1e+300");
        check(json!(0.1), "0.1");
        check(json!(u64::MAX), "18446744073709551615");
        check(json!(i64::MIN), "-9223372036854775808");
    }

    #[test]
    fn what_is_worth_something_else_is_not_the_same() {
        for (a, b) in [
            (json!(1), json!(1.5)),
            (
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992.0),
            ),
            (json!([1]), json!([1, 1])),
            (json!({"a": 1}), json!({"b": 1})),
            (json!({"a": 1}), json!({"a": 1, "b": 1})),
            (json!("1"), json!(1)),
        ] {
            assert!(!same(&a, &b), "{a} {b}");
        }
    }
}
