//! Writing and deleting the value at a path.

use serde_json::{Map, Value};

use super::{
    component::{ObjectStep, sub_selectors},
    limits::{Budget, MAX_PADDING, PathError},
    modifier, read,
};

/// One key or index of a path that is written through.
pub(super) struct Part {
    /// The key, escapes taken out.
    key: String,
    /// The same as it is looked up, escapes still in.
    lookup: String,
    /// Written with a leading colon: a key, even if it looks like an index.
    forced: bool,
}

/// The parts of a path, or `None` if it holds what only reading understands (`#`, `*`, `?`, `|`, `@`).
pub(super) fn parts(path: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = path;
    loop {
        let forced = rest.starts_with(':');
        if forced {
            rest = &rest[1..];
        }
        let (mut key, mut end) = (String::new(), None);
        let mut characters = rest.char_indices();
        while let Some((i, character)) = characters.next() {
            match character {
                '.' => {
                    end = Some(i);
                    break;
                }
                '|' | '#' | '@' | '*' | '?' => return None,
                '\\' => key.extend(characters.next().map(|(_, escaped)| escaped)),
                other => key.push(other),
            }
        }
        let lookup = rest[..end.unwrap_or(rest.len())].to_owned();
        parts.push(Part {
            key,
            lookup,
            forced,
        });
        match end {
            Some(end) => rest = &rest[end + 1..],
            None => return Some(parts),
        }
    }
}

/// The keys of the parts, without escapes.
pub(super) fn keys(parts: Vec<Part>) -> Vec<String> {
    parts.into_iter().map(|part| part.key).collect()
}

pub(super) fn set(doc: &mut Value, path: &str, new: Value) -> Result<(), PathError> {
    match parts(path) {
        Some(parts) => set_parts(doc, &parts, new),
        None => set_matches(doc, path, &new),
    }
}

pub(super) fn delete(doc: &mut Value, path: &str) -> Result<(), PathError> {
    let parts = parts(path).ok_or(PathError::ComplexDelete)?;
    let Some((last, parents)) = parts.split_last() else {
        return Err(PathError::Empty);
    };
    let mut node = doc;
    for part in parents {
        let Some(place) = part.existing(node) else {
            return Ok(());
        };
        let Some(child) = place.of(node) else {
            return Ok(());
        };
        node = child;
    }
    let place = last.existing(node);
    match (place, node) {
        (Some(Place::Key(key)), Value::Object(members)) => drop(members.remove(&key)),
        (Some(Place::Index(index)), Value::Array(elements)) => drop(elements.remove(index)),
        _ => {}
    }
    Ok(())
}

fn set_parts(mut node: &mut Value, parts: &[Part], new: Value) -> Result<(), PathError> {
    for (i, part) in parts.iter().enumerate() {
        // Looked up first and borrowed after: what exists is descended into, the rest is built in one go.
        match part.found(node).filter(|place| place.exists_in(node)) {
            Some(place) => match place.of(node) {
                Some(child) => node = child,
                None => return Ok(()),
            },
            None => return create(node, &parts[i..], new),
        }
    }
    *node = new;
    Ok(())
}

/// Puts the first of the parts, which does not exist, into a node, and all the others below it.
fn create(node: &mut Value, parts: &[Part], new: Value) -> Result<(), PathError> {
    let Some((first, below)) = parts.split_first() else {
        return Ok(());
    };
    let index = first.index()?;
    let built = build(below, new)?;
    if !node.is_object() && !node.is_array() {
        *node = if index.is_some() {
            Value::Array(Vec::new())
        } else {
            Value::Object(Map::new())
        };
    }
    match node {
        Value::Array(elements) => {
            if let Some(index) = index {
                pad(elements, index)?;
            } else if !first.appends() {
                return Err(PathError::NotAnIndex {
                    key: first.key.clone(),
                });
            }
            elements.push(built);
        }
        Value::Object(members) => drop(members.insert(first.key.clone(), built)),
        _ => {}
    }
    Ok(())
}

/// Builds the value to insert, so that the remaining parts lead to the new value.
fn build(parts: &[Part], new: Value) -> Result<Value, PathError> {
    let mut value = new;
    for part in parts.iter().rev() {
        value = match part.index()? {
            None if part.appends() => Value::Array(vec![value]),
            None => Value::Object(Map::from_iter([(part.key.clone(), value)])),
            Some(index) => {
                let mut elements = Vec::new();
                pad(&mut elements, index)?;
                elements.push(value);
                Value::Array(elements)
            }
        };
    }
    Ok(value)
}

