//! Flags, width and precision, and how scalars look with them.

use std::fmt::Write as _;

use crate::go_text::quote;
use crate::template::values;

#[expect(
    clippy::struct_excessive_bools,
    reason = "the five flags of the language"
)]
#[derive(Clone, Debug, Default)]
pub(super) struct Spec {
    minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    space: bool,
    zero: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

impl Spec {
    pub(super) fn flags(rest: &mut &str) -> Self {
        let mut spec = Self::default();
        let length = rest.len() - rest.trim_start_matches(['#', '0', '+', '-', ' ']).len();
        for flag in rest[..length].chars() {
            match flag {
                '#' => spec.sharp = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                '-' => spec.minus = true,
                _ => spec.space = true,
            }
        }
        *rest = &rest[length..];
        spec
    }

    /// A negative width pads on the right.
    pub(super) fn set_width(&mut self, width: i64) {
        self.minus |= width < 0;
        self.width = usize::try_from(width.unsigned_abs()).ok();
    }

    fn without_zeros(&self) -> Self {
        Self {
            zero: false,
            ..self.clone()
        }
    }

    /// Pads to the width, which counts characters.
    pub(super) fn pad(&self, out: &mut String, text: &str) {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.minus {
            out.push_str(text);
            out.extend(std::iter::repeat_n(' ', missing));
        } else {
            let with = if self.zero { '0' } else { ' ' };
            out.extend(std::iter::repeat_n(with, missing));
            out.push_str(text);
        }
    }

    /// Text, cut to the precision.
    pub(super) fn text(&self, out: &mut String, text: &str) {
        self.pad(out, self.cut(text));
    }

