//! Walking JSON text byte by byte, as forgiving as the library whose answers are the contract.
//!
//! Documents are well-formed, but modifiers and literals make text that is not: nothing here fails on it, and
//! nothing reads past its end.

use std::borrow::Cow;

/// The kind of value that a path found, in the order of the Go library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    #[default]
    Null,
    False,
    Number,
    String,
    True,
    /// An object or a list.
    Json,
}

/// The kind of token that begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Text,
    Object,
    Array,
    Literal(Kind),
    Number,
    Close,
    Other,
}

pub(super) fn start_of(json: &[u8], at: usize) -> Start {
    match json.get(at) {
        Some(b'"') => Start::Text,
        Some(b'{') => Start::Object,
        Some(b'[') => Start::Array,
        Some(b'n') if json.get(at + 1).is_some_and(|next| *next != b'u') => Start::Number,
        Some(b'n') => Start::Literal(Kind::Null),
        Some(b't') => Start::Literal(Kind::True),
        Some(b'f') => Start::Literal(Kind::False),
        Some(b'+' | b'-' | b'0'..=b'9' | b'i' | b'I' | b'N') => Start::Number,
        Some(b']') => Start::Close,
        _ => Start::Other,
    }
}

/// The position after the closing quote of a string whose first byte after the opening quote is at `at`.
pub(super) fn string_end(json: &[u8], at: usize) -> Option<usize> {
    let mut i = at;
    while let Some(byte) = json.get(i) {
        match byte {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    None
}

/// The position after the bracket that closes the one at `at`, or the end of the text.
pub(super) fn squash_end(json: &[u8], at: usize) -> usize {
    let mut depth = 1_usize;
    let mut i = at + 1;
    while let Some(byte) = json.get(i) {
        match byte {
            b'"' => match string_end(json, i + 1) {
                Some(end) => {
                    i = end;
                    continue;
                }
                None => return json.len(),
            },
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    json.len().max(at)
}

/// Like [`squash_end`], but a quote at `at` begins a string and only that.
pub(super) fn balanced_end(json: &[u8], at: usize) -> usize {
    match json.get(at) {
        Some(b'"') => string_end(json, at + 1).unwrap_or(json.len()),
        _ => squash_end(json, at),
    }
}

pub(super) fn number_end(json: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| *byte <= b' ' || matches!(byte, b',' | b']' | b'}');
    json.iter()
        .skip(at + 1)
        .position(ends)
        .map_or(json.len(), |length| at + 1 + length)
}

pub(super) fn literal_end(json: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| !byte.is_ascii_lowercase();
    json.iter()
        .skip(at + 1)
        .position(ends)
        .map_or(json.len(), |length| at + 1 + length)
}

/// The content of a string literal, quotes already cut off.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        if byte < b' ' {
            break;
        }
        if byte != b'\\' {
            out.push(byte);
            i += 1;
            continue;
        }
        let Some(&escape) = text.get(i + 1) else {
            break;
        };
        i += 2;
        match escape {
            b'\\' | b'/' | b'"' => out.push(escape),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let Some(mut code) = hex(text, i) else { break };
                i += 4;
                if (0xd800..0xe000).contains(&code)
                    && text.get(i..i + 2) == Some(b"\\u")
                    && text.len() >= i + 6
                {
                    code = surrogates(code, hex(text, i + 2).unwrap_or(0));
                    i += 6;
                }
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => break,
        }
    }
    Cow::Owned(out)
}

/// Four hexadecimal digits at `at`; zero if they are not, `None` if the text ends before.
fn hex(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    Some(
        digits
            .iter()
            .try_fold(0, |code, digit| {
                Some(code * 16 + (*digit as char).to_digit(16)?)
            })
            .unwrap_or(0),
    )
}

fn surrogates(high: u32, low: u32) -> u32 {
    if (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low) {
        0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
    } else {
        0xfffd
    }
}

pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        if *first > b' ' {
            break;
        }
        text = rest;
    }
    while let [rest @ .., last] = text {
        if *last > b' ' {
            break;
        }
        text = rest;
    }
    text
}

pub(super) fn is_valid(json: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok()
}

/// Appends a string literal; `<`, `>`, `&` and the two line separators are escaped, as by gjson's encoder.
pub(super) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
