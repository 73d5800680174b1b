//! Kubeconfigs of the control planes: inline CA, users with tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One context, with a cluster of the same name.
pub struct Context<'a> {
    pub name: &'a str,
    pub server: String,
}

/// Creates a kubeconfig with the given contexts for one user; the first one is current. It is written as JSON, which is
/// valid YAML.
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