    fn cut<'t>(&self, text: &'t str) -> &'t str {
        let end = self.precision.and_then(|n| text.char_indices().nth(n));
        end.map_or(text, |(end, _)| &text[..end])
    }

    /// Prints a boolean; false if the verb does not fit, as for all below.
    pub(super) fn boolean(&self, out: &mut String, value: bool, verb: char) -> bool {
        let fits = matches!(verb, 't' | 'v');
        if fits {
            self.pad(out, if value { "true" } else { "false" });
        }
        fits
    }

    pub(super) fn string(&self, out: &mut String, text: &str, verb: char) -> bool {
        match verb {
            'v' | 's' => self.text(out, text),
            'x' => self.hexadecimal(out, text, Case::Lower),
            'X' => self.hexadecimal(out, text, Case::Upper),
            'q' => {
                let text = self.cut(text);
                let plain = |c: char| c == '\t' || !(c.is_control() || c == '`' || c == '\u{feff}');
                if self.sharp && text.chars().all(plain) {
                    self.pad(out, &format!("`{text}`"));
                } else {
                    self.pad(out, &self.quoted(text));
                }
            }
            _ => return false,
        }
        true
    }

    fn quoted(&self, text: &str) -> String {
        let quoted = quote(text);
        if !self.plus {
            return quoted;
        }
        let mut ascii = String::new();
        for c in quoted.chars() {
            let _ = match u32::from(c) {
                0..=0x7f => write!(ascii, "{c}"),
                code @ 0x80..=0xffff => write!(ascii, "\\u{code:04x}"),
                code => write!(ascii, "\\U{code:08x}"),
            };
        }
        ascii
    }

    fn hexadecimal(&self, out: &mut String, text: &str, case: Case) {
        let bytes = text.as_bytes();
        let bytes = &bytes[..self.precision.unwrap_or(bytes.len()).min(bytes.len())];
        let prefix = match (self.sharp, case) {
            (true, Case::Lower) => "0x",
            (true, Case::Upper) => "0X",
            (false, _) => "",
        };
        let mut digits = String::new();
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 && self.space {
                digits.push(' ');
            }
            if at == 0 || self.space {
                digits.push_str(prefix);
            }
            let _ = match case {
                Case::Lower => write!(digits, "{byte:02x}"),
                Case::Upper => write!(digits, "{byte:02X}"),
            };
        }
        self.pad(out, &digits);
    }

    pub(super) fn integer(&self, out: &mut String, n: u64, negative: bool, verb: char) -> bool {
        let signed = |n: u64| if negative { n.wrapping_neg() } else { n };
        match verb {
            'v' | 'd' => self.digits(out, negative, &n.to_string(), ""),
            'b' => self.digits(out, negative, &format!("{n:b}"), "0b"),
            'o' => {
                let digits = format!("{n:o}");
                let prefix = if digits.starts_with('0') { "" } else { "0" };
                self.digits(out, negative, &digits, prefix);
            }
            'O' => {
                let spec = Self {
                    sharp: true,
                    ..self.clone()
                };
                // The flag asks for a zero of its own.
                let prefix = if self.sharp && n != 0 { "0o0" } else { "0o" };
                spec.digits(out, negative, &format!("{n:o}"), prefix);
            }
            'x' => self.digits(out, negative, &format!("{n:x}"), "0x"),
            'X' => self.digits(out, negative, &format!("{n:X}"), "0X"),
            'c' => self.pad(out, rune(signed(n)).encode_utf8(&mut [0; 4])),
            'q' => {
                let text = match rune(signed(n)) {
                    '\'' => "'\\''".to_owned(),
                    '"' => "'\"'".to_owned(),
                    c => {
                        let quoted = self.quoted(c.encode_utf8(&mut [0; 4]));
                        format!("'{}'", &quoted[1..quoted.len() - 1])
                    }
                };
                self.pad(out, &text);
            }
            'U' => {
                let code = signed(n);
                let digits = self.precision.unwrap_or(4).max(4);
                let mut text = format!("U+{code:0digits$X}");
                let shown = u32::try_from(code).ok().and_then(char::from_u32);
                if let (true, Some(c)) = (self.sharp, shown.filter(|c| !c.is_control())) {
                    let _ = write!(text, " '{c}'");
                }
                self.without_zeros().pad(out, &text);
            }
            _ => return false,
        }
        true
    }

    fn digits(&self, out: &mut String, negative: bool, digits: &str, prefix: &str) {
        let plain = self.without_zeros();
        let sign = match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        let least = match (self.precision, self.width) {
            (Some(0), _) if digits == "0" => {
                plain.pad(out, "");
                return;
            }
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.minus => width.saturating_sub(sign.len()),
            _ => 0,
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        // Zeros in front make an octal number by themselves.
        let prefix = if self.sharp && (prefix != "0" || zeros.is_empty()) {
            prefix
        } else {
            ""
        };
        plain.pad(out, &format!("{sign}{prefix}{zeros}{digits}"));
    }

    pub(super) fn float(&self, out: &mut String, f: f64, verb: char) -> Result<bool, String> {
        let text = match verb {
            'v' | 'g' | 'G' => match self.precision {
                None => values::float(f.abs()),
                Some(precision) => general(f.abs(), precision.max(1)),
            },
            'e' | 'E' => scientific(f.abs(), self.precision.unwrap_or(6)),
            'f' | 'F' => format!("{:.*}", self.precision.unwrap_or(6), f.abs()),
            'b' | 'x' | 'X' => {
                return Err(format!("floats cannot be printed with the verb %{verb}"));
            }
            _ => return Ok(false),
        };
        if self.sharp {
            return Err("floats cannot be printed with the flag #".to_owned());
        }
        if f.is_nan() || f.is_infinite() {
            let sign = match (f.is_nan(), f.is_sign_negative(), self.space) {
                (true, ..) if self.plus => "+",
                (true, _, true) | (false, false, true) if !self.plus => " ",
                (true, ..) => "",
                (false, true, _) => "-",
                (false, false, _) => "+",
            };
            let name = if f.is_nan() { "NaN" } else { "Inf" };
            self.without_zeros().pad(out, &format!("{sign}{name}"));
            return Ok(true);
        }
        let text = if verb.is_ascii_uppercase() {
            text.to_uppercase()
        } else {
            text
        };
        let sign = match (f.is_sign_negative(), self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        if self.zero && !self.minus && !sign.is_empty() {
            out.push_str(sign);
            let left = Self {
                width: self.width.map(|width| width.saturating_sub(1)),
                ..self.clone()
            };
            left.pad(out, &text);
        } else {
            self.pad(out, &format!("{sign}{text}"));
        }
        Ok(true)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
}

/// The character of a number; what is none is the replacement character.
fn rune(n: u64) -> char {
    let c = u32::try_from(n).ok().and_then(char::from_u32);
    c.unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// `1.5e+06`: at least two digits of exponent, with its sign.
fn scientific(f: f64, decimals: usize) -> String {
    with_exponent(&format!("{f:.decimals$e}"))
}

fn with_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// `%g` with so many significant digits, none of them a zero at the end.
fn general(f: f64, digits: usize) -> String {
    if f == 0.0 || !f.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{f:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    let written = i32::try_from(mantissa.len() - usize::from(mantissa.contains('.'))).unwrap_or(0);
    let point = exponent + 1;
    let digits = i32::try_from(digits).unwrap_or(i32::MAX);
    let limit = if digits > written && written >= point {
        written
    } else {
        digits
    };
    if exponent < -4 || exponent >= limit {
        return with_exponent(&format!("{mantissa}e{exponent}"));
    }
    let decimals = usize::try_from(written - point).unwrap_or(0);
    format!("{f:.decimals$}")
}
