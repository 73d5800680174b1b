//! Differences between a manifest and the object in the member, as JSON pointers with both values.

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

/// The difference of an object that is not there.
pub fn missing() -> Vec<PatchDetail> {
    vec![PatchDetail {
        path: "/".to_owned(),
        value_in_member: String::new(),
        value_in_hub: "(the whole object)".to_owned(),
    }]
}

fn walk(
    path: &mut String,
    member: Option<&Value>,
    hub: Option<&Value>,
    found: &mut Vec<PatchDetail>,
) {
    if member == hub || found.len() >= MOST {
        return;
    }
    let length = path.len();
    match (member, hub) {
        (Some(Value::Object(member)), Some(Value::Object(hub))) => {
            let added = hub.keys().filter(|key| !member.contains_key(*key));
            for key in member.keys().chain(added) {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                walk(path, member.get(key), hub.get(key), found);
                path.truncate(length);
            }
        }
        (Some(Value::Array(member)), Some(Value::Array(hub))) => {
            for index in 0..member.len().max(hub.len()) {
                path.push('/');
                path.push_str(&index.to_string());
                walk(path, member.get(index), hub.get(index), found);
                path.truncate(length);
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
