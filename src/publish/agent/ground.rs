//! The environment of the agent's tests: a service cluster with the type `PublishedResource`, and a workspace with an
//! export.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::publish::agent::schemas::{Manifest, PUBLISHED_RESOURCES};
use hawser_runtime::cluster::connection::{Call, Connection};
use hawser_runtime::cluster::ground::Ground;
use kcp_playground::server::LoggedRequest;

pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
pub(super) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const SOON: Duration = Duration::from_mins(1);
/// The pause between two reads, so that polling leaves time to what is polled.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Scene {
    pub(super) ground: Ground,
    /// The workspace of the export.
    pub(super) workspace: Connection,
    mark: u64,
}

/// The CRD of `PublishedResource` on the service cluster.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    Ours,
    /// The CRD of api-syncagent, without conditions.
    Original,
}

impl Scene {
    pub(super) async fn set(dialect: Dialect) -> Self {
        let ground = Ground::start().await;
        let crd = include_str!("../../../crds/syncagent.kcp.io_publishedresources.yaml");
        let mut crd: Value = serde_saphyr::from_str(crd).unwrap();
        if dialect == Dialect::Original {
            let version = &mut crd["spec"]["versions"][0];
            let schema = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
            let fields = schema["properties"].as_object_mut().unwrap();
            fields.retain(|name, _| name == "resourceSchemaName");
            assert_eq!(fields.len(), 1);
            version
                .as_object_mut()
                .unwrap()
                .remove("additionalPrinterColumns");
        }
        ground.service.ask(Call::post(CRDS, &crd)).await.unwrap();

        let workspace = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "org"},
        });
        ground
            .kcp
            .ask(Call::post(WORKSPACES, &workspace))
            .await
            .unwrap();
        let path = format!("{WORKSPACES}/org");
        let ready = until(&ground.kcp, &path, |w| w["status"]["phase"] == "Ready").await;
        let cluster = ready["spec"]["cluster"].as_str().unwrap();
        let base = ground.kcp.url().replace("/clusters/root", "");
        let workspace = ground
            .kcp
            .at(&format!("{base}/clusters/{cluster}"))
            .unwrap();
        Self {
            workspace,
            mark: ground.playground.requests().mark(),
            ground,
        }
    }

    /// Counts from here on.
    pub(super) fn mark(&mut self) {
        self.mark = self.ground.playground.requests().mark();
    }

    /// The requests since the mark, such as `get apiresourceschemas 404`.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.ground.playground.requests().since(self.mark);
        let line = |request: LoggedRequest| {
            let part = match request.subresource.as_str() {
                "" => String::new(),
                part => format!("/{part}"),
            };
            let what = match request.resource.as_str() {
                "" => "discovery",
                resource => resource,
            };
            format!("{} {what}{part} {}", request.verb, request.code)
        };
        requests.into_iter().map(line).collect()
    }

    pub(super) async fn install(&self, crd: &Value) -> Value {
        self.ground
            .service
            .ask(Call::post(CRDS, crd))
            .await
            .unwrap()
    }

    pub(super) async fn publish(&self, name: &str, spec: Value) -> Manifest {
        let object = json!({
            "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
            "metadata": {"name": name}, "spec": spec,
        });
        let made = self
            .ground
            .service
            .ask(Call::post(PUBLISHED_RESOURCES, &object))
            .await;
        Manifest::read(&made.unwrap()).unwrap()
    }

    pub(super) async fn published(&self, name: &str) -> Value {
        let path = format!("{PUBLISHED_RESOURCES}/{name}");
        self.ground.service.ask(Call::get(path)).await.unwrap()
    }

    pub(super) async fn manifest(&self, name: &str) -> Manifest {
        Manifest::read(&self.published(name).await).unwrap()
    }

    pub(super) async fn in_workspace(&self, collection: &str, name: &str) -> Option<Value> {
        let found = self
            .workspace
            .call(Call::get(format!("{collection}/{name}")))
            .await
            .unwrap();
        (found.status != 404).then(|| found.ok().unwrap())
    }

    pub(super) async fn delete(connection: &Connection, collection: &str, name: &str) {
        let call = Call {
            method: Method::DELETE,
            ..Call::get(format!("{collection}/{name}"))
        };
        connection.ask(call).await.unwrap();
    }
}

/// Reads until the answer fits.
pub(super) async fn until(
    connection: &Connection,
    path: &str,
    fits: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let asking = async {
        loop {
            if let Ok(found) = connection.ask(Call::get(path)).await {
                if fits(&found) {
                    return found;
                }
                last = found;
            }
            sleep(PAUSE).await;
        }
    };
    let found = timeout(SOON, asking).await;
    found.unwrap_or_else(|_| panic!("{path} stays {last:#}"))
}

/// The CRD of crontabs, with one version.
pub(super) fn crontabs(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("crontabs.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "cronSpec": {"type": "string"}, "image": {"type": "string"}, "replicas": {"type": "integer"},
                    }},
                }}},
            }],
        },
    })
}

pub(super) fn of_crontabs(group: &str) -> Value {
    json!({"resource": {"apiGroup": group, "kind": "CronTab"}})
}
