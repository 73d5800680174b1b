//! The hub killed at each of its requests about one placement, before and after it takes effect.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hawser_placement::types::definitions::definitions;
use kcp_playground::Playground;
use kcp_playground::server::LoggedRequest;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{Launch, Process, unique};
use tokio_util::sync::DropGuard;

use super::world::{
    CLUSTER, PLACEMENT, crp, is_available, members_at, namespace_selector, report_member, works,
};
use super::{bindings, snapshots};
use crate::canary::assert_logs_untold;
use crate::federation::world::Way;
use crate::killed;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A hub cluster that has faults on demand, with members that are played.
pub(super) struct PlayedHub {
    playground: Playground,
    pub(super) way: Way,
    files: tempfile::TempDir,
    hub: Option<Process>,
    started: usize,
    _members: DropGuard,
}

impl PlayedHub {
    pub(super) async fn start() -> Result<Self> {
        let files = tempfile::tempdir()?;
        let playground = Playground::start().await?;
        let kubeconfig = playground.service_kubeconfig();
        std::fs::write(files.path().join("hub"), kubeconfig.to_string())?;
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
        let current = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &current).await?;
        let way = Way::by(config.clone())?;
        for definition in &definitions() {
            let made = way.create(DEFINITIONS, definition).await?;
            let name = made["metadata"]["name"].as_str().context("a name")?;
            way.until(&format!("{DEFINITIONS}/{name}"), |found| {
                let all = found["status"]["conditions"].as_array();
                let mut all = all.into_iter().flatten();
                all.any(|one| one["type"] == "Established" && one["status"] == "True")
            })
            .await;
        }
        let mut hub = Self {
            playground,
            way,
            files,
            hub: None,
            started: 0,
            _members: members_at(config, &Arc::default())?,
        };
        hub.launch()?;
        for name in ["a", "b"] {
            let member = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": name}, "spec": {"identity": {"kind": "User", "name": "agent"}},
            });
            let all = format!("{CLUSTER}/memberclusters");
            hub.way.create(&all, &member).await?;
            let internal =
                format!("{CLUSTER}/namespaces/fleet-member-{name}/internalmemberclusters/{name}");
            let mut internal = hub.way.until_there(&internal).await;
            report_member(&hub.way, &mut internal, "True").await?;
            hub.way
                .until(&format!("{all}/{name}"), |member| {
                    let conditions = member["status"]["conditions"].as_array();
                    let mut conditions = conditions.into_iter().flatten();
                    conditions.any(|one| one["type"] == "Joined" && one["status"] == "True")
                })
                .await;
        }
        Ok(hub)
    }

    /// What the hub has logged.
    pub(super) fn log(&self) -> Result<String> {
        Ok(self.hub.as_ref().context("it was not started")?.log())
    }

    fn launch(&mut self) -> Result<()> {
        self.started += 1;
        let at = |name: &str| self.files.path().join(name);
        let hub = Launch::new("hub", env!("CARGO_BIN_EXE_hawser"))
            .args(["hub", "--log-format=Console", "-v=5"])
            .args(["--enable-webhook=false", "--metrics-bind-address=0"])
            .arg("--health-probe-bind-address=0")
            .arg("--kubeconfig")
            .arg(at("hub"))
            .log(at(&format!("hub-{}.log", self.started)))
            .spawn()?;
        self.hub = Some(hub);
        Ok(())
    }
}

impl Drop for PlayedHub {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.files.path());
        }
    }
}

/// The life of one placement.
struct Life {
    hub: PlayedHub,
    name: String,
}

