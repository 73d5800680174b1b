//! `APIExport` in its two versions.

use serde_json::{Map, Value, json};

use super::claims;
use super::lists::{ConvertError, OLD_CLAIMS, put_list, take_field, take_list};

const RESOURCE_SCHEMAS: &str = "apis.v1alpha2.kcp.io/resource-schemas";
pub(super) const CLAIMS: &str = "apis.v1alpha2.kcp.io/permission-claims";

pub(super) fn to_stored(object: &mut Value) -> Result<(), ConvertError> {
    let names = take_field(object, "spec", "latestResourceSchemas").unwrap_or_default();
    let mut resources = Vec::with_capacity(names.len());
    for name in &names {
        resources.push(resource_of(name.as_str().unwrap_or_default())?);
    }
    resources.extend(take_list(object, RESOURCE_SCHEMAS)?);

    let full = take_list(object, CLAIMS)?;
    let old = take_field(object, "spec", "permissionClaims").unwrap_or_default();
    let stored: Vec<Value> = old.iter().map(|claim| stored_claim(claim, &full)).collect();
    put_list(object, OLD_CLAIMS, old);

    put_spec(object, "resources", resources);
    put_spec(object, "permissionClaims", stored);
    Ok(())
}

pub(super) fn to_old(object: &mut Value) -> Result<(), ConvertError> {
    let resources = take_field(object, "spec", "resources").unwrap_or_default();
    let (plain, other): (Vec<_>, Vec<_>) = resources.into_iter().partition(is_plain);
    let names = plain.iter().map(|r| r["schema"].clone()).collect();
    put_list(object, RESOURCE_SCHEMAS, other);
    put_spec(object, "latestResourceSchemas", names);

    let original = take_list(object, OLD_CLAIMS)?;
    let stored = take_field(object, "spec", "permissionClaims").unwrap_or_default();
    let old = stored
        .iter()
        .map(|claim| {
            let mut map = claims::old_base(claim);
            if let Some(original) = claims::find(&original, claim) {
                claims::copy(original, &mut map, &["all", "resourceSelector"]);
            }
            Value::Object(map)
        })
        .collect();
    put_spec(object, "permissionClaims", old);
    let full = stored
        .into_iter()
        .filter(|claim| !claims::all_verbs(claim) || claim.get("defaultSelector").is_some())
        .collect();
    put_list(object, CLAIMS, full);
    Ok(())
}

/// The stored form of a schema name: its second segment is the plural, the rest the group.
fn resource_of(schema: &str) -> Result<Value, ConvertError> {
    let mut parts = schema.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(plural), Some(group)) => Ok(json!({
            "name": plural,
            "group": if group == "core" { "" } else { group },
            "schema": schema,
            "storage": {"crd": {}},
        })),
        _ => Err(ConvertError::SchemaName(schema.to_owned())),
    }
}

/// Always stored as objects; the older version cannot express other storage.
fn is_plain(resource: &Value) -> bool {
    resource["storage"].get("crd").is_some()
}

fn stored_claim(claim: &Value, full: &[Value]) -> Value {
    let mut map = claims::stored_base(claim);
    match claims::find(full, claim) {
        Some(full) => claims::copy(full, &mut map, &["verbs", "defaultSelector"]),
        None => {
            map.insert("verbs".into(), json!(["*"]));
        }
    }
    Value::Object(map)
}

/// Sets a list of the spec; an empty one is left out.
fn put_spec(object: &mut Value, field: &str, list: Vec<Value>) {
    if list.is_empty() {
        return;
    }
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    spec[field] = Value::Array(list);
}
