//! The life of `hawser hub` with `hawser member`: users of the hub with their placements, users of the members, and an
//! administrator who labels and taints members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kcp_playground::Playground;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Process, SOON, eventually, unique};
use tokio::time::sleep;

use crate::agent::plane::{Kind, Plane};
use crate::agent::service;
use crate::canary::CANARY;
use crate::chaos::{self, done, millis, name_of, without_nulls};
use crate::federation::place::Place;

const MEMBERS: usize = 3;
/// A placement each, of the namespace with its number.
const PLACEMENTS: usize = 2;
/// The names of a kind in a namespace.
const NAMES: usize = 3;
const DEEDS: usize = 30;
const ZONES: [&str; 2] = ["a", "b"];
const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const CLUSTER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Map,
    Secret,
}

/// An object by namespace, kind and number of its name.
type At = (usize, Of, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pick {
    /// In a zone, or anywhere.
    All(Option<usize>),
    Fixed([bool; MEMBERS]),
    N(usize, Option<usize>),
}

#[derive(Clone, Debug)]
struct Policy {
    pick: Pick,
    /// Whether it tolerates the taint of the administrator.
    tolerates: bool,
}

impl Policy {
    /// Whether another policy differs from it by no more than the number of clusters.
    fn is_like(&self, other: &Self) -> bool {
        self.pick == other.pick
            || matches!((&self.pick, &other.pick), (Pick::N(_, zone), Pick::N(_, other)) if zone == other)
    }
}

#[derive(Clone, Debug)]
struct Object {
    value: u8,
    more: Option<u8>,
}

#[derive(Clone, Debug)]
enum What {
    Write(At, Object),
    Delete(At),
    Place(usize, Policy),
    /// Changes the policy, if it is of the same kind.
    Change(usize, Pick),
    Withdraw(usize),
    /// Gives the ConfigMap of this number another value in one member.
    Override(usize, usize, usize, u8),
    EndOverride(usize),
}

/// What is done in a member.
#[derive(Clone, Debug)]
enum There {
    Drift(At, u8),
    Delete(At),
    Create(At, u8),
    DeleteNamespace(usize),
    /// An object that nobody placed, in a placed namespace.
    Own(usize, u8),
}

#[derive(Clone, Debug)]
enum Administration {
    Zone(usize),
    Taint(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Deeds {
    hub: Vec<(Duration, What)>,
    members: Vec<(Duration, usize, There)>,
    administrator: Vec<(Duration, usize, Administration)>,
}

fn at() -> impl Strategy<Value = At> + Clone {
    let of = prop_oneof![2 => Just(Of::Map), 1 => Just(Of::Secret)];
    (0..PLACEMENTS, of, 0..NAMES)
}

fn pick() -> impl Strategy<Value = Pick> + Clone {
    let zone = prop::option::weighted(0.4, 0..ZONES.len());
    prop_oneof![
        zone.clone().prop_map(Pick::All),
        any::<[bool; MEMBERS]>().prop_map(|on| Pick::Fixed([
            on[0],
            on[1],
            on[2] || on == [false; MEMBERS]
        ])),
        (0..=MEMBERS, zone).prop_map(|(count, zone)| Pick::N(count, zone)),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let number = 0..PLACEMENTS;
    let object = (any::<u8>(), prop::option::of(any::<u8>()));
    let object = object.prop_map(|(value, more)| Object { value, more });
    let policy = (pick(), any::<bool>());
    let policy = policy.prop_map(|(pick, tolerates)| Policy { pick, tolerates });
    prop_oneof![
        6 => (at(), object).prop_map(|(at, object)| What::Write(at, object)),
        2 => at().prop_map(What::Delete),
        3 => (number.clone(), policy).prop_map(|(number, policy)| What::Place(number, policy)),
        4 => (number.clone(), pick()).prop_map(|(number, pick)| What::Change(number, pick)),
        1 => number.clone().prop_map(What::Withdraw),
        2 => (number.clone(), 0..NAMES, 0..MEMBERS, any::<u8>())
            .prop_map(|(number, name, member, value)| What::Override(number, name, member, value)),
        1 => number.prop_map(What::EndOverride),
    ]
}

fn there() -> impl Strategy<Value = There> {
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, value)| There::Drift(at, value)),
        2 => at().prop_map(There::Delete),
        1 => (at(), any::<u8>()).prop_map(|(at, value)| There::Create(at, value)),
        1 => (0..PLACEMENTS).prop_map(There::DeleteNamespace),
        1 => (0..PLACEMENTS, any::<u8>()).prop_map(|(number, value)| There::Own(number, value)),
    ]
}

/// A placement as its users want it.
#[derive(Clone)]
struct Placed {
    policy: Policy,
    /// The members that suited a policy at any time since it was first written. What is picked stays, even if it suits no
    /// more; and the hub need not have seen the policies in between.
    suited: Vec<(Policy, BTreeSet<usize>)>,
}

#[derive(Clone, Default)]
struct Wanted {
    objects: BTreeMap<At, Object>,
    placements: BTreeMap<usize, Placed>,
    /// By namespace: ConfigMap, member and value.
    overrides: BTreeMap<usize, (usize, usize, u8)>,
    zones: [usize; MEMBERS],
    tainted: [bool; MEMBERS],
}

impl Wanted {
    fn suits(&self, policy: &Policy, member: usize) -> bool {
        let tolerates = policy.tolerates || !self.tainted[member];
        match &policy.pick {
            Pick::All(zone) | Pick::N(_, zone) => {
                tolerates && zone.is_none_or(|zone| self.zones[member] == zone)
            }
            Pick::Fixed(on) => on[member],
        }
    }

    fn suiting(&self, policy: &Policy) -> BTreeSet<usize> {
        let members = 0..MEMBERS;
        members
            .filter(|member| self.suits(policy, *member))
            .collect()
    }

    /// Takes note of the members that suit since a member changed.
    fn note(&mut self) {
        let now = self.clone();
        for placed in self.placements.values_mut() {
            for (policy, suited) in &mut placed.suited {
                suited.extend(now.suiting(policy));
            }
        }
    }

    /// Whether these members may be what was picked; whether the policy is fulfilled by them.
    fn check_picked(&self, placed: &Placed, picked: &BTreeSet<usize>) -> Result<bool> {
        let suiting = self.suiting(&placed.policy);
        let policy = &placed.policy;
        let suited = placed
            .suited
            .iter()
            .filter(|(before, _)| before.is_like(policy));
        let suited: BTreeSet<usize> = suited.flat_map(|(_, suited)| suited).copied().collect();
        ensure!(
            picked.is_subset(&suited),
            "{picked:?} are picked, {suited:?} suited {policy:?}"
        );
        match &policy.pick {
            Pick::All(_) | Pick::Fixed(_) => {
                ensure!(
                    suiting.is_subset(picked),
                    "{picked:?} are picked, {suiting:?} suit {policy:?}"
                );
                Ok(true)
            }
            Pick::N(count, _) => {
                let is_done = picked.len() == *count;
                ensure!(
                    picked.len() <= *count && (is_done || suiting.is_subset(picked)),
                    "{picked:?} are picked, {suiting:?} suit {policy:?}"
                );
                Ok(is_done)
            }
        }
    }

    fn value(&self, at: At, member: usize) -> u8 {
        let own = self.objects[&at].value;
        match self.overrides.get(&at.0) {
            Some((name, of, value)) if at.1 == Of::Map && *name == at.2 && *of == member => *value,
            _ => own,
        }
    }
}

struct Life {
    hub: Plane,
    members: Vec<Plane>,
    /// The hub, then the members.
    places: Vec<Place>,
    processes: Vec<tokio::sync::Mutex<Process>>,
    logs: tempfile::TempDir,
    wanted: Mutex<Wanted>,
    /// Objects of members that are nobody's business, with their versions.
    foreign: Vec<(usize, String, Value)>,
}

fn namespace_name(number: usize) -> String {
    format!("app{number}")
}

fn namespace_path(number: usize) -> String {
    format!("/api/v1/namespaces/{}", namespace_name(number))
}

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
    async fn begin(is_real: bool) -> Result<Self> {
        let place = async |controllers| {
            if is_real {
                Place::real(controllers).await
            } else {
                Place::played().await
            }
        };
        let mut places = vec![place(Controllers::None).await?];
        let mut planes = vec![places[0].plane().await?];
        for _ in 0..MEMBERS {
            let member = place(Controllers::All).await?;
            planes.push(member.plane().await?);
            places.push(member);
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
        };
        for number in 0..=MEMBERS {
            let process = chaos::Life::start(&life, number)?;
            life.processes.push(tokio::sync::Mutex::new(process));
        }
        life.join().await?;
        for number in 0..PLACEMENTS {
            life.hub
                .namespace(&namespace_name(number), json!({}))
                .await?;
        }
        for (number, member) in life.members.iter().enumerate() {
            for of in [Of::Map, Of::Secret] {
                let mut own = kind(of).object("bystander", Value::Null);
                own["data"] = json!({"k": text(of, 0)});
                let made = member.create(&kind(of).within("default"), &own).await?;
                let version = made["metadata"]["resourceVersion"].clone();
                let at = kind(of).at("default", "bystander");
                life.foreign.push((number, at, version));
            }
        }
        Ok(life)
    }

    async fn join(&self) -> Result<()> {
        for number in 0..MEMBERS {
            let member = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": member_name(number), "labels": {"zone": ZONES[0]}},
                "spec": {"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": 1},
            });
            let all = format!("{CLUSTER}/memberclusters");
            self.hub.create(&all, &member).await?;
        }
        for number in 0..MEMBERS {
            eventually(SOON, "a member has joined", async || {
                let member = self.hub.get(&member_path(number)).await?;
                let joined = condition(&member["status"], "Joined");
                ensure!(joined["status"] == "True", "{:#}", member["status"]);
                Ok(())
            })
            .await;
        }
        Ok(())
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
                let placement = json!({
                    "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                    "metadata": {"name": format!("p{number}")},
                    "spec": {
                        "policy": without_nulls(&policy(wanted)),
                        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}],
                        "revisionHistoryLimit": 2,
                        "strategy": {"rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1}},
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
                There::Own(number, value) => create(Of::Map, *number, "own".into(), *value).await,
            };
            done(answer).with_context(|| format!("{what:?}"))?;
        }
        Ok(())
    }

    async fn administrate(&self, deeds: &[(Duration, usize, Administration)]) -> Result<()> {
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            // A member may suit by the old state until the new one is known, and by the new one at once.
            match what {
                Administration::Zone(zone) => {
                    let label = json!({"metadata": {"labels": {"zone": ZONES[*zone]}}});
                    self.hub.merge(&member_path(*number), label).await?;
                    self.wanted.lock().zones[*number] = *zone;
                }
                Administration::Taint(is_tainted) => {
                    let taint = json!({"key": "t", "value": "v", "effect": "NoSchedule"});
                    let taints = if *is_tainted {
                        json!([taint])
                    } else {
                        Value::Null
                    };
                    let change = json!({"spec": {"taints": taints}});
                    self.hub.merge(&member_path(*number), change).await?;
                    self.wanted.lock().tainted[*number] = *is_tainted;
                }
            }
            self.wanted.lock().note();
        }
        Ok(())
    }

    /// The members of a placement as its status says, after a look at the status itself.
    async fn check_placement(&self, wanted: &Wanted, number: usize) -> Result<BTreeSet<usize>> {
        let placement = self.hub.get(&placement_path(number)).await?;
        let placed = &wanted.placements[&number];
        let (metadata, status) = (&placement["metadata"], &placement["status"]);
        ensure!(
            metadata["deletionTimestamp"].is_null(),
            "p{number} is in deletion"
        );
        let all = status["placementStatuses"].as_array();
        let named = all.into_iter().flatten();
        let named: Vec<&Value> = named.filter(|one| one["clusterName"].is_string()).collect();
        let mut picked = BTreeSet::new();
        for one in &named {
            let name = one["clusterName"].as_str().unwrap_or_default();
            let member = (0..MEMBERS).find(|member| member_name(*member) == name);
            picked.insert(member.with_context(|| format!("p{number} is on {name}"))?);
            ensure!(
                one["observedResourceIndex"] == status["observedResourceIndex"],
                "p{number} is on its way: {status:#}"
            );
        }
        let is_fulfilled = wanted
            .check_picked(placed, &picked)
            .with_context(|| format!("p{number}: {status:#}"))?;
        for which in [
            "Scheduled",
            "RolloutStarted",
            "Overridden",
            "WorkSynchronized",
            "Applied",
            "Available",
        ] {
            let said = condition(status, &format!("ClusterResourcePlacement{which}"));
            let expected = if which == "Scheduled" {
                if is_fulfilled {
                    "True".into()
                } else {
                    "False".into()
                }
            } else if picked.is_empty() {
                Value::Null
            } else {
                "True".into()
            };
            ensure!(
                said["status"] == expected
                    && (expected.is_null() || said["observedGeneration"] == metadata["generation"]),
                "p{number} should be {which} {expected}: {status:#}"
            );
            for one in &named {
                ensure!(
                    condition(one, which)["status"] == "True",
                    "p{number} is not {which} on {one:#}"
                );
            }
        }
        let selected = status["selectedResources"].as_array().into_iter().flatten();
        let selected: BTreeSet<String> = selected
            .map(|one| format!("{} {}", one["kind"], one["name"]))
            .collect();
        let objects = wanted.objects.keys().filter(|at| at.0 == number);
        let objects = objects.map(|at| format!("\"{}\" \"c{}\"", kind(at.1).name, at.2));
        let namespace = format!("\"Namespace\" \"{}\"", namespace_name(number));
        let expected: BTreeSet<String> = objects.chain([namespace]).collect();
        ensure!(
            selected == expected,
            "p{number} selects {selected:?}, not {expected:?}"
        );
        Ok(picked)
    }

    async fn check_member(
        &self,
        wanted: &Wanted,
        number: usize,
        placed: &BTreeSet<usize>,
    ) -> Result<()> {
        let (member, name) = (&self.members[number], member_name(number));
        let expected: BTreeSet<String> = placed.iter().map(|one| format!("p{one}-work")).collect();
        let names = |objects: Vec<Value>| objects.iter().map(name_of).collect::<BTreeSet<_>>();
        let works = format!("{PLACEMENT}/namespaces/fleet-member-{name}/works");
        let works = names(self.hub.list(&works).await?);
        ensure!(
            works == expected,
            "Works of {name}: {works:?}, not {expected:?}"
        );
        let applied = names(member.list(&format!("{PLACEMENT}/appliedworks")).await?);
        ensure!(
            applied == expected,
            "AppliedWorks of {name}: {applied:?}, not {expected:?}"
        );
        for namespace in 0..PLACEMENTS {
            let found = member.find(&namespace_path(namespace)).await?;
            let Some(found) = found else {
                ensure!(!placed.contains(&namespace), "{name} lacks app{namespace}");
                continue;
            };
            ensure!(
                placed.contains(&namespace),
                "{name} has app{namespace} left: {found:#}"
            );
            check_owner(&found).with_context(|| name.clone())?;
            for of in [Of::Map, Of::Secret] {
                let found = member.list(&all((namespace, of, 0))).await?;
                let mut found: BTreeMap<String, Value> =
                    found.into_iter().map(|one| (name_of(&one), one)).collect();
                // What others have there of their own.
                found.retain(|name, _| name.starts_with('c'));
                for (at, object) in &wanted.objects {
                    if at.0 != namespace || at.1 != of {
                        continue;
                    }
                    let Some(copy) = found.remove(&format!("c{}", at.2)) else {
                        bail!("{name} lacks {at:?}");
                    };
                    let value = text(of, wanted.value(*at, number));
                    let more = object
                        .more
                        .map_or(Value::Null, |more| text(of, more).into());
                    ensure!(
                        copy["data"]["k"] == value
                            && copy["data"]["more"] == more
                            && copy["metadata"]["labels"]["color"] == "red",
                        "{at:?} on {name} is {copy:#}, not {object:?} with {value}"
                    );
                    check_owner(&copy).with_context(|| name.clone())?;
                }
                let owned = found.values().find(|one| check_owner(one).is_ok());
                ensure!(owned.is_none(), "{name} has {owned:#?} left");
            }
        }
        Ok(())
    }

    /// No snapshots and bindings are left of placements that are gone.
    async fn check_left(&self, wanted: &Wanted) -> Result<()> {
        let is_wanted = |parent: &Value| {
            let mut names = wanted.placements.keys().map(|number| format!("p{number}"));
            names.any(|name| *parent == *name)
        };
        for plural in [
            "clusterresourcebindings",
            "clusterresourcesnapshots",
            "clusterschedulingpolicysnapshots",
        ] {
            for one in self.hub.list(&format!("{PLACEMENT}/{plural}")).await? {
                let parent = &one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"];
                ensure!(is_wanted(parent), "{plural} {} is left", name_of(&one));
            }
        }
        let all = format!("{PLACEMENT}/resourceoverridesnapshots");
        for one in self.hub.list(&all).await? {
            let namespace = &one["metadata"]["namespace"];
            let mut numbers = wanted.overrides.keys();
            ensure!(
                numbers.any(|number| *namespace == *namespace_name(*number)),
                "an override in {namespace} is left"
            );
        }
        Ok(())
    }
}

