//! The steps of the demonstration, and the results of placement with their reasons.

use hawser_placement::types::definitions::definitions;
use kcp_playground::Playground;
use serde_json::{Value, json};

use crate::demo::DemoError;
use crate::demo::example::{manifest, manifests};
use crate::demo::files::Files;
use crate::demo::nodes::Nodes;
use crate::demo::place::Place;
use crate::demo::place::name;
use crate::placement::member::pushed;

/// The members of the demonstration.
pub(super) const MEMBERS: [&str; 3] = ["cluster1", "cluster2", "cluster3"];

/// The namespace of the Secrets.
pub(super) const SYSTEM: &str = "fleet-system";

const NAMESPACES: &str = "/api/v1/namespaces";
const MEMBER_CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const PLACEMENT: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/shop";
const POLICIES: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterschedulingpolicysnapshots";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// Regions of the members, in their order.
const REGIONS: [&str; 3] = ["east", "west", "west"];
const KEY: &str = "maintenance";
/// The members that have the taint for a while.
const TAINTED: [&str; 2] = [MEMBERS[1], MEMBERS[2]];

pub(super) struct FleetStory {
    hub: Place,
    members: Vec<PlayedFleetMember>,
    application: Vec<Value>,
    placement: Value,
}

struct PlayedFleetMember {
    place: Place,
    nodes: Nodes,
    kubeconfig: Value,
}

impl FleetStory {
    /// Writes the files and connects; changes nothing on the servers.
    pub(super) async fn begin(
        hub: &Playground,
        playgrounds: &[Playground],
        files: &Files,
    ) -> Result<Self, DemoError> {
        let kubeconfig = hub.service_kubeconfig();
        files.kubeconfig("hub.kubeconfig", &kubeconfig)?;
        let hub = Place::connect(&kubeconfig).await?;
        let mut members = Vec::new();
        for (name, playground) in MEMBERS.iter().zip(playgrounds) {
            let kubeconfig = playground.service_kubeconfig();
            files.kubeconfig(&format!("{name}.kubeconfig"), &kubeconfig)?;
            members.push(PlayedFleetMember {
                nodes: Nodes::of(Place::connect(&kubeconfig).await?),
                place: Place::connect(&kubeconfig).await?,
                kubeconfig,
            });
        }
        let application = include_str!("../../../examples/placement/application.yaml");
        let placement = include_str!("../../../examples/placement/placement.yaml");
        Ok(Self {
            hub,
            members,
            application: manifests(application)?,
            placement: manifest(placement)?,
        })
    }

