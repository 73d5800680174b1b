//! References that no object can satisfy: their paths lead to fields that the schema of the published kind does not
//! have.
//!
//! A field that is missing in an object is not reported: it may be optional, or be set later.

use serde_json::Value;

use crate::publish::crd::{Crd, CrdVersion};
use crate::publish::types::{PublishedResourceSpec, RelatedObjectSpec};

/// A path that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DanglingReference {
    /// Such as `spec.related[0].object.reference.path`.
    pub field: String,
    pub path: String,
    /// The first part of the path that no version has.
    pub part: String,
    /// The existing fields in its place, unless they are too many.
    pub instead: Vec<String>,
}

/// The number of fields that are suggested.
const NAMED: usize = 12;

impl DanglingReference {
    /// The problem, and the existing fields.
    pub fn explain(&self) -> String {
        let mut said = format!(
            "{:?} leads nowhere: the schema of the published kind has no {:?}",
            self.path, self.part
        );
        if !self.instead.is_empty() {
            said.push_str(", only ");
            said.push_str(&self.instead.join(", "));
        }
        said
    }
}

/// The references of all entries that lead nowhere in any version of the published kind.
pub fn dangling_references(spec: &PublishedResourceSpec, crd: &Crd) -> Vec<DanglingReference> {
    let schemas: Vec<_> = crd.spec.versions.iter().map(schema).collect();
    let mut found = Vec::new();
    for (index, entry) in spec.related.iter().enumerate() {
        let field = format!("spec.related[{index}].object");
        let mut look = |values: &RelatedObjectSpec, field: &str| {
            if let Some(reference) = &values.reference {
                let field = format!("{field}.reference.path");
                found.extend(stray(&schemas, &reference.path, field));
            }
        };
        look(&entry.object.names(), &field);
        if let Some(namespace) = &entry.object.namespace {
            look(namespace, &format!("{field}.namespace"));
        }
    }
    found
}

/// The schema of a version; null if it says nothing.
fn schema(version: &CrdVersion) -> Value {
    let text = version.schema.as_ref().and_then(|s| s.open_api.as_ref());
    let schema = text.and_then(|text| serde_json::from_str(text.get()).ok());
    schema.unwrap_or_default()
}

fn stray(schemas: &[Value], path: &str, field: String) -> Option<DanglingReference> {
    let parts: Vec<&str> = path.split('.').collect();
    let missing = schemas.iter().map(|schema| missing(schema, &parts));
    let (depth, instead) = missing
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max_by_key(|(depth, _)| *depth)?;
    Some(DanglingReference {
        field,
        path: path.to_owned(),
        part: parts[..=depth].join("."),
        instead,
    })
}

/// The first part of a path that a schema does not have, and the fields in its place; `None` if the path is valid or
/// cannot be checked.
fn missing(schema: &Value, parts: &[&str]) -> Option<(usize, Vec<String>)> {
    let mut here = schema;
    for (depth, part) in parts.iter().enumerate() {
        // Every object has these, whatever its schema says of them.
        if depth == 0 && ["apiVersion", "kind", "metadata"].contains(part) {
            return None;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if part.is_empty() || !part.chars().all(plain) {
            return None;
        }
        if here["type"] == "array" {
            if !part.bytes().all(|b| b.is_ascii_digit()) {
                return Some((depth, Vec::new()));
            }
            here = &here["items"];
            continue;
        }
        let open = here["x-kubernetes-preserve-unknown-fields"] == true
            || here["x-kubernetes-embedded-resource"] == true;
        let properties = here["properties"].as_object();
        let more = &here["additionalProperties"];
        here = match properties.and_then(|properties| properties.get(*part)) {
            Some(next) => next,
            None if open || *more == true => return None,
            None if more.is_object() => more,
            // A type without a word about its fields is one of which nothing is known.
            None if properties.is_none() && here["type"] != "string" => return None,
            None => {
                let names = properties.into_iter().flat_map(|all| all.keys().cloned());
                let names: Vec<_> = names.collect();
                let told = names.len() <= NAMED;
                return Some((depth, if told { names } else { Vec::new() }));
            }
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(schemas: &[Value]) -> Crd {
        let versions: Vec<_> = schemas
            .iter()
            .enumerate()
            .map(|(n, schema)| {
                json!({"name": format!("v{n}"), "served": true,
                "storage": n == 0, "schema": {"openAPIV3Schema": schema}})
            })
            .collect();
        let crd = json!({"metadata": {"name": "things.local.com"}, "spec": {"group": "local.com",
            "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": versions}});
        Crd::from_json(crd.to_string().as_bytes()).unwrap()
    }

    fn spec(path: &str) -> PublishedResourceSpec {
        let object = json!({"reference": {"path": path},
            "namespace": {"reference": {"path": "metadata.namespace"}}});
        serde_json::from_value(
            json!({"resource": {"apiGroup": "local.com", "kind": "Thing"},
            "related": [{"identifier": "e", "origin": "kcp", "kind": "Secret", "object": object}]}),
        )
        .unwrap()
    }

    fn schema() -> Value {
        let text = json!({"type": "string"});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let map = json!({"type": "object", "additionalProperties": text});
        let list =
            json!({"type": "array", "items": {"type": "object", "properties": {"name": text}}});
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "secretName": text, "open": open, "map": map, "list": list}}}})
    }

    #[track_caller]
    fn check(schemas: &[Value], path: &str, part: Option<&str>) {
        let found = dangling_references(&spec(path), &crd(schemas));
        let found: Vec<_> = found.iter().map(|stray| &*stray.part).collect();
        assert_eq!(found, part.into_iter().collect::<Vec<_>>(), "{path}");
    }

    #[test]
    fn a_path_that_no_object_can_answer_is_found() {
        let all = [schema()];
        check(&all, "spec.secertName", Some("spec.secertName"));
        check(&all, "sepc.secretName", Some("sepc"));
        check(&all, "status.secretName", Some("status"));
        check(&all, "spec.secretName.name", Some("spec.secretName.name"));
        check(&all, "spec.list.name", Some("spec.list.name"));
        check(&all, "spec.list.0.nam", Some("spec.list.0.nam"));
    }

    #[test]
    fn a_path_that_an_object_may_answer_is_fine() {
        let all = [schema()];
        for path in [
            "spec.secretName",
            "spec.open.any.thing",
            "spec.map.key",
            "spec.list.#.name",
            "spec.list.0.name",
            "metadata.annotations.some",
            "spec.list.#(name==\"a\").nam",
            "spec.secert*",
        ] {
            check(&all, path, None);
        }
    }

    #[test]
    fn a_field_of_one_version_is_enough_and_a_version_without_a_schema_answers_everything() {
        let other = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"ref": {"type": "string"}}}}});
        check(&[schema(), other.clone()], "spec.ref", None);
        check(&[schema(), other], "spec.reff", Some("spec.reff"));
        let nothing = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        check(&[schema(), nothing], "spec.reff", None);
    }

    #[test]
    fn it_is_told_what_there_is() {
        let found = dangling_references(&spec("spec.secertName"), &crd(&[schema()]));
        assert_eq!(found[0].field, "spec.related[0].object.reference.path");
        assert_eq!(
            found[0].explain(),
            "\"spec.secertName\" leads nowhere: the schema of the published kind has no \
             \"spec.secertName\", only list, map, open, secretName"
        );
    }
}
