//! Regular expressions, in linear time and of bounded size.

use gotmpl::Value;
use regex::{NoExpand, Regex, RegexBuilder};

use super::entry::{Answer, Entry, entry, int_arg, text_arg};
use super::typed;
use super::values::string;

pub(super) const TABLE: &[Entry] = &[
    entry("regexMatch", 2, 2, |a| {
        Ok(Value::Bool(compile(text_arg(a, 0)?).is_ok_and(|r| {
            text_arg(a, 1).is_ok_and(|t| r.is_match(t))
        })))
    }),
    entry("mustRegexMatch", 2, 2, |a| {
        Ok(Value::Bool(
            compile(text_arg(a, 0)?)?.is_match(text_arg(a, 1)?),
        ))
    }),
    entry("regexFind", 2, 2, find),
    entry("mustRegexFind", 2, 2, find),
    entry("regexFindAll", 3, 3, find_all),
    entry("mustRegexFindAll", 3, 3, find_all),
    entry("regexReplaceAll", 3, 3, replace),
    entry("mustRegexReplaceAll", 3, 3, replace),
    entry("regexReplaceAllLiteral", 3, 3, replace_literal),
    entry("mustRegexReplaceAllLiteral", 3, 3, replace_literal),
    entry("regexSplit", 3, 3, split),
    entry("mustRegexSplit", 3, 3, split),
    entry("regexQuoteMeta", 1, 1, |a| {
        Ok(string(quote(text_arg(a, 0)?)))
    }),
];

const MAX_PATTERN: usize = 4096;

fn quote(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A pattern as Go reads it: `\w`, `\d`, `\s` and `\b` are ASCII there.
fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the pattern is longer than {MAX_PATTERN} bytes"));
    }
    super::limits::spend(200)?;
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut class = 0;
    while let Some(c) = chars.next() {
        if c != '\\' {
            class = match c {
                '[' => 1,
                ']' => 0,
                '&' | '~' | '-' if class == 1 && chars.peek() == Some(&c) => {
                    return Err(format!(
                        "{c}{c} in a character class has another meaning than in Go: escape it"
                    ));
                }
                _ => class,
            };
            out.push(c);
            continue;
        }
        match (chars.next(), class) {
            (Some('d'), 1) => out.push_str("0-9"),
            (Some('w'), 1) => out.push_str("0-9A-Za-z_"),
            (Some('s'), 1) => out.push_str(r"\t\n\f\r "),
            (Some('d'), _) => out.push_str("[0-9]"),
            (Some('w'), _) => out.push_str("[0-9A-Za-z_]"),
            (Some('s'), _) => out.push_str(r"[\t\n\f\r ]"),
            (Some('D'), 0) => out.push_str("[^0-9]"),
            (Some('W'), 0) => out.push_str("[^0-9A-Za-z_]"),
            (Some('S'), 0) => out.push_str(r"[^\t\n\f\r ]"),
            (Some('b'), 0) => out.push_str(r"(?-u:\b)"),
            (Some(c @ ('Q' | 'C' | 'B' | 'D' | 'W' | 'S' | 'Z' | '<' | '>')), _) => {
                return Err(format!(
                    r"\{c} is not supported: write the characters that it matches"
                ));
            }
            (Some(c), _) => {
                out.push('\\');
                out.push(c);
            }
            (None, _) => {
                return Err(
                    "error parsing regexp: trailing backslash at end of expression".to_owned(),
                );
            }
        }
    }
    RegexBuilder::new(&out)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 20)
        .nest_limit(100)
        .build()
        .map_err(|e| {
            format!(
                "error parsing regexp: {}",
                e.to_string().lines().last().unwrap_or_default()
            )
        })
}

fn find(args: &[Value]) -> Answer {
    let regex = compile(text_arg(args, 0)?)?;
    Ok(string(
        regex.find(text_arg(args, 1)?).map_or("", |m| m.as_str()),
    ))
}

fn find_all(args: &[Value]) -> Answer {
    let (regex, text) = (compile(text_arg(args, 0)?)?, text_arg(args, 1)?);
    let most = usize::try_from(int_arg(args, 2)?).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(most) {
        super::limits::spend(1)?;
        found.push(string(part.as_str()));
    }
    if found.is_empty() {
        return typed::no_list();
    }
    Ok(Value::List(found.into()))
}

/// The longest a replacement may become, known before anything is built.
fn check_growth(text: &str, replacement: &str) -> Result<(), String> {
    let dollars = replacement.matches('$').count();
    let each = replacement.len() + dollars * text.len();
    if (text.len() + 1).saturating_mul(each.max(1)) > 64 * super::limits::MAX_OUTPUT {
        return Err("the text would be too long after the replacement".to_owned());
    }
    Ok(())
}

fn replace(args: &[Value]) -> Answer {
    let (regex, text, replacement) = (
        compile(text_arg(args, 0)?)?,
        text_arg(args, 1)?,
        text_arg(args, 2)?,
    );
    check_growth(text, replacement)?;
    Ok(string(regex.replace_all(text, replacement)))
}

fn replace_literal(args: &[Value]) -> Answer {
    let (regex, text, replacement) = (
        compile(text_arg(args, 0)?)?,
        text_arg(args, 1)?,
        text_arg(args, 2)?,
    );
    check_growth(text, replacement)?;
    Ok(string(regex.replace_all(text, NoExpand(replacement))))
}

fn split(args: &[Value]) -> Answer {
    let (regex, text, most) = (
        compile(text_arg(args, 0)?)?,
        text_arg(args, 1)?,
        int_arg(args, 2)?,
    );
    if most == 0 {
        return typed::no_list();
    }
    if regex.is_match("") {
        return Err(
            "splitting by a pattern that matches the empty text is not supported".to_owned(),
        );
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(Value::List(regex.splitn(text, most).map(string).collect()))
}
