//! The cells of built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::age;

type Cells = Vec<Value>;

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn name(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(object, "/metadata/creationTimestamp", now).into()
}

fn since(object: &Value, pointer: &str, now: Timestamp) -> String {
    age::since(object.pointer(pointer).and_then(Value::as_str), now)
}

fn list<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// The size of a list or a map.
fn count(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    }
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Cells {
    vec![name(object), age(object, now)]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        text(object, "/status/phase").into(),
        age(object, now),
    ]
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Cells {
    let size = count(object, "/data") + count(object, "/binaryData");
    vec![name(object), size.into(), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        text(object, "/type").into(),
        count(object, "/data").into(),
        age(object, now),
    ]
}

/// The used and the maximum amounts: requests in one column, limits in another.
pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Cells {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = object.pointer("/status/hard").and_then(Value::as_object);
    let mut hard: Vec<_> = hard.into_iter().flatten().collect();
    hard.sort_by_key(|(resource, _)| *resource);
    for (resource, most) in hard {
        let used = &object["status"]["used"][resource.as_str()];
        let used = used.as_str().unwrap_or("0");
        let entry = format!("{resource}: {used}/{}", most.as_str().unwrap_or("0"));
        if resource.starts_with("limits.") {
            limits.push(entry);
        } else {
            requests.push(entry);
        }
    }
    vec![
        name(object),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object, now),
    ]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        text(object, "/spec/holderIdentity").into(),
        age(object, now),
    ]
}

pub(super) fn event(object: &Value, now: Timestamp) -> Cells {
    let given = |pointer: &str| !text(object, pointer).is_empty();
    let first = if given("/firstTimestamp") {
        since(object, "/firstTimestamp", now)
    } else {
        since(object, "/eventTime", now)
    };
    let mut last = if given("/lastTimestamp") {
        since(object, "/lastTimestamp", now)
    } else {
        first.clone()
    };
    let mut times = object["count"].as_i64().unwrap_or(0);
    if object["series"].is_object() {
        last = since(object, "/series/lastObservedTime", now);
        times = object["series"]["count"].as_i64().unwrap_or(0);
    } else if times == 0 {
        times = 1;
    }
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let about = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |one: &str, other: &str| match text(object, one) {
        "" => text(object, other).to_owned(),
        one => one.to_owned(),
    };
    let component = either("/source/component", "/reportingComponent");
    let source = match either("/source/host", "/reportingInstance").as_str() {
        "" => component,
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        about.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        text(object, "/message").trim().into(),
        first.into(),
        times.into(),
        name(object),
    ]
}

pub(super) fn binding(object: &Value, now: Timestamp) -> Cells {
    let (kind, role) = (text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| -> Value {
        let subjects = list(object, "/subjects").iter();
        let names: Vec<String> = subjects
            .filter(|subject| text(subject, "/kind") == kind)
            .map(|subject| match text(subject, "/name") {
                name if kind == "ServiceAccount" => {
                    format!("{}/{name}", text(subject, "/namespace"))
                }
                name => name.to_owned(),
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        name(object),
        format!("{kind}/{role}").into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        count(object, "/webhooks").into(),
        age(object, now),
    ]
}

pub(super) fn policy(object: &Value, now: Timestamp) -> Cells {
    let param = match &object["spec"]["paramKind"] {
        Value::Object(_) => {
            let version = text(object, "/spec/paramKind/apiVersion");
            format!("{version}/{}", text(object, "/spec/paramKind/kind"))
        }
        _ => "<unset>".to_owned(),
    };
    vec![
        name(object),
        count(object, "/spec/validations").into(),
        param.into(),
        age(object, now),
    ]
}

pub(super) fn policy_binding(object: &Value, now: Timestamp) -> Cells {
    let named = text(object, "/spec/paramRef/name");
    let param = match text(object, "/spec/paramRef/namespace") {
        _ if named.is_empty() => "<unset>".to_owned(),
        "" => format!("*/{named}"),
        namespace => format!("{namespace}/{named}"),
    };
    vec![
        name(object),
        text(object, "/spec/policyName").into(),
        param.into(),
        age(object, now),
    ]
}

pub(super) fn signing_request(object: &Value, now: Timestamp) -> Cells {
    let signer = match text(object, "/spec/signerName") {
        "" => "<none>",
        signer => signer,
    };
    let duration = match object["spec"]["expirationSeconds"].as_i64() {
        None => "<none>".to_owned(),
        Some(seconds) => age::of_seconds(seconds),
    };
    let is = |kind: &str| {
        let conditions = list(object, "/status/conditions");
        conditions.iter().any(|c| text(c, "/type") == kind)
    };
    let mut state = match () {
        () if is("Denied") => "Denied",
        () if is("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if is("Failed") {
        state += ",Failed";
    }
    if !text(object, "/status/certificate").is_empty() {
        state += ",Issued";
    }
    vec![
        name(object),
        age(object, now),
        signer.into(),
        text(object, "/spec/username").into(),
        duration.into(),
        state.into(),
    ]
}
