//! Elements of paths: a field, or a list item by its keys or by its value.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

/// One path element, in the order of sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    Field(Box<str>),
    /// The list item whose keys have these values, sorted by key.
    Key(Vec<(Box<str>, Scalar)>),
    /// The list item with this value.
    Value(Scalar),
    Index(i64),
}

/// A value within a path.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(pub Value);

/// A whole path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ElementPath(pub Vec<Element>);

impl Element {
    /// Its approximate size in memory.
    pub(super) fn size(&self) -> usize {
        let value = |scalar: &Scalar| scalar.0.as_str().map_or(8, str::len);
        let names = match self {
            Self::Field(name) => name.len(),
            Self::Key(keys) => keys.iter().map(|(key, of)| key.len() + value(of)).sum(),
            Self::Value(scalar) => value(scalar),
            Self::Index(_) => 0,
        };
        size_of::<Self>() + names
    }

    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    pub(crate) fn value(value: &Value) -> Self {
        Self::Value(Scalar(value.clone()))
    }

    /// The key in the JSON form of a set: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`.
    pub(crate) fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| {
                        let name = Value::from(&**name);
                        format!("{}:{}", safe(&name), safe(&value.0))
                    })
                    .collect();
                format!("k:{{{}}}", keys.join(","))
            }
            Self::Value(value) => format!("v:{}", safe(&value.0)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Parses a key of a set. `None` for an unknown kind of element, which is skipped.
    pub(crate) fn parse(key: &str) -> Result<Option<Self>, String> {
        let bytes = key.as_bytes();
        if bytes.len() < 2 {
            return Err("key must be 2 characters long:".to_owned());
        }
        if bytes[1] != b':' {
            return Err(format!("missing colon: {key}"));
        }
        let rest = &key[2..];
        let parsed = match bytes[0] {
            b'f' => Self::Field(rest.into()),
            b'v' => Self::Value(Scalar(json(rest)?)),
            b'k' => {
                let keys: Map<String, Value> =
                    serde_json::from_value(json(rest)?).map_err(|error| error.to_string())?;
                Self::Key(
                    keys.into_iter()
                        .map(|(name, value)| (name.into(), Scalar(value)))
                        .collect(),
                )
            }
            b'i' => Self::Index(rest.parse().map_err(|_| format!("no index: {rest:?}"))?),
            _ => return Ok(None),
        };
        Ok(Some(parsed))
    }
}

fn json(text: &str) -> Result<Value, String> {
    let document = kube_schema::json::parse(text.as_bytes());
    document
        .map(|mut document| {
            kube_schema::json::settle(&mut document.value);
            document.value
        })
        .map_err(|error| error.to_string())
}

/// JSON with the escapes of Go's encoder for characters that are special in HTML.
fn safe(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            other => out.push(other),
        }
    }
    out
}

impl Scalar {
    /// Compares values. Different kinds are in this order: numbers, strings, booleans, lists, maps, null.
    fn rank(&self) -> u8 {
        match &self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => {
                if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
                    return a.cmp(&b);
                }
                let (a, b) = (a.as_f64(), b.as_f64());
                a.unwrap_or_default().total_cmp(&b.unwrap_or_default())
            }
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a @ (Value::Array(_) | Value::Object(_)), b) if self.rank() == other.rank() => {
                a.to_string().cmp(&b.to_string())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

/// For messages: `.spec.ports[port=80,protocol="TCP"].name`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(&kube_lang::go_text::quote(text)),
            other => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for ElementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
