//! Conversions between types.

use std::rc::Rc;

use kube_lang::go_text;

use super::printing;
use crate::{
    fault::{Fault, Meter},
    time::{self, Time},
    value::{Answer, Val},
};

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    let [value] = arguments else { return None };
    match name {
        "dyn" => Some(Ok(value.clone())),
        "type" => Some(Ok(Val::Kind(value.type_name().into()))),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "bool" => match value {
            Val::Bool(_) => Some(Ok(value.clone())),
            Val::Text(text) => Some(to_bool(text.as_str())),
            _ => None,
        },
        "bytes" => match value {
            Val::Bytes(_) => Some(Ok(value.clone())),
            Val::Text(text) => Some(Ok(Val::Bytes(Rc::from(text.as_str().as_bytes())))),
            _ => None,
        },
        "string" => to_text(value, meter),
        "duration" => match value {
            Val::Duration(_) => Some(Ok(value.clone())),
            Val::Int(nanos) => Some(Ok(Val::Duration(*nanos))),
            Val::Text(text) => Some(
                go_text::parse_duration(text.as_str())
                    .map(Val::Duration)
                    .ok_or_else(|| failed("string", "google.protobuf.Duration")),
            ),
            _ => None,
        },
        "timestamp" => match value {
            Val::Time(_) => Some(Ok(value.clone())),
            Val::Int(seconds) => Some(
                Time::of_second(*seconds)
                    .map(Val::Time)
                    .ok_or_else(|| Fault::new("timestamp overflow")),
            ),
            Val::Text(text) => Some(
                time::parse_time(text.as_str())
                    .map(Val::Time)
                    .ok_or_else(|| failed("string", "google.protobuf.Timestamp")),
            ),
            _ => None,
        },
        _ => None,
    }
}

fn failed(from: &str, to: &str) -> Fault {
    Fault::Error(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool<'a>(text: &str) -> Answer<'a> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
        _ => Err(failed("string", "bool")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the range is looked at before"
)]
fn to_int<'a>(value: &Val<'a>) -> Option<Answer<'a>> {
    let overflow = || Fault::new("integer overflow");
    Some(match value {
        Val::Int(_) => Ok(value.clone()),
        Val::Uint(number) => i64::try_from(*number).map(Val::Int).map_err(|_| overflow()),
        Val::Double(number) => {
            let fits = *number > i64::MIN as f64 && *number < i64::MAX as f64;
            if fits {
                Ok(Val::Int(*number as i64))
            } else {
                Err(overflow())
            }
        }
        Val::Text(text) => text
            .as_str()
            .parse()
            .map(Val::Int)
            .map_err(|_| failed("string", "int")),
        Val::Time(time) => Ok(Val::Int(time.second())),
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the range is looked at before"
)]
fn to_uint<'a>(value: &Val<'a>) -> Option<Answer<'a>> {
    let overflow = || Fault::new("unsigned integer overflow");
    Some(match value {
        Val::Uint(_) => Ok(value.clone()),
        Val::Int(number) => u64::try_from(*number)
            .map(Val::Uint)
            .map_err(|_| overflow()),
        Val::Double(number) => {
            if *number >= 0.0 && *number < u64::MAX as f64 {
                Ok(Val::Uint(*number as u64))
            } else {
                Err(overflow())
            }
        }
        Val::Text(text) => text
            .as_str()
            .parse()
            .map(Val::Uint)
            .map_err(|_| failed("string", "uint")),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "as conversions to doubles are")]
fn to_double<'a>(value: &Val<'a>) -> Option<Answer<'a>> {
    Some(match value {
        Val::Double(_) => Ok(value.clone()),
        Val::Int(number) => Ok(Val::Double(*number as f64)),
        Val::Uint(number) => Ok(Val::Double(*number as f64)),
        Val::Text(text) => text
            .as_str()
            .parse()
            .map(Val::Double)
            .map_err(|_| failed("string", "double")),
        _ => return None,
    })
}

fn to_text<'a>(value: &Val<'a>, meter: &Meter) -> Option<Answer<'a>> {
    Some(match value {
        Val::Text(_) => Ok(value.clone()),
        Val::Bytes(bytes) => {
            meter
                .bytes(bytes.len())
                .and_then(|()| match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Val::text(text)),
                    Err(_) => Err(Fault::new(
                        "invalid UTF-8 in bytes, cannot convert to string",
                    )),
                })
        }
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::Duration(_)
        | Val::Time(_) => Ok(Val::text(printing::shown(value))),
        Val::Opaque(opaque) => Ok(Val::text(opaque.written()?)),
        _ => return None,
    })
}
