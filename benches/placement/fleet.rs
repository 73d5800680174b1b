//! A hub with two members, what is done to them, and the processes that are measured.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Options, Process, ServiceCluster};
use tokio::time::Instant;

use crate::sightings::Sightings;
use crate::world::Way;

const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const NAMESPACES: &str = "/api/v1/namespaces";

pub(crate) struct Fleet {
    pub(crate) hub: ServiceCluster,
    pub(crate) members: Vec<ServiceCluster>,
    way: Way,
    ways: Vec<Way>,
    copies: Vec<Sightings>,
    applied: Sightings,
    available: Sightings,
}

/// Placements, as dynamic objects.
pub(crate) fn placements(client: kube::Client) -> Api<DynamicObject> {
    let (group, version) = ("placement.kubernetes-fleet.io", "v1beta1");
    let kind = GroupVersionKind::gvk(group, version, "ClusterResourcePlacement");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusterresourceplacements");
    Api::all_with(client, &resource)
}

/// The value that the load gives to `ConfigMap`s.
pub(crate) fn value(map: &ConfigMap) -> String {
    let value = map.data.as_ref().and_then(|data| data.get("A"));
    value.cloned().unwrap_or_default()
}

fn says(type_: &'static str) -> impl Fn(&DynamicObject) -> String {
    let type_ = format!("ClusterResourcePlacement{type_}");
    move |placement| {
        let conditions = placement.data["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_true = conditions.any(|one| one["type"] == *type_ && one["status"] == "True");
        is_true.to_string()
    }
}

impl Fleet {
    pub(crate) async fn start() -> Result<Self> {
        let cluster = async || {
            let options = Options {
                controllers: Controllers::None,
                ..Options::default()
            };
            let started = ServiceCluster::start_with(options).await?;
            anyhow::Ok(started.single_use())
        };
        let (hub, one, two) = tokio::try_join!(cluster(), cluster(), cluster())?;
        let file = repository().join("crds/kubernetes-fleet.io.yaml");
        let file = file.to_str().context("a path in Unicode")?;
        for cluster in [&hub, &one, &two] {
            cluster.admin().kubectl(&["create", "-f", file]).await?;
            let wait = ["wait", "--for=condition=Established", "crd", "--all"];
            cluster.admin().kubectl(&wait).await?;
        }
        let members = vec![one, two];
        let seen = |type_| {
            let all = placements(hub.admin().client()?);
            anyhow::Ok(Sightings::start(all, says(type_)))
        };
        let mut copies = Vec::new();
        for member in &members {
            copies.push(Sightings::start(Api::all(member.admin().client()?), value));
        }
        Ok(Self {
            way: Way::to(&hub)?,
            ways: members.iter().map(Way::to).collect::<Result<_>>()?,
            applied: seen("Applied")?,
            available: seen("Available")?,
            copies,
            hub,
            members,
        })
    }

    /// A namespace with `ConfigMap`s on the hub, which nothing places yet.
    pub(crate) async fn prepare(&self, name: &str, maps: usize) -> Result<()> {
        let namespace = json!({"metadata": {"name": name}});
        self.way.create(NAMESPACES, &namespace).await?;
        for number in 0..maps {
            let map = json!({
                "metadata": {"name": format!("{name}-{number}")}, "data": {"A": "made"},
            });
            self.way.create(&maps_of(name), &map).await?;
        }
        Ok(())
    }

    pub(crate) async fn place(&self, name: &str) -> Result<Value> {
        let placement = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name},
            "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]},
        });
        self.way.create(PLACEMENTS, &placement).await
    }

    /// When all members had a value.
    pub(crate) async fn until_there(&self, map: &str, value: &str) -> Result<Instant> {
        let mut last = None;
        for copies in &self.copies {
            last = last.max(Some(copies.until(map, value, None).await?));
        }
        last.context("no members")
    }

    /// When a condition of a placement was true.
    pub(crate) async fn until_said(&self, name: &str, type_: &str) -> Result<Instant> {
        let said = if type_ == "Applied" {
            &self.applied
        } else {
            &self.available
        };
        said.until(name, "true", None).await
    }

    pub(crate) async fn update(&self, namespace: &str, map: &str) -> Result<()> {
        self.change(&self.way, namespace, map, "updated").await
    }

    /// Changes a copy in the first member, and says when.
    pub(crate) async fn drift(&self, namespace: &str, map: &str) -> Result<Instant> {
        let at = Instant::now();
        self.change(&self.ways[0], namespace, map, "drifted")
            .await?;
        Ok(at)
    }

    async fn change(&self, way: &Way, namespace: &str, map: &str, value: &str) -> Result<()> {
        let path = format!("{}/{map}", maps_of(namespace));
        way.patch(&path, &json!({"data": {"A": value}})).await?;
        Ok(())
    }

    /// When the copy in the first member was as made again.
    pub(crate) async fn restored(&self, map: &str, since: Instant) -> Result<Instant> {
        self.copies[0].until(map, "made", Some(since)).await
    }
}

fn maps_of(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/configmaps")
}

/// The processes that are measured.
pub(crate) struct Agents {
    hub: Process,
    members: Vec<Process>,
}

impl Agents {
    /// Starts all of them, and waits until the members have joined.
    pub(crate) async fn start(fleet: &Fleet) -> Result<Self> {
        let launch = |command: &str| {
            Launch::new(command, env!("CARGO_BIN_EXE_hawser"))
                .arg(command)
                .args(["--health-probe-bind-address=0", "--metrics-bind-address=0"])
        };
        let hub = launch("hub")
            .arg("--kubeconfig")
            .arg(fleet.hub.admin().kubeconfig_file())
            .spawn()?;
        let mut members = Vec::new();
        for (number, cluster) in fleet.members.iter().enumerate() {
            let name = format!("m{number}");
            let member = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": name}, "spec": {"identity": {"kind": "User", "name": name}},
            });
            fleet.way.create(MEMBERS, &member).await?;
            let agent = launch("member")
                .env("MEMBER_CLUSTER_NAME", &name)
                .arg("--kubeconfig")
                .arg(cluster.admin().kubeconfig_file())
                .arg("--hub-kubeconfig")
                .arg(fleet.hub.admin().kubeconfig_file())
                .spawn()?;
            members.push(agent);
            let joined = |member: &Value| {
                let conditions = member["status"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|one| one["type"] == "Joined" && one["status"] == "True")
            };
            fleet.way.until(&format!("{MEMBERS}/{name}"), joined).await;
        }
        Ok(Self { hub, members })
    }

    /// The memory of the hub and of a member: all of it, and without the pages of the program.
    pub(crate) fn megabytes(&self) -> Result<[(f64, f64); 2]> {
        let of = |process: &Process| {
            let memory = process.memory()?;
            anyhow::Ok((memory.rss_bytes as f64 / 1e6, memory.own_bytes as f64 / 1e6))
        };
        Ok([of(&self.hub)?, of(&self.members[0])?])
    }
}
