//! Request bodies in JSON: parsed once, with numbers as kube-apiserver keeps them and with the keys that a document
//! repeats.
//!
//! The parser is recursive, so nesting is limited: to 127 levels in [`parse`], and to kube-apiserver's limit in
//! [`parse_deep`], which needs a larger stack.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::de::StrRead;
use serde_json::{Map, Number, Value};

mod order;

pub use order::in_order;

/// The largest request body that a kube-apiserver accepts.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// The largest nesting that a kube-apiserver accepts.
pub const MAX_LEVELS: usize = 10_000;

/// The stack size for a document of [`MAX_LEVELS`], with a reserve.
pub const STACK: usize = 256 << 20;

/// The maximum number of repeated keys that are reported.
const MAX_DUPLICATES: usize = 100;

/// 2^63: doubles from here on are not 64-bit integers.
const I64_EDGE: f64 = 9_223_372_036_854_775_808.0;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("request body of {size} bytes is larger than the limit of {MAX_BODY} bytes")]
    TooLarge { size: usize },
    #[error("request body is not valid UTF-8: {0}")]
    NotUtf8(std::str::Utf8Error),
    #[error("request body is not valid JSON: {0}")]
    Malformed(String),
    #[error("request body is not valid YAML: {0}")]
    NotYaml(String),
}

/// A parsed document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub value: Value,
    /// Keys that occur more than once; the last value wins. Paths such as `spec.a[0].b` in JSON, messages in YAML.
    pub duplicates: Vec<String>,
    pub syntax: Syntax,
}

/// The syntax of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    Yaml,
}

/// Parses one JSON document and nothing after it.
///
/// Numbers are converted as in kube-apiserver: integers that fit are exact 64-bit integers; larger ones, and those with
/// a point or an exponent, are doubles until they are stored (see [`settle`]).
pub fn parse(body: &[u8]) -> Result<Document, JsonError> {
    parse_text(body, serde_json::Deserializer::from_str)
}

/// Parses a document of up to [`MAX_LEVELS`], on a stack of at least [`STACK`] bytes.
pub fn parse_deep(body: &[u8]) -> Result<Document, JsonError> {
    if is_deeper(body, MAX_LEVELS) {
        return Err(JsonError::Malformed("exceeded max depth".to_owned()));
    }
    parse_text(body, |text| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.disable_recursion_limit();
        deserializer
    })
}

/// Whether a document has more levels than `levels`.
fn is_deeper(body: &[u8], levels: usize) -> bool {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in body {
        if in_text {
            in_text = is_escaped || *byte != b'"';
            is_escaped = *byte == b'\\' && !is_escaped;
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > levels {
            return true;
        }
    }
    false
}

fn parse_text<'t>(
    body: &'t [u8],
    reader: impl FnOnce(&'t str) -> serde_json::Deserializer<StrRead<'t>>,
) -> Result<Document, JsonError> {
    if body.len() > MAX_BODY {
        return Err(JsonError::TooLarge { size: body.len() });
    }
    let text = std::str::from_utf8(body).map_err(JsonError::NotUtf8)?;
    let mut duplicates = Vec::new();
    let mut deserializer = reader(text);
    let value = ValueSeed {
        at: JsonPath::Root,
        duplicates: &mut duplicates,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value))
    .map_err(|e| JsonError::Malformed(e.to_string()))?;
    Ok(Document {
        value,
        duplicates,
        syntax: Syntax::Json,
    })
}

/// The message of `fieldValidation` about a repeated key.
pub fn duplicate_field(path: &str) -> String {
    format!("duplicate field {}", kube_lang::go_text::quote(path))
}

/// The message of `fieldValidation` about a field that the schema does not know.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field {}", kube_lang::go_text::quote(path))
}

/// The message of the 400 with which `fieldValidation=Strict` refuses a document; `None` without problems.
pub fn strict_error(messages: &[String]) -> Option<String> {
    (!messages.is_empty()).then(|| format!("strict decoding error: {}", messages.join(", ")))
}

#[derive(Clone, Copy)]
enum JsonPath<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl JsonPath<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Self::Index(parent, index) => {
                parent.write(out);
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

struct ValueSeed<'a> {
    at: JsonPath<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => Ok(value.into()),
            #[expect(clippy::cast_precision_loss, reason = "the server loses it as well")]
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        number(value).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed {
            at: JsonPath::Index(&self.at, list.len()),
            duplicates: &mut *self.duplicates,
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let at = JsonPath::Key(&self.at, &key);
            let value = entries.next_value_seed(ValueSeed {
                at,
                duplicates: &mut *self.duplicates,
            })?;
            if map.contains_key(&key) && self.duplicates.len() < MAX_DUPLICATES {
                let mut path = String::new();
                at.write(&mut path);
                if !self.duplicates.contains(&path) {
                    self.duplicates.push(path);
                }
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Converts doubles without a fraction to integers, because they are stored without a point. Returns whether there was
/// one.
pub fn settle(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && -I64_EDGE < float && float < I64_EDGE {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "whole and in range, as just tested"
                )]
                let whole = float as i64;
                *value = whole.into();
                return true;
            }
            false
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| settle(item) | any),
        Value::Object(members) => members.values_mut().fold(false, |any, m| settle(m) | any),
        _ => false,
    }
}

/// The length of a document as text.
pub fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and keys are strings.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

fn number(float: f64) -> Option<Value> {
    if float == 0.0 && float.is_sign_negative() {
        // `-0` is mostly written without a point, so it becomes the integer 0.
        return Some(0.into());
    }
    Number::from_f64(float).map(Value::Number)
}

#[cfg(test)]
mod tests;
