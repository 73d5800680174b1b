//! JSON patches, as the library of kube-apiserver applies them.
//!
//! A small patch can cause much work, so these are bounded: the bytes that it copies, the depth, and the number of
//! values that it moves.

use serde_json::Value;

use super::error::{MAX_OPERATIONS, PatchError, undecoded};
use kube_lang::go_text::quote;
use kube_lang::object::pointer;
use kube_schema::json;

/// The limit of values that one patch may visit or move: ten thousand insertions into a list of five thousand.
const MAX_WORK: usize = 50_000_000;

/// The maximum depth of a patched document, the same as that of a request.
pub(super) const MAX_DEPTH: usize = json::MAX_LEVELS;

pub(super) fn apply(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Null => return Ok(object.clone()),
        Value::Array(operations) => operations,
        _ => {
            let message = undecoded(patch, "[]handlers.jsonPatchOp");
            return Err(PatchError::Malformed(message));
        }
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge {
            operations: operations.len(),
        });
    }
    if !operations.iter().all(Value::is_object) {
        return Err(PatchError::Malformed(
            "error decoding patch: an operation must be a JSON object".to_owned(),
        ));
    }
    let mut patcher = Patcher {
        document: object.clone(),
        work: 0,
        copied: 0,
    };
    for operation in operations {
        patcher.apply(operation).map_err(PatchError::Rejected)?;
    }
    Ok(patcher.document)
}

struct Patcher {
    document: Value,
    work: usize,
    /// The bytes that copying has added.
    copied: usize,
}

impl Patcher {
    fn apply(&mut self, operation: &Value) -> Result<(), String> {
        let name = operation.get("op").and_then(Value::as_str).unwrap_or("");
        let path = |member: &str| {
            operation
                .get(member)
                .and_then(Value::as_str)
                .ok_or_else(|| format!("{name} operation failed to decode {member}: missing value"))
        };
        let value = || operation.get("value").cloned().unwrap_or_default();
        match name {
            "add" => self.add("add", path("path")?, value()),
            "remove" => self.remove("remove", path("path")?).map(drop),
            "replace" => self.replace(path("path")?, value()),
            "move" => {
                let target = path("path")?;
                let value = self.remove("move", path("from")?)?;
                self.add("move", target, value)
            }
            "copy" => {
                let value = self.original(path("from")?)?;
                self.copied += value.to_string().len();
                if self.copied > json::MAX_BODY {
                    return Err(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                        self.copied,
                        json::MAX_BODY
                    ));
                }
                self.add("copy", path("path")?, value)
            }
            "test" => self.test(path("path")?, operation.get("value")),
            _ => Err("Unexpected kind: unknown".to_owned()),
        }
    }

    /// The copied value; a missing member of an object counts as null.
    fn original(&mut self, from: &str) -> Result<Value, String> {
        let (parent, last) = self.parent("copy", from)?;
        let is_object = parent.is_object();
        match step_into(parent, &last) {
            Some(value) => Ok(value.clone()),
            None if is_object => Ok(Value::Null),
            None => Err(format!("error in copy for path: '{from}': missing value")),
        }
    }

    /// The object or list that contains the end of a path, and the last element of the path.
    fn parent(&mut self, what: &str, path: &str) -> Result<(&mut Value, String), String> {
        let missing = || {
            format!(
                "{what} operation does not apply: doc is missing path: {}: missing value",
                quote(path)
            )
        };
        let (steps, last) = split(path).ok_or_else(missing)?;
        let mut at = &mut self.document;
        for step in steps {
            at = step_into(at, &step).ok_or_else(missing)?;
        }
        if at.is_object() || at.is_array() {
            Ok((at, last))
        } else {
            Err(missing())
        }
    }

    fn charge(&mut self, work: usize) -> Result<(), String> {
        self.work += work;
        if self.work > MAX_WORK {
            return Err("the patch asks for too much work on large lists".to_owned());
        }
        Ok(())
    }

    fn add(&mut self, what: &str, path: &str, value: Value) -> Result<(), String> {
        let room = MAX_DEPTH.saturating_sub(path.matches('/').count());
        let mut visited = 0;
        if !is_shallow(&value, room, &mut visited) {
            return Err(format!(
                "error in {what} for path: '{path}': the document would be nested too deeply"
            ));
        }
        let moved = {
            let (parent, last) = self.parent(what, path)?;
            match parent {
                Value::Object(map) => {
                    map.insert(last, value);
                    0
                }
                Value::Array(list) => {
                    let at = insertion(&last, list.len())
                        .map_err(|e| format!("error in {what} for path: '{path}': {e}"))?;
                    list.insert(at, value);
                    list.len() - at
                }
                _ => 0,
            }
        };
        self.charge(moved + visited)
    }

    fn remove(&mut self, what: &str, path: &str) -> Result<Value, String> {
        let wrong = |e: String| format!("error in {what} for path: '{path}': {e}");
        let (parent, last) = self.parent(what, path)?;
        let (value, moved) = match parent {
            Value::Object(map) => {
                let value = map.remove(&last).ok_or_else(|| {
                    wrong(format!(
                        "Unable to remove nonexistent key: {last}: missing value"
                    ))
                })?;
                (value, 0)
            }
            Value::Array(list) => {
                let at = number(&last).map_err(wrong)?;
                let at = existing(at, list.len()).ok_or_else(|| wrong(invalid_index(at)))?;
                (list.remove(at), list.len() - at)
            }
            _ => return Err(wrong("missing value".to_owned())),
        };
        self.charge(moved)?;
        Ok(value)
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), String> {
        let (parent, last) = self.parent("replace", path)?;
        if parent.is_object() {
            // The library adds a missing member.
            return self.add("replace", path, value);
        }
        let slot = step_into(parent, &last).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        })?;
        *slot = value;
        Ok(())
    }

    fn test(&mut self, path: &str, want: Option<&Value>) -> Result<(), String> {
        let (parent, last) = self.parent("test", path)?;
        let found = step_into(parent, &last).map_or(&Value::Null, |value| &*value);
        if found == want.unwrap_or(&Value::Null) {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: test failed"))
        }
    }
}

