//! Between JSON and the values of expressions.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cel::{
    Value as CelValue,
    objects::{Key, Map},
};
use serde_json::{Number, Value};

use super::EvalError;

/// The deepest result that is written: deeper JSON is not read again by anybody.
const MAX_RESULT_DEPTH: usize = 100;

/// An object of a cluster: whole numbers are integers.
pub(super) fn object(value: &Value) -> CelValue {
    from_json(value, &|number| match number.as_i64() {
        Some(int) => CelValue::Int(int),
        None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
    })
}

/// A plain JSON value: every number is a double.
pub(super) fn plain(value: &Value) -> CelValue {
    from_json(value, &|number| {
        CelValue::Float(number.as_f64().unwrap_or(f64::NAN))
    })
}

fn from_json(value: &Value, number: &impl Fn(&Number) -> CelValue) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(truth) => CelValue::Bool(*truth),
        Value::Number(n) => number(n),
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(elements) => CelValue::List(Arc::new(
            elements
                .iter()
                .map(|element| from_json(element, number))
                .collect(),
        )),
        Value::Object(members) => {
            let entry = |(key, member): (&String, &Value)| {
                (
                    Key::String(Arc::new(key.clone())),
                    from_json(member, number),
                )
            };
            CelValue::Map(Map {
                map: Arc::new(members.iter().map(entry).collect::<HashMap<_, _>>()),
            })
        }
    }
}

pub(super) fn json(value: &CelValue) -> Result<Value, EvalError> {
    to_json(value, 0)
}

fn to_json(value: &CelValue, depth: usize) -> Result<Value, EvalError> {
    if depth > MAX_RESULT_DEPTH {
        return Err(EvalError::NotJson("value nested that deep"));
    }
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(truth) => Value::Bool(*truth),
        CelValue::Int(int) => Value::from(*int),
        CelValue::UInt(uint) => Value::from(*uint),
        CelValue::Float(float) => Value::Number(double(*float)?),
        CelValue::String(text) => Value::String(text.as_str().to_owned()),
        CelValue::Bytes(bytes) => Value::String(BASE64_STANDARD.encode(bytes.as_slice())),
        CelValue::Duration(duration) => Value::String(seconds(
            duration.num_seconds(),
            i64::from(duration.subsec_nanos()),
        )),
        CelValue::Timestamp(time) => Value::String(go_time(&time.to_rfc3339())),
        CelValue::List(elements) => {
            let elements: Result<_, _> = elements
                .iter()
                .map(|element| to_json(element, depth + 1))
                .collect();
            Value::Array(elements?)
        }
        CelValue::Map(map) => {
            let member = |(key, member): (&Key, &CelValue)| {
                Ok((key.to_string(), to_json(member, depth + 1)?))
            };
            Value::Object(
                map.map
                    .iter()
                    .map(member)
                    .collect::<Result<_, EvalError>>()?,
            )
        }
        CelValue::Function(..) => return Err(EvalError::NotJson("function")),
        CelValue::Opaque(_) | CelValue::Struct(_) => {
            return Err(EvalError::NotJson("value of that type"));
        }
    })
}

/// A whole double is written without its point, as Go does, so that it is an integer to whoever reads it.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // Only done where both are exact.
fn double(float: f64) -> Result<Number, EvalError> {
    const EXACT: f64 = (1_i64 << 53) as f64;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        return Ok(Number::from(float as i64));
    }
    Number::from_f64(float).ok_or(EvalError::NotJson("number that is infinite or none"))
}

/// Seconds with as many decimals as there are.
fn seconds(whole: i64, nanos: i64) -> String {
    let sign = if whole < 0 || nanos < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", whole.unsigned_abs(), nanos.unsigned_abs());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// RFC 3339 as Go writes it: `Z` for UTC, and no trailing zeros in the fraction.
pub(super) fn go_time(text: &str) -> String {
    let (time, zone) = text.split_at(text.len().saturating_sub(6));
    let zone = if zone == "+00:00" { "Z" } else { zone };
    let time = if time.contains('.') {
        time.trim_end_matches('0').trim_end_matches('.')
    } else {
        time
    };
    format!("{time}{zone}")
}
