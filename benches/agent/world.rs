//! What an agent is measured in: a kcp with bound workspaces, a service cluster, a published kind.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kcp_playground::Playground;
use kcp_playground::PlaygroundOptions;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Launch, Process, ServiceCluster, eventually};

use super::plane::{NAMESPACE, Plane, definition};

const OWN_CRD: &str = include_str!("../../crds/syncagent.kcp.io_publishedresources.yaml");
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PUBLISHED: &str = "/apis/syncagent.kcp.io/v1alpha1/publishedresources";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const EXPORT: &str = "wares";
const USER: &str = "agent";
const SOON: Duration = Duration::from_mins(1);

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// A kube-apiserver with an etcd that does not wait for the disk.
    Real,
    /// The playground's own.
    Playground,
}

/// What keeps objects in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// A binary that takes the contract's flags.
    Agent(PathBuf),
    /// The same writes and nothing else.
    Floor,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Real => "kube-apiserver with an etcd that does not wait for the disk",
            Self::Playground => "the playground",
        }
    }
}

impl Contender {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Agent(program) => program
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            Self::Floor => "floor".to_owned(),
        }
    }
}

pub(crate) struct World {
    pub(crate) kcp: Plane,
    pub(crate) service: Plane,
    pub(crate) teams: Vec<Team>,
    pub(crate) playground: Playground,
    cluster: Option<ServiceCluster>,
    endpoint: String,
    directory: TempDir,
}

/// A workspace of a consumer.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) plane: Plane,
    pub(crate) cluster: String,
}

impl World {
    /// Everything is published and bound; no agent runs.
    pub(crate) async fn make(service: Service, setup: &Contender, teams: usize) -> Result<Self> {
        let playground = Playground::start_with(PlaygroundOptions {
            token_file: format!("agent-token,{USER},1,\"agents\"\n"),
            ..PlaygroundOptions::default()
        })
        .await?;
        let mut base = playground.kcp_kubeconfig();
        base["current-context"] = "base".into();
        let kcp = Plane::of(&base).await?;
        let directory = tempfile::tempdir()?;
        let (cluster, service, kubeconfig) = match service {
            Service::Real => {
                let cluster = ServiceCluster::start().await?.single_use();
                let plane = Plane::new(cluster.admin().client()?);
                let file = cluster.admin().kubeconfig_file().to_owned();
                (Some(cluster), plane, fs::read_to_string(file)?)
            }
            Service::Playground => {
                let url = playground.service_url();
                let own = playground.kubeconfig_at(url, USER, "agent-token");
                let plane = Plane::of(&playground.service_kubeconfig()).await?;
                (None, plane, own.to_string())
            }
        };
        fs::write(directory.path().join("service.kubeconfig"), kubeconfig)?;
        let url = format!("{}/clusters/root:org", playground.kcp_url());
        let own = playground.kubeconfig_at(&url, USER, "agent-token");
        fs::write(directory.path().join("kcp.kubeconfig"), own.to_string())?;
        let mut world = Self {
            kcp,
            service,
            teams: Vec::new(),
            playground,
            cluster,
            endpoint: String::new(),
            directory,
        };
        world.publish(setup).await?;
        world.bind(teams).await?;
        Ok(world)
    }