/// The path to the parent, and the last element; text before the first slash is ignored.
fn split(path: &str) -> Option<(Vec<String>, String)> {
    let mut steps: Vec<String> = path.split('/').skip(1).map(pointer::unescape).collect();
    let last = steps.pop()?;
    Some((steps, last))
}

fn step_into<'v>(value: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(list) => {
            let at = existing(number(step).ok()?, list.len())?;
            list.get_mut(at)
        }
        _ => None,
    }
}

fn number(step: &str) -> Result<i64, String> {
    step.parse()
        .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(step)))
}

fn invalid_index(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}

/// The index of an element, from the end if it is negative.
fn existing(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if index < 0 { index + length } else { index };
    (0..length)
        .contains(&at)
        .then(|| usize::try_from(at).ok())?
}

/// The index of a new element: before the one at an index, or at the end.
fn insertion(step: &str, length: usize) -> Result<usize, String> {
    if step == "-" {
        return Ok(length);
    }
    let index =
        number(step).map_err(|e| format!("value was not a proper array index: '{step}': {e}"))?;
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    // From the end, -1 is after the last element.
    let at = if index < 0 { index + size + 1 } else { index };
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= length)
        .ok_or_else(|| invalid_index(index))
}

/// Whether a value has at most `levels` levels; counts the visited values.
fn is_shallow(value: &Value, levels: usize, visited: &mut usize) -> bool {
    *visited += 1;
    match value {
        Value::Object(map) => {
            levels > 0 && map.values().all(|v| is_shallow(v, levels - 1, visited))
        }
        Value::Array(list) => levels > 0 && list.iter().all(|v| is_shallow(v, levels - 1, visited)),
        _ => true,
    }
}
