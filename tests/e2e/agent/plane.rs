//! Plain requests to a control plane, or to one workspace of it.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::SOON;
use super::world::{with_planted_data, with_planted_status};

/// Where requests go: a server, and what stands before each path.
#[derive(Clone)]
pub(crate) struct Plane {
    client: Client,
    prefix: String,
}

/// What a server said instead of doing what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: {code} {message}")]
pub(crate) struct Refused {
    method: &'static str,
    path: String,
    pub(crate) code: u16,
    message: String,
}

/// One kind as its addresses need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// As objects name it.
    pub(crate) name: String,
}

const PAUSE: Duration = Duration::from_millis(100);
const MERGE: &str = "application/merge-patch+json";

impl Plane {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            prefix: String::new(),
        }
    }

    pub(crate) async fn of(kubeconfig: &Value) -> Result<Self> {
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // Tests see each refusal themselves.
        config.default_retry = false;
        Ok(Self::new(Client::try_from(config)?))
    }

    /// A workspace by path or logical cluster.
    pub(crate) fn workspace(&self, cluster: &str) -> Self {
        Self {
            client: self.client.clone(),
            prefix: format!("/clusters/{cluster}"),
        }
    }

    /// What is below an address of the same server.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self {
            client: self.client.clone(),
            prefix: prefix.to_owned(),
        }
    }

    async fn ask(
        &self,
        method: &'static str,
        path: &str,
        media_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let mut answer = self.ask_once(method, path, media_type, body).await;
        let begin = Instant::now();
        // A real server asks for patience while it prepares to store a kind.
        while let Err(refused) = &answer
            && refused.code == 429
            && refused.message.contains("(re)initializing")
            && begin.elapsed() < SOON
        {
            sleep(PAUSE).await;
            answer = self.ask_once(method, path, media_type, body).await;
        }
        answer
    }

    async fn ask_once(
        &self,
        method: &'static str,
        path: &str,
        media_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let path = format!("{}{path}", self.prefix);
        let refused = |code, message: String| Refused {
            method,
            path: path.clone(),
            code,
            message,
        };
        let request = http::Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", media_type)
            .body(
                body.map(|body| body.to_string().into_bytes())
                    .unwrap_or_default(),
            )
            .map_err(|error| refused(0, error.to_string()))?;
        let answer = tokio::time::timeout(SOON, self.client.request::<Value>(request));
        match answer.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(refused(status.code, status.message.clone())),
            Ok(Err(error)) => Err(refused(0, error.to_string())),
            Err(_) => Err(refused(0, "no answer".to_owned())),
        }
    }

    /// Sends a text as it is, and hears whether it was taken: the answer may be more than can be parsed.
    pub(crate) async fn send(&self, method: &str, path: &str, body: String) -> Result<()> {
        let kind = match method {
            "PATCH" => MERGE,
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("content-type", kind)
            .body(body.into_bytes())?;
        tokio::time::timeout(SOON, self.client.request_text(request)).await??;
        Ok(())
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.ask("GET", path, "application/json", None).await
    }

    /// The object, or nothing where there is none.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Refused> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(refused) if refused.code == 404 => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// The items of a list; `path` may have a query.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.get(path).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => anyhow::bail!("{path} has items {other}"),
        }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        let object = with_planted_data(object);
        self.ask("POST", path, "application/json", Some(&object))
            .await
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Result<Value, Refused> {
        let patch = with_planted_status(path, patch);
        self.ask("PATCH", path, MERGE, Some(&patch)).await
    }

    pub(crate) async fn apply(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        let path = format!("{path}?fieldManager=somebody");
        self.ask("PATCH", &path, "application/apply-patch+yaml", Some(object))
            .await
    }

    /// The metadata alone of the objects of a list.
    pub(crate) async fn list_metadata(&self, path: &str) -> Result<Vec<Value>> {
        const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let request = http::Request::get(format!("{}{path}", self.prefix));
        let request = request.header("accept", PARTIAL).body(Vec::new())?;
        let mut list: Value = self.client.request(request).await?;
        let items = list["items"].as_array_mut();
        Ok(std::mem::take(items.context("it is no list")?))
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.ask("PUT", path, "application/json", Some(object))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.ask("DELETE", path, "application/json", None).await
    }

    pub(crate) async fn namespace(&self, name: &str, labels: Value) -> Result<Value> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.create("/api/v1/namespaces", &object)
            .await
            .with_context(|| format!("making namespace {name}"))
    }
}

impl Kind {
    pub(crate) fn new(group: &str, version: &str, plural: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn root(&self) -> String {
        let top = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{top}/{}", self.api_version())
    }

    /// All objects, of all namespaces.
    pub(crate) fn everywhere(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    pub(crate) fn within(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
    }

    pub(crate) fn at(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.within(namespace))
    }

    /// An object without a namespace.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.everywhere())
    }

    /// An object of this kind with this spec.
    pub(crate) fn object(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": self.api_version(), "kind": self.name, "metadata": {"name": name}, "spec": spec})
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.group)
    }
}
