//! Arithmetic and conversions, lenient as in sprig: text that is not a number counts as 0.

use gotmpl::Value;

use super::entry::{ANY, Answer, Entry, entry, int_arg};
use super::values::string;

pub(super) const TABLE: &[Entry] = &[
    // The digits of a value, read as an octal number.
    entry("toDecimal", 1, 1, |a| {
        let digits = super::values::printed(&a[0])?;
        Ok(Value::Int(
            i64::from_str_radix(&digits, 8).unwrap_or_default(),
        ))
    }),
    entry("int", 1, 1, |a| Ok(Value::Int(integer(&a[0])))),
    entry("int64", 1, 1, |a| Ok(Value::Int(integer(&a[0])))),
    entry("float64", 1, 1, |a| Ok(Value::Float(real(&a[0])))),
    entry("atoi", 1, 1, |a| {
        Ok(Value::Int(
            super::entry::text_arg(a, 0)?.parse().unwrap_or_default(),
        ))
    }),
    entry("add", 0, ANY, |a| {
        Ok(Value::Int(
            a.iter().fold(0i64, |sum, v| sum.wrapping_add(integer(v))),
        ))
    }),
    entry("add1", 1, 1, |a| {
        Ok(Value::Int(integer(&a[0]).wrapping_add(1)))
    }),
    entry("sub", 2, 2, |a| {
        Ok(Value::Int(integer(&a[0]).wrapping_sub(integer(&a[1]))))
    }),
    entry("mul", 1, ANY, |a| {
        Ok(Value::Int(
            a.iter()
                .fold(1i64, |product, v| product.wrapping_mul(integer(v))),
        ))
    }),
    entry("div", 2, 2, |a| integer_fold(a, i64::wrapping_div)),
    entry("mod", 2, 2, |a| integer_fold(a, i64::wrapping_rem)),
    entry("max", 1, ANY, |a| {
        Ok(Value::Int(a.iter().map(integer).max().unwrap_or_default()))
    }),
    entry("biggest", 1, ANY, |a| {
        Ok(Value::Int(a.iter().map(integer).max().unwrap_or_default()))
    }),
    entry("min", 1, ANY, |a| {
        Ok(Value::Int(a.iter().map(integer).min().unwrap_or_default()))
    }),
    entry("maxf", 1, ANY, |a| {
        Ok(Value::Float(
            a.iter().map(real).fold(f64::NEG_INFINITY, f64::max),
        ))
    }),
    entry("minf", 1, ANY, |a| {
        Ok(Value::Float(
            a.iter().map(real).fold(f64::INFINITY, f64::min),
        ))
    }),
    entry("ceil", 1, 1, |a| Ok(Value::Float(real(&a[0]).ceil()))),
    entry("floor", 1, 1, |a| Ok(Value::Float(real(&a[0]).floor()))),
    entry("round", 2, 3, round),
    entry("addf", 0, ANY, |a| {
        decimal(a, |x, y| Some((x.checked_add(y)?, 0)))
    }),
    entry("add1f", 1, 1, |a| {
        decimal(&[a[0].clone(), Value::Int(1)], |x, y| {
            Some((x.checked_add(y)?, 0))
        })
    }),
    entry("subf", 1, ANY, |a| {
        decimal(a, |x, y| Some((x.checked_sub(y)?, 0)))
    }),
    entry("mulf", 1, ANY, |a| {
        decimal(a, |x, y| Some((x.checked_mul(y)?, 1)))
    }),
    entry("divf", 1, ANY, divf),
    entry("until", 1, 1, |a| {
        let end = int_arg(a, 0)?;
        steps(0, end, if end < 0 { -1 } else { 1 })
            .map(|l| Value::List(l.into_iter().map(Value::Int).collect()))
    }),
    entry("untilStep", 3, 3, until_step),
    entry("seq", 0, ANY, seq),
];

#[expect(clippy::cast_possible_truncation, reason = "the original truncates")]
fn integer(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        // Out of range, Go on amd64 returns the smallest integer.
        Value::Float(f) if f.is_nan() || f.abs() >= 9_223_372_036_854_775_808.0 => i64::MIN,
        Value::Float(f) => *f as i64,
        Value::Bool(b) => i64::from(*b),
        Value::String(s) => text_integer(s),
        _ => 0,
    }
}

/// Decimal, or by its prefix hexadecimal, octal or binary.
fn text_integer(text: &str) -> i64 {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    let gaps = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if digits.starts_with(['+', '-']) || gaps {
        return 0;
    }
    let digits = digits.replace('_', "");
    i64::from_str_radix(&format!("{sign}{digits}"), radix).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "the original converts so")]