    /// Creates everything that exists before hub and members start.
    pub(super) async fn prepare(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for definition in &definitions() {
            self.hub.define(definition).await?;
            if definition["spec"]["names"]["kind"] == "AppliedWork" {
                for member in &self.members {
                    member.place.define(definition).await?;
                }
            }
        }
        let system = json!({"metadata": {"name": SYSTEM}});
        self.hub.create(NAMESPACES, &system).await?;
        for ((name, region), member) in MEMBERS.iter().zip(REGIONS).zip(&self.members) {
            let secret = json!({
                "metadata": {"name": name, "labels": {pushed::MEMBER: name}},
                "stringData": {"kubeconfig": member.kubeconfig.to_string()},
            });
            let secrets = format!("{NAMESPACES}/{SYSTEM}/secrets");
            self.hub.create(&secrets, &secret).await?;
            let cluster = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": name, "labels": {"region": region}},
                "spec": {"identity": {"kind": "User", "name": "fleet"}, "heartbeatPeriodSeconds": 5},
            });
            self.hub.create(MEMBER_CLUSTERS, &cluster).await?;
            tell(&format!("hub: {name} in the region {region} may join"));
        }
        Ok(())
    }

    /// The steps once hub and members run.
    pub(super) async fn play(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for name in MEMBERS {
            let joined = |member: &Value| says(&member["status"], "Joined", "True").map(drop);
            self.hub.until(&member(name), joined).await?;
        }
        tell(&format!("hub: {} have joined", MEMBERS.join(", ")));
        self.place(&tell).await?;
        self.taint(&tell).await?;
        self.roll_out(&tell).await?;
        for name in TAINTED {
            let patch = json!({"spec": {"taints": null}});
            self.hub.patch(&member(name), &patch).await?;
        }
        tell(&format!("hub: {} lose the taint", TAINTED.join(" and ")));
        Ok(())
    }

    async fn place(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for object in &self.application {
            let all = if object["kind"] == "Namespace" {
                NAMESPACES
            } else {
                DEPLOYMENTS
            };
            self.hub.create(all, object).await?;
        }
        self.hub.create(PLACEMENTS, &self.placement).await?;
        tell(&format!(
            "hub: ClusterResourcePlacement {} needs {} members of different regions",
            name(&self.placement),
            self.placement["spec"]["policy"]["numberOfClusters"]
        ));
        self.tell_where(&tell).await?;
        let policies = self.hub.until(POLICIES, |found| {
            let decisions = found["items"][0]["status"]["targetClusters"].as_array()?;
            Some(decisions.clone())
        });
        for decision in policies.await? {
            let name = decision["clusterName"].as_str().unwrap_or_default();
            let reason = decision["reason"].as_str().unwrap_or_default();
            let verb = if decision["selected"] == true {
                "picked"
            } else {
                "not picked"
            };
            tell(&format!("hub: {verb}: {name}: {reason}"));
        }
        Ok(())
    }

    /// Taints do not move placed objects. They keep out new objects, unless these tolerate them.
    async fn taint(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for name in TAINTED {
            let taint = json!([{"key": KEY, "value": "tonight", "effect": "NoSchedule"}]);
            let patch = json!({"spec": {"taints": taint}});
            self.hub.patch(&member(name), &patch).await?;
            let is_known = |member: &Value| {
                let ready = says(&member["status"], "ReadyToJoin", "True")?;
                (ready["observedGeneration"] == member["metadata"]["generation"]).then_some(())
            };
            self.hub.until(&member(name), is_known).await?;
        }
        tell(&format!(
            "hub: {} get the taint {KEY}",
            TAINTED.join(" and ")
        ));
        let more = json!({"spec": {"policy": {"numberOfClusters": 3}}});
        self.hub.patch(PLACEMENT, &more).await?;
        let unfulfilled = self.hub.until(PLACEMENT, |found| {
            said(found, "Scheduled", "False")?;
            Some(found["status"]["placementStatuses"].clone())
        });
        let unfulfilled = unfulfilled.await?;
        let (placed, missing): (Vec<&Value>, Vec<&Value>) = unfulfilled
            .as_array()
            .into_iter()
            .flatten()
            .partition(|one| one["clusterName"].is_string());
        tell(&format!(
            "hub: the placement now needs 3 members; placed objects stay: {}",
            names(&placed)
        ));
        for one in missing {
            let scheduled = says(one, "Scheduled", "False");
            let why = scheduled.map(|one| one["message"].clone());
            let why = why.as_ref().and_then(Value::as_str).unwrap_or_default();
            tell(&format!("hub: no third member can be picked: {why}"));
        }
        let tolerations = json!([{"key": KEY, "operator": "Exists"}]);
        let patch = json!({"spec": {"policy": {"tolerations": tolerations}}});
        self.hub.patch(PLACEMENT, &patch).await?;
        tell(&format!("hub: shop tolerates {KEY}"));
        self.tell_where(&tell).await
    }

    /// A rollout stops at a member that fails.
    async fn roll_out(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        let failing = &self.members[1].nodes;
        failing.set_room(0);
        let failed = |found: &Value| said(found, "Available", "False");
        self.hub.until(PLACEMENT, failed).await?;
        tell("cluster2: has no more room for Pods");
        let image = json!([{"name": "web", "image": "registry.example.org/web:2.0"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
        self.hub.patch(WEB, &patch).await?;
        tell("hub: web gets version 2.0");
        let is_new = |web: &Value| (image_of(web)? == "2.0").then_some(());
        self.members[1].place.until(WEB, is_new).await?;
        let stopped = self.hub.until(PLACEMENT, |found| {
            said(found, "RolloutStarted", "False").map(|one| one["message"].clone())
        });
        let why = stopped.await?;
        tell(&format!(
            "hub: the rollout has stopped: {}",
            why.as_str().unwrap_or_default()
        ));
        self.tell_versions(&tell).await?;
        failing.set_room(usize::MAX);
        tell("cluster2: has room again");
        for member in &self.members {
            member.place.until(WEB, is_new).await?;
        }
        self.hub
            .until(PLACEMENT, |found| said(found, "Available", "True"))
            .await?;
        self.tell_versions(&tell).await
    }

    /// Waits until everything is available, and says where.
    async fn tell_where(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        let found = self.hub.until(PLACEMENT, |found| {
            said(found, "Available", "True")?;
            let all = found["status"]["placementStatuses"].as_array()?;
            Some(names(&all.iter().collect::<Vec<_>>()))
        });
        tell(&format!("hub: shop is available: {}", found.await?));
        Ok(())
    }

    async fn tell_versions(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        let mut versions = Vec::new();
        for (name, member) in MEMBERS.iter().zip(&self.members) {
            let version = member.place.until(WEB, image_of).await?;
            versions.push(format!("{version} in {name}"));
        }
        tell(&format!("hub: versions of web: {}", versions.join(", ")));
        Ok(())
    }
}

fn member(name: &str) -> String {
    format!("{MEMBER_CLUSTERS}/{name}")
}

/// The condition of a type, if it has this status.
fn says(status: &Value, type_: &str, truth: &str) -> Option<Value> {
    let conditions = status["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == type_)?;
    (found["status"] == truth).then(|| found.clone())
}

/// The current condition of a placement.
fn said(placement: &Value, type_: &str, truth: &str) -> Option<Value> {
    let type_ = format!("ClusterResourcePlacement{type_}");
    let found = says(&placement["status"], &type_, truth)?;
    let is_fresh = found["observedGeneration"] == placement["metadata"]["generation"];
    is_fresh.then_some(found)
}

fn names(statuses: &[&Value]) -> String {
    let mut names: Vec<&str> = statuses
        .iter()
        .filter_map(|one| one["clusterName"].as_str())
        .collect();
    names.sort_unstable();
    names.join(", ")
}

fn image_of(web: &Value) -> Option<String> {
    let image = &web["spec"]["template"]["spec"]["containers"][0]["image"];
    let (_, version) = image.as_str()?.rsplit_once(':')?;
    Some(version.to_owned())
}
