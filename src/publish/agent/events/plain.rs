//! A server's refusal of an object, in words that its owner may read.
//!
//! The message of a refusal names the copy and may quote it. Only harmless parts are taken from it: the path of each
//! field, the problem, and the explanation without words that name the copy. Anything in an unexpected form is left
//! out. Pure.

use hawser_runtime::cluster::complaint::{self, FieldProblem};
use hawser_sync::Key;

/// The number of fields, and the number of characters of each.
const MOST_FIELDS: usize = 5;
const LONGEST_PATH: usize = 120;
const LONGEST_DETAIL: usize = 160;

/// Words that name the copy, not the object that it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(Vec<String>);

impl Hidden {
    pub fn of<'k>(own: &Key, copies: impl Iterator<Item = &'k Key>) -> Self {
        let mut words = Vec::new();
        for key in copies {
            words.extend([&*key.name, &key.kind.kind, &key.kind.group, &key.cluster]);
            words.extend(key.namespace.as_deref());
        }
        let mut open = vec![&*own.name, &own.kind.kind, &own.kind.group];
        open.extend(own.namespace.as_deref());
        words.retain(|word| !word.is_empty() && !open.contains(word));
        let mut words: Vec<String> = words.into_iter().map(str::to_lowercase).collect();
        words.sort_unstable();
        words.dedup();
        Self(words)
    }

    /// Whether a word reveals something hidden, or may be an address.
    fn must_redact(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let parts = || word.split(|c: char| !c.is_alphanumeric() && c != '-');
        let named = |hidden: &String| match hidden.len() {
            // Short names occur in too many other words.
            0..4 => word == *hidden || parts().any(|part| part == hidden),
            _ => word.contains(hidden.as_str()),
        };
        word.contains("://")
            || word.contains(".svc")
            || is_address(&word)
            || self.0.iter().any(named)
    }

    /// Whether a text still reveals something hidden: the server may split words within a name.
    fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let mut long = self.0.iter().filter(|hidden| hidden.len() >= 4);
        long.any(|hidden| text.contains(hidden.as_str()))
    }

    /// The text without words that reveal something hidden, on one line and shortened.
    fn clean(&self, text: &str, longest: usize) -> String {
        let mut cleaned = String::new();
        let mut word = String::new();
        let flush = |cleaned: &mut String, word: &mut String| {
            cleaned.push_str(if self.must_redact(word) { "…" } else { word });
            word.clear();
        };
        for c in text.chars() {
            let c = if c.is_control() || c.is_whitespace() {
                ' '
            } else {
                c
            };
            // The characters of names and addresses keep a word together; so do `*` and `$`, for patterns.
            if c.is_alphanumeric() || "-._/:@%*$\\".contains(c) {
                word.push(c);
            } else {
                flush(&mut cleaned, &mut word);
                cleaned.push(c);
            }
        }
        flush(&mut cleaned, &mut word);
        let cleaned = cleaned.trim();
        match cleaned.char_indices().nth(longest) {
            Some((end, _)) => format!("{}…", cleaned[..end].trim_end()),
            None => cleaned.to_owned(),
        }
    }
}

/// Whether a word is the address of a machine, with or without a port.
fn is_address(word: &str) -> bool {
    if word.contains("::") {
        return true;
    }
    let numbers = word.split(['.', ':', '/']).collect::<Vec<_>>();
    let octets = numbers.iter().filter(|part| part.parse::<u8>().is_ok());
    numbers.len() >= 4 && octets.count() >= 4
}

/// The problems of an object, from the detail of its refusal as invalid. `None` if nothing of it may be repeated.
pub fn invalid(detail: &str, hidden: &Hidden) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    for wrong in &complaint::read(detail)?.wrongs {
        let words = in_words(wrong, hidden);
        if !told.contains(&words) {
            told.push(words);
        }
    }
    let more = told.len().saturating_sub(MOST_FIELDS);
    told.truncate(MOST_FIELDS);
    let mut told = told.join("; ");
    if more > 0 {
        told = format!("{told}; and {more} more");
    }
    (!told.is_empty() && !hidden.is_in(&told)).then_some(told)
}

fn in_words(wrong: &FieldProblem<'_>, hidden: &Hidden) -> String {
    let root = wrong.path.split(['.', '[']).next().unwrap_or_default();
    let what = wrong.what.to_lowercase();
    // The name and the marks in these fields are the copy's own.
    if matches!(root, "metadata" | "apiVersion" | "kind") {
        return format!("{root}: {what}");
    }
    let path = hidden.clean(wrong.path, LONGEST_PATH);
    let why = hidden.clean(wrong.why, LONGEST_DETAIL);
    let whole = wrong.path == "<nil>" || path.is_empty();
    match (whole, why.is_empty()) {
        (true, true) => what,
        (true, false) => format!("{what}: {why}"),
        (false, true) => format!("{path}: {what}"),
        (false, false) => format!("{path}: {what}: {why}"),
    }
}

#[cfg(test)]
mod tests;
