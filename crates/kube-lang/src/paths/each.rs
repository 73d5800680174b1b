//! `[*]`: one path that stands for every element of a list.
//!
//! An extension: to the libraries whose paths these are, a bracket in a key is an ordinary character. Other brackets
//! stay that; `\[*]` names a key that ends in the three characters.

use serde_json::Value;

use super::limits::{MAX_ELEMENTS, PathError};
use super::read::read_plain;
use super::write;

const MARK: &str = "[*]";

/// The offset of the first `[*]` that ends a part of the path.
fn mark(path: &str) -> Option<usize> {
    let bytes = path.as_bytes();
    let (mut i, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(i) {
        if depth == 0 && i > 0 && path.get(i..).is_some_and(|rest| rest.starts_with(MARK)) {
            let after = bytes.get(i + MARK.len());
            if matches!(after, None | Some(b'.' | b'[')) {
                return Some(i);
            }
        }
        match byte {
            b'\\' => i += 1,
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        i += 1;
    }
    None
}

pub(super) fn validate(path: &str) -> Result<(), PathError> {
    let mut rest = path;
    while let Some(at) = mark(rest) {
        if write::parts(&rest[..at]).is_none() {
            return Err(PathError::EachOfComplex {
                path: path.to_owned(),
            });
        }
        rest = &rest[at + MARK.len()..];
    }
    Ok(())
}

/// The paths a path stands for in a document; itself if it has no `[*]`.
pub(super) fn expand(doc: &Value, path: &str) -> Result<Vec<String>, PathError> {
    let mut expanded = Vec::new();
    expand_into(doc, path, &mut expanded)?;
    Ok(expanded)
}

fn expand_into(doc: &Value, path: &str, expanded: &mut Vec<String>) -> Result<(), PathError> {
    let Some(at) = mark(path) else {
        if expanded.len() == MAX_ELEMENTS {
            return Err(PathError::TooManyElements {
                path: path.to_owned(),
            });
        }
        expanded.push(path.to_owned());
        return Ok(());
    };
    let (list, rest) = (&path[..at], &path[at + MARK.len()..]);
    let Some(Value::Array(elements)) = read_plain(doc, list.as_bytes()) else {
        return Ok(());
    };
    for index in 0..elements.len() {
        expand_into(doc, &format!("{list}.{index}{rest}"), expanded)?;
    }
    Ok(())
}
