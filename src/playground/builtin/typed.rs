//! Held to the published types: what a server with typed kinds does not know, it drops.

use serde_json::{Map, Value, json};

use crate::playground::field::Path;
use crate::playground::openapi::builtin::{Types, types};

/// A schema within a schema; its type ends where checking by types does.
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Drops the fields of an object that its type does not have; their paths.
pub(super) fn prune(name: &str, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner {
        types: types(),
        paths: Vec::new(),
    };
    if let Some(definition) = types().get(name) {
        pruner.walk(object, definition, &Path::Root);
    }
    pruner.paths
}

struct Pruner {
    types: &'static Types,
    paths: Vec<String>,
}

impl Pruner {
    fn walk(&mut self, value: &mut Value, schema: &'static Value, path: &Path<'_>) {
        let schema = self.types.resolve(schema);
        if let Some(Value::Array(alternatives)) = schema.get("oneOf") {
            self.choose(value, alternatives, path);
            return;
        }
        match value {
            Value::Object(map) => self.object(map, schema, path),
            Value::Array(list) => {
                if let Some(items) = schema.get("items") {
                    for (nth, item) in list.iter_mut().enumerate() {
                        self.walk(item, items, &path.index(nth));
                    }
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>, schema: &'static Value, path: &Path<'_>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            map.retain(|name, value| {
                let at = path.field(name);
                let Some(member) = properties.get(name) else {
                    self.paths.push(at.to_string());
                    return false;
                };
                self.walk(value, member, &at);
                true
            });
        } else if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
            for (name, value) in map {
                self.walk(value, values, &path.field(name));
            }
        }
    }

    /// Of several types the one that a value has the form of.
    fn choose(&mut self, value: &mut Value, alternatives: &'static [Value], path: &Path<'_>) {
        let form = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            _ => return,
        };
        let types = self.types;
        let found = alternatives.iter().find(|schema| {
            types
                .resolve(schema)
                .get("type")
                .is_some_and(|kind| kind == form)
        });
        if let Some(schema) = found {
            self.walk(value, schema, path);
        }
    }
}

/// A type as a structural schema that knows nothing but the types of values, without the members that
/// every object has.
pub(super) fn structural(name: &str) -> Option<Value> {
    let definition = types().get(name)?;
    let mut schema = plain(definition, &mut vec![name]);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for member in ["apiVersion", "kind", "metadata"] {
            properties.remove(member);
        }
        if name.ends_with(".Event") {
            show_unset(properties);
        }
    }
    Some(schema)
}

/// Times of events are shown as null where they are unset.
fn show_unset(properties: &mut Map<String, Value>) {
    for (name, schema) in properties {
        if name.ends_with("Time") || name.ends_with("Timestamp") {
            schema["nullable"] = true.into();
        }
    }
}

fn plain<'a>(schema: &'a Value, within: &mut Vec<&'a str>) -> Value {
    let anything = || json!({"x-kubernetes-preserve-unknown-fields": true});
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or_default();
        if name == SCHEMA || within.contains(&name) {
            return anything();
        }
        within.push(name);
        let found = types()
            .get(name)
            .map_or_else(anything, |found| plain(found, within));
        within.pop();
        return found;
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return json!({"x-kubernetes-int-or-string": true});
    }
    let Some(kind) = schema.get("type") else {
        return anything();
    };
    let mut out = json!({"type": kind});
    if let Some(items) = schema.get("items") {
        out["items"] = plain(items, within);
    }
    let members = schema.get("properties").and_then(Value::as_object);
    if let Some(members) = members {
        let members = members
            .iter()
            .map(|(name, member)| (name.clone(), plain(member, within)));
        out["properties"] = Value::Object(members.collect());
    } else if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        out["additionalProperties"] = plain(values, within);
    } else if kind == "object" {
        out["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    out
}
