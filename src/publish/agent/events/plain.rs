//! What a server said against an object, in words that its owner may read.
//!
//! The message of a refusal names the copy and may quote it. What is taken from it is what is known to
//! be harmless: the path of each field, what is wrong with it, and the explanation without anything
//! that names the copy. Whatever does not look as expected is left out. Pure.

use hawser_sync::Key;

/// What precedes the server's own words in the detail of a refusal.
const SAID: &str = "refused as invalid: ";
/// What stands between the object and the list of what is wrong.
const LIST: &str = "\" is invalid: ";

/// So many fields are told, and of each so many characters.
const MOST_FIELDS: usize = 5;
const LONGEST_PATH: usize = 120;
const LONGEST_DETAIL: usize = 160;
/// More of a message is not read: somebody else may have made it as long as can be.
const LONGEST_MESSAGE: usize = 16 << 10;
/// A field begins within so many bytes or not at all.
const LONGEST_HEAD: usize = 256;

/// How a server words what is wrong with a field, and whether a value follows.
const WRONGS: &[(&str, Value)] = &[
    ("Not found", Value::Follows),
    ("Required value", Value::None),
    ("Duplicate value", Value::Follows),
    ("Invalid value", Value::Follows),
    ("Unsupported value", Value::Follows),
    ("Forbidden", Value::None),
    ("Too long", Value::None),
    ("Too many", Value::Follows),
    ("Too few", Value::Follows),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Follows,
    None,
}

