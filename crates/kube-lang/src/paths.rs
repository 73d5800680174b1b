//! Dotted paths into JSON documents: `metadata.name`, `spec.items.0`, `spec.items.#(name=="a").value`.
//!
//! Reads as gjson 1.18 does and writes as sjson 1.2.5 does, and adds `[*]` for "each element". Knows nothing of
//! mutation steps. Every evaluation is bounded in depth and in bytes looked at.

mod component;
mod each;
mod found;
mod modifier;
mod pretty;
mod query;
mod read;
mod scan;
mod text;
mod wildcard;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;
use thiserror::Error;

/// The longest path that is accepted.
pub(crate) const MAX_PATH_BYTES: usize = 4 * 1024;
/// The largest depth of a path, counting every key, pipe and nested query.
pub const MAX_DEPTH: usize = 160;
/// The number of bytes that one evaluation may read, all its parts together.
pub const MAX_WORK: usize = 32 * 1024 * 1024;
/// The number of nulls that may fill the gap before an element written beyond the end of a list.
pub(crate) const MAX_PADDING: usize = 10_000;
/// The number of elements that one `[*]` path may match.
pub(crate) const MAX_ELEMENTS: usize = 10_000;

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

/// The result of reading a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetResult {
    pub kind: Kind,
    /// The piece of JSON text itself; empty if nothing was found.
    pub raw: String,
    /// The value as text: strings without quotes, numbers as digits, objects and lists as JSON, null as nothing.
    pub text: String,
}

/// The use that a path is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    #[error("path cannot be empty")]
    Empty,
    #[error("path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    #[error(
        "cannot delete value from a complex path: use keys and indices only, or [*] for each element"
    )]
    ComplexDelete,
    #[error("cannot set array element for non-numeric key '{key}'")]
    NotAnIndex { key: String },
    #[error("index {index} is more than {MAX_PADDING} elements beyond the end of the list")]
    TooFarBeyond { index: usize },
    #[error("the value at path '{path}' cannot be replaced: the result would not be JSON")]
    NotWritable { path: String },
    #[error("path '{path}' has an empty key or #, *, ?, | or @: use keys only")]
    NotKeys { path: String },
    #[error("path '{path}' has #, *, ?, | or @ before [*]: use keys and indices there")]
    EachOfComplex { path: String },
    #[error("path '{path}' matches more than {MAX_ELEMENTS} elements")]
    TooManyElements { path: String },
    #[error("path is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("evaluating the path reads more than {MAX_WORK} bytes")]
    TooMuchWork,
}

/// Reads a document. Not finding anything is no error.
pub fn get(doc: &Value, path: &str) -> Result<GetResult, PathError> {
    get_counted(doc, path).map(|(found, _)| found)
}

/// Reads a document, and says how many bytes were looked at or written for that.
pub fn get_counted(doc: &Value, path: &str) -> Result<(GetResult, usize), PathError> {
    check_length(path)?;
    if is_plain(path) {
        let found = read_plain(doc, path.as_bytes()).map(GetResult::of);
        let found = found.unwrap_or_default();
        let looked = path.len() + found.raw.len();
        return Ok((found, looked));
    }
    let text = text::compact(doc);
    let budget = read::Budget::default();
    let found = read::get(&text, path.as_bytes(), &budget)?;
    Ok((GetResult::found(&found), text.len() + budget.spent()))
}

/// What [`get`] is held against. It reads JSON text as it stands: spaces, the order of keys and the notation of numbers are kept.
#[cfg(test)]
fn get_text(json: &str, path: &str) -> Result<GetResult, PathError> {
    check_length(path)?;
    let budget = read::Budget::default();
    read::get(json.as_bytes(), path.as_bytes(), &budget).map(|found| GetResult::found(&found))
}

/// Writes a value, creating what is missing on the way to it. A path with `#`, `*`, `?`, `|` or `@` only replaces.
pub fn set(doc: &mut Value, path: &str, new: Value) -> Result<(), PathError> {
    check(path)?;
    write::set(doc, path, new)
}

/// Removes a key or an element. That it does not exist is no error.
pub fn delete(doc: &mut Value, path: &str) -> Result<(), PathError> {
    check(path)?;
    write::delete(doc, path)
}

/// The paths a path with `[*]` stands for in a document; the path itself if it has none.
pub fn expand(doc: &Value, path: &str) -> Result<Vec<String>, PathError> {
    check(path)?;
    each::expand(doc, path)
}

