//! The life of `hawser hub` with `hawser member`: users of the hub with their placements, users of the members, and an
//! administrator who labels and taints members.

mod check;
mod wishes;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use proptest::prelude::BoxedStrategy;
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Process, SOON, eventually, unique};
use tokio::time::sleep;

use self::wishes::{
    Administration, At, CLUSTER, Deeds, MEMBERS, Object, Of, PLACEMENT, PLACEMENTS, Pick, Placed,
    Policy, There, Wanted, What, ZONES,
};
use crate::agent::plane::{Kind, Plane};
use crate::agent::service;
use crate::canary::CANARY;
use crate::chaos::{self, done, name_of, without_nulls};
use crate::federation::place::Place;

struct Life {
    hub: Plane,
    members: Vec<Plane>,
    /// The hub, then the members.
    places: Vec<Place>,
    processes: Vec<tokio::sync::Mutex<Process>>,
    logs: tempfile::TempDir,
    wanted: Mutex<Wanted>,
    /// Objects of members that no agent may touch, with their versions.
    foreign: Vec<(usize, String, Value)>,
    /// What the placement of what is taken does with objects of others. Either way, it leaves them alone.
    takes_over: &'static str,
}

fn namespace_name(number: usize) -> String {
    format!("app{number}")
}

fn namespace_path(number: usize) -> String {
    format!("/api/v1/namespaces/{}", namespace_name(number))
}

/// A namespace of each member, its own. A placement with the same namespace is refused there, but for one object.
const TAKEN: &str = "taken";

fn member_name(number: usize) -> String {
    format!("m{number}")
}

fn placement_path(number: usize) -> String {
    format!("{PLACEMENT}/clusterresourceplacements/p{number}")
}

fn overrides(number: usize) -> String {
    let namespace = namespace_name(number);
    format!("{PLACEMENT}/namespaces/{namespace}/resourceoverrides")
}

fn member_path(number: usize) -> String {
    format!("{CLUSTER}/memberclusters/{}", member_name(number))
}

fn kind(of: Of) -> Kind {
    match of {
        Of::Map => Kind::new("", "v1", "configmaps", "ConfigMap"),
        Of::Secret => Kind::new("", "v1", "secrets", "Secret"),
    }
}

fn all((namespace, of, _): At) -> String {
    kind(of).within(&namespace_name(namespace))
}

fn path(at: At) -> String {
    format!("{}/c{}", all(at), at.2)
}

fn text(of: Of, value: u8) -> String {
    let text = format!("{CANARY}-{value}");
    match of {
        Of::Map => text,
        Of::Secret => STANDARD.encode(text),
    }
}

fn data(of: Of, object: &Object) -> Value {
    let more = object.more.map(|more| text(of, more));
    json!({"k": text(of, object.value), "more": more})
}

/// The policy as a merge patch.
fn policy(wanted: &Policy) -> Value {
    let affinity = |zone: &Option<usize>| {
        zone.map(|zone| {
            json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms":
                [{"labelSelector": {"matchLabels": {"zone": ZONES[zone]}}}]}}})
        })
    };
    let mut policy = match &wanted.pick {
        Pick::All(zone) => json!({"placementType": "PickAll", "affinity": affinity(zone)}),
        Pick::Fixed(on) => {
            let names = (0..MEMBERS).filter(|member| on[*member]);
            let names: Vec<String> = names.map(member_name).collect();
            return json!({"placementType": "PickFixed", "clusterNames": names});
        }
        Pick::N(count, zone) => {
            json!({"placementType": "PickN", "numberOfClusters": count, "affinity": affinity(zone)})
        }
    };
    if wanted.tolerates {
        policy["tolerations"] = json!([{"key": "t", "operator": "Exists"}]);
    }
    policy
}

fn condition<'c>(object: &'c Value, kind: &str) -> &'c Value {
    let conditions = object["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|one| one["type"] == kind);
    conditions.next().unwrap_or(&Value::Null)
}

