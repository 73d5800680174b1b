//! The fields that an API server rejects: the message of a 422, parsed.
//!
//! Such a message quotes values. The parser separates the path of each field, the problem and the explanation from the
//! value. Pure.

/// The text before the server's own message in the detail of a refusal.
pub(super) const REFUSED_PREFIX: &str = "refused as invalid: ";
/// The separator between the object and its list of problems.
const LIST: &str = "\" is invalid: ";

/// The longest part of a message that is read: others may have made the message long.
const LONGEST_MESSAGE: usize = 16 << 10;
/// The number of fields that are repeated.
const MOST_FIELDS: usize = 20;
/// The longest path of a field, in bytes.
const LONGEST_HEAD: usize = 256;

/// The phrases of API servers for a problem of a field, and whether a value follows each.
const PROBLEM_PHRASES: &[(&str, Value)] = &[
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

/// One field and its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldProblem<'t> {
    /// `<nil>` or `[]` for the whole object.
    pub path: &'t str,
    /// The problem in the server's words, such as `Invalid value`.
    pub what: &'static str,
    /// Whether the server quotes the value after the problem.
    pub quotes: bool,
    /// The explanation; empty if there is none, or if it cannot be separated from the value.
    pub why: &'t str,
}

/// The refusal of an invalid object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationMessage<'t> {
    /// The text before the server's message.
    pub before: &'t str,
    /// The kind and name of the object.
    pub object: &'t str,
    pub wrongs: Vec<FieldProblem<'t>>,
}

/// Parses the detail of a refusal. `None` for other refusals, and for messages that are not a list of fields.
pub fn read(detail: &str) -> Option<ValidationMessage<'_>> {
    let (before, said) = detail.split_once(REFUSED_PREFIX)?;
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
    Some(ValidationMessage {
        before,
        object,
        wrongs: all(list),
    })
}

impl ValidationMessage<'_> {
    /// The same detail without values, with each explanation mapped by the given function.
    pub fn without_values(&self, why: impl Fn(&str) -> String) -> String {
        let mut told: Vec<String> = Vec::new();
        for wrong in &self.wrongs {
            let value = if wrong.quotes { ": \"…\"" } else { "" };
            let why = match why(wrong.why) {
                why if why.is_empty() => why,
                why => format!(": {why}"),
            };
            let one = format!("{}: {}{value}{why}", wrong.path, wrong.what);
            if told.len() < MOST_FIELDS && !told.contains(&one) {
                told.push(one);
            }
        }
        let list = match &told[..] {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        format!("{}{REFUSED_PREFIX}{}{LIST}{list}", self.before, self.object)
    }
}

/// The longest prefix of a text that has at most this many bytes.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Parses a list as far as it has the form of one.
fn all(list: &str) -> Vec<FieldProblem<'_>> {
    let mut wrongs = Vec::new();
    let mut rest = list;
    while let Some((path, what, value, after)) = head(rest) {
        let (why, next) = explained(after, value);
        // Schemas repeat the path in the explanation.
        let why = why.strip_prefix(path).unwrap_or(why);
        let why = why.strip_prefix(" in body ").unwrap_or(why);
        let quotes = value == Value::Follows;
        wrongs.push(FieldProblem {
            path,
            what,
            quotes,
            why,
        });
        rest = next;
    }
    wrongs
}

/// Parses `path: Problem`; returns the rest of the text.
fn head(text: &str) -> Option<(&str, &'static str, Value, &str)> {
    let colon = start(text, LONGEST_HEAD).find(": ")?;
    let (path, after) = (&text[..colon], &text[colon + 2..]);
    let first = path.chars().next()?;
    let plausible = first.is_ascii_alphabetic() || matches!(path, "<nil>" | "[]");
    if !plausible || path.contains(['"', '{', '}', ',', '\n']) || path.contains(' ') {
        return None;
    }
    PROBLEM_PHRASES.iter().find_map(|(what, value)| {
        let after = after.strip_prefix(what)?;
        let ends = after.is_empty() || after.starts_with(": ") || after.starts_with(", ");
        ends.then_some((path, *what, *value, after))
    })
}

/// Parses the explanation of one field; returns the rest of the list.
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

/// Skips a value as a server prints it: a quoted text, a word, or something in brackets.
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
