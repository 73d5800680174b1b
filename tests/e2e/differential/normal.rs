//! Answers without what differs from server to server, and what is different between two of them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

/// What is another one each time, wherever it stands.
const VARYING: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "lastTransitionTime",
    "storageVersionHash",
    "continue",
];

/// Takes out what differs from server to server.
pub(super) fn normalise(body: &mut Value) {
    if body["kind"] == "Status" {
        status(body);
    }
    // A controller of the real cluster puts this one into every namespace, sooner or later.
    if let Some(Value::Array(items)) = body.get_mut("items") {
        items.retain(|item| item["metadata"]["name"] != "kube-root-ca.crt");
    }
    // Items of built-in lists need not repeat what they are.
    for item in body
        .pointer_mut("/items")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(item) = item.as_object_mut() {
            item.remove("apiVersion");
            item.remove("kind");
        }
    }
    strip(body);
}

/// Who owns what of an object, whenever that was; entries of one second are in no order of times.
pub(super) fn managers(body: &Value) -> Value {
    let mut entries = body["metadata"]["managedFields"].clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        if let Some(time) = entry.get_mut("time") {
            *time = json!("…");
        }
    }
    if let Some(entries) = entries.as_array_mut() {
        for entry in &mut *entries {
            nameless(&mut entry["fieldsV1"]);
        }
        entries.sort_by_key(|entry| {
            let fields = ["operation", "manager", "apiVersion", "subresource"];
            fields.map(|field| entry[field].to_string())
        });
    }
    entries
}

/// Items that are known by a uid, without it.
fn nameless(fields: &mut Value) {
    let Some(map) = fields.as_object_mut() else {
        return;
    };
    let known: Vec<String> = map
        .keys()
        .filter(|key| key.starts_with("k:{\"uid\":"))
        .cloned()
        .collect();
    let mut items: Vec<Value> = known.iter().filter_map(|key| map.remove(key)).collect();
    map.values_mut().for_each(nameless);
    if !items.is_empty() {
        items.sort_by_key(Value::to_string);
        map.insert("(by uid)".to_owned(), items.into());
    }
}

/// A text without uids and revisions.
fn plain(text: &Value) -> Option<Value> {
    static VARYING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\([0-9]+\)|current: [0-9]+")
            .expect("the pattern is well formed")
    });
    Some(VARYING.replace_all(text.as_str()?, "…").into())
}

fn status(body: &mut Value) {
    if let Some(message) = plain(&body["message"]) {
        body["message"] = message;
    }
    // Of several causes it is made in any order, and each is compared on its own.
    if body["details"]["causes"]
        .as_array()
        .is_some_and(|all| all.len() > 1)
        && let Some(body) = body.as_object_mut()
    {
        body.remove("message");
    }
    if let Some(details) = body.pointer_mut("/details").and_then(Value::as_object_mut) {
        details.remove("uid");
        // The real server's order is that of a hash map.
        if let Some(Value::Array(causes)) = details.get_mut("causes") {
            for cause in &mut *causes {
                if let Some(message) = plain(&cause["message"]) {
                    cause["message"] = message;
                }
            }
            causes.sort_by_key(Value::to_string);
        }
    }
}

/// Takes the texts out of a refusal.
pub(super) fn untold(body: &mut Value) {
    if body["kind"] != "Status" || body["status"] != "Failure" {
        return;
    }
    if let Some(root) = body.as_object_mut() {
        root.remove("message");
    }
    for cause in body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(cause) = cause.as_object_mut() {
            cause.remove("message");
        }
    }
    if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") {
        causes.sort_by_key(Value::to_string);
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for field in VARYING {
                if let Some(found) = map.get_mut(field) {
                    if field == "managedFields" || found.is_null() {
                        map.remove(field);
                    } else if !found.is_object() && *found != "" {
                        *found = json!("…");
                    }
                }
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Takes out what a pointer leads to.
pub(super) fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Some(slot) = last.parse().ok().and_then(|at: usize| list.get_mut(at)) {
                *slot = Value::Null;
            }
        }
        _ => {}
    }
}

/// What is different, a line each.
pub(super) fn differences(ours: &Value, real: &Value) -> String {
    let mut found = String::new();
    if ours["code"] != real["code"] || ours["body"]["kind"] != real["body"]["kind"] {
        // Field by field it would be all of both.
        let (ours, real) = (ours.to_string(), real.to_string());
        return format!("    ours {ours:.900}\n    real {real:.900}\n");
    }
    compare(&mut found, "", ours, real);
    found
}

fn compare(found: &mut String, at: &str, ours: &Value, real: &Value) {
    let missing = json!("(missing)");
    match (ours, real) {
        (Value::Object(mine), Value::Object(theirs)) => {
            for (key, value) in mine {
                let at = format!("{at}/{key}");
                compare(found, &at, value, theirs.get(key).unwrap_or(&missing));
            }
            for (key, value) in theirs.iter().filter(|(key, _)| !mine.contains_key(*key)) {
                compare(found, &format!("{at}/{key}"), &missing, value);
            }
        }
        (Value::Array(mine), Value::Array(theirs)) if mine.len() == theirs.len() => {
            for (number, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                compare(found, &format!("{at}/{number}"), mine, theirs);
            }
        }
        _ if ours == real => {}
        _ => {
            let (ours, real) = (ours.to_string(), real.to_string());
            let _ = writeln!(
                found,
                "    {at}\n      ours {ours:.600}\n      real {real:.600}"
            );
        }
    }
}
