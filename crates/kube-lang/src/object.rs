//! A JSON object with typed access to what every Kubernetes object has.
//!
//! Nothing is interpreted beyond `apiVersion`, `kind` and `metadata`; every other field travels as it
//! came. Integers stay integers: `serde_json` keeps 64-bit integers exact, and nothing here goes
//! through floating point.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub mod merge_patch;
pub mod numbers;
pub mod pointer;

/// The name by which an API server knows a kind of object: group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// `group/version`, or `version` alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// The reason why a document is not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    #[error("{field} must be {expected}, found {found}")]
    WrongType {
        field: &'static str,
        expected: &'static str,
        found: &'static str,
    },
}

/// The type of a JSON value, in words for people.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A Kubernetes object as JSON. Construction checks the types of the fields that the accessors
/// below rely on, so that a malformed object is an error at the edge and not a wrong answer inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Object {
    value: Value,
    #[serde(skip)]
    missing: Option<Missing>,
}

/// The reason why only the type and the metadata of an object are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is nested too deeply to be read.
    TooDeep,
    /// It was left out, because too much is kept of its cluster.
    LeftOut,
}

impl Object {
    /// Takes a JSON document that claims to be an object.
    pub fn new(value: Value) -> Result<Self, ObjectError> {
        let Value::Object(root) = &value else {
            return Err(ObjectError::NotAnObject(json_type(&value)));
        };
        for (field, value) in root {
            match field.as_str() {
                "apiVersion" => check("apiVersion", "a string", value, Value::is_string)?,
                "kind" => check("kind", "a string", value, Value::is_string)?,
                "metadata" => check("metadata", "an object", value, Value::is_object)?,
                _ => {}
            }
        }
        if let Some(Value::Object(metadata)) = root.get("metadata") {
            check_metadata(metadata)?;
        }
        Ok(Self {
            value,
            missing: None,
        })
    }

    /// Takes the metadata of an object of which nothing else can be read. What is made from it is
    /// a fragment, too.
    pub fn fragment(value: Value) -> Result<Self, ObjectError> {
        let whole = Self::new(value)?;
        Ok(Self {
            missing: Some(Missing::TooDeep),
            ..whole
        })
    }

