//! JSON patches of overrides, applied as KubeFed's library does. Differences from RFC 6902: `replace` adds a missing
//! field, indices may be negative, and a path may lack its first slash.

use serde_json::Value;

use kube_lang::object::json_type;
use kube_lang::object::pointer::unescape;

/// The limit for list items moved by the steps of one member.
const MAX_MOVED: usize = 50_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Op,
    pub path: String,
    /// Null if the step has none.
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Remove,
    Replace,
    /// An operation that the schema refuses.
    Unknown(String),
}

impl Op {
    /// The operation of a name; an empty name is `replace`.
    pub fn named(name: &str) -> Self {
        match name {
            "add" => Self::Add,
            "remove" => Self::Remove,
            "replace" | "" => Self::Replace,
            other => Self::Unknown(other.to_owned()),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::Unknown(name) => name,
        }
    }
}

/// The reason why a step does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("{op} operation does not apply: doc is missing path: {path:?}: missing value")]
    Parent { op: &'static str, path: String },
    #[error("replace operation does not apply: doc is missing key: {path}: missing value")]
    Key { path: String },
    #[error("error in {op} for path: '{path}': {problem}")]
    At {
        op: &'static str,
        path: String,
        problem: String,
    },
    #[error("Unexpected kind: {0}")]
    Kind(String),
    #[error(
        "the overrides move more than {MAX_MOVED} list items: use fewer overrides or shorter lists"
    )]
    TooMuch,
    #[error("the result of the overrides is {0}: it must be an object with a kind")]
    NoObject(&'static str),
}

/// Applies the steps in order. If one fails, `document` keeps the changes of the steps before it.
pub fn apply(document: &mut Value, steps: &[Step]) -> Result<(), PatchError> {
    let mut moved = 0;
    for step in steps {
        apply_one(document, step, &mut moved)?;
    }
    let kind = document.get("kind").and_then(Value::as_str);
    if !document.is_object() || kind.is_none_or(str::is_empty) {
        return Err(PatchError::NoObject(json_type(document)));
    }
    Ok(())
}

fn apply_one(document: &mut Value, step: &Step, moved: &mut usize) -> Result<(), PatchError> {
    let (path, op) = (
        &step.path,
        match step.op {
            Op::Add => "add",
            Op::Remove => "remove",
            Op::Replace => "replace",
            Op::Unknown(_) => return Err(PatchError::Kind(step.op.as_str().to_owned())),
        },
    );
    if path.is_empty() && step.op == Op::Replace {
        *document = step.value.clone();
        return Ok(());
    }
    let missing = || PatchError::Parent {
        op,
        path: path.clone(),
    };
    // Whatever is before the first slash is dropped.
    let (_, segments) = path.split_once('/').ok_or_else(missing)?;
    let (parents, key) = match segments.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), unescape(key)),
        None => (None, unescape(segments)),
    };
    let mut at = document;
    for parent in parents.iter().flat_map(|parents| parents.split('/')) {
        at = child(at, &unescape(parent)).ok_or_else(missing)?;
    }
    let failed = |problem: String| PatchError::At {
        op,
        path: path.clone(),
        problem,
    };
    match (at, &step.op) {
        (Value::Object(fields), Op::Remove) => match fields.remove(&key) {
            Some(_) => Ok(()),
            None => Err(failed(format!(
                "Unable to remove nonexistent key: {key}: missing value"
            ))),
        },
        (Value::Object(fields), _) => {
            fields.insert(key, step.value.clone());
            Ok(())
        }
        (Value::Array(items), Op::Replace) => {
            let at = number(&key).and_then(|number| within(number, items.len()));
            let at = at.map_err(|_| PatchError::Key { path: path.clone() })?;
            items[at] = step.value.clone();
            Ok(())
        }
        (Value::Array(items), op) => {
            *moved += items.len();
            if *moved > MAX_MOVED {
                return Err(PatchError::TooMuch);
            }
            if *op == Op::Remove {
                let at = number(&key).and_then(|number| within(number, items.len()));
                items.remove(at.map_err(failed)?);
            } else if key == "-" {
                items.push(step.value.clone());
            } else {
                let improper =
                    |problem| format!("value was not a proper array index: '{key}': {problem}");
                let number = number(&key).map_err(improper);
                let at = number.and_then(|number| within(number, items.len() + 1));
                items.insert(at.map_err(failed)?, step.value.clone());
            }
            Ok(())
        }
        _ => Err(missing()),
    }
}

