//! Values as text: the results of `string(x)` and `format`, and values in messages.

use std::fmt::Write as _;

use kube_lang::go_text::{float_text, quote};

use crate::{
    fault::{Fault, Meter},
    value::Val,
};

/// A value in a message or as text.
pub(crate) fn shown(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => double(*value),
        Val::Text(text) => text.as_str().to_owned(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Duration(nanos) => duration(*nanos),
        Val::Time(time) => time.to_string(),
        Val::Kind(name) => name.as_ref().to_owned(),
        other => format!("<{}>", other.type_name()),
    }
}

fn double(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        float_text(value)
    }
}

/// Seconds with an `s`.
fn duration(nanos: i64) -> String {
    let (whole, part) = (nanos / 1_000_000_000, (nanos % 1_000_000_000).abs());
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    if part == 0 {
        return format!("{whole}s");
    }
    let fraction = format!("{part:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}

/// `"%s".format([…])`
pub(super) fn format(
    template: &str,
    arguments: &[Val<'_>],
    meter: &Meter,
) -> Result<String, Fault> {
    let mut out = String::with_capacity(template.len());
    let mut chars = template.chars().peekable();
    let mut arguments = arguments.iter();
    let mut used = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let precision = if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            Some(digits.parse::<usize>().unwrap_or(0).min(1000))
        } else {
            None
        };
        let Some(verb) = chars.next() else {
            return Err(Fault::new("unexpected end of string"));
        };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(argument) = arguments.next() else {
            return Err(Fault::Error(format!("index {used} out of range")));
        };
        used += 1;
        let before = out.len();
        print_directive(&mut out, verb, precision, argument, meter).map_err(explained)?;
        meter.bytes(out.len() - before)?;
    }
    Ok(out)
}

fn explained(fault: Fault) -> Fault {
    match fault {
        Fault::Error(why) => Fault::Error(format!("error during formatting: {why}")),
        Fault::Exhausted => Fault::Exhausted,
    }
}

fn print_directive(
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Val<'_>,
    meter: &Meter,
) -> Result<(), Fault> {
    let wrong = |verb: &str, takes: &str| {
        Err(Fault::Error(format!(
            "{verb} can only be used on {takes}, was given {}",
            value.type_name()
        )))
    };
    let written = match (verb, value) {
        ('s', _) => return text(out, value, meter),
        ('d', Val::Int(_) | Val::Uint(_)) => write!(out, "{}", shown(value)),
        ('d', Val::Double(number)) if number.is_nan() || number.is_infinite() => {
            write!(out, "{}", infinite(*number))
        }
        ('d', _) => return wrong("decimal clause", "integers"),
        ('f', _) => match number(value) {
            Some(number) if number.is_finite() => {
                write!(out, "{number:.*}", precision.unwrap_or(6))
            }
            Some(number) => write!(out, "{}", infinite(number)),
            None => return wrong("fixed-point clause", "doubles"),
        },
        ('e', _) => match number(value) {
            Some(number) if number.is_finite() => scientific(out, number),
            Some(number) => write!(out, "{}", infinite(number)),
            None => return wrong("scientific clause", "doubles"),
        },
        ('b', Val::Int(number)) => signed(out, *number, |n| format!("{n:b}")),
        ('b', Val::Uint(number)) => write!(out, "{number:b}"),
        ('b', Val::Bool(value)) => write!(out, "{}", u8::from(*value)),
        ('b', _) => return wrong("only integers and bools can be formatted as binary", "them"),
        ('o', Val::Int(number)) => signed(out, *number, |n| format!("{n:o}")),
        ('o', Val::Uint(number)) => write!(out, "{number:o}"),
        ('o', _) => return wrong("octal clause", "integers"),
        ('x', Val::Int(number)) => signed(out, *number, |n| format!("{n:x}")),
        ('X', Val::Int(number)) => signed(out, *number, |n| format!("{n:X}")),
        ('x', Val::Uint(number)) => write!(out, "{number:x}"),
        ('X', Val::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Val::Text(text)) => hex(out, text.as_str().as_bytes(), verb),
        ('x' | 'X', Val::Bytes(bytes)) => hex(out, bytes, verb),
        ('x' | 'X', _) => {
            return wrong(
                "only integers, byte buffers, and strings can be formatted as hex",
                "them",
            );
        }
        _ => {
            return Err(Fault::Error(format!(
                "unrecognized formatting clause \"{verb}\""
            )));
        }
    };
    written.map_err(|_| Fault::new("the result cannot be written"))
}

/// As in print: `1.234568×10⁰⁴`.
fn scientific(out: &mut String, number: f64) -> std::fmt::Result {
    let text = format!("{number:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    write!(out, "{digits}×10{sign}")?;
    for digit in format!("{exponent:0>2}").bytes() {
        let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let nth = usize::from(digit.saturating_sub(b'0'));
        out.push(raised.get(nth).copied().unwrap_or('⁰'));
    }
    Ok(())
}

fn infinite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
}

#[expect(clippy::cast_precision_loss, reason = "as conversions to doubles are")]
fn number(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Int(number) => Some(*number as f64),
        Val::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

fn signed(out: &mut String, number: i64, digits: fn(u64) -> String) -> std::fmt::Result {
    let sign = if number < 0 { "-" } else { "" };
    write!(out, "{sign}{}", digits(number.unsigned_abs()))
}

fn hex(out: &mut String, bytes: &[u8], verb: char) -> std::fmt::Result {
    for byte in bytes {
        if verb == 'x' {
            write!(out, "{byte:02x}")?;
        } else {
            write!(out, "{byte:02X}")?;
        }
    }
    Ok(())
}

/// `%s`: lists and maps are written out, with keys in order.
fn text(out: &mut String, value: &Val<'_>, meter: &Meter) -> Result<(), Fault> {
    if value.has_parts() {
        return part(out, value, meter);
    }
    match value {
        Val::Optional(_) | Val::Opaque(_) => Err(Fault::Error(format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
            value.type_name()
        ))),
        other => {
            meter.bytes(other.as_text().map_or(0, str::len))?;
            out.push_str(&shown(other));
            Ok(())
        }
    }
}

/// A value inside of a list or a map, written so that its type can be told.
fn part(out: &mut String, value: &Val<'_>, meter: &Meter) -> Result<(), Fault> {
    meter.charge(1)?;
    if let Some(items) = value.items(meter) {
        out.push('[');
        for (nth, item) in items?.iter().enumerate() {
            if nth > 0 {
                out.push_str(", ");
            }
            part(out, item, meter)?;
        }
        out.push(']');
        return Ok(());
    }
    if let Some(entries) = value.entries(meter) {
        let mut written = Vec::new();
        for (key, value) in entries? {
            let mut name = String::new();
            part(&mut name, &key, meter)?;
            written.push((name, value));
        }
        written.sort_by(|(a, _), (b, _)| a.cmp(b));
        out.push('{');
        for (nth, (key, value)) in written.iter().enumerate() {
            if nth > 0 {
                out.push_str(", ");
            }
            out.push_str(key);
            out.push(':');
            part(out, value, meter)?;
        }
        out.push('}');
        return Ok(());
    }
    meter.bytes(value.as_text().map_or(0, str::len))?;
    let _ = match value {
        Val::Text(text) => write!(out, "{}", quote(text.as_str())),
        Val::Bytes(_) => write!(out, "b{}", quote(&shown(value))),
        Val::Duration(_) => write!(out, "duration({})", quote(&shown(value))),
        Val::Time(_) => write!(out, "timestamp({})", quote(&shown(value))),
        Val::Double(number) if !number.is_finite() => {
            write!(out, "\"{}\"", infinite(*number))
        }
        Val::Double(number) => write!(out, "{number:.6}"),
        other => write!(out, "{}", shown(other)),
    };
    Ok(())
}
