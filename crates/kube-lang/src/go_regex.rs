//! Regular expressions in Go's syntax, run by a linear engine.
//!
//! A pattern is translated, not passed on: `\w`, `\d`, `\s` and `\b` mean ASCII, brackets in classes are plain, what
//! Go refuses is refused, and groups keep their names (also twice) for the replacement. `\B` alone knows letters
//! outside ASCII.

#[cfg(test)]
mod tests;
mod translate;

pub use self::translate::RegexError;
use self::translate::Translator;
use regex::{Captures, Regex, RegexBuilder};

/// The longest pattern that is accepted.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 * 1024;
/// The memory that a compiled pattern may take up; a bounded repetition of a large class reaches it.
const MAX_PROGRAM_BYTES: usize = 8 * 1024 * 1024;
/// The same of a pattern that comes from a document, which is compiled each time.
const MAX_SMALL_BYTES: usize = 256 * 1024;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct GoRegex {
    pattern: String,
    regex: Regex,
    /// The name of each group; the whole match comes first and has none.
    names: Vec<Option<String>>,
}

/// The replacement would make the text longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl GoRegex {
    pub fn compile(pattern: &str) -> Result<Self, RegexError> {
        Self::compile_within(pattern, MAX_PROGRAM_BYTES)
    }

    /// For patterns that are not the owner's: what would take long to compile is refused.
    pub fn compile_small(pattern: &str) -> Result<Self, RegexError> {
        Self::compile_within(pattern, MAX_SMALL_BYTES)
    }

    fn compile_within(pattern: &str, limit: usize) -> Result<Self, RegexError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            let message = format!("pattern is longer than {MAX_PATTERN_BYTES} bytes");
            return Err(RegexError { offset: 0, message });
        }
        let translation = Translator::new(pattern).translate()?;
        let regex = RegexBuilder::new(&translation.out)
            .size_limit(limit)
            .dfa_size_limit(limit)
            .build()
            .map_err(|error| RegexError {
                offset: 0,
                message: reason(&error),
            })?;
        Ok(Self {
            pattern: pattern.to_owned(),
            regex,
            names: translation.names,
        })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// All parts of a text that match, one after the other.
    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(text).map(|found| found.as_str())
    }

    /// Replaces every match, expanding `$1`, `${name}` and `$$` in the replacement.
    pub fn replace_all(
        &self,
        text: &str,
        replacement: &str,
        limit: usize,
    ) -> Result<String, TooLong> {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for captures in self.regex.captures_iter(text) {
            let Some(whole) = captures.get(0) else {
                continue;
            };
            out.push_str(&text[end..whole.start()]);
            self.expand(replacement, &captures, &mut out);
            end = whole.end();
            if out.len() > limit {
                return Err(TooLong);
            }
        }
        out.push_str(&text[end..]);
        if out.len() > limit {
            Err(TooLong)
        } else {
            Ok(out)
        }
    }

    fn expand(&self, replacement: &str, captures: &Captures<'_>, out: &mut String) {
        let mut rest = replacement;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((name, after)) = reference(after) {
                out.push_str(self.group(name, captures).unwrap_or_default());
                rest = after;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
    }

    fn group<'t>(&self, name: &str, captures: &Captures<'t>) -> Option<&'t str> {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit())
            && (name.len() == 1 || !name.starts_with('0'));
        if is_number && name.len() < 9 {
            return Some(captures.get(name.parse().ok()?)?.as_str());
        }
        let named = self
            .names
            .iter()
            .enumerate()
            .filter(|(_, candidate)| candidate.as_deref() == Some(name));
        named
            .filter_map(|(i, _)| captures.get(i))
            .map(|group| group.as_str())
            .next()
    }
}

/// Splits a reference to a group, its dollar already taken, from what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, text) = text
        .strip_prefix('{')
        .map_or((false, text), |text| (true, text));
    let is_word = |c: char| c == '_' || c.is_alphabetic() || c.is_numeric();
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    if braced {
        rest.strip_prefix('}').map(|rest| (name, rest))
    } else {
        Some((name, rest))
    }
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            "pattern is too large once compiled: use smaller repetitions".to_owned()
        }
        // The last line is the reason; those before repeat the translated pattern, which the user never wrote.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}