impl Life {
    async fn begin(seed: u64) -> Result<Self> {
        let (mut places, mut planes) = (Vec::new(), Vec::new());
        for _ in 0..=MEMBERS {
            let place = chaos::place(seed, Controllers::All).await?;
            planes.push(chaos::plane(&place).await?);
            places.push(place);
        }
        let definitions =
            std::fs::read_to_string(repository().join("crds/kubernetes-fleet.io.yaml"))?;
        let definitions = serde_saphyr::from_multiple::<Value>(&definitions)?;
        let prepared = planes.iter().map(async |plane| {
            for definition in &definitions {
                service::install(plane, definition).await?;
            }
            anyhow::Ok(())
        });
        futures::future::try_join_all(prepared).await?;
        let hub = planes.remove(0);
        let mut life = Self {
            hub,
            members: planes,
            places,
            processes: Vec::new(),
            logs: tempfile::tempdir()?,
            wanted: Mutex::default(),
            foreign: Vec::new(),
            takes_over: if seed.is_multiple_of(2) {
                "Never"
            } else {
                "IfNoDiff"
            },
        };
        for number in 0..=MEMBERS {
            let process = chaos::Life::start(&life, number)?;
            life.processes.push(tokio::sync::Mutex::new(process));
        }
        for number in 0..MEMBERS {
            life.join(number).await?;
        }
        for number in 0..MEMBERS {
            life.await_joined(number).await;
        }
        for number in 0..PLACEMENTS {
            life.hub
                .namespace(&namespace_name(number), json!({}))
                .await?;
        }
        life.make_foreign().await?;
        life.place_taken().await?;
        Ok(life)
    }

    /// Makes objects in each member: one in nobody's way, and others in the places of placed ones.
    async fn make_foreign(&mut self) -> Result<()> {
        for (number, member) in self.members.iter().enumerate() {
            member.namespace(TAKEN, json!({})).await?;
            for of in [Of::Map, Of::Secret] {
                for namespace in ["default", TAKEN] {
                    let mut own = kind(of).object("bystander", Value::Null);
                    own["data"] = json!({"k": text(of, 0)});
                    let made = member.create(&kind(of).within(namespace), &own).await?;
                    let version = made["metadata"]["resourceVersion"].clone();
                    let at = kind(of).at(namespace, "bystander");
                    self.foreign.push((number, at, version));
                }
            }
        }
        Ok(())
    }