/// Whether an object belongs to a Work, and to nothing else.
fn check_owner(object: &Value) -> Result<()> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.map(Vec::as_slice).unwrap_or_default();
    ensure!(
        matches!(owners, [owner] if owner["kind"] == "AppliedWork")
            && object["metadata"]["deletionTimestamp"].is_null(),
        "{:#}",
        object["metadata"]
    );
    Ok(())
}

impl chaos::Life for Life {
    const DIALECT: &'static str = "placement";
    const AGENT: &'static str = "hawser";
    const SERVERS: usize = MEMBERS + 1;
    const PROCESSES: usize = MEMBERS + 1;
    const ELECTS: bool = true;

    type Deeds = Deeds;

    fn deeds() -> BoxedStrategy<Deeds> {
        let administration = prop_oneof![
            (0..ZONES.len()).prop_map(Administration::Zone),
            any::<bool>().prop_map(Administration::Taint),
        ];
        let hub = prop::collection::vec((millis(0..120), what()), DEEDS);
        let members = prop::collection::vec((millis(0..120), 0..MEMBERS, there()), DEEDS);
        let administrator = (millis(0..700), 0..MEMBERS, administration);
        (hub, members, prop::collection::vec(administrator, 0..5))
            .prop_map(|(hub, members, administrator)| Deeds {
                hub,
                members,
                administrator,
            })
            .boxed()
    }

