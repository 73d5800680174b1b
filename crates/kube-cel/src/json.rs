//! Results as JSON.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Number, Value};

use super::{
    fault::{Fault, Meter},
    functions::shown,
    value::Val,
};

/// The deepest result that is written: deeper JSON is not read again by anybody.
const DEEPEST: usize = 100;
/// The number of bytes that are written for one unit of work.
const BYTES_PER_UNIT: usize = 32;

impl Val<'_> {
    /// The value as JSON: bytes in base64, times and durations as text.
    pub fn to_json(&self, meter: &Meter) -> Result<Value, Fault> {
        self.json(0, meter)
    }

    fn json(&self, depth: usize, meter: &Meter) -> Result<Value, Fault> {
        if depth > DEEPEST {
            return Err(unwritable("value that is nested too deeply"));
        }
        meter.charge(1)?;
        let text = |text: String| {
            meter.charge((text.len() / BYTES_PER_UNIT) as u64)?;
            Ok(Value::String(text))
        };
        match self {
            Val::Null => Ok(Value::Null),
            Val::Bool(value) => Ok(Value::Bool(*value)),
            Val::Int(number) => Ok(Value::from(*number)),
            Val::Uint(number) => Ok(Value::from(*number)),
            Val::Double(number) => double(*number).map(Value::Number),
            Val::Text(value) => text(value.as_str().to_owned()),
            Val::Bytes(bytes) => text(BASE64_STANDARD.encode(bytes)),
            Val::Duration(_) | Val::Time(_) | Val::Kind(_) => text(shown(self)),
            Val::Items(..) | Val::List(..) => {
                let items = self.each().map(|item| item?.json(depth + 1, meter));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            Val::Members(..) | Val::Map(_) => {
                let mut members = Map::new();
                for (key, value) in self.entries(meter).unwrap_or(Ok(Vec::new()))? {
                    let value = value.json(depth + 1, meter)?;
                    members.insert(shown(&key), value);
                }
                Ok(Value::Object(members))
            }
            Val::Optional(_) => Err(unwritable("optional value")),
            Val::Opaque(opaque) => Err(unwritable(opaque.type_name())),
        }
    }
}

fn unwritable(what: &str) -> Fault {
    Fault::Error(format!("a {what} cannot be written as JSON"))
}

/// A whole double is written without its point, as Go does, so that it is an integer to whoever reads it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "only done where both are exact"
)]
fn double(number: f64) -> Result<Number, Fault> {
    const EXACT: f64 = (1_i64 << 53) as f64;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| unwritable("double that is infinite or NaN"))
}