fn pad(elements: &mut Vec<Value>, length: usize) -> Result<(), PathError> {
    if length > elements.len() {
        if length - elements.len() > MAX_PADDING {
            return Err(PathError::TooFarBeyond { index: length });
        }
        elements.resize(length, Value::Null);
    }
    Ok(())
}

/// Replaces what a reading path finds; nothing is created.
fn set_matches(doc: &mut Value, path: &str, new: &Value) -> Result<(), PathError> {
    let unwritable = |_| PathError::NotWritable {
        path: path.to_owned(),
    };
    let mut text = serde_json::to_vec(doc).map_err(unwritable)?;
    let budget = Budget::default();
    let found = read::get(&text, path.as_bytes(), &budget)?;
    if !found.exists() {
        return Ok(());
    }
    let mut spans = Vec::new();
    if found.index != 0 {
        spans.push((found.index, found.raw.len()));
    } else if let Some(indexes) = &found.indexes {
        let members = found.members();
        if members.len() != indexes.len() {
            return Ok(());
        }
        spans.extend(
            indexes
                .iter()
                .zip(&members)
                .map(|(index, (_, member))| (*index, member.raw.len())),
        );
        spans.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
    }
    let new = serde_json::to_vec(new).map_err(unwritable)?;
    if spans.is_empty() {
        return Ok(());
    }
    budget.spend(
        spans
            .len()
            .saturating_mul(text.len().saturating_add(new.len())),
    )?;
    for (index, length) in spans {
        if index + length > text.len() {
            return Err(PathError::NotWritable {
                path: path.to_owned(),
            });
        }
        text.splice(index..index + length, new.iter().copied());
    }
    // Where matches lie within each other, or were computed, replacing them leaves no JSON behind.
    *doc = serde_json::from_slice(&text).map_err(unwritable)?;
    Ok(())
}

/// The target of a part within a node.
enum Place {
    Key(String),
    Index(usize),
}

impl Place {
    fn exists_in(&self, node: &Value) -> bool {
        match (self, node) {
            (Self::Key(key), Value::Object(members)) => members.contains_key(key),
            (Self::Index(index), Value::Array(elements)) => *index < elements.len(),
            _ => false,
        }
    }

    fn of<'n>(&self, node: &'n mut Value) -> Option<&'n mut Value> {
        match (self, node) {
            (Self::Key(key), Value::Object(members)) => members.get_mut(key),
            (Self::Index(index), Value::Array(elements)) => elements.get_mut(*index),
            _ => None,
        }
    }
}

impl Part {
    /// The index this part stands for when something has to be created. An empty part counts as zero.
    fn index(&self) -> Result<Option<usize>, PathError> {
        if self.forced || !self.key.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        if self.key.is_empty() {
            return Ok(Some(0));
        }
        self.key
            .parse()
            .map(Some)
            .map_err(|_| PathError::TooFarBeyond { index: usize::MAX })
    }

    fn appends(&self) -> bool {
        !self.forced && self.key == "-1"
    }

    fn found(&self, node: &Value) -> Option<Place> {
        match node {
            Value::Object(_) => key_looked_up(&self.lookup).map(Place::Key),
            Value::Array(_)
                if !self.lookup.is_empty() && self.lookup.bytes().all(|b| b.is_ascii_digit()) =>
            {
                self.lookup.parse().ok().map(Place::Index)
            }
            _ => None,
        }
    }

    /// Finds an existing value to delete; `-1` is the last element of a list.
    fn existing(&self, node: &Value) -> Option<Place> {
        let place = match node {
            Value::Array(elements) if self.appends() => {
                Some(Place::Index(elements.len().checked_sub(1)?))
            }
            _ => self.found(node),
        };
        place.filter(|place| place.exists_in(node))
    }
}

/// The key a lookup of one part finds in an object. What reads as a multipath or a literal finds none: it is computed.
fn key_looked_up(lookup: &str) -> Option<String> {
    let bytes = lookup.as_bytes();
    let key = match bytes {
        [b'[' | b'{', _, ..] => match sub_selectors(bytes) {
            Some((_, [] | [b'|' | b'.', ..])) => return None,
            Some((_, rest)) => rest,
            None => b"",
        },
        [b'!', _, ..] if modifier::literal(bytes).is_some() => return None,
        _ => bytes,
    };
    Some(String::from_utf8_lossy(&ObjectStep::parse(key).key).into_owned())
}
