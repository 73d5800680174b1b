//! The API of a plain cluster, asked in process.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::*;
use crate::builtin;
use crate::catalog::User;
use crate::custom;
use crate::plain::PlainScopes;
use crate::store::{Name, StoreOptions};

mod aggregated;
mod burdens;
mod creates;
mod lists;
mod owners;
mod packed;
mod paths;
mod races;
mod tables;
mod unwritable;
mod updates;
mod watches;
mod writes;

const CLUSTER: &str = "service";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

struct Ground {
    store: Arc<Store>,
    rest: Rest,
}

/// An answer: its code, its document, its warnings.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn of(response: ApiResponse) -> Self {
        let bytes = response.body.whole().expect("an answer with an end");
        let warnings = response.headers.get_all(WARNING).iter();
        Self {
            code: response.status,
            warnings: warnings.map(|w| w.to_str().unwrap().to_owned()).collect(),
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
        }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.code < 300, "{} {}", self.code, self.body);
        self.body
    }

    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        assert_eq!(
            (self.code, self.body["reason"].as_str().unwrap_or_default()),
            (code, reason),
            "{}",
            self.body
        );
        let said = self.body["message"].as_str().unwrap_or_default();
        assert!(said.contains(message), "{said}");
        assert_eq!(self.body["status"], "Failure");
        assert_eq!(self.body["code"], code);
        self.body
    }
}

impl Ground {
    fn new() -> Self {
        Self::with(StoreOptions::default())
    }

    fn with(options: StoreOptions) -> Self {
        let cluster: Name = CLUSTER.into();
        let store = Store::new(StoreOptions {
            plain_clusters: HashSet::from([cluster.clone()]),
            ..options
        });
        for settler in builtin::settlers() {
            store.add_settler(settler);
        }
        store.add_settler(custom::settler());
        let identify: builtin::Identify = Arc::new(|_| None);
        let scopes = PlainScopes::new([cluster], builtin::resources(&identify));
        store.write(|tx| scopes.bootstrap(tx)).unwrap();
        let rest = Rest::new(Arc::clone(&store), Arc::new(scopes), "v1.34.2+kcp-v0.32.0");
        Self { store, rest }
    }

    /// With a definition of `things.example.com`: a status, defaults, rules, two versions.
    async fn with_things() -> Self {
        let ground = Self::new();
        ground.post(CRDS, things()).await.ok();
        ground
    }

    async fn raw(
        &self,
        method: Method,
        target: &str,
        headers: &[(http::HeaderName, &str)],
        body: &[u8],
    ) -> ApiResponse {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, value.parse().unwrap());
        }
        self.rest
            .handle(ApiRequest {
                user: User {
                    name: "ann".into(),
                    ..User::default()
                },
                method,
                scope: Scope::Cluster(CLUSTER.into()),
                path: path.to_owned(),
                query,
                headers: map,
                body: Bytes::copy_from_slice(body),
            })
            .await
    }

    async fn ask(&self, method: Method, target: &str, media_type: &str, body: Value) -> Answer {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let response = self
            .raw(method, target, &[(CONTENT_TYPE, media_type)], &body)
            .await;
        Answer::of(response)
    }

    async fn get(&self, target: &str) -> Answer {
        self.ask(Method::GET, target, "", json!(null)).await
    }

    async fn post(&self, target: &str, body: Value) -> Answer {
        self.ask(Method::POST, target, "application/json", body)
            .await
    }

    async fn put(&self, target: &str, body: Value) -> Answer {
        self.ask(Method::PUT, target, "application/json", body)
            .await
    }

    async fn patch(&self, target: &str, media_type: &str, body: Value) -> Answer {
        self.ask(Method::PATCH, target, media_type, body).await
    }

    async fn delete(&self, target: &str) -> Answer {
        self.ask(Method::DELETE, target, "", json!(null)).await
    }

    async fn watch(&self, target: &str) -> Events {
        let response = self.raw(Method::GET, target, &[], b"").await;
        match response.body {
            ApiBody::Stream(lines) => Events { lines },
            body => panic!("{target} answered {:?}", body.whole()),
        }
    }
}

/// The events of a watch.
pub(crate) struct Events {
    pub(crate) lines: BoxStream<'static, Bytes>,
}

impl Events {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next().await?;
        assert!(line.ends_with(b"\n"));
        Some(serde_json::from_slice(&line).unwrap())
    }

    /// Type and name of the next event.
    pub(crate) async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }

    #[track_caller]
    pub(crate) fn is_silent(&mut self) {
        assert!(
            self.lines.next().now_or_never().is_none(),
            "an event came, or the end"
        );
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn things() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "mode": {"type": "string", "default": "slow"},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    });
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.mode"}],
            "schema": {"openAPIV3Schema": schema},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "b"}})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}
