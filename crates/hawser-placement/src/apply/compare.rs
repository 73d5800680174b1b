//! Differences between a manifest and the object in the member, as JSON pointers with both values.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::types::placement::PatchDetail;

/// The most differences that are reported of an object.
const MOST: usize = 100;
/// Replaces values of Secrets.
const REDACTED: &str = "(redacted for security reasons)";

/// Metadata that says nothing about the content.
const IGNORED_METADATA: [&str; 14] = [
    "name",
    "namespace",
    "generateName",
    "ownerReferences",
    "managedFields",
    "finalizers",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "status",
];

/// Keys of labels and annotations with one of these parts belong to machines.
const MACHINE_KEYS: [&str; 3] = ["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/"];

/// True if the object has everything that the manifest says. Elements of lists are compared one by one.
pub fn covers(manifest: &Value, live: &Value) -> bool {
    match (manifest, live) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().all(|(key, value)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            covers(value, found)
        }),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted
                    .iter()
                    .zip(found)
                    .all(|(wanted, found)| covers(wanted, found))
        }
        // What is empty is not always stored.
        (Value::Object(wanted), Value::Null) => wanted.is_empty(),
        (Value::Array(wanted), Value::Null) => wanted.is_empty(),
        (wanted, found) => wanted == found,
    }
}

/// The content of an object: the fields that are compared, and that show changes by others.
pub fn content(object: &Value) -> Value {
    let Value::Object(root) = object else {
        return object.clone();
    };
    let outside = ["apiVersion", "kind", "status", "metadata"];
    let fields = root
        .iter()
        .filter(|(field, _)| !outside.contains(&field.as_str()));
    let mut content: Map<String, Value> = fields
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    let mut metadata = Map::new();
    let given = root.get("metadata").and_then(Value::as_object);
    for (field, value) in given.into_iter().flatten() {
        if IGNORED_METADATA.contains(&field.as_str()) {
            continue;
        }
        let mut value = value.clone();
        if let ("labels" | "annotations", Value::Object(entries)) = (field.as_str(), &mut value) {
            entries.retain(|key, _| !MACHINE_KEYS.iter().any(|part| key.contains(part)));
            if entries.is_empty() {
                continue;
            }
        }
        metadata.insert(field.clone(), value);
    }
    content.insert("metadata".into(), metadata.into());
    content.into()
}

/// The differences between the object in the member and the object that the hub wants.
pub fn differences(member: &Value, hub: &Value) -> Vec<PatchDetail> {
    let mut found = Vec::new();
    let (in_member, on_hub) = (content(member), content(hub));
    walk(
        &mut String::new(),
        Some(&in_member),
        Some(&on_hub),
        &mut found,
    );
    if member["kind"] == "Secret" && member["apiVersion"] == "v1" {
        let is_secret = |path: &str| path.starts_with("/data") || path.starts_with("/stringData");
        for detail in found.iter_mut().filter(|detail| is_secret(&detail.path)) {
            for value in [&mut detail.value_in_member, &mut detail.value_in_hub] {
                if !value.is_empty() {
                    REDACTED.clone_into(value);
                }
            }
        }
    }
    found
}

/// True if a manifest names the place of a difference. Elements of lists have other indices in an object, so that any
/// of them counts as named.
pub fn names(manifest: &Value, detail: &PatchDetail) -> bool {
    let mut at = manifest;
    for step in detail.path.split('/').skip(1) {
        let Value::Object(fields) = at else {
            return true;
        };
        match fields.get(&step.replace("~1", "/").replace("~0", "~")) {
            Some(field) => at = field,
            None => return false,
        }
    }
    true
}

/// The difference of an object that is not there.
pub fn missing() -> Vec<PatchDetail> {
    vec![PatchDetail {
        path: "/".to_owned(),
        value_in_member: String::new(),
        value_in_hub: "(the whole object)".to_owned(),
    }]
}

/// As the operations of a JSON patch that turns what the hub wants into what the member has: keys are in order, elements
/// that only the member has are appended, and each one that it lacks is removed behind its last one.
fn walk(
    path: &mut String,
    member: Option<&Value>,
    hub: Option<&Value>,
    found: &mut Vec<PatchDetail>,
) {
    if member == hub || found.len() >= MOST {
        return;
    }
    let mut below = |step: &str, member: Option<&Value>, hub: Option<&Value>| {
        let length = path.len();
        path.push('/');
        path.push_str(step);
        walk(path, member, hub, found);
        path.truncate(length);
    };
    match (member, hub) {
        (Some(Value::Object(member)), Some(Value::Object(hub))) => {
            let keys: BTreeSet<&String> = member.keys().chain(hub.keys()).collect();
            for key in keys {
                let step = key.replace('~', "~0").replace('/', "~1");
                below(&step, member.get(key), hub.get(key));
            }
        }
        (Some(Value::Array(member)), Some(Value::Array(hub))) => {
            let end = member.len().to_string();
            for removed in hub.iter().skip(member.len()) {
                below(&end, None, Some(removed));
            }
            for (index, (member, hub)) in member.iter().zip(hub).enumerate() {
                below(&index.to_string(), Some(member), Some(hub));
            }
            for added in member.iter().skip(hub.len()) {
                below("-", Some(added), None);
            }
        }
        (member, hub) => found.push(PatchDetail {
            path: path.clone(),
            value_in_member: member.map(text).unwrap_or_default(),
            value_in_hub: hub.map(text).unwrap_or_default(),
        }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
