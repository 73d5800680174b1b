//! Functions over maps, JSON, defaults and types, and internal functions that prepared templates call.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value;

use super::entry::{ANY, Answer, Entry, entry, text_arg};
use super::printf;
use super::typed;
use super::values::{self, bounded, encoded, float, kind, printed, string, type_name};
use crate::go_json::Escape;

type Fields = BTreeMap<Arc<str>, Value>;

pub(super) const TABLE: &[Entry] = &[
    entry("default", 1, 2, |a| {
        Ok(a.get(1).filter(|v| v.is_truthy()).unwrap_or(&a[0]).clone())
    }),
    entry("empty", 1, 1, |a| Ok(Value::Bool(!a[0].is_truthy()))),
    entry("coalesce", 0, ANY, |a| {
        Ok(a.iter()
            .find(|v| v.is_truthy())
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    entry("all", 0, ANY, |a| {
        Ok(Value::Bool(a.iter().all(Value::is_truthy)))
    }),
    entry("any", 0, ANY, |a| {
        Ok(Value::Bool(a.iter().any(Value::is_truthy)))
    }),
    entry("ternary", 3, 3, ternary),
    entry("fail", 1, 1, |a| Err(text_arg(a, 0)?.to_owned())),
    entry("dict", 0, ANY, dict),
    entry("get", 2, 2, |a| {
        Ok(some_fields(a, 0)?
            .get(text_arg(a, 1)?)
            .cloned()
            .unwrap_or_else(|| string("")))
    }),
    entry("set", 3, 3, set),
    entry("unset", 2, 2, unset),
    entry("hasKey", 2, 2, |a| {
        Ok(Value::Bool(
            some_fields(a, 0)?.contains_key(text_arg(a, 1)?),
        ))
    }),
    entry("keys", 0, ANY, keys),
    entry("values", 1, 1, |a| {
        Ok(Value::List(some_fields(a, 0)?.values().cloned().collect()))
    }),
    entry("pick", 1, ANY, |a| select(a, Keep::Named)),
    entry("omit", 1, ANY, |a| select(a, Keep::Others)),
    entry("pluck", 1, ANY, pluck),
    entry("dig", 3, ANY, dig),
    entry("merge", 1, ANY, |a| merge(a, Winner::First)),
    entry("mustMerge", 1, ANY, |a| merge(a, Winner::First)),
    entry("mergeOverwrite", 1, ANY, |a| merge(a, Winner::Last)),
    entry("mustMergeOverwrite", 1, ANY, |a| merge(a, Winner::Last)),
    entry("deepCopy", 1, 1, copy),
    entry("mustDeepCopy", 1, 1, copy),
    entry("deepEqual", 2, 2, |a| {
        Ok(Value::Bool(
            bounded(a[0].clone())? == bounded(a[1].clone())?,
        ))
    }),
    entry("kindOf", 1, 1, |a| Ok(string(kind(&a[0])))),
    entry("typeOf", 1, 1, |a| Ok(string(type_name(&a[0])))),
    entry("kindIs", 2, 2, |a| {
        Ok(Value::Bool(kind(&a[1]) == text_arg(a, 0)?))
    }),
    entry("typeIs", 2, 2, |a| {
        Ok(Value::Bool(type_name(&a[1]) == text_arg(a, 0)?))
    }),
    entry("typeIsLike", 2, 2, |a| {
        let (wanted, found) = (text_arg(a, 0)?, type_name(&a[1]));
        Ok(Value::Bool(
            found == wanted || found.strip_prefix('*') == Some(wanted),
        ))
    }),
    entry("toJson", 1, 1, |a| encoded(&a[0], Escape::Html).map(string)),
    entry("mustToJson", 1, 1, |a| {
        encoded(&a[0], Escape::Html).map(string)
    }),
    entry("toRawJson", 1, 1, |a| {
        encoded(&a[0], Escape::None).map(string)
    }),
    entry("mustToRawJson", 1, 1, |a| {
        encoded(&a[0], Escape::None).map(string)
    }),
    entry("toPrettyJson", 1, 1, pretty),
    entry("mustToPrettyJson", 1, 1, pretty),
    // For invalid JSON, `fromJson` returns nil; only `mustFromJson` returns an error.
    entry("fromJson", 1, 1, |a| {
        text_arg(a, 0)?;
        Ok(from_json(a).unwrap_or(Value::Nil))
    }),
    entry("mustFromJson", 1, 1, from_json),
];

/// Functions that the preparation of a tree calls; no template can.
pub(super) const INTERNAL: &[Entry] = &[
    entry("goPrint", 1, 1, |a| {
        if a[0] == Value::Nil {
            Ok(string("<no value>"))
        } else {
            printed(&a[0]).map(string)
        }
    }),
    entry("goNumbers", 1, 1, numbers_as_text),
    entry("goPrintf", 2, ANY, printf::printf),
    entry("goField", 2, ANY, field),
    entry("goItem", 1, 1, item),
    entry("goNil", 0, 0, |_| Ok(Value::Nil)),
    // Built-in functions of Go's templates, with the limits of every function.
    entry("print", 0, ANY, |a| sprint(a).map(string)),
    entry("println", 0, ANY, println),
    entry("html", 0, ANY, |a| {
        shown(a).map(|t| string(gotmpl::html_escape(&t)))
    }),
    entry("js", 0, ANY, |a| {
        shown(a).map(|t| string(gotmpl::js_escape(&t)))
    }),
    entry("urlquery", 0, ANY, |a| {
        shown(a).map(|t| string(gotmpl::url_encode(&t)))
    }),
    entry("goWork", 1, 1, |a| {
        let weight = super::entry::int_arg(a, 0)?;
        super::limits::spend(u64::try_from(weight).unwrap_or_default())?;
        Ok(Value::Nil)
    }),
    entry("gjsonString", 1, 1, |a| gjson_text(&a[0]).map(string)),
    entry("gjsonStr", 1, 1, |a| {
        Ok(string(a[0].as_str().unwrap_or_default()))
    }),
    entry("gjsonRaw", 1, 1, |a| {
        encoded(&a[0], Escape::None).map(string)
    }),
    entry("gjsonInt", 1, 1, gjson_int),
    entry("gjsonUint", 1, 1, gjson_int),
    entry("gjsonFloat", 1, 1, gjson_float),
    entry("gjsonNum", 1, 1, |a| {
        Ok(Value::Float(a[0].as_float().unwrap_or_default()))
    }),
    entry("gjsonBool", 1, 1, gjson_bool),
    entry("gjsonExists", 1, 1, |a| Ok(Value::Bool(a[0] != Value::Nil))),
    entry("gjsonIsObject", 1, 1, |a| {
        Ok(Value::Bool(matches!(a[0], Value::Map(_))))
    }),
    entry("gjsonIsArray", 1, 1, |a| {
        Ok(Value::Bool(matches!(a[0], Value::List(_))))
    }),
    entry("gjsonType", 1, 1, |a| {
        Ok(string(match &a[0] {
            Value::Nil => "Null",
            Value::Bool(true) => "True",
            Value::Bool(false) => "False",
            Value::List(_) | Value::Map(_) => "JSON",
            Value::String(_) => "String",
            _ => "Number",
        }))
    }),
    entry("gjsonArray", 1, 1, |a| {
        Ok(match &a[0] {
            Value::Nil => Value::List(Vec::new().into()),
            Value::List(_) => a[0].clone(),
            other => Value::List(vec![other.clone()].into()),
        })
    }),
    entry("gjsonMap", 1, 1, |a| {
        Ok(if let Value::Map(_) = &a[0] {
            a[0].clone()
        } else {
            values::map(Fields::new())
        })
    }),
];

/// Go's `Sprint`: a space between two operands if neither is a string.
fn sprint(args: &[Value]) -> Result<String, String> {
    let mut out = String::new();
    for (at, arg) in args.iter().enumerate() {
        let is_text = |v: &Value| matches!(v, Value::String(_)) && typed::of(v).is_none();
        if at > 0 && !is_text(arg) && !is_text(&args[at - 1]) {
            out.push(' ');
        }
        out.push_str(&printed(arg)?);
    }
    Ok(out)
}

fn println(args: &[Value]) -> Answer {
    let parts: Result<Vec<_>, String> = args.iter().map(printed).collect();
    Ok(string(parts?.join(" ") + "\n"))
}

fn numbers_as_text(args: &[Value]) -> Answer {
    match &args[0] {
        Value::Float(f) => Ok(string(float(*f))),
        value if typed::of(value).is_some() => printed(value).map(string),
        Value::List(_) | Value::Map(_) => bounded(args[0].clone()),
        other => Ok(other.clone()),
    }
}

fn gjson_text(value: &Value) -> Result<String, String> {
    match value {
        Value::Nil => Ok(String::new()),
        Value::String(s) => Ok(s.to_string()),
        other => encoded(other, Escape::None),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all functions of the table have one type"
)]
fn gjson_float(args: &[Value]) -> Answer {
    Ok(Value::Float(match &args[0] {
        Value::String(s) => s.parse().unwrap_or_default(),
        Value::Bool(b) => f64::from(u8::from(*b)),
        other => other.as_float().unwrap_or_default(),
    }))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all functions of the table have one type"
)]
fn gjson_int(args: &[Value]) -> Answer {
    Ok(Value::Int(match &args[0] {
        Value::String(s) => s.parse().unwrap_or_default(),
        Value::Bool(b) => i64::from(*b),
        other => other.as_int().unwrap_or_default(),
    }))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all functions of the table have one type"
)]
fn gjson_bool(args: &[Value]) -> Answer {
    Ok(Value::Bool(match &args[0] {
        Value::String(s) => ["1", "t", "true"].contains(&s.to_lowercase().as_str()),
        Value::Bool(b) => *b,
        other => other.as_float().is_some_and(|f| f != 0.0),
    }))
}

fn fields(args: &[Value], at: usize) -> Result<&Fields, String> {
    match args.get(at) {
        Some(value @ Value::Map(fields)) if typed::of(value).is_none() => Ok(fields),
        Some(other) => Err(format!(
            "wrong type for value; expected map[string]interface {{}}; got {}",
            type_name(other)
        )),
        None => Err("the map argument is missing".to_owned()),
    }
}

/// The fields of a map; nil has none.
fn some_fields(args: &[Value], at: usize) -> Result<&Fields, String> {
    static NONE: Fields = Fields::new();
    match args.get(at) {
        Some(Value::Nil) => Ok(&NONE),
        _ => fields(args, at),
    }
}

/// The field at a path. A missing field is nil, and reading a field of nil is an error. Bit 0 of the first argument
/// makes nil at the end of the path an error, bit 1 at its start.
fn field(args: &[Value]) -> Answer {
    let mut at = &args[1];
    let nulls = super::entry::int_arg(args, 0)?;
    let (at_the_end, at_the_start) = (nulls & 1 != 0, nulls & 2 != 0);
    for (depth, name) in args[2..].iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        at = match at {
            Value::Nil if depth == 0 && !at_the_start => return Ok(Value::Nil),
            Value::Nil => return Err(format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(fields) => match fields.get(name) {
                Some(field) => field,
                None => return Ok(Value::Nil),
            },
            other => {
                let of = type_name(other);
                return Err(format!("can't evaluate field {name} in type {of}"));
            }
        };
    }
    if *at == Value::Nil && at_the_end {
        return Err(
            "wrong type for value; expected map[string]interface {}; got interface {}".to_owned(),
        );
    }
    Ok(at.clone())
}

fn copy(args: &[Value]) -> Answer {
    match &args[0] {
        Value::Nil => Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        value => Ok(value.clone()),
    }
}

fn item(args: &[Value]) -> Answer {
    match &args[0] {
        Value::Nil => Err("index of untyped nil".to_owned()),
        value => Ok(value.clone()),
    }
}

/// The text of a value for an escaper.
fn shown(args: &[Value]) -> Result<String, String> {
    let nothing = |arg: &Value| match arg {
        Value::Nil => string("<no value>"),
        other => other.clone(),
    };
    sprint(&args.iter().map(nothing).collect::<Vec<_>>())
}

fn ternary(args: &[Value]) -> Answer {
    match args[2] {
        Value::Bool(true) => Ok(args[0].clone()),
        Value::Bool(false) => Ok(args[1].clone()),
        _ => Err("wrong type for value; expected bool".to_owned()),
    }
}

fn dict(args: &[Value]) -> Answer {
    let mut all = Fields::new();
    for pair in args.chunks(2) {
        all.insert(
            printed(&pair[0])?.into(),
            pair.get(1).cloned().unwrap_or_else(|| string("")),
        );
    }
    bounded(values::map(all))
}

fn set(args: &[Value]) -> Answer {
    let mut all = fields(args, 0)?.clone();
    all.insert(text_arg(args, 1)?.into(), args[2].clone());
    bounded(values::map(all))
}

fn unset(args: &[Value]) -> Answer {
    let mut all = fields(args, 0)?.clone();
    all.remove(text_arg(args, 1)?);
    Ok(values::map(all))
}

/// The keys, sorted. Those of sprig have no order.
fn keys(args: &[Value]) -> Answer {
    let mut all = Vec::new();
    for at in 0..args.len() {
        all.extend(some_fields(args, at)?.keys().map(string));
    }
    Ok(Value::List(all.into()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Named,
    Others,
}

fn select(args: &[Value], keep: Keep) -> Answer {
    let names: Result<Vec<&str>, String> = (1..args.len()).map(|at| text_arg(args, at)).collect();
    let names = names?;
    let wanted = |key: &str| names.contains(&key) == (keep == Keep::Named);
    Ok(values::map(
        some_fields(args, 0)?
            .iter()
            .filter(|(k, _)| wanted(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
    ))
}

fn pluck(args: &[Value]) -> Answer {
    let key = text_arg(args, 0)?;
    let mut all = Vec::new();
    for at in 1..args.len() {
        all.extend(some_fields(args, at)?.get(key).cloned());
    }
    Ok(Value::List(all.into()))
}

fn dig(args: &[Value]) -> Answer {
    let (path, fallback) = (args.len() - 2, &args[args.len() - 2]);
    let mut at = &args[args.len() - 1];
    for step in 0..path {
        let Value::Map(fields) = at else {
            return Err(format!(
                "interface conversion: interface {{}} is {}, not map[string]interface {{}}",
                type_name(at)
            ));
        };
        match fields.get(text_arg(args, step)?) {
            Some(next) => at = next,
            None => return Ok(fallback.clone()),
        }
    }
    Ok(at.clone())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Winner {
    First,
    Last,
}

fn merge(args: &[Value], winner: Winner) -> Answer {
    let mut all = fields(args, 0)?.clone();
    for at in 1..args.len() {
        merge_into(&mut all, some_fields(args, at)?, winner)?;
    }
    bounded(values::map(all))
}

fn merge_into(all: &mut Fields, other: &Fields, winner: Winner) -> Result<(), String> {
    super::limits::spend(other.len() as u64)?;
    for (key, theirs) in other {
        match (all.get_mut(key), theirs) {
            (None, _) => {
                all.insert(key.clone(), theirs.clone());
            }
            (Some(Value::Map(ours)), Value::Map(theirs)) => {
                merge_into(Arc::make_mut(ours), theirs, winner)?;
            }
            (Some(ours), _) if winner == Winner::Last || !ours.is_truthy() => {
                *ours = theirs.clone();
            }
            _ => {}
        }
    }
    Ok(())
}

fn pretty(args: &[Value]) -> Answer {
    let compact = encoded(&args[0], Escape::Html)?;
    let mut out = String::new();
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let mut chars = compact.chars().peekable();
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '{' | '[' if chars.peek().is_some_and(|n| matches!(n, '}' | ']')) => {
                out.push(c);
                out.extend(chars.next());
            }
            '{' | '[' | ',' => {
                depth += usize::from(c != ',');
                out.push(c);
                out.push('\n');
                out.push_str(&"  ".repeat(depth));
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                out.push('\n');
                out.push_str(&"  ".repeat(depth));
                out.push(c);
            }
            ':' => out.push_str(": "),
            c => {
                quoted = c == '"';
                out.push(c);
            }
        }
        if out.len() > super::limits::MAX_OUTPUT {
            return Err("the text would be too long".to_owned());
        }
    }
    Ok(string(out))
}

/// Every number is a float here, as in sprig.
fn from_json(args: &[Value]) -> Answer {
    let parsed: serde_json::Value =
        serde_json::from_str(text_arg(args, 0)?).map_err(|e| e.to_string())?;
    bounded(floats(&values::from_json(&parsed)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the original reads integers as floats too"
)]
fn floats(value: &Value) -> Value {
    match value {
        Value::Int(n) => Value::Float(*n as f64),
        Value::List(items) => Value::List(items.iter().map(floats).collect()),
        Value::Map(fields) => {
            values::map(fields.iter().map(|(k, v)| (k.clone(), floats(v))).collect())
        }
        other => other.clone(),
    }
}
