//! Converts `OpenAPI` v3 to v2, for older clients: references have another prefix, bodies are parameters, and schemas
//! lose parts that v2 cannot express.

use serde_json::{Map, Value, json};

use super::builtin::PREFIX;

const V2_PREFIX: &str = "#/definitions/";

/// The schema of a custom resource loses more, so that older clients can read it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaOrigin {
    BuiltIn,
    Custom,
}

/// A definition in v2.
pub(super) fn definition(mut schema: Value, origin: SchemaOrigin) -> Value {
    if origin == SchemaOrigin::Custom {
        let preserves = is_set(&schema, "x-kubernetes-preserve-unknown-fields");
        narrow(&mut schema);
        if preserves && let Some(map) = schema.as_object_mut() {
            // No type is known for the whole object.
            map.retain(|keyword, _| {
                matches!(
                    keyword.as_str(),
                    "description"
                        | "x-kubernetes-group-version-kind"
                        | "x-kubernetes-selectable-fields"
                )
            });
            map.insert("type".into(), "object".into());
        }
    }
    rewrite(&mut schema);
    schema
}

fn is_set(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// Removes the parts that v2 cannot express.
fn narrow(schema: &mut Value) {
    let nullable = is_set(schema, "nullable");
    let preserves = is_set(schema, "x-kubernetes-preserve-unknown-fields");
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["allOf", "anyOf", "oneOf", "not", "default", "nullable"] {
        map.remove(keyword);
    }
    if nullable || preserves {
        for keyword in [
            "type",
            "items",
            "properties",
            "additionalProperties",
            "required",
        ] {
            map.remove(keyword);
        }
    }
    let may_be_null: Vec<String> = map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, member)| is_set(member, "nullable"))
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|name| !may_be_null.iter().any(|null| name == null));
        if required.is_empty() {
            map.remove("required");
        }
    }
    let members = map.get_mut("properties").and_then(Value::as_object_mut);
    for (_, member) in members.into_iter().flatten() {
        narrow(member);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(keyword) {
            narrow(inner);
        }
    }
}

/// Changes references to the place of definitions in v2.
fn rewrite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(name) = target.strip_prefix(PREFIX)
            {
                *target = format!("{V2_PREFIX}{name}");
            }
            map.values_mut().for_each(rewrite);
        }
        Value::Array(list) => list.iter_mut().for_each(rewrite),
        _ => {}
    }
}

/// The operations of one path, in v2.
pub(super) fn path_item(item: &Value) -> Value {
    let mut out = Map::new();
    for (key, value) in item.as_object().into_iter().flatten() {
        let value = match key.as_str() {
            "parameters" => Value::Array(parameters(value).collect()),
            _ => operation(value),
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}

fn parameters(list: &Value) -> impl Iterator<Item = Value> {
    list.as_array().into_iter().flatten().map(|parameter| {
        let mut parameter = parameter.clone();
        if let Some(map) = parameter.as_object_mut()
            && let Some(Value::Object(schema)) = map.remove("schema")
        {
            map.extend(schema);
        }
        parameter
    })
}

fn operation(operation: &Value) -> Value {
    let mut out = operation.clone();
    let Some(map) = out.as_object_mut() else {
        return out;
    };
    let body = map.remove("requestBody");
    let consumes = body
        .as_ref()
        .map_or_else(|| vec!["*/*".into()], |body| media_types(&body["content"]));
    let mut all = Vec::new();
    if let Some(body) = &body {
        let mut parameter =
            json!({"name": "body", "in": "body", "schema": schema_of(&body["content"])});
        if body["required"] == true {
            parameter["required"] = true.into();
        }
        all.push(parameter);
    }
    all.extend(parameters(&operation["parameters"]));
    map.remove("parameters");
    if !all.is_empty() {
        map.insert("parameters".into(), Value::Array(all));
    }
    let mut produces = Vec::new();
    let responses = map.get_mut("responses").and_then(Value::as_object_mut);
    for (_, response) in responses.into_iter().flatten() {
        let content = response.as_object_mut().and_then(|r| r.remove("content"));
        if let Some(content) = content {
            response["schema"] = schema_of(&content);
            produces = media_types(&content);
        }
    }
    map.insert("consumes".into(), consumes.into());
    map.insert("produces".into(), produces.into());
    map.insert("schemes".into(), json!(["https"]));
    rewrite(&mut out);
    out
}

fn media_types(content: &Value) -> Vec<Value> {
    let types = content.as_object().into_iter().flatten();
    types.map(|(name, _)| name.as_str().into()).collect()
}

fn schema_of(content: &Value) -> Value {
    let mut types = content.as_object().into_iter().flatten();
    types
        .next()
        .map(|(_, content)| content["schema"].clone())
        .unwrap_or_default()
}
