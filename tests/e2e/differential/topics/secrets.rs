//! Secrets by their types.

use serde_json::{Value, json};

use super::super::step::{MERGE, Script, Topic, get, patch, post, script};

pub(super) fn topic() -> Topic {
    Topic::new("secrets", secrets())
}

fn secrets() -> Script {
    let secrets = "/api/v1/namespaces/$ns/secrets";
    let secret = |name: &str, more: Value| {
        let mut secret = json!({"metadata": {"name": name}});
        for (key, value) in more.as_object().into_iter().flatten() {
            secret[key] = value.clone();
        }
        secret
    };
    script![
        post(
            secrets,
            secret(
                "a",
                json!({"stringData": {"k": "v"}, "data": {"k": "AAAA", "l": "AAAA"}}),
            ),
        ),
        patch(&format!("{secrets}/a"), MERGE, json!({"type": "Other"})),
        post(secrets, secret("b", json!({"data": {"k": "not base64!"}}))),
        post(secrets, secret("b", json!({"data": {"k": 1}}))),
        post(secrets, secret("b", json!({"type": "kubernetes.io/tls"}))),
        post(
            secrets,
            secret(
                "b",
                json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
            ),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/basic-auth"})),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/ssh-auth"})),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/service-account-token"})),
        ),
        get(&format!("{secrets}?fieldSelector=type%3DOpaque")),
    ]
}