/// Words that name the copy and not the object that it was made from.
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

    /// Whether a word of a text says what is hidden, or may be an address.
    fn hides(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let parts = || word.split(|c: char| !c.is_alphanumeric() && c != '-');
        let named = |hidden: &String| match hidden.len() {
            // Short names are found inside of too many words.
            0..4 => word == *hidden || parts().any(|part| part == hidden),
            _ => word.contains(hidden.as_str()),
        };
        word.contains("://")
            || word.contains(".svc")
            || is_address(&word)
            || self.0.iter().any(named)
    }

    /// Whether a text still says what is hidden: words of the server may split where names do not.
    fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let mut long = self.0.iter().filter(|hidden| hidden.len() >= 4);
        long.any(|hidden| text.contains(hidden.as_str()))
    }

    /// The text without words that name what is hidden, on one line and not too long.
    fn clean(&self, text: &str, longest: usize) -> String {
        let mut cleaned = String::new();
        let mut word = String::new();
        let flush = |cleaned: &mut String, word: &mut String| {
            cleaned.push_str(if self.hides(word) { "…" } else { word });
            word.clear();
        };
        for c in text.chars() {
            let c = if c.is_control() || c.is_whitespace() {
                ' '
            } else {
                c
            };
            // What names and addresses consist of stays together; `*` and `$` do for patterns.
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

/// Whether a word is an address of a machine, with or without a port.
fn is_address(word: &str) -> bool {
    if word.contains("::") {
        return true;
    }
    let numbers = word.split(['.', ':', '/']).collect::<Vec<_>>();
    let octets = numbers.iter().filter(|part| part.parse::<u8>().is_ok());
    numbers.len() >= 4 && octets.count() >= 4
}

/// What is wrong with an object, by the detail of its refusal as invalid. None where nothing of it may
/// be repeated.
pub fn invalid(detail: &str, hidden: &Hidden) -> Option<String> {
    let (_, said) = detail.split_once(SAID)?;
    let (object, list) = said.split_once(LIST)?;
    let (kind, _) = object.split_once(" \"")?;
    if kind.contains(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-') {
        return None;
    }
    let list = start(list.trim(), LONGEST_MESSAGE);
    let list = list
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'))
        .unwrap_or(list);
    let wrongs = read(list);
    let mut told: Vec<String> = Vec::new();
    for wrong in &wrongs {
        let words = wrong.in_words(hidden);
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

/// As much of a text as fits into so many bytes.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// One field and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
struct Wrong<'t> {
    path: &'t str,
    what: &'static str,
    why: &'t str,
}

impl Wrong<'_> {
    fn in_words(&self, hidden: &Hidden) -> String {
        let root = self.path.split(['.', '[']).next().unwrap_or_default();
        let what = self.what.to_lowercase();
        // These are the copy's own: its name, its marks.
        if matches!(root, "metadata" | "apiVersion" | "kind") {
            return format!("{root}: {what}");
        }
        let path = hidden.clean(self.path, LONGEST_PATH);
        // Schemas repeat the path in the explanation.
        let why = self.why.strip_prefix(self.path).unwrap_or(self.why);
        let why = why.strip_prefix(" in body ").unwrap_or(why);
        let why = hidden.clean(why, LONGEST_DETAIL);
        let whole = self.path == "<nil>" || path.is_empty();
        match (whole, why.is_empty()) {
            (true, true) => what,
            (true, false) => format!("{what}: {why}"),
            (false, true) => format!("{path}: {what}"),
            (false, false) => format!("{path}: {what}: {why}"),
        }
    }
}

/// Reads a list of what is wrong with fields, as far as it looks like one.
fn read(list: &str) -> Vec<Wrong<'_>> {
    let mut wrongs = Vec::new();
    let mut rest = list;
    while let Some((path, what, value, after)) = head(rest) {
        let (why, next) = explained(after, value);
        wrongs.push(Wrong { path, what, why });
        rest = next;
    }
    wrongs
}

/// `path: What is wrong`, and what follows it.
fn head(text: &str) -> Option<(&str, &'static str, Value, &str)> {
    let colon = start(text, LONGEST_HEAD).find(": ")?;
    let (path, after) = (&text[..colon], &text[colon + 2..]);
    let first = path.chars().next()?;
    let plausible = first.is_ascii_alphabetic() || path == "<nil>";
    if !plausible || path.contains(['"', '{', '}', ',', '\n']) || path.contains(' ') {
        return None;
    }
    WRONGS.iter().find_map(|(what, value)| {
        let after = after.strip_prefix(what)?;
        let ends = after.is_empty() || after.starts_with(": ") || after.starts_with(", ");
        ends.then_some((path, *what, *value, after))
    })
}

/// The explanation of one field, and the rest of the list.
fn explained(text: &str, value: Value) -> (&str, &str) {
    let Some(after) = text.strip_prefix(": ") else {
        return ("", text.strip_prefix(", ").unwrap_or_default());
    };
    let why = match value {
        Value::None => Some(after),
        Value::Follows => match skip_value(after) {
            Some(rest) if rest.is_empty() || rest.starts_with(", ") => {
                return ("", rest.strip_prefix(", ").unwrap_or_default());
            }
            Some(rest) => rest.strip_prefix(": "),
            None => None,
        },
    };
    // What cannot be told from a value is not repeated, but the next field is looked for in it.
    let (start, told) = why.map_or((after, false), |why| (why, true));
    let mut commas = start.match_indices(", ");
    let end = commas.find(|(at, _)| head(&start[at + 2..]).is_some());
    let (why, rest) = match end {
        Some((at, _)) => (&start[..at], &start[at + 2..]),
        None => (start, ""),
    };
    (if told { why } else { "" }, rest)
}

/// What comes after a value as a server prints one: a quoted text, a word, or something in brackets.
fn skip_value(text: &str) -> Option<&str> {
    if text.starts_with('"') {
        return skip_quoted(text);
    }
    let plain = text.find(|c: char| c.is_whitespace() || "{[\"".contains(c));
    let word = &text[..plain.unwrap_or(text.len())];
    match text[word.len()..].chars().next() {
        Some('{' | '[') => skip_brackets(&text[word.len()..]),
        Some('"') => None,
        _ => {
            // A word ends before the colon or the comma that follows it.
            let word = word.strip_suffix([':', ',']).unwrap_or(word);
            (!word.is_empty()).then(|| &text[word.len()..])
        }
    }
}

fn skip_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(&text[at + 1..]),
            _ => {}
        }
    }
    None
}

fn skip_brackets(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            rest = skip_quoted(rest)?;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        // `[]string{…}` and `map[string]interface {}{…}` go on after a first pair.
        let goes_on = rest.starts_with(|c: char| c.is_ascii_alphabetic() || "{[ ".contains(c));
        if depth == 0 && !goes_on {
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests;