/// Says before any document is known whether a path can be used.
pub fn validate(path: &str, usage: Use) -> Result<(), PathError> {
    match usage {
        Use::Read => return check_length(path),
        Use::Write | Use::Delete => check(path)?,
    }
    each::validate(path)?;
    if usage == Use::Delete && write::parts(&path.replace("[*]", "")).is_none() {
        return Err(PathError::ComplexDelete);
    }
    Ok(())
}

/// The keys of a path that names fields only. An index is a key like any other.
pub fn keys(path: &str) -> Result<Vec<String>, PathError> {
    check(path)?;
    let keys: Option<Vec<_>> = write::parts(path).map(write::keys);
    let keys = keys.filter(|keys| !keys.iter().any(String::is_empty));
    keys.ok_or_else(|| PathError::NotKeys { path: path.into() })
}

/// The path of these keys, so that [`keys`] returns them.
pub fn of_keys<'k>(keys: impl IntoIterator<Item = &'k str>) -> String {
    let mut path = String::new();
    for (index, key) in keys.into_iter().enumerate() {
        if index > 0 {
            path.push('.');
        }
        for (at, character) in key.char_indices() {
            let has_meaning = matches!(character, '.' | '\\' | '|' | '#' | '@' | '*' | '?');
            if has_meaning || at == 0 && matches!(character, ':' | '!' | '[' | '{') {
                path.push('\\');
            }
            path.push(character);
        }
    }
    path
}

/// The compact text of a value, as paths see it.
pub fn compact(value: &Value) -> String {
    String::from_utf8_lossy(&text::compact(value)).into_owned()
}

impl GetResult {
    pub fn exists(&self) -> bool {
        self.kind != Kind::Null || !self.raw.is_empty()
    }

    /// The name the library has for the sort of value.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "Null",
            Kind::False => "False",
            Kind::Number => "Number",
            Kind::String => "String",
            Kind::True => "True",
            Kind::Json => "JSON",
        }
    }

    /// The value as JSON; null if nothing was found or the text is not JSON.
    pub fn value(&self) -> Value {
        match self.kind {
            Kind::String => Value::String(self.text.clone()),
            _ => serde_json::from_str(&self.raw).unwrap_or_default(),
        }
    }

    /// The elements of a list; any other value is its own only element, null and nothing have none.
    pub fn elements(&self) -> Vec<Self> {
        match self.kind {
            Kind::Null => Vec::new(),
            Kind::Json if self.raw.starts_with('[') => {
                let list = found::Found::of(Kind::Json, self.raw.as_bytes());
                list.members()
                    .iter()
                    .map(|(_, element)| Self::found(element))
                    .collect()
            }
            _ => vec![self.clone()],
        }
    }

    fn of(value: &Value) -> Self {
        Self::found(&found::parse(&text::compact(value)))
    }

    fn found(found: &found::Found<'_>) -> Self {
        let raw = String::from_utf8_lossy(&found.raw).into_owned();
        let text = String::from_utf8_lossy(&found.text()).into_owned();
        Self {
            kind: found.kind,
            raw,
            text,
        }
    }
}

fn check_length(path: &str) -> Result<(), PathError> {
    if path.len() > MAX_PATH_BYTES {
        Err(PathError::TooLong)
    } else {
        Ok(())
    }
}

fn check(path: &str) -> Result<(), PathError> {
    check_length(path)?;
    if path.is_empty() {
        Err(PathError::Empty)
    } else {
        Ok(())
    }
}

/// True for a path of keys and indices only, which is read without writing the document out.
pub fn is_plain(path: &str) -> bool {
    !path.starts_with("..")
        && !path.starts_with('!')
        && !path
            .bytes()
            .any(|byte| matches!(byte, b'|' | b'#' | b'@' | b'*' | b'?' | b'{' | b'['))
}

/// Follows keys and indices.
fn read_plain<'d>(doc: &'d Value, path: &[u8]) -> Option<&'d Value> {
    let (mut node, mut rest) = (doc, path);
    loop {
        let step = component::ObjectStep::parse(rest);
        let after = match step.rest {
            component::Rest::More(after) => Some(after),
            component::Rest::End | component::Rest::Pipe(_) => None,
        };
        node = match node {
            Value::Object(members) => members.get(std::str::from_utf8(&step.key).ok()?)?,
            Value::Array(elements) => {
                // Lists know no escapes: the digits have to stand there as they are.
                let part = &rest[..after.map_or(rest.len(), |after| rest.len() - after.len() - 1)];
                let is_index = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
                elements.get(
                    std::str::from_utf8(part)
                        .ok()
                        .filter(|_| is_index)?
                        .parse::<usize>()
                        .ok()?,
                )?
            }
            _ => return None,
        };
        match after {
            Some(after) => rest = after,
            None => return Some(node),
        }
    }
}
