//! `APIBinding` in its two versions.

use serde_json::{Value, json};

use super::claims;
use super::lists::{ConvertError, OLD_CLAIMS, put_list, take_field, take_list};

const ACCEPTABLE_CLAIMS: &str = "apis.v1alpha2.kcp.io/acceptable-permission-claims";
const STATUS_EXPORT_CLAIMS: &str = "apis.v1alpha2.kcp.io/status-export-permission-claims";
const STATUS_APPLIED_CLAIMS: &str = "apis.v1alpha2.kcp.io/status-applied-permission-claims";
const OLD_STATUS_EXPORT_CLAIMS: &str =
    "apis.v1alpha2.kcp.io/v1alpha1-status-export-permission-claims";

pub(super) fn to_stored(object: &mut Value) -> Result<(), ConvertError> {
    let full = take_list(object, ACCEPTABLE_CLAIMS)?;
    if let Some(old) = take_field(object, "spec", "permissionClaims") {
        object["spec"]["permissionClaims"] = old
            .iter()
            .map(|claim| stored_claim(claim, &full, Some("state")))
            .collect();
        let selecting = old
            .into_iter()
            .filter(|c| c.get("resourceSelector").is_some())
            .collect();
        put_list(object, OLD_CLAIMS, selecting);
    }

    let full = take_list(object, STATUS_EXPORT_CLAIMS)?;
    if let Some(old) = take_field(object, "status", "exportPermissionClaims") {
        object["status"]["exportPermissionClaims"] = old
            .iter()
            .map(|claim| exported_claim(claim, &full))
            .collect();
        let saying_more = old
            .into_iter()
            .filter(|c| c.get("all").is_some() || c.get("resourceSelector").is_some())
            .collect();
        put_list(object, OLD_STATUS_EXPORT_CLAIMS, saying_more);
    }

    let full = take_list(object, STATUS_APPLIED_CLAIMS)?;
    if let Some(old) = take_field(object, "status", "appliedPermissionClaims") {
        object["status"]["appliedPermissionClaims"] = old
            .iter()
            .map(|claim| stored_claim(claim, &full, None))
            .collect();
    }
    Ok(())
}

pub(super) fn to_old(object: &mut Value) -> Result<(), ConvertError> {
    let original = take_list(object, OLD_CLAIMS)?;
    if let Some(stored) = take_field(object, "spec", "permissionClaims") {
        object["spec"]["permissionClaims"] = stored
            .iter()
            .map(|claim| {
                let mut map = old_claim(claim);
                claims::copy(claim, &mut map, &["state"]);
                if let Some(original) = claims::find(&original, claim) {
                    map.remove("all");
                    claims::copy(original, &mut map, &["all", "resourceSelector"]);
                }
                Value::Object(map)
            })
            .collect();
        put_list(object, ACCEPTABLE_CLAIMS, beyond_old(stored));
    }

    let original = take_list(object, OLD_STATUS_EXPORT_CLAIMS)?;
    if let Some(stored) = take_field(object, "status", "exportPermissionClaims") {
        object["status"]["exportPermissionClaims"] = stored
            .iter()
            .map(|claim| {
                let mut map = claims::old_base(claim);
                if let Some(original) = claims::find(&original, claim) {
                    claims::copy(original, &mut map, &["all", "resourceSelector"]);
                }
                Value::Object(map)
            })
            .collect();
        let full = stored
            .into_iter()
            .filter(|c| !claims::all_verbs(c) || c.get("defaultSelector").is_some())
            .collect();
        put_list(object, STATUS_EXPORT_CLAIMS, full);
    }

    if let Some(stored) = take_field(object, "status", "appliedPermissionClaims") {
        object["status"]["appliedPermissionClaims"] = stored
            .iter()
            .map(|claim| Value::Object(old_claim(claim)))
            .collect();
        put_list(object, STATUS_APPLIED_CLAIMS, beyond_old(stored));
    }
    Ok(())
}

/// A selector in the older version never restricts a claim, so it becomes "all".
fn stored_claim(claim: &Value, full: &[Value], extra: Option<&str>) -> Value {
    let mut map = claims::stored_base(claim);
    if let Some(full) = claims::find(full, claim) {
        claims::copy(full, &mut map, &["verbs", "selector"]);
    } else {
        map.insert("verbs".into(), json!(["*"]));
        map.insert("selector".into(), json!({"matchAll": true}));
    }
    if let Some(field) = extra {
        claims::copy(claim, &mut map, &[field]);
    }
    Value::Object(map)
}

fn exported_claim(claim: &Value, full: &[Value]) -> Value {
    let mut map = claims::stored_base(claim);
    match claims::find(full, claim) {
        Some(full) => claims::copy(full, &mut map, &["verbs", "defaultSelector"]),
        None => {
            map.insert("verbs".into(), json!(["*"]));
        }
    }
    Value::Object(map)
}

/// `all` in the older version; false is not written.
fn old_claim(claim: &Value) -> serde_json::Map<String, Value> {
    let mut map = claims::old_base(claim);
    if claims::match_all(claim) {
        map.insert("all".into(), true.into());
    }
    map
}

/// The claims that the older version cannot express completely.
fn beyond_old(stored: Vec<Value>) -> Vec<Value> {
    stored
        .into_iter()
        .filter(|claim| !claims::all_verbs(claim) || !claims::match_all(claim))
        .collect()
}