fn real(value: &Value) -> f64 {
    match value {
        Value::Int(n) => *n as f64,
        Value::Float(f) => *f,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::String(s) => s.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

fn integer_fold(args: &[Value], op: fn(i64, i64) -> i64) -> Answer {
    match integer(&args[1]) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        by => Ok(Value::Int(op(integer(&args[0]), by))),
    }
}

fn round(args: &[Value]) -> Answer {
    let digits = i32::try_from(int_arg(args, 1)?).unwrap_or_default();
    let limit = if args.len() > 2 { real(&args[2]) } else { 0.5 };
    let power = 10f64.powi(digits);
    let scaled = real(&args[0]) * power;
    let up = scaled.fract() >= limit;
    Ok(Value::Float(
        if up { scaled.ceil() } else { scaled.floor() } / power,
    ))
}

const PLACES: u32 = 12;

/// A decimal as an integer and its places. sprig computes in decimals, so that 0.1 and 0.2 make 0.3.
fn scaled(value: &Value) -> Result<i128, String> {
    let f = real(value);
    let text = format!("{f}");
    let (head, tail) = text.split_once('.').unwrap_or((&text, ""));
    if !f.is_finite() || head.len() > 16 || tail.len() > PLACES as usize {
        return Err("the number has too many digits for decimal arithmetic".to_owned());
    }
    format!("{head}{tail}{}", "0".repeat(PLACES as usize - tail.len()))
        .parse()
        .map_err(|_| "not a decimal number".to_owned())
}

fn unscaled(value: i128, places: u32) -> Answer {
    let digits = value.unsigned_abs().to_string();
    let digits = format!("{digits:0>width$}", width = places as usize + 1);
    let (head, tail) = digits.split_at(digits.len() - places as usize);
    let text = format!("{}{head}.{tail}", if value < 0 { "-" } else { "" });
    text.parse()
        .map(Value::Float)
        .map_err(|_| "not a decimal number".to_owned())
}

fn decimal(args: &[Value], op: fn(i128, i128) -> Option<(i128, u32)>) -> Answer {
    let Some(first) = args.first() else {
        return Ok(Value::Float(0.0));
    };
    let (mut total, scale) = (scaled(first)?, 10i128.pow(PLACES));
    for arg in &args[1..] {
        let (next, extra) = op(total, scaled(arg)?).ok_or("the number is too large")?;
        if extra > 0 && next % scale != 0 {
            return Err("the product has too many digits for decimal arithmetic".to_owned());
        }
        total = if extra > 0 { next / scale } else { next };
    }
    unscaled(total, PLACES)
}

/// Sixteen places, as in sprig.
fn divf(args: &[Value]) -> Answer {
    let mut total = scaled(&args[0])?;
    let (one, more) = (10i128.pow(16), 10i128.pow(16 - PLACES));
    total = total.checked_mul(more).ok_or("the number is too large")?;
    for arg in &args[1..] {
        let by = scaled(arg)? * more;
        if by == 0 {
            return Err("decimal division by 0".to_owned());
        }
        let product = total.checked_mul(one).ok_or("the number is too large")?;
        let (quotient, rest) = (product / by, product % by);
        let away = rest.unsigned_abs() * 2 >= by.unsigned_abs();
        total = quotient
            + if away {
                if (product < 0) == (by < 0) { 1 } else { -1 }
            } else {
                0
            };
    }
    unscaled(total, 16)
}

/// From `start` to before `end`.
fn steps(start: i64, end: i64, step: i64) -> Result<Vec<i64>, String> {
    let count = match step {
        0 => 0,
        step => {
            (i128::from(end) - i128::from(start) + i128::from(step) - i128::from(step.signum()))
                / i128::from(step)
        }
    };
    let Ok(count) = usize::try_from(count.max(0)) else {
        return Err("the list would have too many numbers".to_owned());
    };
    if count > 50_000 {
        return Err("the list would have more than 50000 numbers".to_owned());
    }
    super::limits::spend(count as u64)?;
    Ok((0..count)
        .scan(start, |at, _| {
            Some(std::mem::replace(at, at.wrapping_add(step)))
        })
        .collect())
}

fn until_step(args: &[Value]) -> Answer {
    let numbers = steps(int_arg(args, 0)?, int_arg(args, 1)?, int_arg(args, 2)?)?;
    Ok(Value::List(numbers.into_iter().map(Value::Int).collect()))
}

fn seq(args: &[Value]) -> Answer {
    let n: Result<Vec<i64>, String> = (0..args.len()).map(|at| int_arg(args, at)).collect();
    let (start, end, step) = match n?.as_slice() {
        [end] => (1, *end, if *end < 1 { -1 } else { 1 }),
        [start, end] => (*start, *end, if end < start { -1 } else { 1 }),
        [start, step, end] if (*step > 0) == (end > start) || start == end => (*start, *end, *step),
        _ => return Ok(string("")),
    };
    let beyond = if step > 0 {
        end.saturating_add(1)
    } else {
        end.saturating_sub(1)
    };
    let numbers: Vec<String> = steps(start, beyond, step)?
        .iter()
        .map(ToString::to_string)
        .collect();
    Ok(string(numbers.join(" ")))
}
