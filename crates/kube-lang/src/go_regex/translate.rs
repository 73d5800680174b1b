//! Translation from Go's syntax of regular expressions to that of the crate `regex`.

use std::fmt::Write as _;

use thiserror::Error;

/// The most repetitions Go allows.
const MAX_REPEAT: u32 = 1000;
const MAX_GROUP_DEPTH: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RegexError {
    /// The place in the pattern, in bytes.
    pub offset: usize,
    pub message: String,
}

/// Reads a pattern from left to right and writes the other syntax.
pub(super) struct Translator<'p> {
    pattern: &'p str,
    at: usize,
    pub(super) out: String,
    pub(super) names: Vec<Option<String>>,
    depth: usize,
    /// The item that a repetition operator would apply to.
    before: Before,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Something,
    Repetition,
}

impl<'p> Translator<'p> {
    pub(super) fn new(pattern: &'p str) -> Self {
        Self {
            pattern,
            at: 0,
            out: String::new(),
            names: vec![None],
            depth: 0,
            before: Before::Nothing,
        }
    }

    pub(super) fn translate(mut self) -> Result<Self, RegexError> {
        while let Some(character) = self.peek() {
            match character {
                '(' => self.open()?,
                ')' if self.depth == 0 => return Err(self.error("unexpected )")),
                ')' => {
                    self.depth -= 1;
                    self.copy(1, Before::Something);
                }
                '|' => self.copy(1, Before::Nothing),
                '*' | '+' | '?' => self.repeat(1)?,
                '{' => match self.counted()? {
                    Some(length) => self.repeat(length)?,
                    None => self.literal('{', 1),
                },
                '[' => self.class()?,
                '\\' => self.escape()?,
                '^' | '$' | '.' => self.copy(1, Before::Something),
                other => self.literal(other, other.len_utf8()),
            }
        }
        if self.depth > 0 {
            return Err(self.error("missing closing )"));
        }
        Ok(self)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'p str {
        &self.pattern[self.at..]
    }

    fn error(&self, message: impl Into<String>) -> RegexError {
        RegexError {
            offset: self.at,
            message: message.into(),
        }
    }

    fn copy(&mut self, length: usize, before: Before) {
        self.out.push_str(&self.pattern[self.at..self.at + length]);
        self.at += length;
        self.before = before;
    }

    fn literal(&mut self, character: char, length: usize) {
        push_literal(&mut self.out, character);
        self.at += length;
        self.before = Before::Something;
    }

    fn replace(&mut self, length: usize, with: &str) {
        self.out.push_str(with);
        self.at += length;
        self.before = Before::Something;
    }

