//! Plain requests of the load generator to a control plane, or to one workspace of it.

use anyhow::{Context as _, Result};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "syncagent";

pub(crate) const GROUP: &str = "bench.example.com";
/// Where objects of the published kind are, on both sides.
pub(crate) const GADGETS: &str = "/apis/bench.example.com/v1/gadgets";

/// A server, and what stands before each path.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) client: Client,
    prefix: String,
}

impl Plane {
    pub(crate) async fn of(kubeconfig: &Value) -> Result<Self> {
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A refusal is to be seen, not waited out.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
            prefix: String::new(),
        })
    }

    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            prefix: String::new(),
        }
    }

    /// What is below a path, such as a workspace.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self {
            client: self.client.clone(),
            prefix: prefix.to_owned(),
        }
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let media_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("content-type", media_type)
            .body(
                body.map(|body| body.to_string().into_bytes())
                    .unwrap_or_default(),
            )
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let found = self.ask("GET", path, None).await;
        found.with_context(|| format!("reading {path}"))
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        let made = self.ask("POST", path, Some(object)).await;
        made.with_context(|| format!("creating below {path}"))
    }

    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let patched = self.ask("PATCH", path, Some(patch)).await;
        patched.with_context(|| format!("patching {path}"))
    }

    pub(crate) async fn text(&self, path: &str) -> Result<String> {
        let request = Request::get(format!("{}{path}", self.prefix)).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }
}

/// Objects below a namespace.
pub(crate) fn within(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/gadgets")
}

/// What is published.
pub(crate) fn definition() -> Value {
    let text = json!({"type": "string"});
    let count = json!({"type": "integer"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"count": count, "size": text, "notes": {"type": "array", "items": text}}},
                    "status": {"type": "object", "properties": {"count": count}},
                }}},
            }],
        },
    })
}

/// An object of 0.6 KB as a consumer writes it.
pub(crate) fn gadget(name: &str) -> Value {
    const NOTE: &str = "what a consumer wants of his gadget is written down here";
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Gadget",
        "metadata": {"name": name, "namespace": "default", "labels": {"app.kubernetes.io/part-of": "bench"}},
        "spec": {"count": 0, "size": "middle", "notes": vec![NOTE; 7]},
    })
}
