//! Overrides: changes to the template for single members. They are read and checked as a whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use kube_lang::go_text::quote;
use kube_lang::object::{Object, json_type};

pub mod patch;

use patch::{Op, Step};

/// Paths that no override may change.
const UNTOUCHABLE: [&str; 4] = [
    "/metadata/namespace",
    "/metadata/name",
    "/metadata/generateName",
    "/kind",
];

/// The name that means every member, if wildcards are enabled.
pub const ALL: &str = "*";

/// Patch steps by member, in order.
pub type Overrides = BTreeMap<String, Vec<Step>>;

/// Invalid overrides. They affect all members of the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverridesError {
    #[error("cluster {} appears more than once", quote(.0))]
    ClusterTwice(String),
    #[error("path {} appears more than once for cluster {}", quote(.path), quote(.cluster))]
    PathTwice { path: String, cluster: String },
    #[error("override[{index}] for cluster {} has an invalid path: {path}", quote(.cluster))]
    Path {
        index: usize,
        path: String,
        cluster: String,
    },
    #[error("{field} must be {expected}, found {found}")]
    Shape {
        field: &'static str,
        expected: &'static str,
        found: &'static str,
    },
}

/// Reads `spec.overrides`. Entries for unknown members are valid.
pub fn read(object: &Object) -> Result<Overrides, OverridesError> {
    let mut overrides = Overrides::new();
    let spec = object.root().get("spec").unwrap_or(&Value::Null);
    for entry in list(spec, "overrides", "spec.overrides")? {
        let cluster = text(entry, "clusterName", "spec.overrides[].clusterName")?.to_owned();
        if overrides.contains_key(&cluster) {
            return Err(OverridesError::ClusterTwice(cluster));
        }
        let steps = steps(entry, &cluster)?;
        overrides.insert(cluster, steps);
    }
    Ok(overrides)
}

fn steps(entry: &Value, cluster: &str) -> Result<Vec<Step>, OverridesError> {
    let mut seen = BTreeSet::new();
    let mut steps = Vec::new();
    let entries = list(
        entry,
        "clusterOverrides",
        "spec.overrides[].clusterOverrides",
    )?;
    for (index, step) in entries.iter().enumerate() {
        let path = text(step, "path", "spec.overrides[].clusterOverrides[].path")?;
        if UNTOUCHABLE.contains(&path) {
            return Err(OverridesError::Path {
                index,
                path: path.to_owned(),
                cluster: cluster.to_owned(),
            });
        }
        if !seen.insert(path) {
            return Err(OverridesError::PathTwice {
                path: path.to_owned(),
                cluster: cluster.to_owned(),
            });
        }
        let op = text(step, "op", "spec.overrides[].clusterOverrides[].op")?;
        steps.push(Step {
            op: Op::named(op),
            path: path.to_owned(),
            value: step.get("value").cloned().unwrap_or_default(),
        });
    }
    Ok(steps)
}

fn list<'a>(
    value: &'a Value,
    name: &str,
    field: &'static str,
) -> Result<&'a [Value], OverridesError> {
    match value.get(name).unwrap_or(&Value::Null) {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(OverridesError::Shape {
            field,
            expected: "a list",
            found: json_type(other),
        }),
    }
}

fn text<'a>(value: &'a Value, name: &str, field: &'static str) -> Result<&'a str, OverridesError> {
    match value.get(name).unwrap_or(&Value::Null) {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(OverridesError::Shape {
            field,
            expected: "a string",
            found: json_type(other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(overrides: &Value) -> Result<Overrides, String> {
        let object = Object::new(json!({"spec": {"overrides": overrides}})).unwrap();
        read(&object).map_err(|error| error.to_string())
    }

    #[test]
    fn steps_are_read_in_order_and_replace_where_nothing_is_said() {
        let got = told(&json!([
            {"clusterName": "c1", "clusterOverrides": [
                {"path": "/spec/replicas", "value": 5},
                {"path": "/a", "op": "remove"},
                {"path": "/b", "op": "add", "value": null},
            ]},
            {"clusterName": "c2"},
        ]))
        .unwrap();
        let ops: Vec<(&Op, &str)> = got["c1"]
            .iter()
            .map(|step| (&step.op, &*step.path))
            .collect();
        assert_eq!(
            ops,
            [
                (&Op::Replace, "/spec/replicas"),
                (&Op::Remove, "/a"),
                (&Op::Add, "/b")
            ]
        );
        assert_eq!(got["c1"][0].value, 5);
        assert!(got["c2"].is_empty());
        assert_eq!(told(&Value::Null), Ok(Overrides::new()));
    }

    #[test]
    fn what_cannot_be_meant_is_told_as_the_original_tells_it() {
        let of = |steps: Value| json!([{"clusterName": "c", "clusterOverrides": steps}]);
        for (overrides, wanted) in [
            (
                json!([{"clusterName": "c"}, {"clusterName": "c"}]),
                "cluster \"c\" appears more than once",
            ),
            (
                of(json!([{"path": "/a"}, {"path": "/a", "op": "remove"}])),
                "path \"/a\" appears more than once for cluster \"c\"",
            ),
            (
                of(json!([{"path": "/kind"}])),
                "override[0] for cluster \"c\" has an invalid path: /kind",
            ),
            (
                of(json!([{"path": "/a"}, {"path": "/metadata/name"}])),
                "override[1] for cluster \"c\" has an invalid path: /metadata/name",
            ),
            (json!({}), "spec.overrides must be a list, found an object"),
            (
                of(json!([{"path": 1}])),
                "spec.overrides[].clusterOverrides[].path must be a string, found a number",
            ),
        ] {
            assert_eq!(told(&overrides), Err(wanted.to_owned()));
        }
        let whole =
            of(json!([{"path": "/metadata", "value": {}}, {"path": "/apiVersion", "value": "v2"}]));
        assert!(told(&whole).is_ok(), "only exact paths are refused");
    }
}
