//! A hub and a member in this process, with faults on demand, and the agent as a process.

use std::path::Path;

use anyhow::{Context as _, Result};
use hawser_placement::types::definitions::definitions;
use kcp_playground::Playground;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{Launch, Process};

use super::world::{INTERNAL, NAME, Way, condition};
use crate::canary::assert_logs_untold;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A hub and a member that the agent cannot tell from real ones, and that have faults on demand.
pub(super) struct PlayedFleet {
    /// The hub, then the member.
    pub(super) playgrounds: [Playground; 2],
    pub(super) ways: [Way; 2],
    files: tempfile::TempDir,
    agent: Option<Process>,
    started: usize,
}

async fn way(playground: &Playground, file: &Path) -> Result<Way> {
    let kubeconfig = playground.service_kubeconfig();
    std::fs::write(file, kubeconfig.to_string())?;
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
    let current = KubeConfigOptions::default();
    Way::by(kube::Config::from_custom_kubeconfig(kubeconfig, &current).await?)
}

impl PlayedFleet {
    pub(super) async fn start() -> Result<Self> {
        let files = tempfile::tempdir()?;
        let playgrounds = [Playground::start().await?, Playground::start().await?];
        let ways = [
            way(&playgrounds[0], &files.path().join("hub")).await?,
            way(&playgrounds[1], &files.path().join("member")).await?,
        ];
        for way in &ways {
            for definition in &definitions() {
                let made = way.create(DEFINITIONS, definition).await?;
                let name = made["metadata"]["name"].as_str().context("a name")?;
                let is_served =
                    |found: &Value| condition(&found["status"], "Established")["status"] == "True";
                way.until(&format!("{DEFINITIONS}/{name}"), is_served).await;
            }
        }
        let namespace = json!({"metadata": {"name": "fleet-member-m1"}});
        ways[0].create("/api/v1/namespaces", &namespace).await?;
        let internal = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
            "metadata": {"name": NAME}, "spec": {"state": "Join", "heartbeatPeriodSeconds": 60},
        });
        ways[0].create(INTERNAL, &internal).await?;
        let mut fleet = Self {
            playgrounds,
            ways,
            files,
            agent: None,
            started: 0,
        };
        fleet.launch()?;
        Ok(fleet)
    }

    pub(super) fn launch(&mut self) -> Result<()> {
        self.started += 1;
        let at = |name: &str| self.files.path().join(name);
        let agent = Launch::new("member", env!("CARGO_BIN_EXE_hawser"))
            .args(["member", "--log-format=Console", "-v=5"])
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0"])
            .env("MEMBER_CLUSTER_NAME", NAME)
            .arg("--kubeconfig")
            .arg(at("member"))
            .arg("--hub-kubeconfig")
            .arg(at("hub"))
            .log(at(&format!("member-{}.log", self.started)))
            .spawn()?;
        self.agent = Some(agent);
        Ok(())
    }

    /// What the agent has logged.
    pub(super) fn log(&self) -> Result<String> {
        Ok(self.agent.as_ref().context("it was not started")?.log())
    }

    pub(super) async fn kill(&mut self) -> Result<()> {
        let agent = self.agent.take().context("it was not started")?;
        agent.kill().await?;
        Ok(())
    }
}

impl Drop for PlayedFleet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.files.path());
        }
    }
}
