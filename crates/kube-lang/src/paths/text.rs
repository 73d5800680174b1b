//! A document as the compact text that paths are applied to: sorted keys, numbers and escapes as the Go library writes
//! them.

use serde_json::{Number, Value};

use super::{found::plain_decimal, scan::push_string};

pub(super) fn compact(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, value);
    out
}

fn push(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number_text(number).as_bytes()),
        Value::String(text) => push_string(out, text.as_bytes()),
        Value::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push(out, element);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_string(out, key.as_bytes());
                out.push(b':');
                push(out, member);
            }
            out.push(b'}');
        }
    }
}

/// Integers digit by digit; the rest with the fewest digits, with an exponent only when very large or very small.
fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return plain_decimal(float);
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}
