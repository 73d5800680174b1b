//! A piece of JSON text that a path found, with its kind and its offset.

use std::borrow::Cow;

use super::scan::{self, Kind, Start, start_of};

/// A piece of JSON text.
#[derive(Clone, Debug, Default)]
pub(super) struct Found<'a> {
    pub(super) kind: Kind,
    pub(super) raw: Cow<'a, [u8]>,
    /// The offset of `raw` in the document; zero if it is not part of it.
    pub(super) index: usize,
    /// The offset of each element that `#` found.
    pub(super) indexes: Option<Vec<usize>>,
}

/// Reads the value a text begins with; an object or array takes all the rest, as nothing follows it.
pub(super) fn parse(json: &[u8]) -> Found<'_> {
    let Some(at) = json.iter().position(|byte| *byte > b' ') else {
        return Found::default();
    };
    let (kind, end) = match start_of(json, at) {
        Start::Object | Start::Array => (Kind::Json, json.len()),
        Start::Number => (Kind::Number, scan::number_end(json, at)),
        Start::Literal(kind) => (kind, scan::literal_end(json, at)),
        Start::Text => (
            Kind::String,
            scan::string_end(json, at + 1).unwrap_or(json.len()),
        ),
        Start::Close | Start::Other => return Found::default(),
    };
    Found {
        index: at,
        ..Found::of(kind, &json[at..end])
    }
}

/// Reads the next value at or after `at`, with the position behind it.
pub(super) fn parse_any(json: &[u8], mut at: usize) -> Option<(Found<'_>, usize)> {
    while at < json.len() {
        let (kind, end) = match start_of(json, at) {
            Start::Object | Start::Array => (Kind::Json, scan::squash_end(json, at)),
            Start::Number => (Kind::Number, scan::number_end(json, at)),
            Start::Literal(kind) => (kind, scan::literal_end(json, at)),
            Start::Text => (Kind::String, scan::string_end(json, at + 1)?),
            Start::Close | Start::Other => {
                at += 1;
                continue;
            }
        };
        let index = if kind == Kind::Json { at } else { 0 };
        return Some((
            Found {
                index,
                ..Found::of(kind, &json[at..end])
            },
            end,
        ));
    }
    None
}

impl<'a> Found<'a> {
    pub(super) fn of(kind: Kind, raw: &'a [u8]) -> Self {
        Self {
            kind,
            raw: Cow::Borrowed(raw),
            index: 0,
            indexes: None,
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.kind != Kind::Null || !self.raw.is_empty()
    }

    pub(super) fn is_object(&self) -> bool {
        self.kind == Kind::Json && self.raw.first() == Some(&b'{')
    }

    pub(super) fn is_array(&self) -> bool {
        self.kind == Kind::Json && self.raw.first() == Some(&b'[')
    }

    pub(super) fn into_owned<'b>(self) -> Found<'b> {
        Found {
            kind: self.kind,
            raw: Cow::Owned(self.raw.into_owned()),
            index: self.index,
            indexes: self.indexes,
        }
    }

    /// The value as text: strings without quotes and escapes, numbers without exponent.
    pub(super) fn text(&self) -> Cow<'_, [u8]> {
        match self.kind {
            Kind::Null => Cow::Borrowed(b""),
            Kind::False => Cow::Borrowed(b"false"),
            Kind::True => Cow::Borrowed(b"true"),
            Kind::Json => Cow::Borrowed(&self.raw),
            Kind::String => {
                let inner = self.raw.strip_prefix(b"\"").unwrap_or(&self.raw);
                scan::unescape(inner.strip_suffix(b"\"").unwrap_or(inner))
            }
            Kind::Number => {
                let digits = self.raw.strip_prefix(b"-").unwrap_or(&self.raw);
                if digits.iter().all(u8::is_ascii_digit) {
                    Cow::Borrowed(&self.raw)
                } else {
                    Cow::Owned(plain_decimal(self.number()).into_bytes())
                }
            }
        }
    }

    pub(super) fn number(&self) -> f64 {
        number(&self.raw)
    }

    /// The truth a boolean, a number or a text such as `t` or `0` stands for.
    pub(super) fn truth(&self) -> Option<bool> {
        match self.kind {
            Kind::True => Some(true),
            Kind::False => Some(false),
            Kind::Number => Some(self.number() != 0.0),
            Kind::String => match self.text().to_ascii_lowercase().as_slice() {
                b"1" | b"t" | b"true" => Some(true),
                b"0" | b"f" | b"false" => Some(false),
                _ => None,
            },
            Kind::Null | Kind::Json => None,
        }
    }

    /// The members of an object (with their keys) or the elements of an array; a scalar is its own only element.
    pub(super) fn members(&self) -> Vec<(Option<Found<'_>>, Found<'_>)> {
        if !self.exists() {
            return Vec::new();
        }
        if self.kind != Kind::Json {
            return vec![(
                None,
                Found {
                    index: self.index,
                    ..Found::of(self.kind, &self.raw)
                },
            )];
        }
        let json: &[u8] = &self.raw;
        let keyed = self.is_object();
        let mut members = Vec::new();
        let mut i = 1;
        while i < json.len() {
            let mut key = None;
            if keyed {
                let Some(at) = (i..json.len()).find(|at| json[*at] == b'"') else {
                    break;
                };
                let Some(end) = scan::string_end(json, at + 1) else {
                    break;
                };
                key = Some(Found::of(Kind::String, &json[at..end]));
                i = end;
            }
            let Some((value, next)) = parse_any(json, i) else {
                break;
            };
            members.push((key, value));
            i = next;
        }
        members
    }
}

/// A number in plain decimal notation with the fewest digits that give it back.
pub(super) fn plain_decimal(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    number.to_string()
}

/// The number a text stands for; zero if it is none.
pub(super) fn number(text: &[u8]) -> f64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}