    async fn publish(&mut self, setup: &Contender) -> Result<()> {
        let published: Value = serde_saphyr::from_str(OWN_CRD)?;
        for crd in [published, definition()] {
            self.service.create(CRDS, &crd).await?;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.service
            .create("/api/v1/namespaces", &namespace)
            .await?;
        workspace(&self.kcp.below("/clusters/root"), "org").await?;
        let org = self.kcp.below("/clusters/root:org");
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": EXPORT}, "spec": {},
        });
        org.create(EXPORTS, &export).await?;
        let published = json!({
            "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
            "metadata": {"name": "gadgets"},
            "spec": {"resource": {"apiGroup": super::plane::GROUP, "version": "v1", "kind": "Gadget"}},
        });
        eventually(SOON, "gadgets are published", async || {
            self.service.create(PUBLISHED, &published).await
        })
        .await;
        let agent = self.launch(setup, "setup")?.spawn()?;
        eventually(SOON, "the export has a schema", async || -> Result<()> {
            let found = org.get(&format!("{EXPORTS}/{EXPORT}")).await?;
            let schemas = found["spec"]["latestResourceSchemas"].as_array();
            ensure!(
                schemas.is_some_and(|all| !all.is_empty()),
                "{}",
                agent.log_tail(5)
            );
            Ok(())
        })
        .await;
        agent.stop(SOON).await?;
        Ok(())
    }

    async fn bind(&mut self, teams: usize) -> Result<()> {
        let org = self.kcp.below("/clusters/root:org");
        let export = org.get(&format!("{EXPORTS}/{EXPORT}")).await?;
        let claims = export["spec"]["permissionClaims"].as_array();
        let claims: Vec<Value> = claims
            .into_iter()
            .flatten()
            .map(|claim| {
                let mut accepted = claim.clone();
                accepted["state"] = "Accepted".into();
                accepted
            })
            .collect();
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": EXPORT},
            "spec": {"reference": {"export": {"name": EXPORT, "path": "root:org"}}, "permissionClaims": claims},
        });
        let kcp = self.kcp.clone();
        let made = stream::iter(0..teams).map(|number| {
            let (org, kcp, binding) = (&org, &kcp, &binding);
            async move {
                let cluster = workspace(org, &format!("team-{number}")).await?;
                let plane = kcp.below(&format!("/clusters/{cluster}"));
                plane.create(BINDINGS, binding).await?;
                let path = format!("{BINDINGS}/{EXPORT}");
                eventually(SOON, "the binding is ready", async || -> Result<()> {
                    let found = plane.get(&path).await?;
                    ensure!(found["status"]["phase"] == "Bound", "{}", found["status"]);
                    Ok(())
                })
                .await;
                anyhow::Ok(Team { plane, cluster })
            }
        });
        self.teams = made.buffered(8).try_collect().await?;
        // Endpoints are there for workspaces that have bound.
        let slice = org.get(&format!("{SLICES}/{EXPORT}")).await?;
        let endpoint = slice.pointer("/status/endpoints/0/url");
        let endpoint = endpoint
            .and_then(Value::as_str)
            .context("the slice has no endpoint")?;
        endpoint.clone_into(&mut self.endpoint);
        Ok(())
    }

    /// A workspace as the address of a client of its own, for watches.
    pub(crate) async fn watched(&self, team: &Team) -> Result<Plane> {
        let mut kubeconfig = self.playground.kcp_kubeconfig();
        let url = format!("{}/clusters/{}", self.playground.kcp_url(), team.cluster);
        for cluster in kubeconfig["clusters"].as_array_mut().into_iter().flatten() {
            cluster["cluster"]["server"] = url.clone().into();
        }
        Plane::of(&kubeconfig).await
    }

    /// Starts a contender.
    pub(crate) fn start(&self, contender: &Contender) -> Result<Process> {
        self.launch(contender, "contender")?.spawn()
    }

    /// Starts one of several processes of which one leads.
    pub(crate) fn candidate(&self, contender: &Contender, name: &str) -> Result<Process> {
        let launch = self.launch(contender, name)?;
        launch.arg("--enable-leader-election").spawn()
    }

    /// Starts one of several replicas that share the workspaces.
    pub(crate) fn replica(
        &self,
        contender: &Contender,
        number: usize,
        shards: usize,
    ) -> Result<Process> {
        let launch = self.launch(contender, &format!("replica-{number}"))?;
        let launch = launch.args([
            "--enable-leader-election".to_owned(),
            format!("--shards={shards}"),
        ]);
        launch.spawn()
    }

    fn launch(&self, contender: &Contender, name: &str) -> Result<Launch> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        let (kcp, service) = (file("kcp.kubeconfig"), file("service.kubeconfig"));
        let launch = match contender {
            Contender::Agent(binary) => Launch::new(name, binary).args([
                format!("--kcp-kubeconfig={kcp}"),
                format!("--kubeconfig={service}"),
                format!("--namespace={NAMESPACE}"),
                format!("--apiexportendpointslice-ref={EXPORT}"),
                "--metrics-address=0".to_owned(),
            ]),
            Contender::Floor => Launch::new(name, std::env::current_exe()?).args([
                super::floor::WORD.to_owned(),
                kcp,
                service,
                self.endpoint.clone(),
            ]),
        };
        Ok(launch.log(self.directory.path().join(format!("{name}.log"))))
    }

    /// Requests other than watches that a real service cluster has answered so far about the kinds
    /// that matter.
    pub(crate) async fn service_requests(&self) -> Result<u64> {
        const KINDS: [&str; 5] = [
            "gadgets",
            "secrets",
            "namespaces",
            "publishedresources",
            "customresourcedefinitions",
        ];
        if self.cluster.is_none() {
            return Ok(0);
        }
        let text = self.service.text("/metrics").await?;
        let mut sum = 0.0;
        for line in text.lines() {
            let counts = line.starts_with("apiserver_request_total{")
                && !line.contains("verb=\"WATCH\"")
                && KINDS
                    .iter()
                    .any(|kind| line.contains(&format!("resource=\"{kind}\"")));
            let value = line.rsplit(' ').next().filter(|_| counts);
            sum += value.and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        Ok(sum as u64)
    }

    /// Requests of the contender that the playground saw since a mark, watches apart.
    pub(crate) fn playground_requests(&self, mark: u64) -> (usize, usize) {
        let log = self.playground.requests();
        let own = |verb: bool| {
            log.count_since(mark, |request| {
                request.user == USER && (request.verb == "watch") == verb
            })
        };
        (own(false), own(true))
    }

    pub(crate) async fn end(self) {
        drop(self.cluster);
        self.playground.stop().await;
    }
}

/// Makes a workspace; its logical cluster once it can be used.
async fn workspace(parent: &Plane, name: &str) -> Result<String> {
    let object = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
    });
    parent.create(WORKSPACES, &object).await?;
    let path = format!("{WORKSPACES}/{name}");
    let ready = eventually(SOON, "the workspace is ready", async || -> Result<Value> {
        let found = parent.get(&path).await?;
        ensure!(found["status"]["phase"] == "Ready", "{}", found["status"]);
        Ok(found)
    })
    .await;
    let cluster = ready["spec"]["cluster"].as_str();
    Ok(cluster.context("no cluster")?.to_owned())
}
