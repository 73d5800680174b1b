//! Values as Go prints them. The server's messages about types show values in these forms.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The type, as `%T` prints it.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The value, as `%v` prints it: `map[a:[1 x]]`.
pub(super) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(value, &mut out);
    out
}

/// The value in Go syntax, as `%#v` prints it: `[]interface {}{"x", 1}`.
pub(super) fn syntax(value: &Value) -> String {
    let mut out = String::new();
    write_syntax(value, &mut out);
    out
}

fn write_plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (index, (name, member)) in sorted(members).into_iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write_plain(member, out);
            }
            out.push(']');
        }
        Value::Bool(_) | Value::Number(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

fn write_syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(members) => {
            out.push_str("map[string]interface {}{");
            for (index, (name, member)) in sorted(members).into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                let _ = write!(out, "{name:?}:");
                write_syntax(member, out);
            }
            out.push('}');
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Go prints maps sorted by key.
fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut all: Vec<_> = members.iter().collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        let value = json!({"b": [1, "x", null, true], "a": {"c": 1.5}});
        assert_eq!(plain(&value), "map[a:map[c:1.5] b:[1 x <nil> true]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":map[string]interface {}{"c":1.5}, "b":[]interface {}{1, "x", interface {}(nil), true}}"#
        );
        assert_eq!(kind(&value), "map[string]interface {}");
        assert_eq!(kind(&json!("x")), "string");
        assert_eq!(kind(&json!(1.0)), "float64");
    }
}
