//! What is done to the clusters, the process that is measured, and who sees what when.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::{Launch, Process, eventually};
use tokio::time::Instant;

use crate::sightings::{LATE, Sightings};
use crate::world::{MEMBER_NAMES, SYSTEM, Way, World, config_map, core, federated, on};

pub(crate) const NAMESPACE: &str = "bench";
const WRITERS: usize = 32;

/// The times of KubeFed's chart, in place of those of tests.
pub(crate) async fn configure(world: &World) -> Result<()> {
    let spec = json!({
        "controllerDuration": {"availableDelay": "5s", "unavailableDelay": "60s"},
        "clusterHealthCheck": {"period": "10s", "failureThreshold": 3, "timeout": "3s"},
    });
    let path = core("kubefedconfigs/kubefed");
    world
        .host()
        .await?
        .patch(&path, &json!({"spec": spec}))
        .await?;
    Ok(())
}

/// The clients of host and members.
pub(crate) struct Load {
    host: Way,
    members: Vec<(Api<ConfigMap>, Sightings)>,
}

impl Load {
    /// Creates the namespace, and waits until it is in all members.
    pub(crate) async fn start(world: &World) -> Result<Self> {
        world.namespace_on(NAMESPACE, MEMBER_NAMES.len()).await?;
        let mut members = Vec::new();
        for member in &world.members {
            let client = kube::Client::try_from(member.config().await?)?;
            let api = Api::namespaced(client, NAMESPACE);
            let of = |object: &ConfigMap| {
                let value = object.data.as_ref().and_then(|data| data.get("A"));
                value.cloned().unwrap_or_default()
            };
            members.push((api.clone(), Sightings::start(api, of)));
        }
        let host = world.host().await?;
        Ok(Self { host, members })
    }

    pub(crate) async fn create(&self, name: &str, members: &[&str]) -> Result<()> {
        let mut object = config_map(name, &on(members));
        object["spec"]["template"]["data"] = json!({"A": "made"});
        let all = federated(NAMESPACE, "federatedconfigmaps");
        self.host.create(&all, &object).await?;
        Ok(())
    }

    pub(crate) async fn create_many(
        &self,
        prefix: &str,
        count: usize,
        members: &[&str],
    ) -> Result<()> {
        let names = (0..count).map(|number| format!("{prefix}-{number}"));
        let made = names.map(|name| async move { self.create(&name, members).await });
        let made = futures::stream::iter(made);
        made.buffer_unordered(WRITERS).try_collect().await
    }

    /// When all of these members had a value.
    pub(crate) async fn until(&self, members: &[&str], name: &str, value: &str) -> Result<Instant> {
        let mut last = None;
        for (_, seen) in self.members.iter().take(members.len()) {
            last = last.max(Some(seen.until(name, value, None).await?));
        }
        last.context("no members")
    }

    /// Changes a copy in the first member, and says when.
    pub(crate) async fn drift(&self, name: &str) -> Result<Instant> {
        let at = Instant::now();
        let patch = Patch::Merge(json!({"data": {"A": "drifted"}}));
        let params = PatchParams::default();
        self.members[0].0.patch(name, &params, &patch).await?;
        Ok(at)
    }

    /// When the copy in the first member was as made again.
    pub(crate) async fn restored(&self, name: &str, since: Instant) -> Result<Instant> {
        self.members[0].1.until(name, "made", Some(since)).await
    }
}

/// The process that is measured.
pub(crate) struct ControlPlane {
    process: Process,
    pages: kube::Client,
}

impl ControlPlane {
    pub(crate) fn start(world: &World) -> Result<Self> {
        // Somebody else may take the port in between, and the control plane says so then.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let process = Launch::new("federate", env!("CARGO_BIN_EXE_hawser"))
            .args(["federate", "--kubefed-namespace", SYSTEM])
            .args(["--healthz-addr=0", "--metrics-addr"])
            .arg(port.to_string())
            .arg("--kubeconfig")
            .arg(world.host.kubeconfig_file())
            .spawn()?;
        let pages = kube::Config::new(format!("http://{port}").parse()?);
        Ok(Self {
            process,
            pages: kube::Client::try_from(pages)?,
        })
    }

    pub(crate) fn megabytes(&self) -> Result<f64> {
        Ok(self.process.memory()?.rss_bytes as f64 / 1e6)
    }

    /// How many requests it has sent, and how many of them wrote something.
    pub(crate) async fn requests(&self) -> Result<(u64, u64)> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = self.pages.request_text(request).await?;
        let (mut all, mut writes) = (0, 0);
        for line in text
            .lines()
            .filter(|line| line.starts_with("rest_client_requests_total{"))
        {
            let count = line.rsplit(' ').next().context("a number")?;
            let count: u64 = count.parse()?;
            all += count;
            if !line.contains("method=\"GET\"") {
                writes += count;
            }
        }
        Ok((all, writes))
    }

    /// Waits until it has written its status and its events.
    pub(crate) async fn until_idle(&self) -> Result<()> {
        let mut before = self.requests().await?.1;
        eventually(LATE, "nothing is written any more", async || {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let now = self.requests().await?.1;
            let written = now - std::mem::replace(&mut before, now);
            // The lock is renewed.
            ensure!(written < 10, "{written} writes in 5 s");
            anyhow::Ok(())
        })
        .await;
        Ok(())
    }
}