    /// The type, identity and labels of this object, which is left out.
    #[must_use]
    pub fn left_out(&self) -> Self {
        let mut root = self.root().clone();
        root.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
        if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !["annotations", "managedFields"].contains(&field.as_str()));
        }
        Self {
            value: Value::Object(root),
            missing: Some(Missing::LeftOut),
        }
    }

    /// True if the object has more fields than are known here: a missing field may still exist.
    pub fn is_fragment(&self) -> bool {
        self.missing.is_some()
    }

    /// The reason why fields are missing, if any are.
    pub fn missing(&self) -> Option<Missing> {
        self.missing
    }

    /// An empty object of a kind, to be filled in.
    pub fn empty(gvk: &Gvk, namespace: Option<&str>, name: &str) -> Self {
        let mut metadata = Map::new();
        metadata.insert("name".into(), name.into());
        if let Some(namespace) = namespace {
            metadata.insert("namespace".into(), namespace.into());
        }
        let mut root = Map::new();
        root.insert("apiVersion".into(), gvk.api_version().into());
        root.insert("kind".into(), gvk.kind.clone().into());
        root.insert("metadata".into(), Value::Object(metadata));
        Self {
            value: Value::Object(root),
            missing: None,
        }
    }

    pub fn as_value(&self) -> &Value {
        &self.value
    }

    pub fn into_value(self) -> Value {
        self.value
    }

    pub fn into_metadata(mut self) -> Map<String, Value> {
        std::mem::take(self.metadata_mut())
    }

    /// The top-level fields.
    pub fn root(&self) -> &Map<String, Value> {
        match &self.value {
            Value::Object(root) => root,
            _ => unreachable!("Object::new admits JSON objects only and root_mut keeps it one"),
        }
    }

    /// The top-level fields, to change. The caller keeps the types that `new` has checked.
    pub fn root_mut(&mut self) -> &mut Map<String, Value> {
        match &mut self.value {
            Value::Object(root) => root,
            _ => unreachable!("Object::new admits JSON objects only and root_mut keeps it one"),
        }
    }

    fn metadata(&self) -> Option<&Map<String, Value>> {
        self.root().get("metadata").and_then(Value::as_object)
    }

    /// `metadata`, created where it is missing.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        let slot = self
            .root_mut()
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        match slot {
            Value::Object(metadata) => metadata,
            _ => unreachable!("made an object two lines above"),
        }
    }

    fn metadata_str(&self, field: &str) -> Option<&str> {
        self.metadata()?
            .get(field)?
            .as_str()
            .filter(|s| !s.is_empty())
    }

    pub fn api_version(&self) -> &str {
        self.root()
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.root()
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub fn gvk(&self) -> Gvk {
        let (group, version) = match self.api_version().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", self.api_version()),
        };
        Gvk::new(group, version, self.kind())
    }

    pub fn set_gvk(&mut self, gvk: &Gvk) {
        let root = self.root_mut();
        for (field, value) in [
            ("apiVersion", gvk.api_version()),
            ("kind", gvk.kind.clone()),
        ] {
            match root.get_mut(field) {
                Some(there) => *there = value.into(),
                None => {
                    root.insert(field.into(), value.into());
                }
            }
        }
    }

    pub fn name(&self) -> &str {
        self.metadata_str("name").unwrap_or_default()
    }

    pub fn namespace(&self) -> Option<&str> {
        self.metadata_str("namespace")
    }

    pub fn uid(&self) -> Option<&str> {
        self.metadata_str("uid")
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.metadata_str("resourceVersion")
    }

    pub fn in_deletion(&self) -> bool {
        self.metadata_str("deletionTimestamp").is_some()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata()
            .and_then(|m| m.get("finalizers"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|f| f == finalizer)
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.string_map("labels")
    }

    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.string_map("annotations")
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(key)?.as_str()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("annotations")?.get(key)?.as_str()
    }

    pub fn set_label(&mut self, key: &str, value: &str) {
        self.string_map_mut("labels")
            .insert(key.to_owned(), value.into());
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.string_map_mut("annotations")
            .insert(key.to_owned(), value.into());
    }

    fn string_map(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        self.metadata()
            .and_then(|m| m.get(field))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
    }

    fn string_map_mut(&mut self, field: &str) -> &mut Map<String, Value> {
        let slot = self
            .metadata_mut()
            .entry(field)
            .or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        match slot {
            Value::Object(map) => map,
            _ => unreachable!("made an object two lines above"),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// In one walk over what is there, since every object on its way is checked.
fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ObjectError> {
    for (field, value) in metadata {
        let (field, expected, fits): (_, _, fn(&Value) -> bool) = match field.as_str() {
            "name" => ("name", "a string", Value::is_string),
            "namespace" => ("namespace", "a string", Value::is_string),
            "uid" => ("uid", "a string", Value::is_string),
            "resourceVersion" => ("resourceVersion", "a string", Value::is_string),
            "deletionTimestamp" => ("deletionTimestamp", "a string", Value::is_string),
            "labels" => ("labels", "a map of strings", is_string_map),
            "annotations" => ("annotations", "a map of strings", is_string_map),
            "finalizers" => ("finalizers", "a list of strings", is_string_list),
            _ => continue,
        };
        check(field, expected, value, fits)?;
    }
    Ok(())
}

fn check(
    field: &'static str,
    expected: &'static str,
    value: &Value,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), ObjectError> {
    if value.is_null() || fits(value) {
        return Ok(());
    }
    Err(ObjectError::WrongType {
        field,
        expected,
        found: json_type(value),
    })
}

fn is_string_map(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.values().all(|v| v.is_string() || v.is_null()))
}

fn is_string_list(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|list| list.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_document_is_refused_with_the_field_that_is_wrong() {
        assert_eq!(
            Object::new(json!([])).unwrap_err().to_string(),
            "expected a JSON object, found a list"
        );
        assert_eq!(
            Object::new(json!({"metadata": {"labels": {"a": 1}}}))
                .unwrap_err()
                .to_string(),
            "labels must be a map of strings, found an object"
        );
    }

    #[test]
    fn null_metadata_counts_as_missing() {
        let object = Object::new(json!({"metadata": {"name": "a", "namespace": null, "labels": null, "creationTimestamp": null}})).unwrap();
        assert_eq!((object.name(), object.namespace()), ("a", None));
        assert_eq!(object.labels().count(), 0);
    }

    #[test]
    fn group_and_version_are_read_from_the_api_version() {
        let object = Object::new(json!({"apiVersion": "apps/v1", "kind": "Deployment"})).unwrap();
        assert_eq!(object.gvk(), Gvk::new("apps", "v1", "Deployment"));
        let object = Object::new(json!({"apiVersion": "v1", "kind": "Secret"})).unwrap();
        assert_eq!(object.gvk(), Gvk::new("", "v1", "Secret"));
        assert_eq!(object.gvk().api_version(), "v1");
    }

    #[test]
    fn labels_are_set_where_none_were() {
        let mut object = Object::empty(&Gvk::new("", "v1", "Secret"), Some("ns"), "a");
        object.set_label("k", "v");
        assert_eq!(object.label("k"), Some("v"));
        assert_eq!(
            object.as_value(),
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "ns", "labels": {"k": "v"}}})
        );
    }
}