impl killed::Life for Life {
    const AGENT: &'static str = "hawser/";
    const SERVERS: &'static [&'static str] = &["hub"];

    type Wanted = [(&'static str, &'static str)];

    fn servers(&self) -> Result<Vec<&Playground>> {
        Ok(vec![&self.hub.playground])
    }

    fn owns(&self, request: &LoggedRequest) -> bool {
        // A namespace is selected with all that is in it. The watch of one kind is like that of another.
        let is_alike =
            request.verb == "watch" && !["namespaces", "configmaps"].contains(&&*request.resource);
        let goes_on = ["events", "memberclusters", "internalmemberclusters"];
        !is_alike && !goes_on.contains(&&*request.resource)
    }

    async fn kill(&mut self) -> Result<()> {
        let hub = self.hub.hub.take().context("it was not started")?;
        hub.kill().await?;
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        self.hub.launch()
    }

    /// The members, each with the value that it is to have; none if nothing is to be left of the placement.
    async fn is_done(&self, wanted: &Self::Wanted) -> Result<()> {
        let way = &self.hub.way;
        let list = async |path: &str| -> Result<Vec<Value>> {
            let list = way.get(path).await?.context("it is not served")?;
            Ok(list["items"].as_array().cloned().unwrap_or_default())
        };
        for member in ["a", "b"] {
            let works = list(&works(member)).await?;
            let values: Vec<&Value> = works
                .iter()
                .map(|work| &work["spec"]["workload"]["manifests"][1]["data"]["key"])
                .collect();
            let mut value = wanted.iter().filter(|(name, _)| *name == member);
            let value = value.next().map(|(_, value)| json!(value));
            let value: Vec<&Value> = value.iter().collect();
            ensure!(values == value, "{member} has {works:#?}");
        }
        let all = list(&bindings(&self.name)).await?;
        ensure!(all.len() == wanted.len(), "{all:#?}");
        let placement = way.get(&crp(&self.name)).await?;
        if wanted.is_empty() {
            ensure!(placement.is_none(), "{placement:#?}");
            let left = list(&snapshots(&self.name)).await?;
            ensure!(left.is_empty(), "{left:#?}");
            let overrides = format!(
                "{PLACEMENT}/namespaces/{}/resourceoverridesnapshots",
                self.name
            );
            let left = list(&overrides).await?;
            ensure!(left.is_empty(), "{left:#?}");
            return Ok(());
        }
        let placement = placement.context("the placement")?;
        ensure!(is_available(&placement), "{placement:#}");
        let clusters = placement["status"]["placementStatuses"].as_array();
        let clusters = clusters.context("statuses")?;
        ensure!(clusters.len() == wanted.len(), "{placement:#}");
        let latest = &placement["status"]["observedResourceIndex"];
        let mut indices = clusters.iter().map(|one| &one["observedResourceIndex"]);
        ensure!(indices.all(|index| index == latest), "{placement:#}");
        let mut masters = list(&snapshots(&self.name)).await?;
        masters.retain(|one| {
            one["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"] == "true"
        });
        ensure!(masters.len() == 1, "{masters:#?}");
        ensure!(
            masters[0]["metadata"]["labels"]["kubernetes-fleet.io/resource-index"] == *latest,
            "{masters:#?}"
        );
        Ok(())
    }

    /// Creation, change, a member less, deletion.
    async fn live(&mut self) -> Result<()> {
        self.name = unique("killed");
        let (name, way) = (self.name.clone(), self.hub.way.clone());
        let near = format!("/api/v1/namespaces/{name}/configmaps");
        way.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .await?;
        let map = json!({"metadata": {"name": "c"}, "data": {"key": "1"}});
        way.create(&near, &map).await?;
        let overrides = format!("{PLACEMENT}/namespaces/{name}/resourceoverrides");
        let one = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
            "metadata": {"name": "o"},
            "spec": {
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
                "policy": {"overrideRules": [{
                    "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels":
                        {"kubernetes-fleet.io/member-name": "b"}}}]},
                    "jsonPatchOverrides": [{"op": "replace", "path": "/data/key", "value": "${MEMBER-CLUSTER-NAME}"}]}]},
            },
        });
        way.create(&overrides, &one).await?;
        let placement = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name},
            "spec": {
                "policy": {"placementType": "PickFixed", "clusterNames": ["a", "b"]},
                "resourceSelectors": namespace_selector(&name),
                "revisionHistoryLimit": 1,
                "statusReportingScope": "NamespaceAccessible",
                "strategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            },
        });
        way.create(
            &format!("{PLACEMENT}/clusterresourceplacements"),
            &placement,
        )
        .await?;
        self.until("placed", &[("a", "1"), ("b", "b")]).await?;
        way.patch(&format!("{near}/c"), &json!({"data": {"key": "2"}}))
            .await?;
        self.until("changed", &[("a", "2"), ("b", "b")]).await?;
        let fewer = json!({"spec": {"policy": {"clusterNames": ["a"]}}});
        way.patch(&crp(&name), &fewer).await?;
        self.until("moved", &[("a", "2")]).await?;
        way.delete(&format!("{overrides}/o")).await?;
        way.delete(&crp(&name)).await?;
        self.until("deleted", &[]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_killed_at_any_of_its_requests_goes_on_where_it_was() -> Result<()> {
    let begun = (0..2).map(async |_| {
        let (hub, name) = (PlayedHub::start().await?, String::new());
        anyhow::Ok(Life { hub, name })
    });
    let mut lives = futures::future::try_join_all(begun).await?;
    let kinds = [
        "patch clusterresourceplacements  of the hub",
        "update clusterresourceplacements status of the hub",
        "create clusterschedulingpolicysnapshots  of the hub",
        "update clusterschedulingpolicysnapshots status of the hub",
        "delete clusterschedulingpolicysnapshots  of the hub",
        "create clusterresourcesnapshots  of the hub",
        "delete clusterresourcesnapshots  of the hub",
        "create clusterresourcebindings  of the hub",
        "patch clusterresourcebindings  of the hub",
        "update clusterresourcebindings status of the hub",
        "delete clusterresourcebindings  of the hub",
        "create works  of the hub",
        "patch works  of the hub",
        "delete works  of the hub",
        "patch resourceoverrides  of the hub",
        "create resourceoverridesnapshots  of the hub",
        "delete resourceoverridesnapshots  of the hub",
        "create clusterresourceplacementstatuses  of the hub",
        "patch clusterresourceplacementstatuses  of the hub",
        "watch namespaces  of the hub",
        "watch configmaps  of the hub",
    ];
    killed::kill_at_each_request(&mut lives, &kinds).await
}
