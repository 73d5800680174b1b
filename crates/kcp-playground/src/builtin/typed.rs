//! The published types as schemas, to find values of other types.

use serde_json::{Map, Value, json};

use crate::openapi::builtin::{referred, types};

/// A schema within a schema; it ends at types that are not checked.
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The metadata of all objects.
pub(super) const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A type as a structural schema that only knows the types of values. It leaves out the members that every object has,
/// and managedFields, which every write replaces.
pub(super) fn structural(name: &str) -> Option<Value> {
    let definition = types().get(name)?;
    let mut schema = plain(&definition, &mut vec![name.to_owned()]);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for member in ["apiVersion", "kind", "metadata", "managedFields"] {
            properties.remove(member);
        }
        if name.ends_with(".Event") {
            show_unset(properties);
        }
    }
    Some(schema)
}

/// Unset times of events are shown as null.
fn show_unset(properties: &mut Map<String, Value>) {
    for (name, schema) in properties {
        if name.ends_with("Time") || name.ends_with("Timestamp") {
            schema["nullable"] = true.into();
        }
    }
}

fn plain(schema: &Value, within: &mut Vec<String>) -> Value {
    let anything = || json!({"x-kubernetes-preserve-unknown-fields": true});
    if let Some(name) = referred(schema) {
        // Quantities are strings or numbers; the rules of their kind check them.
        if name == QUANTITY || name == SCHEMA || within.iter().any(|known| known == name) {
            return anything();
        }
        within.push(name.to_owned());
        let found = types()
            .get(name)
            .map_or_else(anything, |found| plain(&found, within));
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
    if schema.get("format").is_some_and(|format| format == "int32") {
        out["minimum"] = i32::MIN.into();
        out["maximum"] = i32::MAX.into();
    }
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
