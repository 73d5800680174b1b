//! Numbers, text and durations as Go prints and reads them.

use std::fmt::Write as _;

/// A float in the shortest form that reads back, with an exponent outside of 1e-4 to 1e6.
pub fn float_text(float: f64) -> String {
    let size = float.abs();
    if float == 0.0 || (1e-4..1e6).contains(&size) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// A string in double quotes with Go's escapes, as of `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c != ' '
                && (c.is_whitespace()
                    || c.is_control()
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')) =>
            {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The nanoseconds of a duration such as `1h30m` or `-1.5s`.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(times(number, unit)?)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A decimal number times a whole one, rounded down.
pub fn times(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    Some(digits.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        for (text, wanted) in [
            ("1h15m30.5s", Some(4_530_500_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            (".s", None),
            ("3x", None),
        ] {
            assert_eq!(parse_duration(text), wanted, "{text}");
        }
    }
}