    /// Places what members have already, with other content, and one object more.
    async fn place_taken(&self) -> Result<()> {
        let labels = json!({"color": "red"});
        self.hub.namespace(TAKEN, labels).await?;
        for (of, name) in [
            (Of::Map, "bystander"),
            (Of::Secret, "bystander"),
            (Of::Map, "free"),
        ] {
            let mut placed = kind(of).object(name, Value::Null);
            placed["data"] = json!({"k": text(of, 1)});
            self.hub.create(&kind(of).within(TAKEN), &placed).await?;
        }
        let placement = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": TAKEN},
            "spec": {
                "policy": {"placementType": "PickAll", "tolerations": [{"key": "t", "operator": "Exists"}]},
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": TAKEN}],
                "strategy": {
                    "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
                    "applyStrategy": {"whenToTakeOver": self.takes_over},
                },
            },
        });
        let all = format!("{PLACEMENT}/clusterresourceplacements");
        self.hub.create(&all, &placement).await?;
        self.wanted.lock().is_taken_placed = true;
        Ok(())
    }

    async fn join(&self, number: usize) -> Result<()> {
        let zone = ZONES[self.wanted.lock().zones[number]];
        let member = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": member_name(number), "labels": {"zone": zone}},
            "spec": {"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": 1},
        });
        let all = format!("{CLUSTER}/memberclusters");
        self.hub.create(&all, &member).await?;
        Ok(())
    }

    async fn await_joined(&self, number: usize) {
        eventually(SOON, "a member has joined", async || {
            let member = self.hub.get(&member_path(number)).await?;
            let joined = condition(&member["status"], "Joined");
            ensure!(joined["status"] == "True", "{:#}", member["status"]);
            Ok(())
        })
        .await;
    }

    async fn act(&self, what: &What) -> Result<()> {
        let hub = &self.hub;
        match what {
            What::Write(at, object) => {
                let data = data(at.1, object);
                let is_wanted = self.wanted.lock().objects.contains_key(at);
                let taken = if is_wanted {
                    hub.merge(&path(*at), json!({"data": data})).await
                } else {
                    let mut made = kind(at.1).object(&format!("c{}", at.2), Value::Null);
                    made["data"] = data;
                    if object.more.is_none() {
                        made["data"] = json!({"k": text(at.1, object.value)});
                    }
                    made["metadata"]["labels"] = json!({"color": "red"});
                    hub.create(&all(*at), &made).await
                };
                if done(taken)? {
                    self.wanted.lock().objects.insert(*at, object.clone());
                }
            }
            What::Delete(at) => {
                done(hub.delete(&path(*at)).await)?;
                self.wanted.lock().objects.remove(at);
            }
            What::Place(number, wanted) => {
                let namespace = namespace_name(*number);
                let strategy = if wanted.is_server_side {
                    json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": true}})
                } else {
                    json!({"type": "ClientSideApply"})
                };
                let placement = json!({
                    "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                    "metadata": {"name": format!("p{number}")},
                    "spec": {
                        "policy": without_nulls(&policy(wanted)),
                        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}],
                        "revisionHistoryLimit": 2,
                        "strategy": {
                            "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
                            "applyStrategy": strategy,
                        },
                    },
                });
                let all = format!("{PLACEMENT}/clusterresourceplacements");
                if done(hub.create(&all, &placement).await)? {
                    self.note_policy(*number, wanted);
                }
            }
            What::Change(number, pick) => {
                let before = self.wanted.lock().placements.get(number).cloned();
                let Some(Placed { policy: before, .. }) = before else {
                    return Ok(());
                };
                if std::mem::discriminant(&before.pick) != std::mem::discriminant(pick) {
                    return Ok(());
                }
                let wanted = Policy {
                    pick: pick.clone(),
                    ..before
                };
                let change = json!({"spec": {"policy": policy(&wanted)}});
                if done(hub.merge(&placement_path(*number), change).await)? {
                    self.note_policy(*number, &wanted);
                }
            }
            What::Withdraw(number) => {
                done(hub.delete(&placement_path(*number)).await)?;
                self.wanted.lock().placements.remove(number);
            }
            What::Override(number, name, member, value) => {
                let rule = json!({
                    "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels":
                        {"kubernetes-fleet.io/member-name": member_name(*member)}}}]},
                    "jsonPatchOverrides": [{"op": "replace", "path": "/data/k", "value": text(Of::Map, *value)}],
                });
                let spec = json!({
                    "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": format!("c{name}")}],
                    "policy": {"overrideRules": [rule]},
                });
                let is_wanted = self.wanted.lock().overrides.contains_key(number);
                let taken = if is_wanted {
                    let path = format!("{}/o", overrides(*number));
                    hub.merge(&path, json!({"spec": spec})).await
                } else {
                    let group = "placement.kubernetes-fleet.io";
                    let kind = Kind::new(group, "v1beta1", "resourceoverrides", "ResourceOverride");
                    hub.create(&overrides(*number), &kind.object("o", spec))
                        .await
                };
                if done(taken)? {
                    let mut wanted = self.wanted.lock();
                    wanted.overrides.insert(*number, (*name, *member, *value));
                }
            }
            What::Label(number, value) => {
                let label = json!({"metadata": {"labels": {"shade": value.to_string()}}});
                hub.merge(&namespace_path(*number), label).await?;
                self.wanted.lock().labels.insert(*number, *value);
            }
            What::Evict(number, member) => {
                let kind = Kind::new(
                    "placement.kubernetes-fleet.io",
                    "v1beta1",
                    "clusterresourceplacementevictions",
                    "ClusterResourcePlacementEviction",
                );
                let spec = json!({"placementName": format!("p{number}"), "clusterName": member_name(*member)});
                let eviction = kind.object(&unique("eviction"), spec);
                hub.create(&kind.everywhere(), &eviction).await?;
            }
            What::EndOverride(number) => {
                done(hub.delete(&format!("{}/o", overrides(*number))).await)?;
                self.wanted.lock().overrides.remove(number);
            }
        }
        Ok(())
    }

    fn note_policy(&self, number: usize, policy: &Policy) {
        let mut wanted = self.wanted.lock();
        let now = wanted.suiting(policy);
        let before = wanted.placements.remove(&number);
        let mut suited = before.map(|placed| placed.suited).unwrap_or_default();
        suited.push((policy.clone(), now));
        let policy = policy.clone();
        wanted.placements.insert(number, Placed { policy, suited });
    }

    async fn use_members(&self, deeds: &[(Duration, usize, There)]) -> Result<()> {
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            let member = &self.members[*number];
            let create = async |of: Of, namespace: usize, name: String, value: u8| {
                let mut object = kind(of).object(&name, Value::Null);
                object["data"] = json!({"k": text(of, value)});
                let all = kind(of).within(&namespace_name(namespace));
                match member.create(&all, &object).await {
                    // The namespace is in deletion.
                    Err(refused) if refused.code == 403 => Ok(Value::Null),
                    other => other,
                }
            };
            let answer = match what {
                There::Drift(at, value) => {
                    let drift = json!({"data": {"k": text(at.1, *value), "own": text(at.1, *value)},
                        "metadata": {"labels": {"color": "blue"}}});
                    member.merge(&path(*at), drift).await
                }
                There::Delete(at) => member.delete(&path(*at)).await,
                There::Create(at, value) => create(at.1, at.0, format!("c{}", at.2), *value).await,
                There::DeleteNamespace(number) => member.delete(&namespace_path(*number)).await,
                There::Disown(at) => {
                    let without = json!({"metadata": {"ownerReferences": null}});
                    member.merge(&path(*at), without).await
                }
                There::DeleteApplied(number) => {
                    let applied = format!("{PLACEMENT}/appliedworks/p{number}-work");
                    member.delete(&applied).await
                }
                There::Own(number, value) => create(Of::Map, *number, "own".into(), *value).await,
            };
            done(answer).with_context(|| format!("{what:?}"))?;
        }
        Ok(())
    }

    async fn administrate(&self, deeds: &[(Duration, usize, Administration)]) -> Result<()> {
        let mut left = BTreeSet::new();
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            let path = member_path(*number);
            match what {
                Administration::Zone(zone) => {
                    let label = json!({"metadata": {"labels": {"zone": ZONES[*zone]}}});
                    if done(self.hub.merge(&path, label).await)? {
                        self.wanted.lock().zones[*number] = *zone;
                    }
                }
                Administration::Taint(is_tainted) => {
                    let taint = json!({"key": "t", "value": "v", "effect": "NoSchedule"});
                    let taints = is_tainted.then(|| json!([taint]));
                    let change = json!({"spec": {"taints": taints}});
                    if done(self.hub.merge(&path, change).await)? {
                        self.wanted.lock().tainted[*number] = *is_tainted;
                    }
                }
                Administration::Leave => {
                    done(self.hub.delete(&path).await)?;
                    left.insert(*number);
                }
            }
            self.wanted.lock().note();
        }
        for number in left {
            self.rejoin(number).await?;
        }
        Ok(())
    }

    /// Lets a member join again that leaves. What it kept is taken away first.
    async fn rejoin(&self, number: usize) -> Result<()> {
        for server in chaos::Life::servers(self) {
            server.faults().clear();
        }
        await_gone(&self.hub, &member_path(number)).await;
        await_gone(
            &self.hub,
            &format!("/api/v1/namespaces/fleet-member-{}", member_name(number)),
        )
        .await;
        let member = &self.members[number];
        let mut kept: Vec<String> = (0..PLACEMENTS).map(namespace_path).collect();
        kept.extend((0..PLACEMENTS).map(|one| format!("{PLACEMENT}/appliedworks/p{one}-work")));
        kept.push(format!("{PLACEMENT}/appliedworks/{TAKEN}-work"));
        kept.push(kind(Of::Map).at(TAKEN, "free"));
        for path in kept {
            done(member.delete(&path).await)?;
            await_gone(member, &path).await;
        }
        {
            let mut wanted = self.wanted.lock();
            wanted.tainted[number] = false;
            wanted.note();
        }
        self.join(number).await?;
        self.await_joined(number).await;
        Ok(())
    }
}

