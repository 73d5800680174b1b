//! A hub and a member, both real, and the agent as a process.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::link::{Link, Weather};
use testbed::{Launch, Options, Process, SOON, ServiceCluster, Shared};

use crate::canary::{LoggedUse, Logging, assert_logs_untold};
pub(super) use crate::federation::world::Way;

pub(super) const NAME: &str = "m1";
pub(super) const WORKS: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-m1/works";
pub(super) const APPLIED: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/appliedworks";
pub(super) const INTERNAL: &str =
    "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-m1/internalmemberclusters";

/// See the module.
pub(super) struct World {
    pub(super) hub: ServiceCluster,
    pub(super) member: ServiceCluster,
    /// The ways of the agent to the hub and to its member, if they are to be cut.
    links: Option<[Link; 2]>,
    agent: Option<Process>,
    logs: tempfile::TempDir,
    started: usize,
}

/// What an agent can be cut off from.
#[derive(Clone, Copy)]
pub(super) enum End {
    Hub,
    Member,
}

/// Waits for Works.
pub(super) trait AwaitWork {
    /// Waits until a Work says this of its current generation.
    async fn until_work(&self, name: &str, type_: &str, reason: &str) -> Value;
}

impl AwaitWork for Way {
    async fn until_work(&self, name: &str, type_: &str, reason: &str) -> Value {
        self.until(&format!("{WORKS}/{name}"), |work| {
            let said = condition(&work["status"], type_);
            said["reason"] == reason && said["observedGeneration"] == work["metadata"]["generation"]
        })
        .await
    }
}

/// The condition of a type, or null.
pub(super) fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|one| one["type"] == type_);
    found.next().cloned().unwrap_or_default()
}

/// The reason that the manifest at a position gives for a condition.
pub(super) fn manifest_reason(work: &Value, ordinal: i64, type_: &str) -> String {
    let manifests = work["status"]["manifestConditions"].as_array();
    let mut manifests = manifests.into_iter().flatten();
    let found = manifests.find(|one| one["identifier"]["ordinal"] == ordinal);
    let found = found.cloned().unwrap_or_default();
    condition(&found, type_)["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub(super) fn config_map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    })
}

pub(super) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A Work as the hub makes it.
pub(super) fn work(name: &str, manifests: &[Value], strategy: &Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": name},
        "spec": {"workload": {"manifests": manifests}, "applyStrategy": strategy},
    })
}

/// The metrics page of an agent at the address of a flag.
pub(super) async fn metrics(agent: &Process, flag: &str) -> Result<String> {
    let line = format!("serving pages of {flag}");
    let log = agent.await_log(SOON, &line).await?;
    let (_, rest) = log.split_once(&line).context("a line")?;
    let (_, port) = rest.split_once("127.0.0.1:").context("an address")?;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let pages = kube::Config::new(format!("http://127.0.0.1:{port}").parse()?);
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(kube::Client::try_from(pages)?.request_text(request).await?)
}

impl Logging for World {
    fn logs(&self) -> &Path {
        self.logs.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.logs());
        }
    }
}

// === impl World ===

impl World {
    /// The world that tests share which disturb nobody.
    pub(super) async fn shared() -> Result<LoggedUse<Self>> {
        static SHARED: Shared<World> = Shared::new();
        let used = SHARED.get(async || {
            let mut world = Self::new().await?;
            world.start_with(&["--enable-namespace-collection-in-property-provider"])?;
            Ok(world)
        });
        used.await.map(LoggedUse::new)
    }

    /// Hub and member with their types, the member told to join, without an agent yet.
    pub(super) async fn new() -> Result<Self> {
        let start = |controllers| {
            ServiceCluster::start_with(Options {
                controllers,
                ..Options::default()
            })
        };
        let (hub, member) = tokio::try_join!(start(Controllers::None), start(Controllers::All))?;
        let file = repository().join("crds/kubernetes-fleet.io.yaml");
        let file = file.to_str().context("a path in Unicode")?;
        for cluster in [&hub, &member] {
            cluster.admin().kubectl(&["create", "-f", file]).await?;
            let wait = ["wait", "--for=condition=Established", "crd", "--all"];
            cluster.admin().kubectl(&wait).await?;
        }
        let world = Self {
            hub,
            member,
            links: None,
            agent: None,
            logs: tempfile::tempdir()?,
            started: 0,
        };
        let hub = world.hub()?;
        let namespace = json!({"metadata": {"name": "fleet-member-m1"}});
        hub.create("/api/v1/namespaces", &namespace).await?;
        let internal = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
            "metadata": {"name": NAME}, "spec": {"state": "Join", "heartbeatPeriodSeconds": 1},
        });
        hub.create(INTERNAL, &internal).await?;
        Ok(world)
    }

    /// From the next start on, the agent reaches hub and member by links. They belong to the test that asks for them.
    pub(super) async fn link(&mut self) -> Result<()> {
        let hub = Link::start(self.hub.address()).await?;
        let member = Link::start(self.member.address()).await?;
        self.links = Some([hub, member]);
        Ok(())
    }

    /// The hub or the member out of reach of the agent, or back.
    pub(super) async fn cut_off(&self, end: End, is_away: bool) -> Result<()> {
        let links = self.links.as_ref().context("there are no links")?;
        let link = match end {
            End::Hub => &links[0],
            End::Member => &links[1],
        };
        if is_away {
            return link.away().await;
        }
        link.set(Weather::Clear).await
    }

    pub(super) fn hub(&self) -> Result<Way> {
        Way::to(&self.hub)
    }

    pub(super) fn member(&self) -> Result<Way> {
        Way::to(&self.member)
    }

    pub(super) fn start(&mut self) -> Result<()> {
        self.start_with(&[])
    }

    /// With more flags.
    pub(super) fn start_with(&mut self, flags: &[&str]) -> Result<()> {
        let (hub, member) = (self.hub.admin(), self.member.admin());
        let (hub, member) = match &self.links {
            Some([to_hub, to_member]) => {
                (hub.by(to_hub.address())?, member.by(to_member.address())?)
            }
            None => (hub.clone(), member.clone()),
        };
        let launch = self
            .launch()
            .env("MEMBER_CLUSTER_NAME", NAME)
            .arg("--kubeconfig")
            .arg(member.kubeconfig_file())
            .arg("--hub-kubeconfig")
            .arg(hub.kubeconfig_file())
            .args(flags);
        self.agent = Some(launch.spawn()?);
        Ok(())
    }

    /// An agent that is told nothing about clusters yet.
    pub(super) fn launch(&mut self) -> Launch {
        self.started += 1;
        let log = self
            .logs
            .path()
            .join(format!("member-{}.log", self.started));
        Launch::new("member", env!("CARGO_BIN_EXE_hawser"))
            .args(["member", "--log-format=Console", "-v=5", "--leader-elect"])
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
            ])
            .log(log)
    }

    /// Ends the agent without a word. The next one does not wait for its lease.
    pub(super) async fn kill(&mut self) -> Result<()> {
        let agent = self.agent.take().context("it was not started")?;
        agent.kill().await?;
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/136224848560.member.fleet.azure.com";
        let member = self.member()?;
        if member.get(lease).await?.is_some() {
            member.delete(lease).await?;
        }
        Ok(())
    }
}
