//! JSON text exactly as Go's `encoding/json` writes it: keys sorted, no blanks, `<`, `>`, `&` and the
//! two line separators escaped. Names and versions are hashes of such text, so every byte counts.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Compact JSON with sorted keys and no line end.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// The same as Go's stream encoder writes it: with a line end.
pub fn line(value: &Value) -> String {
    let mut out = to_string(value);
    out.push('\n');
    out
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_text(out, text),
        Value::Array(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            // Sorted here too, so that a map that keeps insertion order would change nothing.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_text(out, key);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => out.push_str(&float_text(float)),
        _ => out.push_str(&number.to_string()),
    }
}

/// A float as Go writes it: like ECMAScript, without `.0`, with an exponent below 1e-6 and from 1e21.
pub fn float_text(float: f64) -> String {
    let magnitude = float.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        // Go writes the sign and drops one leading zero: `1e-07` becomes `1e-7`, `1e+21` stays.
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// The escaping of `<`, `>` and `&`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    Html,
    None,
}

/// A string in quotes.
pub fn write_text(out: &mut String, text: &str) {
    write_escaped(out, text, Escape::Html);
}

/// A string in quotes, as an encoder with this escaping writes it.
pub(crate) fn write_escaped(out: &mut String, text: &str, escape: Escape) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if escape == Escape::None => out.push(c),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push_escape(out, c),
            c if u32::from(c) < 0x20 => push_escape(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push_escape(out: &mut String, c: char) {
    write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String does not fail");
}

/// JSON text as it came, key order and number spelling kept, without blanks and with the escapes
/// that Go adds.
pub fn compact(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut in_text = false;
    let mut escaped = false;
    for c in raw.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push_escape(&mut out, c),
            ' ' | '\t' | '\n' | '\r' if !in_text => {}
            c => out.push(c),
        }
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = in_text;
        } else if c == '"' {
            in_text = !in_text;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_escaped_as_go_does_it() {
        assert_eq!(
            line(&json!({"b": "<&>\u{2028}\"\\\n\u{1}", "a": [1, true, null, 2.0, -0.5]})),
            "{\"a\":[1,true,null,2,-0.5],\"b\":\"\\u003c\\u0026\\u003e\\u2028\\\"\\\\\\n\\u0001\"}\n"
        );
    }

    #[test]
    fn floats_are_written_as_ecmascript_does_it() {
        for (float, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (0.000_001, "0.000001"),
            (9_007_199_254_740_993.0, "9007199254740992"),
        ] {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn raw_values_keep_their_order_and_the_spelling_of_numbers() {
        assert_eq!(
            compact("{ \"b\" : 1.0,\n \"a\": \"x \\\" <y\" }"),
            "{\"b\":1.0,\"a\":\"x \\\" \\u003cy\"}"
        );
    }
}