/// The object or list at `key` of `at`.
fn child<'a>(at: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let child = match at {
        Value::Object(fields) => fields.get_mut(key)?,
        Value::Array(items) => {
            let at = within(number(key).ok()?, items.len()).ok()?;
            items.get_mut(at)?
        }
        _ => return None,
    };
    (child.is_object() || child.is_array()).then_some(child)
}

fn number(key: &str) -> Result<i64, String> {
    let quoted = || kube_lang::go_text::quote(key);
    let number = key.parse();
    number.map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quoted()))
}

/// An index into a list of this length; a negative one counts from the end.
fn within(number: i64, places: usize) -> Result<usize, String> {
    let distance = usize::try_from(number.unsigned_abs()).ok();
    let index = if number < 0 {
        distance.and_then(|distance| places.checked_sub(distance))
    } else {
        distance
    };
    let index = index.filter(|index| *index < places);
    index.ok_or_else(|| {
        format!("Unable to access invalid index: {number}: invalid index referenced")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn step(op: &str, path: &str, value: Value) -> Step {
        Step {
            op: Op::named(op),
            path: path.to_owned(),
            value,
        }
    }

    /// The result for a small document, without its kind.
    fn applied(op: &str, path: &str, value: Value) -> Result<Value, String> {
        let mut document = json!({"kind": "K", "a": {"b": 1}, "l": ["x", "y"]});
        apply(&mut document, &[step(op, path, value)]).map_err(|error| error.to_string())?;
        document.as_object_mut().unwrap().remove("kind");
        Ok(document)
    }

    #[test]
    fn every_row_of_the_table_has_its_result() {
        let l = |items: Value| json!({"a": {"b": 1}, "l": items});
        let a = |fields: Value| json!({"a": fields, "l": ["x", "y"]});
        for (op, path, value, wanted) in [
            ("replace", "/a/new", json!(2), a(json!({"b": 1, "new": 2}))),
            ("", "/a/b", json!(2), a(json!({"b": 2}))),
            ("add", "/a/b", json!(2), a(json!({"b": 2}))),
            ("add", "/a/b", json!(null), a(json!({"b": null}))),
            ("remove", "/a/b", json!(null), a(json!({}))),
            ("add", "/l/0", json!("-q"), l(json!(["-q", "x", "y"]))),
            ("add", "/l/2", json!("z"), l(json!(["x", "y", "z"]))),
            ("add", "/l/-", json!("z"), l(json!(["x", "y", "z"]))),
            ("add", "/l/-1", json!("z"), l(json!(["x", "y", "z"]))),
            ("add", "/l/-3", json!("z"), l(json!(["z", "x", "y"]))),
            ("add", "/l/01", json!("z"), l(json!(["x", "z", "y"]))),
            ("replace", "/l/-1", json!("z"), l(json!(["x", "z"]))),
            ("replace", "/l/0", json!("z"), l(json!(["z", "y"]))),
            ("remove", "/l/-1", json!(null), l(json!(["x"]))),
            ("add", "/a/~0~1", json!(2), a(json!({"b": 1, "~/": 2}))),
        ] {
            assert_eq!(applied(op, path, value), Ok(wanted), "{op} {path}");
        }
        let dropped = applied("replace", "spec/replicas", json!(3)).unwrap();
        assert_eq!(dropped["replicas"], 3, "the first segment is dropped");
        assert_eq!(applied("add", "/", json!(3)).unwrap()[""], 3);
        let whole = applied("replace", "", json!({"kind": "K", "other": 1}));
        assert_eq!(whole, Ok(json!({"other": 1})));
    }

    #[test]
    fn what_does_not_apply_is_told_as_the_original_tells_it() {
        for (op, path, wanted) in [
            (
                "replace",
                "/spec/x/y",
                "replace operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
            ),
            (
                "add",
                "/spec/x/y",
                "add operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
            ),
            (
                "remove",
                "/spec/x",
                "remove operation does not apply: doc is missing path: \"/spec/x\": missing value",
            ),
            (
                "add",
                "/a/b/c",
                "add operation does not apply: doc is missing path: \"/a/b/c\": missing value",
            ),
            (
                "add",
                "/l/0/c",
                "add operation does not apply: doc is missing path: \"/l/0/c\": missing value",
            ),
            (
                "add",
                "",
                "add operation does not apply: doc is missing path: \"\": missing value",
            ),
            (
                "replace",
                "replicas",
                "replace operation does not apply: doc is missing path: \"replicas\": missing value",
            ),
            (
                "remove",
                "/a/zz",
                "error in remove for path: '/a/zz': Unable to remove nonexistent key: zz: missing value",
            ),
            (
                "add",
                "/l/3",
                "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
            ),
            (
                "add",
                "/l/-4",
                "error in add for path: '/l/-4': Unable to access invalid index: -4: invalid index referenced",
            ),
            (
                "remove",
                "/l/2",
                "error in remove for path: '/l/2': Unable to access invalid index: 2: invalid index referenced",
            ),
            (
                "remove",
                "/l/-3",
                "error in remove for path: '/l/-3': Unable to access invalid index: -3: invalid index referenced",
            ),
            (
                "replace",
                "/l/2",
                "replace operation does not apply: doc is missing key: /l/2: missing value",
            ),
            (
                "replace",
                "/l/-3",
                "replace operation does not apply: doc is missing key: /l/-3: missing value",
            ),
            (
                "add",
                "/l/x",
                "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("frob", "/a", "Unexpected kind: frob"),
            (
                "remove",
                "/kind",
                "the result of the overrides is an object: it must be an object with a kind",
            ),
            (
                "replace",
                "",
                "the result of the overrides is null: it must be an object with a kind",
            ),
        ] {
            assert_eq!(
                applied(op, path, Value::Null),
                Err(wanted.to_owned()),
                "{op} {path}"
            );
        }
    }

    #[test]
    fn every_golden_patch_of_single_steps_has_the_result_of_the_originals_library() {
        let golden = include_str!("../../../../tests/data/json_patch_v4.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let mut checked = 0;
        for case in golden["cases"].as_array().unwrap() {
            let read = |field: &str| serde_json::from_str::<Value>(case[field].as_str().unwrap());
            let (Ok(Value::Object(mut document)), Ok(Value::Array(steps))) =
                (read("doc"), read("patch"))
            else {
                continue;
            };
            document.insert("kind".into(), "K".into());
            let read: Vec<Step> = (steps.iter())
                .filter(|step| step["op"].is_string() && step["path"].is_string())
                .map(|step_| {
                    step(
                        step_["op"].as_str().unwrap(),
                        step_["path"].as_str().unwrap(),
                        step_["value"].clone(),
                    )
                })
                .collect();
            let is_known = |step: &Step| !matches!(step.op, Op::Unknown(_));
            if read.len() < steps.len() || !read.iter().all(is_known) {
                continue;
            }
            let mut document = Value::Object(document);
            let got = apply(&mut document, &read).map_err(|error| error.to_string());
            document.as_object_mut().unwrap().remove("kind");
            let id = &case["id"];
            if case["error"] == true {
                assert_eq!(json!(got.unwrap_err()), case["message"], "{id}");
            } else {
                assert_eq!((got, &document), (Ok(()), &case["want"]), "{id}");
            }
            checked += 1;
        }
        assert!(checked > 40, "{checked}");
    }

    #[test]
    fn the_example_of_the_user_guide_works() {
        let mut document = json!({
            "kind": "Deployment", "metadata": {},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": "nginx", "args": ["x"]}]}}},
        });
        let container = "/spec/template/spec/containers/0";
        let steps = [
            step("", "/spec/replicas", json!(5)),
            step(
                "",
                &format!("{container}/image"),
                json!("nginx:1.17.0-alpine"),
            ),
            step("add", "/metadata/annotations", json!({"foo": "bar"})),
            step("remove", "/metadata/annotations/foo", Value::Null),
            step("add", &format!("{container}/args/0"), json!("-q")),
        ];
        apply(&mut document, &steps).unwrap();
        let container = json!({"image": "nginx:1.17.0-alpine", "args": ["-q", "x"]});
        assert_eq!(
            document,
            json!({
                "kind": "Deployment", "metadata": {"annotations": {}},
                "spec": {"replicas": 5, "template": {"spec": {"containers": [container]}}},
            })
        );
    }

    #[test]
    fn work_is_bounded() {
        let mut document = json!({"kind": "K", "l": vec![0; 100_000]});
        let steps = vec![step("add", "/l/0", json!(1)); 1000];
        assert_eq!(apply(&mut document, &steps), Err(PatchError::TooMuch));
    }

    proptest! {
        #[test]
        fn no_path_is_too_odd(op in "add|remove|replace", path in "(/(a|l|b|-|0|-1|99999999999999999999|~1|))*.?") {
            let _ = applied(&op, &path, json!([1]));
        }
    }
}
