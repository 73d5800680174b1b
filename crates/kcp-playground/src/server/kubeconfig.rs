//! Kubeconfigs for the playground's control planes: inline authority, users by token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One way in: a context of the same name with its cluster's address.
pub struct Context<'a> {
    pub name: &'a str,
    pub server: String,
}

/// Writes a kubeconfig with the given contexts, the first one current, all for one user.
/// It is JSON, which is YAML, and every client reads it.
pub fn kubeconfig(ca_pem: &str, user: &str, token: &str, contexts: &[Context<'_>]) -> Value {
    let authority = STANDARD.encode(ca_pem);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": contexts.iter().map(|context| json!({
            "name": context.name,
            "cluster": {"server": context.server, "certificate-authority-data": authority},
        })).collect::<Vec<_>>(),
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": contexts.iter().map(|context| json!({
            "name": context.name,
            "context": {"cluster": context.name, "user": user},
        })).collect::<Vec<_>>(),
        "current-context": contexts.first().map_or("", |context| context.name),
    })
}
