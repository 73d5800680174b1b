//! Values between JSON, the engine and text, printed as Go prints them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::go_json::{self, Escape};
use gotmpl::Value;
use serde_json::Value as Json;

use super::limits::MAX_OUTPUT;
use super::typed::{self, Typed};

const MAX_NODES: usize = 50_000;
const MAX_DEPTH: usize = 100;

/// Integers that fit are integers, every other number is a float.
pub(super) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => n
            .as_i64()
            .map_or_else(|| Value::Float(n.as_f64().unwrap_or_default()), Value::Int),
        Json::String(s) => Value::String(s.as_str().into()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(fields) => map(fields
            .iter()
            .map(|(k, v)| (Arc::from(k.as_str()), from_json(v)))
            .collect()),
    }
}

/// The same, and about how many bytes were gone through.
pub(super) fn from_json_counted(json: &Json, bytes: &mut usize) -> Value {
    *bytes += 16;
    match json {
        Json::String(text) => *bytes += text.len(),
        Json::Array(items) => {
            let items = items.iter();
            return Value::List(items.map(|item| from_json_counted(item, bytes)).collect());
        }
        Json::Object(fields) => {
            let mut field = |(key, value): (&String, &Json)| {
                *bytes += key.len();
                (Arc::from(key.as_str()), from_json_counted(value, bytes))
            };
            return map(fields.iter().map(&mut field).collect());
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    from_json(json)
}

pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) => Json::from(*n),
        Value::Uint(n) => Json::from(*n),
        Value::Float(f) => Json::from(*f),
        Value::String(s) => Json::from(&**s),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(fields) => fields
            .iter()
            .map(|(k, v)| (k.to_string(), to_json(v)))
            .collect(),
        _ => Json::Null,
    }
}

pub(super) fn map(fields: BTreeMap<Arc<str>, Value>) -> Value {
    Value::Map(Arc::new(fields))
}

pub(super) fn string(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

/// The type as Go names it. Whether an integer is a literal's or the data's is not known: it is the data's.
pub(super) fn type_name(value: &Value) -> &'static str {
    match typed::of(value) {
        Some(Typed::Time { .. }) => return "time.Time",
        Some(Typed::Version { .. }) => return "*semver.Version",
        Some(Typed::NoList) | None => {}
    }
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Float(_) => "float64",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
        Value::Function(_) => "func()",
        _ => "string",
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match typed::of(value) {
        Some(Typed::Time { .. }) => return "struct",
        Some(Typed::Version { .. }) => return "ptr",
        Some(Typed::NoList) | None => {}
    }
    match value {
        Value::Nil => "invalid",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Function(_) => "func",
        other => type_name(other),
    }
}

/// A float as Go's `%v`.
pub(super) fn float(f: f64) -> String {
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{f:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if f != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{f}")
}

/// A value as Go's `%v`, within the limit of an output.
pub(super) fn printed(value: &Value) -> Result<String, String> {
    let mut out = String::new();
    print_into(value, &mut out)?;
    Ok(out)
}

fn print_into(value: &Value, out: &mut String) -> Result<(), String> {
    if out.len() > MAX_OUTPUT {
        return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
    }
    match value {
        Value::Float(f) => out.push_str(&float(*f)),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                print_into(item, out)?;
            }
            out.push(']');
        }
        Value::Map(fields) => {
            if let Some(Typed::Version { text }) = typed::of(value) {
                out.push_str(&text);
                return Ok(());
            }
            out.push_str("map[");
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                let _ = write!(out, "{key}:");
                print_into(item, out)?;
            }
            out.push(']');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
    Ok(())
}

/// JSON as Go's encoder writes it.
pub(super) fn encoded(value: &Value, escape: Escape) -> Result<String, String> {
    let mut out = String::new();
    encode_into(value, escape, &mut out)?;
    Ok(out)
}

fn encode_into(value: &Value, escape: Escape, out: &mut String) -> Result<(), String> {
    if out.len() > MAX_OUTPUT {
        return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
    }
    match typed::of(value) {
        Some(Typed::Time { json: text } | Typed::Version { text }) => {
            go_json::write_escaped(out, &text, escape);
            return Ok(());
        }
        Some(Typed::NoList) => {
            out.push_str("null");
            return Ok(());
        }
        None => {}
    }
    match value {
        Value::Nil => out.push_str("null"),
        Value::Float(f) if !f.is_finite() => return Err("json: unsupported value".to_owned()),
        Value::Float(f) => out.push_str(&go_json::float_text(*f)),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                encode_into(item, escape, out)?;
            }
            out.push(']');
        }
        Value::Map(fields) => {
            out.push('{');
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                go_json::write_escaped(out, key, escape);
                out.push(':');
                encode_into(item, escape, out)?;
            }
            out.push('}');
        }
        Value::Function(_) => return Err("json: unsupported type: func".to_owned()),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) => {
            let _ = write!(out, "{value}");
        }
        other => go_json::write_escaped(out, &other.to_string(), escape),
    }
    Ok(())
}

/// Refuses what was built too large or too deep to walk: values share their parts, so few steps could build without end.
pub(super) fn bounded(value: Value) -> Result<Value, String> {
    let mut left = MAX_NODES;
    measure(&value, 0, &mut left)?;
    Ok(value)
}

fn measure(value: &Value, depth: usize, left: &mut usize) -> Result<(), String> {
    if depth > MAX_DEPTH || *left == 0 {
        return Err(format!(
            "the value has more than {MAX_NODES} parts, or more than {MAX_DEPTH} levels"
        ));
    }
    *left -= 1;
    super::limits::spend(1)?;
    match value {
        // Text counts by its size: shared text is small until it is printed.
        Value::String(text) => {
            *left = left.saturating_sub(text.len() / 64);
            Ok(())
        }
        Value::List(items) => items.iter().try_for_each(|v| measure(v, depth + 1, left)),
        Value::Map(fields) => fields
            .values()
            .try_for_each(|v| measure(v, depth + 1, left)),
        _ => Ok(()),
    }
}