    fn servers(&self) -> Vec<&Playground> {
        let places = self.places.iter();
        places.filter_map(|place| place.playground().ok()).collect()
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.processes
    }

    fn start(&self, process: usize) -> Result<Process> {
        let command = if process == 0 { "hub" } else { "member" };
        let log = format!("{}.log", unique(&format!("{command}-{process}")));
        let launch = Launch::new(command, chaos::hawser())
            .args([command, "--log-format=Console", "-v=5", "--leader-elect"])
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0"])
            .log(self.logs.path().join(log));
        let hub = self.places[0].kubeconfig_file();
        if process == 0 {
            return launch
                .arg("--enable-webhook=false")
                .arg("--kubeconfig")
                .arg(hub)
                .spawn();
        }
        launch
            .arg(format!(
                "--member-cluster-name={}",
                member_name(process - 1)
            ))
            .arg("--hub-kubeconfig")
            .arg(hub)
            .arg("--kubeconfig")
            .arg(self.places[process].kubeconfig_file())
            .spawn()
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
        for (number, at, version) in &self.foreign {
            let now = self.members[*number].get(at).await?;
            ensure!(
                now["metadata"]["resourceVersion"] == *version,
                "{at} in member {number} was changed"
            );
        }
        let wanted = self.wanted.lock().clone();
        let all = format!("{PLACEMENT}/clusterresourceplacements");
        let there: BTreeSet<String> = self.hub.list(&all).await?.iter().map(name_of).collect();
        let expected = wanted.placements.keys().map(|number| format!("p{number}"));
        let expected: BTreeSet<String> = expected.collect();
        ensure!(there == expected, "there are {there:?}, not {expected:?}");
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
    chaos::run(Box::pin(Life::begin(seed.is_multiple_of(4))), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_the_fleet_is_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("placement", live_by).await;
}