async fn await_gone(plane: &Plane, path: &str) {
    eventually(SOON, &format!("{path} is gone"), async || {
        let found = plane.find(path).await?;
        ensure!(found.is_none(), "it is there: {found:#?}");
        Ok(())
    })
    .await;
}

impl chaos::Life for Life {
    const DIALECT: &'static str = "placement";
    const AGENT: &'static str = "hawser";
    const SERVERS: usize = MEMBERS + 1;
    const PROCESSES: usize = MEMBERS + 1;

    type Deeds = Deeds;

    fn deeds() -> BoxedStrategy<Deeds> {
        wishes::deeds()
    }

    fn places(&self) -> Vec<&Place> {
        self.places.iter().collect()
    }

    fn places_mut(&mut self) -> Vec<&mut Place> {
        self.places.iter_mut().collect()
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.processes
    }

    fn launch(&self, process: usize) -> Result<Launch> {
        let command = if process == 0 { "hub" } else { "member" };
        let log = format!("{}.log", unique(&format!("{command}-{process}")));
        let launch = Launch::new(command, chaos::hawser())
            .args([command, "--log-format=Console", "-v=5", "--leader-elect"])
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0"])
            .log(self.logs.path().join(log));
        let hub = self.places[0].kubeconfig_file();
        if process == 0 {
            return Ok(launch
                .arg("--enable-webhook=false")
                .arg("--kubeconfig")
                .arg(hub));
        }
        Ok(launch
            .arg(format!(
                "--member-cluster-name={}",
                member_name(process - 1)
            ))
            .arg("--hub-kubeconfig")
            .arg(hub)
            .arg("--kubeconfig")
            .arg(self.places[process].kubeconfig_file()))
    }

