//! Dotted paths into JSON documents: `metadata.name`, `spec.items.0`, `spec.items.#(name=="a").value`.
//!
//! Reads as gjson 1.18 does and writes as sjson 1.2.5 does, and adds `[*]` for "each element". Knows nothing of
//! mutation steps. Every evaluation is bounded in depth and in bytes looked at.

mod component;
mod each;
mod found;
mod limits;
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

use limits::{Budget, MAX_PATH_BYTES};
pub use limits::{MAX_DEPTH, MAX_WORK, PathError};
pub use scan::Kind;

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

/// Reads a document. Not finding anything is no error.
pub fn get(doc: &Value, path: &str) -> Result<GetResult, PathError> {
    get_counted(doc, path).map(|(found, _)| found)
}

/// Reads a document, and says how many bytes were looked at or written for that.
pub fn get_counted(doc: &Value, path: &str) -> Result<(GetResult, usize), PathError> {
    check_length(path)?;
    if is_plain(path) {
        let found = read::read_plain(doc, path.as_bytes()).map(GetResult::of);
        let found = found.unwrap_or_default();
        let looked = path.len() + found.raw.len();
        return Ok((found, looked));
    }
    let text = text::compact(doc);
    let budget = Budget::default();
    let found = read::get(&text, path.as_bytes(), &budget)?;
    Ok((GetResult::found(&found), text.len() + budget.spent()))
}

/// What [`get`] is held against. It reads JSON text as it stands: spaces, the order of keys and the notation of numbers are kept.
#[cfg(test)]
fn get_text(json: &str, path: &str) -> Result<GetResult, PathError> {
    check_length(path)?;
    let budget = Budget::default();
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
