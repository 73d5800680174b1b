//! The steps of the demonstration, in the order in which a provider and a consumer take them, and their output.

use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};

use super::error::DemoError;
use super::example::{
    Example, GROUP, KIND, PLURAL, PUBLIC_KIND, PUBLIC_PATH, PUBLIC_VERSION, VERSION,
};
use super::files::Files;
use super::place::{self, Place, established, name};
use kcp_playground::Playground;

/// The export, and the endpoint slice that kcp makes for it.
pub(super) const EXPORT: &str = "databases.example.org";

/// The namespace of the agent on the service cluster.
pub(super) const NAMESPACE: &str = "hawser";

const PROVIDER: &str = "provider";
const CONSUMER: &str = "consumer";

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PUBLISHED: &str = "/apis/syncagent.kcp.io/v1alpha1/publishedresources";

pub(super) struct Walkthrough<'a> {
    playground: &'a Playground,
    example: Example,
    service: Place,
    /// The kubeconfigs for the agent.
    pub(super) service_kubeconfig: PathBuf,
    pub(super) provider_kubeconfig: PathBuf,
}

impl<'a> Walkthrough<'a> {
    /// Writes the files and connects; changes nothing on the servers.
    pub(super) async fn begin(
        playground: &'a Playground,
        files: &Files,
        example: Example,
    ) -> Result<Self, DemoError> {
        files.kubeconfig("kcp.kubeconfig", &playground.kcp_kubeconfig())?;
        let workspace = |workspace: &str| {
            let kubeconfig = playground.workspace_kubeconfig(&format!("root:{workspace}"));
            files.kubeconfig(&format!("{workspace}.kubeconfig"), &kubeconfig)
        };
        workspace(CONSUMER)?;
        let provider_kubeconfig = workspace(PROVIDER)?;
        let service = playground.service_kubeconfig();
        let service_kubeconfig = files.kubeconfig("service.kubeconfig", &service)?;
        let another = serde_json::to_string_pretty(&example.another("invoices"))
            .map_err(DemoError::Kubeconfig)?;
        files.write("database.json", &another)?;
        Ok(Self {
            service: Place::connect(&service).await?,
            playground,
            example,
            service_kubeconfig,
            provider_kubeconfig,
        })
    }

    /// A client for the operator.
    pub(super) async fn service_client(&self) -> Result<Client, DemoError> {
        let config = place::config(&self.playground.service_kubeconfig()).await?;
        Client::try_from(config).map_err(|error| DemoError::Client(Box::new(error)))
    }

    /// Creates everything that exists before the agent starts.
    pub(super) async fn prepare(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for definition in [&self.example.definition, &self.example.crd] {
            self.service.create(DEFINITIONS, definition).await?;
            let path = format!("{DEFINITIONS}/{}", name(definition));
            self.service.until(&path, established).await?;
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        self.service
            .create("/api/v1/namespaces", &namespace)
            .await?;
        tell(&format!(
            "service cluster: an operator serves {KIND}s ({GROUP}/{VERSION})"
        ));
        let provider = self.workspace(PROVIDER).await?;
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
            "metadata": { "name": EXPORT }, "spec": {},
        });
        provider.create(EXPORTS, &export).await?;
        let slice = format!("{SLICES}/{EXPORT}");
        provider.until(&slice, |_| Some(())).await?;
        tell(&format!(
            "kcp: workspace root:{PROVIDER} has an empty APIExport {EXPORT}"
        ));
        Ok(())
    }

    /// The steps once the agent and the operator run.
    pub(super) async fn play(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        let published = &self.example.published;
        self.service.create(PUBLISHED, published).await?;
        tell(&format!(
            "service cluster: PublishedResource {} publishes {KIND}s as {PUBLIC_KIND}s",
            name(published)
        ));
        let provider = self.place(PROVIDER).await?;
        let export = format!("{EXPORTS}/{EXPORT}");
        let (schema, claims) = provider.until(&export, offer).await?;
        tell(&format!(
            "kcp: the agent added the schema {schema} to the APIExport"
        ));
        let consumer = self.workspace(CONSUMER).await?;
        self.bind(&consumer, &claims).await?;
        tell(&format!(
            "kcp: workspace root:{CONSUMER} binds the APIExport and serves {PUBLIC_KIND}s \
             ({PUBLIC_VERSION})"
        ));
        let object = &self.example.object;
        consumer.create(PUBLIC_PATH, object).await?;
        let what = format!("{PUBLIC_KIND} {}", name(object));
        tell(&format!("consumer: creates {what}"));
        let copies = format!("/apis/{GROUP}/{VERSION}/{PLURAL}");
        let copy = self.service.until(&copies, first_ready).await?;
        tell(&format!(
            "service cluster: the agent created its copy, {KIND} {} in namespace {}",
            name(&copy),
            copy["metadata"]["namespace"].as_str().unwrap_or_default()
        ));
        tell(&format!(
            "service cluster: the operator set the status of the copy: {}",
            copy["status"]
        ));
        let path = format!("{PUBLIC_PATH}/{}", name(object));
        let status = consumer
            .until(&path, |found| {
                let status = &found["status"];
                (status["phase"] == "Ready").then(|| status.clone())
            })
            .await?;
        tell(&format!(
            "consumer: {what} has the public part of that status: {status}"
        ));
        Ok(())
    }

    async fn bind(&self, consumer: &Place, claims: &[Value]) -> Result<(), DemoError> {
        let accepted = claims.iter().map(|claim| {
            let mut claim = claim.clone();
            claim["state"] = "Accepted".into();
            claim
        });
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding",
            "metadata": { "name": "databases" },
            "spec": {
                "reference": { "export": { "path": format!("root:{PROVIDER}"), "name": EXPORT } },
                "permissionClaims": accepted.collect::<Vec<_>>(),
            },
        });
        consumer.create(BINDINGS, &binding).await?;
        let path = format!("{BINDINGS}/{}", name(&binding));
        consumer
            .until(&path, |found| {
                (found["status"]["phase"] == "Bound").then_some(())
            })
            .await
    }

    /// Makes a workspace below the root.
    async fn workspace(&self, workspace: &str) -> Result<Place, DemoError> {
        let root = Place::connect(&self.playground.kcp_kubeconfig()).await?;
        let object = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
            "metadata": { "name": workspace },
        });
        root.create(WORKSPACES, &object).await?;
        let path = format!("{WORKSPACES}/{workspace}");
        root.until(&path, |found| {
            (found["status"]["phase"] == "Ready").then_some(())
        })
        .await?;
        self.place(workspace).await
    }

    async fn place(&self, workspace: &str) -> Result<Place, DemoError> {
        let path = format!("root:{workspace}");
        Place::connect(&self.playground.workspace_kubeconfig(&path)).await
    }
}

/// The schema and the claims of an export, once it has a schema: they come together.
fn offer(export: &Value) -> Option<(String, Vec<Value>)> {
    let spec = &export["spec"];
    let schema = spec["latestResourceSchemas"].as_array()?.first()?;
    let claims = spec["permissionClaims"].as_array();
    Some((
        schema.as_str()?.to_owned(),
        claims.cloned().unwrap_or_default(),
    ))
}

/// The first object of a list, once the operator has seen it.
fn first_ready(list: &Value) -> Option<Value> {
    let object = list["items"].as_array()?.first()?;
    (object["status"]["phase"] == "Ready").then(|| object.clone())
}