    fn lost(&self) -> Option<Duration> {
        Some(chaos::LOST)
    }

    async fn release(&self, process: usize) -> Result<()> {
        let (plane, name) = match process {
            0 => (&self.hub, "hub"),
            other => (&self.members[other - 1], "member"),
        };
        let leases = Kind::new("coordination.k8s.io", "v1", "leases", "Lease");
        let lease = format!("136224848560.{name}.fleet.azure.com");
        done(plane.delete(&leases.at("kube-system", &lease)).await)?;
        Ok(())
    }

    fn logs(&self) -> &Path {
        self.logs.path()
    }

    async fn live(&self, deeds: &Deeds) -> Result<()> {
        let hub = async {
            for (wait, what) in &deeds.hub {
                sleep(*wait).await;
                self.act(what).await.with_context(|| format!("{what:?}"))?;
            }
            Ok(())
        };
        tokio::try_join!(
            hub,
            self.use_members(&deeds.members),
            self.administrate(&deeds.administrator),
        )?;
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        chaos::check_foreign(&self.members, &self.foreign).await?;
        let wanted = self.wanted.lock().clone();
        let all = format!("{PLACEMENT}/clusterresourceplacements");
        let there: BTreeSet<String> = self.hub.list(&all).await?.iter().map(name_of).collect();
        let expected = wanted.placements.keys().map(|number| format!("p{number}"));
        let expected = expected.chain(wanted.is_taken_placed.then(|| TAKEN.to_owned()));
        let expected: BTreeSet<String> = expected.collect();
        ensure!(there == expected, "there are {there:?}, not {expected:?}");
        self.check_taken(&wanted).await?;
        let mut placed = vec![BTreeSet::new(); MEMBERS];
        for number in wanted.placements.keys() {
            for member in self.check_placement(&wanted, *number).await? {
                placed[member].insert(*number);
            }
        }
        for (number, placed) in placed.iter().enumerate() {
            self.check_member(&wanted, number, placed).await?;
        }
        self.check_left(&wanted).await
    }

    async fn rest(&self) -> Result<()> {
        chaos::still(async || {
            // Heartbeats and Leases go on.
            let mut written = chaos::writes(self, |request| {
                ["leases", "memberclusters", "internalmemberclusters"].contains(&&*request.resource)
            });
            let mut kinds = vec![
                format!("{PLACEMENT}/works"),
                format!("{PLACEMENT}/clusterresourceplacements"),
                format!("{PLACEMENT}/clusterresourcebindings"),
            ];
            for namespace in 0..PLACEMENTS {
                kinds.extend([Of::Map, Of::Secret].map(|of| all((namespace, of, 0))));
            }
            for (number, plane) in [&self.hub].into_iter().chain(&self.members).enumerate() {
                for all in &kinds {
                    let versions = chaos::versions(plane, all).await?;
                    written.extend(versions.iter().map(|line| format!("{number} {line}")));
                }
            }
            Ok(written)
        })
        .await
    }

    async fn end(&self) -> Result<()> {
        let wanted = self.wanted.lock().clone();
        let taken = format!("{PLACEMENT}/clusterresourceplacements/{TAKEN}");
        done(self.hub.delete(&taken).await)?;
        self.wanted.lock().is_taken_placed = false;
        for number in wanted.placements.keys() {
            self.act(&What::Withdraw(*number)).await?;
        }
        for number in wanted.overrides.keys() {
            self.act(&What::EndOverride(*number)).await?;
        }
        Ok(())
    }
}

async fn live_by(seed: u64) {
    chaos::run(Box::pin(Life::begin(seed)), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_the_fleet_is_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("placement", live_by).await;
}