    /// A group, or flags.
    fn open(&mut self) -> Result<(), RegexError> {
        if self.depth == MAX_GROUP_DEPTH {
            return Err(self.error("expression nests too deeply"));
        }
        let Some(rest) = self.rest().strip_prefix("(?") else {
            self.depth += 1;
            self.names.push(None);
            self.copy(1, Before::Nothing);
            return Ok(());
        };
        if let Some((prefix, name)) = ["P<", "<"]
            .iter()
            .find_map(|prefix| Some((prefix.len(), rest.strip_prefix(prefix)?)))
        {
            let end = name
                .find('>')
                .ok_or_else(|| self.error("invalid named capture: missing >"))?;
            let name = &name[..end];
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(self.error(format!("invalid named capture: `{name}`")));
            }
            self.names.push(Some(name.to_owned()));
            self.depth += 1;
            self.out.push('(');
            self.at += 2 + prefix + end + 1;
            self.before = Before::Nothing;
            return Ok(());
        }
        let end = rest.find([')', ':']);
        let flags = end.map_or(rest, |end| &rest[..end]);
        let (on, off) = flags
            .split_once('-')
            .map_or((flags, None), |(on, off)| (on, Some(off)));
        let known = |flags: &str| flags.chars().all(|flag| "imsU".contains(flag));
        let (Some(end), true) = (
            end,
            known(on) && off.is_none_or(|off| !off.is_empty() && known(off)),
        ) else {
            let shown: String = rest.chars().take(1).collect();
            return Err(self.error(format!("invalid or unsupported Perl syntax: `(?{shown}`")));
        };
        let opens = rest[end..].starts_with(':');
        // No flags at all is fine here, but not to the engine; and it wants none twice.
        let unique = |flags: &str| {
            "imsU"
                .chars()
                .filter(|flag| flags.contains(*flag))
                .collect::<String>()
        };
        let off = unique(off.unwrap_or_default());
        let mut flags: String = unique(on)
            .chars()
            .filter(|flag| !off.contains(*flag))
            .collect();
        if !off.is_empty() {
            flags = format!("{flags}-{off}");
        }
        if opens {
            let _ = write!(self.out, "(?{flags}:");
            self.depth += 1;
        } else if !flags.is_empty() {
            let _ = write!(self.out, "(?{flags})");
        }
        self.at += 2 + end + 1;
        self.before = Before::Nothing;
        Ok(())
    }

    /// The length of a counted repetition at this place, if it is one.
    fn counted(&self) -> Result<Option<usize>, RegexError> {
        let Some(end) = self.rest().find('}') else {
            return Ok(None);
        };
        let counts = &self.rest()[1..end];
        let (min, max) = counts
            .split_once(',')
            .map_or((counts, None), |(min, max)| (min, Some(max)));
        let is_count = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_digit())
                && !(text.len() > 1 && text.starts_with('0'))
        };
        if !is_count(min) || max.is_some_and(|max| !max.is_empty() && !is_count(max)) {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let max = max.filter(|max| !max.is_empty()).map(number);
        if number(min) > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < number(min))
        {
            return Err(self.error(format!("invalid repeat count: `{{{counts}}}`")));
        }
        Ok(Some(end + 1))
    }

    fn repeat(&mut self, length: usize) -> Result<(), RegexError> {
        let shown = &self.rest()[..length];
        match self.before {
            Before::Nothing => {
                return Err(self.error(format!(
                    "missing argument to repetition operator: `{shown}`"
                )));
            }
            Before::Repetition => {
                return Err(self.error(format!("invalid nested repetition operator: `{shown}`")));
            }
            Before::Something => {}
        }
        let lazy = usize::from(self.rest()[length..].starts_with('?'));
        self.copy(length + lazy, Before::Repetition);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), RegexError> {
        let Some(escaped) = self.rest()[1..].chars().next() else {
            return Err(self.error("trailing backslash at end of expression"));
        };
        match escaped {
            'A' | 'z' | 'B' => self.copy(2, Before::Something),
            'b' => self.replace(2, r"(?-u:\b)"),
            'Q' => self.quoted(),
            'C' => return Err(self.error("invalid escape sequence: `\\C`")),
            _ => {
                if let Some(set) = perl_class(escaped) {
                    self.replace(2, &format!("[{set}]"));
                } else if matches!(escaped, 'p' | 'P') {
                    let class = self.unicode_class()?;
                    self.out.push_str(&class);
                    self.before = Before::Something;
                } else {
                    let character = self.escaped_character()?;
                    self.literal(character, 0);
                }
            }
        }
        Ok(())
    }

    /// `\Q…\E`: everything between is plain.
    fn quoted(&mut self) {
        let text = &self.rest()[2..];
        let (plain, length) = text
            .find("\\E")
            .map_or((text, text.len()), |end| (&text[..end], end + 2));
        for character in plain.chars() {
            self.literal(character, 0);
        }
        self.at += 2 + length;
    }

    /// `\pL`, `\p{Greek}`, `\p{^Greek}`, `\P{…}`; the position moves behind it.
    fn unicode_class(&mut self) -> Result<String, RegexError> {
        let rest = &self.rest()[2..];
        let (name, length) = match rest.chars().next() {
            Some('{') => {
                let end = rest
                    .find('}')
                    .ok_or_else(|| self.error("invalid character class range: missing }"))?;
                (&rest[1..end], end + 1)
            }
            Some(letter) => (&rest[..letter.len_utf8()], letter.len_utf8()),
            None => return Err(self.error("invalid character class range")),
        };
        let (name, inverted) = name
            .strip_prefix('^')
            .map_or((name, false), |name| (name, true));
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(self.error(format!("invalid character class range: `\\p{{{name}}}`")));
        }
        let negated = self.rest().starts_with("\\P") != inverted;
        self.at += 2 + length;
        Ok(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }))
    }

    /// An escape that stands for one character; the position moves behind it.
    fn escaped_character(&mut self) -> Result<char, RegexError> {
        let rest = &self.rest()[1..];
        let Some(first) = rest.chars().next() else {
            return Err(self.error("trailing backslash at end of expression"));
        };
        let invalid = |length: usize| {
            let shown: String = rest.chars().take(length).collect();
            RegexError {
                offset: self.at,
                message: format!("invalid escape sequence: `\\{shown}`"),
            }
        };
        let octal = |digits: &str| {
            digits
                .bytes()
                .take(3)
                .take_while(|b| (b'0'..b'8').contains(b))
                .count()
        };
        let (code, length) = match first {
            'a' => (7, 1),
            'f' => (12, 1),
            't' => (9, 1),
            'n' => (10, 1),
            'r' => (13, 1),
            'v' => (11, 1),
            'x' if rest.starts_with("x{") => {
                let end = rest.find('}').ok_or_else(|| invalid(2))?;
                (
                    u32::from_str_radix(&rest[2..end], 16).map_err(|_| invalid(end + 1))?,
                    end + 1,
                )
            }
            'x' => {
                let digits = rest
                    .get(1..3)
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                (
                    digits
                        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                        .ok_or_else(|| invalid(1))?,
                    3,
                )
            }
            '0' => {
                let length = octal(rest);
                (
                    u32::from_str_radix(&rest[..length], 8).map_err(|_| invalid(1))?,
                    length,
                )
            }
            // A lone digit would refer back to a group, which a linear engine cannot.
            '1'..='7' if octal(rest) > 1 => {
                let length = octal(rest);
                (
                    u32::from_str_radix(&rest[..length], 8).map_err(|_| invalid(1))?,
                    length,
                )
            }
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => (u32::from(other), 1),
            _ => return Err(invalid(1)),
        };
        let character = char::from_u32(code).ok_or_else(|| invalid(length))?;
        self.at += 1 + length;
        Ok(character)
    }

    fn class(&mut self) -> Result<(), RegexError> {
        let start = self.at;
        let missing = RegexError {
            offset: start,
            message: format!("missing closing ]: `{}`", self.rest()),
        };
        self.at += 1;
        self.out.push('[');
        if self.peek() == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            let Some(character) = self.peek() else {
                return Err(missing);
            };
            if character == ']' && !first {
                break;
            }
            first = false;
            if self.class_set()? {
                continue;
            }
            let Some(low) = self.class_character()? else {
                return Err(missing);
            };
            let high = match self.rest().strip_prefix('-') {
                Some(after) if !after.is_empty() && !after.starts_with(']') => {
                    self.at += 1;
                    self.class_character()?
                }
                _ => None,
            };
            push_literal(&mut self.out, low);
            if let Some(high) = high {
                if high < low {
                    return Err(
                        self.error(format!("invalid character class range: `{low}-{high}`"))
                    );
                }
                self.out.push('-');
                push_literal(&mut self.out, high);
            }
        }
        self.at += 1;
        self.out.push(']');
        self.before = Before::Something;
        Ok(())
    }

    /// A set inside a class: `[:alpha:]`, `\d`, `\p{L}`. False if there is none at this place.
    fn class_set(&mut self) -> Result<bool, RegexError> {
        const POSIX: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        let rest = self.rest();
        if let Some((inner, _)) = rest
            .strip_prefix("[:")
            .and_then(|inner| inner.split_once(":]"))
        {
            let name = inner.strip_prefix('^').unwrap_or(inner);
            if !POSIX.contains(&name) {
                return Err(self.error(format!("invalid character class range: `[:{inner}:]`")));
            }
            let _ = write!(self.out, "[:{inner}:]");
            self.at += inner.len() + 4;
            return Ok(true);
        }
        let Some(escaped) = rest.strip_prefix('\\').and_then(|rest| rest.chars().next()) else {
            return Ok(false);
        };
        if let Some(set) = perl_class(escaped) {
            let _ = write!(self.out, "[{set}]");
            self.at += 2;
        } else if matches!(escaped, 'p' | 'P') {
            let class = self.unicode_class()?;
            self.out.push_str(&class);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn class_character(&mut self) -> Result<Option<char>, RegexError> {
        let Some(character) = self.peek() else {
            return Ok(None);
        };
        if character == '\\' {
            return self.escaped_character().map(Some);
        }
        self.at += character.len_utf8();
        Ok(Some(character))
    }
}

fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'D' => "^0-9",
        's' => r"\t\n\x0c\r ",
        'S' => r"^\t\n\x0c\r ",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        _ => return None,
    })
}

/// Writes a character so that the engine takes it as nothing else, in and outside of classes.
fn push_literal(out: &mut String, character: char) {
    if character.is_ascii() && !character.is_ascii_alphanumeric() {
        let _ = write!(out, "\\x{:02x}", u32::from(character));
    } else {
        out.push(character);
    }
}
