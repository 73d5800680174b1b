//! Go's `Sprintf`: verbs, flags, widths, argument indexes, and what it writes where a verb and its value do not fit.
//!
//! Knows nothing of templates. What it does not offer (`%#v`, `%p`, floats in base 2 or 16) is an error, never another text.

use std::fmt::{self, Write as _};

use gotmpl::Value;

use super::entry::Answer;
use super::limits::{MAX_OUTPUT, spend};
use super::typed::{self, Typed};
use super::values::{string, type_name};

mod spec;

use spec::Spec;

/// The largest width or precision.
const MAX_WIDTH: usize = 9_999;

/// The arguments: which of the others are literals, as bits; the format; what is formatted.
pub(super) fn printf(args: &[Value]) -> Answer {
    let (Some(Value::Int(literals)), Some(Value::String(format))) = (args.first(), args.get(1))
    else {
        let found = args.get(1).map_or("nothing", type_name);
        return Err(format!(
            "wrong type for value; expected string; got {found}"
        ));
    };
    let mut printer = FormatPrinter {
        out: String::new(),
        args: &args[2..],
        literals: *literals,
        next: 0,
        indexed: Index::Never,
    };
    printer.print(format)?;
    Ok(string(printer.out))
}

struct FormatPrinter<'a> {
    out: String,
    args: &'a [Value],
    /// Bit n: argument n is an integer literal, which is an `int` to Go.
    literals: i64,
    /// The argument that the next verb takes.
    next: usize,
    indexed: Index,
}

/// Explicit argument numbers, such as `%[2]d`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Never,
    Somewhere,
}

/// The rest of a format.
struct FormatRest<'f>(&'f str);

impl FormatRest<'_> {
    fn take(&mut self, c: char) -> bool {
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        match number.parse::<usize>() {
            _ if number.is_empty() => Ok(None),
            Ok(number) if number <= MAX_WIDTH => Ok(Some(number)),
            _ => Err(format!("a width or precision must be at most {MAX_WIDTH}")),
        }
    }
}

