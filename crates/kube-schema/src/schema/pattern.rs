//! Patterns of schemas: written for Go's regular expressions, run by ours.
//!
//! Both are automata without backtracking; they differ in what `\w` and its like mean and in what
//! must be escaped, which is bridged here by rewriting.

use regex::Regex;

/// A compiled pattern with its text, which errors quote.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, regex::Error> {
        Ok(Self {
            text: text.to_owned(),
            regex: Regex::new(&rewrite(text))?,
        })
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// The first part of a text that matches.
    pub(super) fn find<'v>(&self, value: &'v str) -> Option<&'v str> {
        self.regex.find(value).map(|found| found.as_str())
    }

    /// All parts of a text that match, one after the other.
    pub(super) fn find_all<'v>(&self, value: &'v str) -> impl Iterator<Item = &'v str> {
        self.regex.find_iter(value).map(|found| found.as_str())
    }
}

/// A class that Go takes as ASCII; the members alone, and what follows `[^` for the negation.
fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        _ => return None,
    })
}

fn rewrite(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(tail, &mut out),
            '[' => rest = class(tail, &mut out),
            '{' if !is_repetition(tail) => {
                out.push_str(r"\{");
                rest = tail;
            }
            c => {
                out.push(c);
                rest = tail;
            }
        }
    }
    out
}

/// What follows a backslash; returns what is left.
fn escape<'a>(tail: &'a str, out: &mut String) -> &'a str {
    let Some(c) = tail.chars().next() else {
        out.push('\\');
        return tail;
    };
    let after = &tail[c.len_utf8()..];
    match c {
        'b' => out.push_str(r"(?-u:\b)"),
        'B' => out.push_str(r"(?-u:\B)"),
        'Q' => {
            let (quoted, rest) = after.split_once(r"\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        c => {
            if let Some(class) = perl_class(c) {
                out.push_str(class);
            } else {
                out.push('\\');
                out.push(c);
            }
        }
    }
    after
}

/// A class in brackets from after its `[`; returns what is left behind its `]`.
fn class<'a>(tail: &'a str, out: &mut String) -> &'a str {
    out.push('[');
    let mut rest = tail;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str(r"\]");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            ']' => {
                out.push(']');
                return after;
            }
            '[' => {
                if let Some(named) = rest.strip_prefix("[:")
                    && let Some((name, behind)) = named.split_once(":]")
                {
                    out.push_str("[:");
                    out.push_str(name);
                    out.push_str(":]");
                    rest = behind;
                    continue;
                }
                out.push_str(r"\[");
            }
            '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '-' if after.starts_with('-') => out.push_str(r"\-"),
            '\\' => {
                rest = escape(after, out);
                continue;
            }
            c => out.push(c),
        }
        rest = after;
    }
    rest
}

/// Whether what follows a `{` makes it a repetition; Go takes any other `{` for itself.
fn is_repetition(tail: &str) -> bool {
    let Some((range, _)) = tail.split_once('}') else {
        return false;
    };
    let (min, max) = range.split_once(',').unwrap_or((range, ""));
    let digits = |s: &str| s.bytes().all(|c| c.is_ascii_digit());
    !min.is_empty() && digits(min) && digits(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let pattern = Pattern::new(pattern).unwrap();
        for value in matching {
            assert!(pattern.matches(value), "{value:?}");
        }
        for value in other {
            assert!(!pattern.matches(value), "{value:?}");
        }
    }

    #[test]
    fn classes_are_ascii_as_in_go() {
        check(r"^\w+\d$", &["a1"], &["é1", "a\u{661}"]);
        check(r"^[\w-]+$", &["a-b_1"], &["a b", "é"]);
        check(r"^\S$", &["\u{a0}", "x"], &[" ", "\t"]);
        check(r"\bcat\b", &["a cat", "écaté cat"], &["concat"]);
    }

    #[test]
    fn what_go_takes_literally_is_literal() {
        check(r"^{a}$", &["{a}"], &["a"]);
        check(r"^a{2}$", &["aa"], &["a{2}"]);
        check(r"^[[a&&b~~]$", &["[", "a", "&", "~"], &["c"]);
        check(r"^[]a]$", &["]", "a"], &["b"]);
        check(r"^\Qa.b\E$", &["a.b"], &["axb"]);
        check(r"^\/\-$", &["/-"], &[]);
        check(r"^[[:alpha:]_]$", &["a", "_"], &["1"]);
        assert!(Pattern::new("(").is_err());
        assert!(Pattern::new("(?=a)").is_err());
    }
}
