//! One step of a JSON patch (RFC 6902): add, remove or replace.

use kube_lang::object::pointer::unescape;
use serde_json::Value;

use crate::types::overrides::JsonPatchOperator;

/// A step that does not apply to a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("path \"{0}\" must begin with /")]
    Path(String),
    #[error("there is nothing at path \"{0}\"; add the parent first")]
    Missing(String),
    #[error("path \"{0}\" must end with an index of the list")]
    Index(String),
}

/// Applies a step. A step that fails changes nothing.
pub fn apply(
    document: &mut Value,
    operator: JsonPatchOperator,
    path: &str,
    value: Value,
) -> Result<(), PatchError> {
    let missing = || PatchError::Missing(path.to_owned());
    let (parent, key) = match path.rsplit_once('/') {
        Some((parent, key)) if path.starts_with('/') => (parent, unescape(key)),
        _ => return Err(PatchError::Path(path.to_owned())),
    };
    match document.pointer_mut(parent).ok_or_else(missing)? {
        Value::Object(fields) => match operator {
            JsonPatchOperator::Add => drop(fields.insert(key, value)),
            JsonPatchOperator::Replace => *fields.get_mut(&key).ok_or_else(missing)? = value,
            JsonPatchOperator::Remove => drop(fields.remove(&key).ok_or_else(missing)?),
        },
        Value::Array(items) => {
            if operator == JsonPatchOperator::Add && key == "-" {
                items.push(value);
                return Ok(());
            }
            let is_index =
                key == "0" || !key.starts_with('0') && key.bytes().all(|b| b.is_ascii_digit());
            let index: Option<usize> = key.parse().ok().filter(|_| is_index);
            let index = index.ok_or_else(|| PatchError::Index(path.to_owned()))?;
            match operator {
                JsonPatchOperator::Add if index <= items.len() => items.insert(index, value),
                JsonPatchOperator::Replace if index < items.len() => items[index] = value,
                JsonPatchOperator::Remove if index < items.len() => drop(items.remove(index)),
                _ => return Err(missing()),
            }
        }
        _ => return Err(missing()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_row_of_the_table_has_its_result() {
        use JsonPatchOperator::{Add, Remove, Replace};
        let document = || json!({"a": {"b": 1}, "l": ["x", "y"], "s": "t"});
        let with = |pointer: &str, value: Value| {
            let mut changed = document();
            *changed.pointer_mut(pointer).unwrap() = value;
            Some(changed)
        };
        for (operator, path, wanted) in [
            (Add, "/a/b", with("/a/b", json!(9))),
            (Add, "/a/c~1d", with("/a", json!({"b": 1, "c/d": 9}))),
            (Add, "/x/y", None),
            (Add, "/s/y", None),
            (Add, "a", None),
            (Add, "/l/0", with("/l", json!([9, "x", "y"]))),
            (Add, "/l/2", with("/l", json!(["x", "y", 9]))),
            (Add, "/l/-", with("/l", json!(["x", "y", 9]))),
            (Add, "/l/3", None),
            (Add, "/l/01", None),
            (Add, "/l/+1", None),
            (Replace, "/a/b", with("/a/b", json!(9))),
            (Replace, "/a/c", None),
            (Replace, "/l/1", with("/l", json!(["x", 9]))),
            (Replace, "/l/2", None),
            (Remove, "/a/b", with("/a", json!({}))),
            (Remove, "/a/c", None),
            (Remove, "/l/0", with("/l", json!(["y"]))),
        ] {
            let mut found = document();
            let result = apply(&mut found, operator, path, json!(9));
            assert_eq!(
                result.is_ok(),
                wanted.is_some(),
                "{operator:?} {path}: {result:?}"
            );
            assert_eq!(
                found,
                wanted.unwrap_or_else(document),
                "{operator:?} {path}"
            );
        }
    }
}
