//! The readable part of a manifest: fields of wrong types are omitted, so that they do not hide other
//! errors.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::publish::problem::Problem;
use crate::publish::types::PublishedResourceSpec;
use kube_schema::field::{ErrorKind, FieldError};
use kube_schema::schema::Schema;

/// The spec of a manifest without the fields that cannot be read.
pub(super) struct Readable {
    pub(super) spec: PublishedResourceSpec,
    /// The fields that are not in it, by their paths.
    left_out: Vec<String>,
    /// The indices that the elements of each list have in the manifest.
    kept: BTreeMap<String, Vec<usize>>,
    /// Errors of the rest by the schema, if something was left out: rules are evaluated for valid objects only.
    pub(super) errors: Vec<FieldError>,
}

impl Readable {
    /// Reads what can be read; `None` if there is no spec at all.
    pub(super) fn of(schema: &Schema, manifest: &Value) -> Option<Self> {
        let mut value = manifest.clone();
        let mut left_out = Vec::new();
        let mut tried = HashMap::new();
        loop {
            let mut kept = BTreeMap::new();
            let rest = without_nulls(value.get("spec")?, "spec", &mut kept);
            if let Ok(spec) = serde_json::from_value(rest.clone()) {
                let mut errors = Vec::new();
                if !left_out.is_empty() {
                    value["spec"] = rest;
                    errors = schema.validate(&value, None);
                }
                return Some(Self {
                    spec,
                    left_out,
                    kept,
                    errors,
                });
            }
            let before = left_out.len();
            for error in schema.validate(&value, None) {
                left_out.extend(leave_out(&mut value, &error, &mut tried));
            }
            // Each round leaves out something that is still there, or tries another value, so there is a last one.
            if left_out.len() == before {
                return None;
            }
        }
    }

    /// The problems of the readable part with their fields as in the manifest, without those that only follow from the
    /// omitted fields.
    pub(super) fn in_manifest_terms(
        &self,
        problems: Vec<Problem>,
    ) -> impl Iterator<Item = Problem> {
        problems
            .into_iter()
            .map(|problem| Problem {
                field: self.in_manifest(&problem.field),
                ..problem
            })
            .filter(|problem| !self.follows(&problem.field))
    }

    fn follows(&self, field: &str) -> bool {
        let direct = |below: &str| !below[1..].contains(['.', '[']);
        self.left_out
            .iter()
            .any(|path| within(field, path).is_some() || within(path, field).is_some_and(direct))
    }

    /// A field of the spec by its path in the manifest: indices count the elements that were left out too.
    fn in_manifest(&self, field: &str) -> String {
        let mut path = String::new();
        for (at, part) in field.split('[').enumerate() {
            if at == 0 {
                path.push_str(part);
                continue;
            }
            let (index, rest) = part.split_once(']').unwrap_or((part, ""));
            let known = index.parse::<usize>().ok();
            let known = known.and_then(|index| self.kept.get(&path)?.get(index).copied());
            let index = known.map_or_else(|| index.to_owned(), |index| index.to_string());
            path = format!("{path}[{index}]{rest}");
        }
        path
    }
}

/// The rest of a path below another one, if it is one.
fn within<'p>(path: &'p str, place: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(place)?;
    if rest.is_empty() {
        return Some(".");
    }
    rest.starts_with(['.', '[']).then_some(rest)
}

/// Values for a missing required field, so that it does not hide other errors.
const PLACEHOLDERS: [&str; 3] = [r#""kcp""#, "{}", "[]"];

/// Removes the field of an error from a manifest: the wrong one, or the one with a missing field that has no
/// placeholder. Returns its path, or none if it is already removed. Elements of lists become null, so that the others
/// keep their indices. `tried` counts the placeholders of each field.
fn leave_out(
    manifest: &mut Value,
    error: &FieldError,
    tried: &mut HashMap<String, usize>,
) -> Option<String> {
    let (parent, last) = split(&error.field);
    let lacking = error.kind == ErrorKind::Required && node(manifest, &error.field).is_none();
    if lacking && parent != "spec" && parent != "spec.resource" {
        let tries = tried.entry(error.field.clone()).or_default();
        let placeholder = PLACEHOLDERS.get(*tries);
        let placeholder = placeholder.and_then(|text| serde_json::from_str(text).ok());
        if let (Some(placeholder), Some(Value::Object(fields))) =
            (placeholder, node(manifest, parent))
        {
            *tries += 1;
            fields.insert(last.to_owned(), placeholder);
            return Some(error.field.clone());
        }
    }
    let path = if lacking { parent } else { &error.field };
    if path == "spec" || path == "spec.resource" {
        // What is published has to be named, even if nothing is said about it.
        let spec = manifest.get_mut("spec")?.as_object_mut()?;
        let unnamed = json!({"apiGroup": "", "kind": ""});
        let found = spec.insert("resource".to_owned(), unnamed.clone());
        return (found != Some(unnamed)).then(|| "spec.resource".to_owned());
    }
    let (parent, last) = if lacking {
        split(parent)
    } else {
        (parent, last)
    };
    match node(manifest, parent)? {
        Value::Object(fields) => drop(fields.remove(last)?),
        Value::Array(items) => {
            let item = items.get_mut(last.parse::<usize>().ok()?)?;
            if item.take().is_null() {
                return None;
            }
        }
        _ => return None,
    }
    Some(path.to_owned())
}

/// The path of what a field is in, and its own name or index.
fn split(path: &str) -> (&str, &str) {
    match path.rfind(['.', '[']) {
        Some(end) => (&path[..end], path[end + 1..].trim_end_matches(']')),
        None => ("", path),
    }
}

/// The value at a path such as `spec.related[0].origin`.
fn node<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split(['.', '[']).try_fold(value, |at, part| {
        let name = part.strip_suffix(']').unwrap_or(part);
        match at {
            Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
            other => other.get_mut(name),
        }
    })
}

/// A value without fields and elements that are null, as the API server prunes them, and the indices of the elements that are left.
fn without_nulls(value: &Value, path: &str, kept: &mut BTreeMap<String, Vec<usize>>) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, field)| !field.is_null());
            fields
                .map(|(name, field)| {
                    let field = without_nulls(field, &format!("{path}.{name}"), kept);
                    (name.clone(), field)
                })
                .collect()
        }
        Value::Array(items) => {
            let items: Vec<(usize, &Value)> = items
                .iter()
                .enumerate()
                .filter(|(_, item)| !item.is_null())
                .collect();
            kept.insert(
                path.to_owned(),
                items.iter().map(|(index, _)| *index).collect(),
            );
            let read = items
                .into_iter()
                .map(|(index, item)| without_nulls(item, &format!("{path}[{index}]"), kept));
            read.collect()
        }
        other => other.clone(),
    }
}