impl FormatPrinter<'_> {
    fn print(&mut self, format: &str) -> Result<(), String> {
        let mut rest = FormatRest(format);
        while let Some(at) = rest.0.find('%') {
            self.out.push_str(&rest.0[..at]);
            rest.0 = &rest.0[at + 1..];
            self.directive(&mut rest)?;
            self.bounded()?;
        }
        self.out.push_str(rest.0);
        if self.indexed == Index::Never && self.next < self.args.len() {
            self.extra()?;
        }
        self.bounded()
    }

    fn write_text(&mut self, text: fmt::Arguments<'_>) {
        self.out
            .write_fmt(text)
            .expect("writing to a String does not fail");
    }

    fn bounded(&self) -> Result<(), String> {
        if self.out.len() > MAX_OUTPUT {
            return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
        }
        Ok(())
    }

    fn directive(&mut self, rest: &mut FormatRest<'_>) -> Result<(), String> {
        spend(1)?;
        let mut spec = Spec::flags(&mut rest.0);
        let mut good = true;
        let mut after = self.index(rest, &mut good);
        if rest.take('*') {
            match self.integer()? {
                Some(width) => spec.set_width(width),
                None => self.out.push_str("%!(BADWIDTH)"),
            }
            after = false;
        } else {
            spec.width = rest.number()?;
            good &= !(after && spec.width.is_some());
        }
        if rest.take('.') {
            good &= !after;
            after = self.index(rest, &mut good);
            if rest.take('*') {
                match self.integer()? {
                    Some(precision) if precision >= 0 => {
                        spec.precision = usize::try_from(precision).ok();
                    }
                    _ => self.out.push_str("%!(BADPREC)"),
                }
                after = false;
            } else {
                spec.precision = Some(rest.number()?.unwrap_or(0));
            }
        }
        if !after {
            self.index(rest, &mut good);
        }
        let Some(verb) = rest.0.chars().next() else {
            self.out.push_str("%!(NOVERB)");
            return Ok(());
        };
        rest.0 = &rest.0[verb.len_utf8()..];
        if verb == '%' {
            self.out.push('%');
        } else if !good {
            self.write_text(format_args!("%!{verb}(BADINDEX)"));
        } else if self.next >= self.args.len() {
            self.write_text(format_args!("%!{verb}(MISSING)"));
        } else {
            spec.plus &= verb != 'v';
            self.next += 1;
            self.argument(self.next - 1, verb, &spec)?;
        }
        Ok(())
    }

    /// `[n]`: whether the next argument was chosen.
    fn index(&mut self, rest: &mut FormatRest<'_>, good: &mut bool) -> bool {
        let Some(inner) = rest.0.strip_prefix('[') else {
            return false;
        };
        self.indexed = Index::Somewhere;
        let Some((number, after)) = inner.split_once(']') else {
            rest.0 = inner;
            *good = false;
            return false;
        };
        rest.0 = after;
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        match number.parse::<usize>() {
            Ok(n) if digits && (1..=self.args.len()).contains(&n) => {
                self.next = n - 1;
                true
            }
            _ => {
                *good = false;
                digits
            }
        }
    }

    /// An argument that is a width or a precision.
    fn integer(&mut self) -> Result<Option<i64>, String> {
        let found = self.args.get(self.next);
        self.next += usize::from(found.is_some());
        match found {
            Some(Value::Int(n)) if n.unsigned_abs() > MAX_WIDTH as u64 => {
                Err(format!("a width or precision must be at most {MAX_WIDTH}"))
            }
            Some(Value::Int(n)) => Ok(Some(*n)),
            _ => Ok(None),
        }
    }

    fn argument(&mut self, at: usize, verb: char, spec: &Spec) -> Result<(), String> {
        let arg = &self.args[at];
        match (arg, verb) {
            (Value::Nil, 'v' | 'T') => spec.pad(&mut self.out, "<nil>"),
            (Value::Nil, _) => self.write_text(format_args!("%!{verb}(<nil>)")),
            (_, 'T') => {
                let name = self.type_of(at);
                spec.text(&mut self.out, name);
            }
            (_, 'v') if spec.sharp => return Err("the verb %#v is not supported".to_owned()),
            (_, 'p') => return Err("the verb %p is not supported".to_owned()),
            _ => {
                let name = self.type_of(at);
                self.value(arg, verb, spec, name)?;
            }
        }
        Ok(())
    }

    fn type_of(&self, at: usize) -> &'static str {
        match &self.args[at] {
            Value::Int(_) if at < 63 && self.literals >> at & 1 == 1 => "int",
            other => type_name(other),
        }
    }

    fn value(&mut self, value: &Value, verb: char, spec: &Spec, name: &str) -> Result<(), String> {
        spend(1)?;
        self.bounded()?;
        if let Some(Typed::Version { text }) = typed::of(value) {
            return match verb {
                'v' | 's' | 'q' | 'x' | 'X' => self.value(&string(&text), verb, spec, name),
                _ => Err(format!("a version cannot be printed with the verb %{verb}")),
            };
        }
        let fits = match value {
            Value::Nil => {
                self.out.push_str("<nil>");
                true
            }
            Value::Bool(b) => spec.boolean(&mut self.out, *b, verb),
            Value::Int(n) => spec.integer(&mut self.out, n.unsigned_abs(), *n < 0, verb),
            Value::Uint(n) => spec.integer(&mut self.out, *n, false, verb),
            Value::Float(f) => spec.float(&mut self.out, *f, verb)?,
            Value::String(text) => spec.string(&mut self.out, text, verb),
            Value::List(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.out.push(' ');
                    }
                    self.value(item, verb, spec, type_name(item))?;
                }
                self.out.push(']');
                true
            }
            Value::Map(fields) => {
                self.out.push_str("map[");
                for (at, (key, item)) in fields.iter().enumerate() {
                    if at > 0 {
                        self.out.push(' ');
                    }
                    self.value(&Value::String(key.clone()), verb, spec, "string")?;
                    self.out.push(':');
                    self.value(item, verb, spec, type_name(item))?;
                }
                self.out.push(']');
                true
            }
            other => spec.string(&mut self.out, &other.to_string(), verb),
        };
        if !fits {
            self.write_text(format_args!("%!{verb}({name}="));
            self.value(value, 'v', spec, name)?;
            self.out.push(')');
        }
        Ok(())
    }

    fn extra(&mut self) -> Result<(), String> {
        self.out.push_str("%!(EXTRA ");
        for at in self.next..self.args.len() {
            if at > self.next {
                self.out.push_str(", ");
            }
            let arg = &self.args[at];
            if *arg != Value::Nil {
                self.out.push_str(self.type_of(at));
                self.out.push('=');
            }
            self.value(arg, 'v', &Spec::default(), "")?;
        }
        self.out.push(')');
        Ok(())
    }
}

#[cfg(test)]
mod tests;
