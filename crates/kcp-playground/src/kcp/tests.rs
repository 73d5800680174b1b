//! kcp asked in process, by the addresses that clients use.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method};
use serde_json::{Value, json};

use super::*;
use crate::api::{Api, ApiBody, ApiRequest, ApiResponse};
use crate::builtin;
use crate::catalog::User;
use crate::custom;
use crate::rest::Rest;
use crate::rest::tests::{Answer, Events};
use crate::server::Address;
use crate::store::StoreOptions;

mod apis;
mod claims;
mod homes;
mod lifecycle;
mod owners;
mod recorded;
mod types;
mod views;
mod waiting;
mod workspaces;

const URL: &str = "https://127.0.0.1:6443";
const MERGE: &str = "application/merge-patch+json";
const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
const EXPORTS2: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
const BINDINGS2: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const TABS: &str = "/apis/example.com/v1/namespaces/default/crontabs";

struct World {
    store: Arc<Store>,
    kcp: Kcp,
    router: Box<dyn Router>,
    rest: Box<dyn Api>,
}

impl World {
    fn new() -> Self {
        Self::with_delays(Duration::ZERO)
    }

    fn with_delays(delays: Duration) -> Self {
        Self::with(delays, NonZeroUsize::MIN)
    }

    fn with(delays: Duration, shards: NonZeroUsize) -> Self {
        let store = Store::new(StoreOptions {
            definitions: definitions_of_apis()
                .into_iter()
                .chain(StoreOptions::default().definitions)
                .collect(),
            ..StoreOptions::default()
        });
        for settler in builtin::settlers() {
            store.add_settler(settler);
        }
        store.add_settler(custom::settler());
        let identify: builtin::Identify = Arc::new(|_| None);
        let base_url = Arc::new(OnceLock::from(URL.to_owned()));
        let builtin = builtin::resources(&identify);
        let options = KcpOptions {
            base_url,
            certificate: "certificate".to_owned(),
            delays,
            shards,
        };
        let kcp = Kcp::new(Arc::clone(&store), builtin, options).unwrap();
        store.write(|tx| kcp.bootstrap(tx)).unwrap();
        let rest = Rest::new(Arc::clone(&store), kcp.scopes(), "v1.34.2+kcp-v0.32.0");
        Self {
            router: kcp.router(),
            rest: Box::new(kcp.api(rest)),
            store,
            kcp,
        }
    }

    async fn raw(
        &self,
        method: Method,
        target: &str,
        media_type: &str,
        body: &Value,
    ) -> ApiResponse {
        self.sent(method, target, (CONTENT_TYPE, media_type), body)
            .await
    }

    async fn sent(
        &self,
        method: Method,
        target: &str,
        (header, value): (HeaderName, &str),
        body: &Value,
    ) -> ApiResponse {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        let user = User {
            name: "ann".into(),
            groups: vec!["devs".into()],
            ..User::default()
        };
        let address = Address::parse(path);
        let scope = match self.router.route(&address, &user) {
            Ok(scope) => scope,
            Err(status) => return status.into(),
        };
        let mut headers = HeaderMap::new();
        headers.insert(header, value.parse().unwrap());
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.rest
            .handle(ApiRequest {
                user,
                method,
                scope,
                path: address.path,
                query,
                headers,
                body: Bytes::from(body),
            })
            .await
    }

    async fn ask(&self, method: Method, target: &str, media_type: &str, body: Value) -> Answer {
        Answer::of(self.raw(method, target, media_type, &body).await)
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

    async fn patch(&self, target: &str, body: Value) -> Answer {
        self.ask(Method::PATCH, target, MERGE, body).await
    }

    async fn delete(&self, target: &str) -> Answer {
        self.ask(Method::DELETE, target, "", json!(null)).await
    }

    async fn watch(&self, target: &str) -> Events {
        match self.raw(Method::GET, target, "", &json!(null)).await.body {
            ApiBody::Stream(lines) => Events { lines },
            body => panic!("{target} answered {:?}", body.whole()),
        }
    }

    /// Makes a workspace; its cluster.
    async fn workspace(&self, parent: &str, name: &str) -> String {
        let at = format!("/clusters/{parent}{WORKSPACES}");
        let made = self.post(&at, workspace(name)).await.ok();
        assert_eq!(made["status"]["phase"], "Scheduling");
        self.kcp.schedule();
        let ready = self.get(&format!("{at}/{name}")).await.ok();
        assert_eq!(ready["status"]["phase"], "Ready", "{ready}");
        ready["spec"]["cluster"].as_str().unwrap().to_owned()
    }

    /// An organisation that exports crontabs, and a team in it; their clusters.
    async fn provider(&self) -> (String, String) {
        let org = self.workspace("root", "org").await;
        let team = self.workspace("root:org", "team").await;
        self.post(&format!("/clusters/{org}{SCHEMAS}"), schema("v1"))
            .await
            .ok();
        let export = self
            .post(
                &format!("/clusters/{org}{EXPORTS}"),
                export("tabs", &["v1"]),
            )
            .await;
        export.ok();
        (org, team)
    }

    /// The same, bound, with these claims (in the older version).
    async fn bound(&self, claims: &Value) -> (String, String) {
        let (org, team) = self.provider().await;
        let sent = binding("tabs", &org, claims);
        self.post(&format!("/clusters/{team}{BINDINGS}"), sent)
            .await
            .ok();
        (org, team)
    }
}

fn workspace(name: &str) -> Value {
    json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}})
}

fn schema(prefix: &str) -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("{prefix}.crontabs.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"cron": {"type": "string"}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }},
            }],
        },
    })
}

fn export(name: &str, schemas: &[&str]) -> Value {
    let schemas: Vec<String> = schemas
        .iter()
        .map(|s| format!("{s}.crontabs.example.com"))
        .collect();
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": name},
        "spec": {"latestResourceSchemas": schemas},
    })
}

fn binding(export: &str, path: &str, claims: &Value) -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": export},
        "spec": {"reference": {"export": {"name": export, "path": path}}, "permissionClaims": claims},
    })
}

fn tab(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": {"cron": "* *"}})
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|c| c["type"] == kind)
        .unwrap_or(&Value::Null)
}
