//! The hub killed at its writes about one placement, before and after they take effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hawser_placement::types::definitions::definitions;
use kcp_playground::Playground;
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{Launch, Process, SOON, eventually, unique};
use tokio_util::sync::DropGuard;

use super::world::{
    CLUSTER, PLACEMENT, crp, is_available, members_at, namespace_selector, report_member, works,
};
use super::{bindings, snapshots};
use crate::canary::assert_logs_untold;
use crate::federation::world::Way;

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);
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

/// A write, by its number among those of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: String,
    resource: String,
    subresource: String,
}

#[derive(Clone, Debug)]
struct HubBoundary {
    kind: Kind,
    skip: u64,
    when: When,
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

/// The life of one placement, with the hub killed on the way.
struct PlacementLife<'h> {
    hub: &'h mut PlayedHub,
    name: String,
    at: Option<HubBoundary>,
    mark: u64,
}

impl<'h> PlacementLife<'h> {
    fn begin(hub: &'h mut PlayedHub, at: Option<HubBoundary>) -> Self {
        if let Some(at) = &at {
            let matcher = Matcher {
                verb: Some(at.kind.verb.clone()),
                resource: Some(at.kind.resource.clone()),
                subresource: Some(at.kind.subresource.clone()),
                agent: Some("hawser/".to_owned()),
                ..Matcher::default()
            };
            let action = match at.when {
                When::Before => Action::Latency(NEVER),
                When::After => Action::Reset(When::After),
            };
            let fault = Fault::new(matcher, action).once();
            let fault = Fault {
                skip: at.skip,
                ..fault
            };
            hub.playground.faults().add(fault);
        }
        let mark = hub.playground.requests().mark();
        Self {
            hub,
            name: unique("killed"),
            at,
            mark,
        }
    }

    fn is_struck(&self) -> bool {
        self.at.is_some() && self.hub.playground.faults().struck().contains(&1)
    }

    /// Waits until everything is as it should be. Kills the hub when it comes to its write.
    async fn until(&mut self, what: &str, wanted: &[(&str, &str)]) -> Result<()> {
        eventually(SOON, what, async || {
            if self.is_struck() {
                return Ok(());
            }
            self.is_done(wanted).await
        })
        .await;
        if self.is_struck() {
            self.at = None;
            let hub = self.hub.hub.take().context("it was not started")?;
            hub.kill().await?;
            self.hub.playground.faults().clear();
            self.hub.launch()?;
        }
        eventually(SOON, what, async || self.is_done(wanted).await).await;
        Ok(())
    }

    /// The members, each with the value that it is to have; none if nothing is to be left of the placement.
    async fn is_done(&self, wanted: &[(&str, &str)]) -> Result<()> {
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

    /// Creation, change, a member less, deletion. The writes that were made, and whether the hub was killed.
    async fn live(mut self) -> Result<(Vec<LoggedRequest>, bool)> {
        let was_armed = self.at.is_some();
        let name = self.name.clone();
        let way = Way::by(self.config().await?)?;
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
        self.until("deleted", &[]).await?;
        let was_killed = was_armed && self.at.is_none();
        self.hub.playground.faults().clear();
        let all = self.hub.playground.requests().since(self.mark);
        let writes = all.into_iter().filter(|write| {
            !["get", "list", "watch"].contains(&&*write.verb)
                && write.user_agent.starts_with("hawser/")
                && write.resource != "events"
        });
        Ok((writes.collect(), was_killed))
    }

    async fn config(&self) -> Result<kube::Config> {
        let kubeconfig = serde_json::from_value(self.hub.playground.service_kubeconfig())?;
        let current = KubeConfigOptions::default();
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &current).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_killed_at_its_writes_goes_on_where_it_was() -> Result<()> {
    let mut hub = PlayedHub::start().await?;
    let (writes, _) = PlacementLife::begin(&mut hub, None).live().await?;
    let mut boundaries = Vec::new();
    let mut numbers = BTreeMap::<Kind, u64>::new();
    for write in writes {
        let kind = Kind {
            verb: write.verb,
            resource: write.resource,
            subresource: write.subresource,
        };
        let number = numbers.entry(kind.clone()).or_default();
        let skip = *number;
        *number += 1;
        for when in [When::Before, When::After] {
            let kind = kind.clone();
            boundaries.push(HubBoundary { kind, skip, when });
        }
    }
    // Snapshots, bindings and Works are made, changed and deleted; placement, override and copies have their own writes.
    ensure!(numbers.len() >= 14, "{numbers:#?}");
    let mut struck = BTreeSet::new();
    for boundary in boundaries {
        let kind = boundary.kind.clone();
        let (_, was_killed) = PlacementLife::begin(&mut hub, Some(boundary))
            .live()
            .await?;
        if was_killed {
            struck.insert(kind);
        }
    }
    // How many statuses are written depends on which news comes first, but some of each kind are.
    ensure!(struck.len() == numbers.len(), "{struck:#?} of {numbers:#?}");
    Ok(())
}
