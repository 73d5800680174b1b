//! The life of `hawser federate`: users of federated objects and their namespaces, users of the members, and an
//! administrator who changes labels and addresses of members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kcp_playground::Playground;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{Process, unique};
use tokio::time::sleep;

use super::world::{MEMBER_NAMES, SYSTEM, World, core, federated, target};
use crate::agent::plane::{Kind, Plane};
use crate::canary::{CANARY, Logging as _};
use crate::chaos::{self, done, millis, name_of, without_nulls};

const MEMBERS: usize = 2;
const NAMESPACES: usize = 2;
/// The names of a kind in a namespace.
const NAMES: usize = 3;
const DEEDS: usize = 40;
const MANAGED: &str = "kubefed.io/managed";
/// The zones of members.
const ZONES: [&str; 2] = ["a", "b"];

/// Where a federated object is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unsaid,
    Everywhere,
    Zone(usize),
    /// Members by name. A selector beside them says nothing.
    Listed([bool; MEMBERS], bool),
}

#[derive(Clone, Debug)]
struct Wish {
    value: u8,
    place: Place,
    /// The value of each member.
    overrides: [Option<u8>; MEMBERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Map,
    Secret,
}

/// A federated object by namespace, kind and number of its name.
type At = (usize, Of, usize);

#[derive(Clone, Debug)]
enum What {
    Create(At, Wish),
    Change(At, Wish),
    Delete(At),
    Orphan(At),
    /// Federates a namespace, or changes where it is.
    Federate(usize, Place),
    Unfederate(usize),
}

/// What is done in a member.
#[derive(Clone, Debug)]
enum There {
    Drift(At, u8),
    Annotate(At, u8),
    Unlabel(At),
    Delete(At),
    Create(At, u8),
    DeleteNamespace(usize),
}

#[derive(Clone, Debug)]
enum Administration {
    Zone(usize),
    /// Whether the member has its own address.
    Address(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Deeds {
    host: Vec<(Duration, What)>,
    members: Vec<(Duration, usize, There)>,
    administrator: Vec<(Duration, usize, Administration)>,
}

fn place() -> impl Strategy<Value = Place> + Clone {
    prop_oneof![
        1 => Just(Place::Unsaid),
        3 => Just(Place::Everywhere),
        2 => (0..ZONES.len()).prop_map(Place::Zone),
        3 => (any::<[bool; MEMBERS]>(), any::<bool>()).prop_map(|(on, beside)| Place::Listed(on, beside)),
    ]
}

fn at() -> impl Strategy<Value = At> + Clone {
    let of = prop_oneof![Just(Of::Map), Just(Of::Secret)];
    (0..NAMESPACES, of, 0..NAMES)
}

fn what() -> impl Strategy<Value = What> {
    let overrides = [
        prop::option::weighted(0.3, any::<u8>()),
        prop::option::weighted(0.3, any::<u8>()),
    ];
    let wish = (any::<u8>(), place(), overrides);
    let wish = wish.prop_map(|(value, place, overrides)| Wish {
        value,
        place,
        overrides,
    });
    let wish = wish.boxed();
    prop_oneof![
        5 => (at(), wish.clone()).prop_map(|(at, wish)| What::Create(at, wish)),
        4 => (at(), wish).prop_map(|(at, wish)| What::Change(at, wish)),
        2 => at().prop_map(What::Delete),
        1 => at().prop_map(What::Orphan),
        3 => (0..NAMESPACES, place()).prop_map(|(namespace, place)| What::Federate(namespace, place)),
        1 => (0..NAMESPACES).prop_map(What::Unfederate),
    ]
}

fn there() -> impl Strategy<Value = There> {
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, value)| There::Drift(at, value)),
        2 => (at(), any::<u8>()).prop_map(|(at, value)| There::Annotate(at, value)),
        1 => at().prop_map(There::Unlabel),
        2 => at().prop_map(There::Delete),
        2 => (at(), any::<u8>()).prop_map(|(at, value)| There::Create(at, value)),
        1 => (0..NAMESPACES).prop_map(There::DeleteNamespace),
    ]
}

#[derive(Clone, Default)]
struct Wanted {
    objects: BTreeMap<At, Wish>,
    namespaces: BTreeMap<usize, Place>,
    zones: [usize; MEMBERS],
}

impl Wanted {
    fn selects(&self, place: &Place, member: usize) -> bool {
        match place {
            Place::Unsaid => false,
            Place::Everywhere => true,
            Place::Zone(zone) => self.zones[member] == *zone,
            Place::Listed(on, _) => on[member],
        }
    }

    /// The members of an object: its own within those of its namespace.
    fn members(&self, (namespace, ..): At, wish: &Wish) -> Vec<usize> {
        let Some(around) = self.namespaces.get(&namespace) else {
            return Vec::new();
        };
        let is_on =
            |member: &usize| self.selects(around, *member) && self.selects(&wish.place, *member);
        (0..MEMBERS).filter(is_on).collect()
    }
}

struct Life {
    world: World,
    host: Plane,
    members: Vec<Plane>,
    endpoints: Vec<Value>,
    control_plane: Vec<tokio::sync::Mutex<Process>>,
    wanted: Mutex<Wanted>,
    /// Objects of members that are nobody's business, with their versions.
    foreign: Vec<(usize, String, Value)>,
}

fn namespace_name(number: usize) -> String {
    format!("ns{number}")
}

fn object_name(number: usize) -> String {
    format!("m{number}")
}

fn plural(of: Of) -> &'static str {
    match of {
        Of::Map => "configmaps",
        Of::Secret => "secrets",
    }
}

fn kind(of: Of) -> Kind {
    match of {
        Of::Map => Kind::new("", "v1", "configmaps", "ConfigMap"),
        Of::Secret => Kind::new("", "v1", "secrets", "Secret"),
    }
}

fn data(of: Of, value: u8) -> String {
    let text = format!("{CANARY}-{value}");
    match of {
        Of::Map => text,
        Of::Secret => STANDARD.encode(text),
    }
}

fn all((namespace, of, _): At) -> String {
    let plural = format!("federated{}", plural(of));
    federated(&namespace_name(namespace), &plural)
}

fn path(at: At) -> String {
    format!("{}/{}", all(at), object_name(at.2))
}

fn path_in_member((namespace, of, name): At) -> String {
    kind(of).at(&namespace_name(namespace), &object_name(name))
}

fn path_of_namespace(number: usize) -> String {
    let name = namespace_name(number);
    format!("{}/{name}", federated(&name, "federatednamespaces"))
}

/// A placement as a merge patch; what is not said is taken out.
fn placement(place: &Place) -> Value {
    let selector = |labels: Value| json!({"matchLabels": labels});
    match place {
        Place::Unsaid => json!({"clusters": null, "clusterSelector": null}),
        Place::Everywhere => {
            json!({"clusters": null, "clusterSelector": selector(json!({"zone": null}))})
        }
        Place::Zone(zone) => {
            json!({"clusters": null, "clusterSelector": selector(json!({"zone": ZONES[*zone]}))})
        }
        Place::Listed(on, beside) => {
            let names = MEMBER_NAMES.iter().zip(on).filter(|(_, on)| **on);
            let names: Vec<Value> = names.map(|(name, _)| json!({"name": name})).collect();
            let beside = beside.then(|| selector(json!({"zone": "a"})));
            json!({"clusters": names, "clusterSelector": beside})
        }
    }
}

fn spec(of: Of, wish: &Wish) -> Value {
    let overrides = MEMBER_NAMES.iter().zip(wish.overrides);
    let overrides = overrides.filter_map(|(name, value)| {
        let value = data(of, value?);
        Some(json!({"clusterName": name, "clusterOverrides": [
            {"path": "/data/k", "value": value},
            {"op": "add", "path": "/metadata/labels", "value": {"overridden": "yes"}},
        ]}))
    });
    let overrides: Vec<Value> = overrides.collect();
    json!({
        "template": {"data": {"k": data(of, wish.value)}, "metadata": {"labels": {"color": "red"}}},
        "placement": placement(&wish.place),
        "overrides": overrides,
    })
}

impl Life {
    async fn begin(is_real: bool) -> Result<Self> {
        let world = if is_real {
            World::on(Controllers::All, MEMBERS, Controllers::All).await?
        } else {
            World::played().await?
        };
        let secrets = target("", "Secret", "secrets", "Namespaced");
        world.enable(&secrets).await?;
        let host = world.host.plane().await?;
        // A lock that is lost soon.
        let lock = json!({"spec": {"leaderElect":
            {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}}});
        let config = format!("{}/kubefed", core("kubefedconfigs"));
        host.merge(&config, lock).await?;
        let (mut members, mut endpoints, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        for (number, name) in MEMBER_NAMES[..MEMBERS].iter().enumerate() {
            let member = world.members[number].plane().await?;
            let of_cluster = format!("{}/{name}", core("kubefedclusters"));
            let found = host.get(&of_cluster).await?;
            endpoints.push(found["spec"]["apiEndpoint"].clone());
            let zone = json!({"metadata": {"labels": {"zone": ZONES[0]}}});
            host.merge(&of_cluster, zone).await?;
            for of in [Of::Map, Of::Secret] {
                let mut own = kind(of).object("bystander", Value::Null);
                own["data"] = json!({"k": data(of, 0)});
                let made = member.create(&kind(of).within("default"), &own).await?;
                let version = made["metadata"]["resourceVersion"].clone();
                foreign.push((number, kind(of).at("default", "bystander"), version));
            }
            members.push(member);
        }
        for number in 0..NAMESPACES {
            host.namespace(&namespace_name(number), json!({})).await?;
        }
        let mut life = Self {
            world,
            host,
            members,
            endpoints,
            control_plane: Vec::new(),
            wanted: Mutex::default(),
            foreign,
        };
        let control_plane = chaos::Life::start(&life, 0)?;
        life.control_plane
            .push(tokio::sync::Mutex::new(control_plane));
        Ok(life)
    }

    async fn use_host(&self, deeds: &[(Duration, What)]) -> Result<()> {
        for (wait, what) in deeds {
            sleep(*wait).await;
            self.act(what).await.with_context(|| format!("{what:?}"))?;
        }
        Ok(())
    }

    async fn act(&self, what: &What) -> Result<()> {
        let host = &self.host;
        match what {
            What::Create(at, wish) => {
                let federated = format!("Federated{}", kind(at.1).name);
                let types = Kind::new("types.kubefed.io", "v1beta1", "", &federated);
                let spec = without_nulls(&spec(at.1, wish));
                let object = types.object(&object_name(at.2), spec);
                if done(host.create(&all(*at), &object).await)? {
                    self.wanted.lock().objects.insert(*at, wish.clone());
                }
            }
            What::Change(at, wish) => {
                let is_wanted = self.wanted.lock().objects.contains_key(at);
                let change = json!({"spec": spec(at.1, wish)});
                if is_wanted && done(host.merge(&path(*at), change).await)? {
                    self.wanted.lock().objects.insert(*at, wish.clone());
                }
            }
            What::Delete(at) => {
                done(host.delete(&path(*at)).await)?;
                self.wanted.lock().objects.remove(at);
            }
            What::Orphan(at) => {
                let orphan = json!({"metadata": {"annotations": {"kubefed.io/orphan": "true"}}});
                done(host.merge(&path(*at), orphan).await)?;
                done(host.delete(&path(*at)).await)?;
                self.wanted.lock().objects.remove(at);
            }
            What::Federate(number, place) => {
                let patch = json!({"spec": {"placement": placement(place)}});
                let is_wanted = self.wanted.lock().namespaces.contains_key(number);
                let taken = if is_wanted {
                    host.merge(&path_of_namespace(*number), patch).await
                } else {
                    let types = Kind::new(
                        "types.kubefed.io",
                        "v1beta1",
                        "federatednamespaces",
                        "FederatedNamespace",
                    );
                    let name = namespace_name(*number);
                    let object = types.object(&name, without_nulls(&patch["spec"]));
                    host.create(&types.within(&name), &object).await
                };
                if done(taken)? {
                    self.wanted.lock().namespaces.insert(*number, place.clone());
                }
            }
            What::Unfederate(number) => {
                done(host.delete(&path_of_namespace(*number)).await)?;
                self.wanted.lock().namespaces.remove(number);
            }
        }
        Ok(())
    }

    async fn use_members(&self, deeds: &[(Duration, usize, There)]) -> Result<()> {
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            let member = &self.members[*number];
            let answer = match what {
                There::Drift(at, value) => {
                    let drift = json!({"data": {"k": data(at.1, *value), "more": data(at.1, *value)},
                        "metadata": {"labels": {"color": "blue"}}});
                    member.merge(&path_in_member(*at), drift).await
                }
                There::Annotate(at, value) => {
                    let own = json!({"metadata": {"annotations": {"example.com/note": value.to_string()}}});
                    member.merge(&path_in_member(*at), own).await
                }
                There::Unlabel(at) => {
                    let without = json!({"metadata": {"labels": {MANAGED: null}}});
                    member.merge(&path_in_member(*at), without).await
                }
                There::Delete(at) => member.delete(&path_in_member(*at)).await,
                There::Create(at, value) => {
                    let mut object = kind(at.1).object(&object_name(at.2), Value::Null);
                    object["data"] = json!({"k": data(at.1, *value)});
                    let all = kind(at.1).within(&namespace_name(at.0));
                    match member.create(&all, &object).await {
                        // The namespace is in deletion.
                        Err(refused) if refused.code == 403 => Ok(Value::Null),
                        other => other,
                    }
                }
                There::DeleteNamespace(number) => {
                    let path = format!("/api/v1/namespaces/{}", namespace_name(*number));
                    member.delete(&path).await
                }
            };
            done(answer).with_context(|| format!("{what:?}"))?;
        }
        Ok(())
    }

    async fn administrate(&self, deeds: &[(Duration, usize, Administration)]) -> Result<()> {
        let path = |number: usize| format!("{}/{}", core("kubefedclusters"), MEMBER_NAMES[number]);
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            match what {
                Administration::Zone(zone) => {
                    let label = json!({"metadata": {"labels": {"zone": ZONES[*zone]}}});
                    self.host.merge(&path(*number), label).await?;
                    self.wanted.lock().zones[*number] = *zone;
                }
                Administration::Address(is_own) => {
                    let own = is_own.then(|| self.endpoints[*number].clone());
                    let address = own.unwrap_or_else(|| "https://127.0.0.1:1".into());
                    let change = json!({"spec": {"apiEndpoint": address}});
                    self.host.merge(&path(*number), change).await?;
                }
            }
        }
        for (number, address) in self.endpoints.iter().enumerate() {
            let change = json!({"spec": {"apiEndpoint": address}});
            self.host.merge(&path(number), change).await?;
        }
        Ok(())
    }

    /// What the host says of a federated object: that it is where it should be.
    async fn check_status(&self, path: &str, members: &[usize], is_around: bool) -> Result<()> {
        let found = self.host.get(path).await?;
        let (metadata, status) = (&found["metadata"], &found["status"]);
        ensure!(
            metadata["deletionTimestamp"].is_null(),
            "{path} is in deletion"
        );
        ensure!(
            metadata["finalizers"] == json!(["kubefed.io/sync-controller"]),
            "{path} has {}",
            metadata["finalizers"]
        );
        let condition = &status["conditions"][0];
        let (is, reason) = if is_around {
            ("True", Value::Null)
        } else {
            ("False", "NamespaceNotFederated".into())
        };
        ensure!(
            condition["type"] == "Propagation"
                && condition["status"] == is
                && condition["reason"] == reason
                && status["observedGeneration"] == metadata["generation"],
            "{path} says {status:#}"
        );
        let clusters = status["clusters"].as_array().into_iter().flatten();
        let clusters: BTreeSet<(&str, bool)> = clusters
            .map(|one| {
                let is_fine = one["status"].is_null() || one["status"] == "";
                (one["name"].as_str().unwrap_or_default(), is_fine)
            })
            .collect();
        let expected: BTreeSet<(&str, bool)> = members
            .iter()
            .map(|number| (MEMBER_NAMES[*number], true))
            .collect();
        ensure!(clusters == expected, "{path} is in {status:#}");
        Ok(())
    }

    /// The copies of all objects in the members.
    async fn check_members(&self, wanted: &Wanted) -> Result<()> {
        for (number, member) in self.members.iter().enumerate() {
            for namespace in 0..NAMESPACES {
                let place = wanted.namespaces.get(&namespace);
                let is_wanted = place.is_some_and(|place| wanted.selects(place, number));
                let path = format!("/api/v1/namespaces/{}", namespace_name(namespace));
                let found = member.find(&path).await?.unwrap_or_default();
                let is_managed = found["metadata"]["labels"][MANAGED] == "true";
                let is_going = !found["metadata"]["deletionTimestamp"].is_null();
                ensure!(
                    is_managed == is_wanted && !is_going,
                    "{path} in member {number}, wanted: {is_wanted}: {found:#}"
                );
            }
            for of in [Of::Map, Of::Secret] {
                let selector = "labelSelector=kubefed.io%2Fmanaged%3Dtrue";
                let managed = format!("{}?{selector}", kind(of).everywhere());
                let managed = member.list(&managed).await?;
                let managed: BTreeMap<(String, String), &Value> = managed
                    .iter()
                    .map(|copy| {
                        let namespace = copy["metadata"]["namespace"].as_str();
                        (
                            (namespace.unwrap_or_default().to_owned(), name_of(copy)),
                            copy,
                        )
                    })
                    .collect();
                let mut expected = BTreeMap::new();
                for (at, wish) in &wanted.objects {
                    if at.1 == of && wanted.members(*at, wish).contains(&number) {
                        let key = (namespace_name(at.0), object_name(at.2));
                        expected.insert(key, wish);
                    }
                }
                ensure!(
                    managed.keys().eq(expected.keys()),
                    "member {number} has {:?}, not {:?}",
                    managed.keys(),
                    expected.keys()
                );
                for (key, wish) in expected {
                    let copy = managed[&key];
                    let value = wish.overrides[number].unwrap_or(wish.value);
                    let labels = if wish.overrides[number].is_some() {
                        json!({MANAGED: "true", "overridden": "yes"})
                    } else {
                        json!({MANAGED: "true", "color": "red"})
                    };
                    ensure!(
                        copy["data"] == json!({"k": data(of, value)})
                            && copy["metadata"]["labels"] == labels
                            && copy["metadata"]["deletionTimestamp"].is_null(),
                        "{key:?} in member {number} is {copy:#}, not {wish:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// Nothing is recorded of objects and copies that are gone.
    async fn check_versions(&self, wanted: &Wanted) -> Result<()> {
        let kind = Kind::new(
            "core.kubefed.io",
            "v1alpha1",
            "propagatedversions",
            "PropagatedVersion",
        );
        for number in 0..NAMESPACES {
            let all = self
                .host
                .list(&kind.within(&namespace_name(number)))
                .await?;
            let mut recorded: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for one in &all {
                let clusters = one["status"]["clusterVersions"].as_array();
                let clusters = clusters.into_iter().flatten();
                let names = clusters.filter_map(|one| one["clusterName"].as_str());
                recorded.insert(name_of(one), names.map(str::to_owned).collect());
            }
            let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            let mut add = |kind: &str, name: String, members: Vec<usize>| {
                let names = members
                    .iter()
                    .map(|number| MEMBER_NAMES[*number].to_owned());
                expected.insert(format!("{kind}-{name}"), names.collect());
            };
            for (at, wish) in wanted.objects.iter().filter(|(at, _)| at.0 == number) {
                let kind = kind_name(at.1);
                add(kind, object_name(at.2), wanted.members(*at, wish));
            }
            if let Some(place) = wanted.namespaces.get(&number) {
                let on = (0..MEMBERS).filter(|member| wanted.selects(place, *member));
                add("namespace", namespace_name(number), on.collect());
            }
            // A version that was lost, as by a kill, costs nothing but a write.
            for (name, members) in recorded {
                let expected = expected.get(&name);
                ensure!(
                    expected.is_some_and(|expected| members.is_subset(expected)),
                    "versions of {name} in {members:?}, not {expected:?}"
                );
            }
        }
        Ok(())
    }
}

fn kind_name(of: Of) -> &'static str {
    match of {
        Of::Map => "configmap",
        Of::Secret => "secret",
    }
}

impl chaos::Life for Life {
    const DIALECT: &'static str = "federate";
    const AGENT: &'static str = "hawser";
    const SERVERS: usize = MEMBERS + 1;
    const PROCESSES: usize = 1;
    const ELECTS: bool = true;

    type Deeds = Deeds;

    fn deeds() -> BoxedStrategy<Deeds> {
        let administration = prop_oneof![
            2 => (0..ZONES.len()).prop_map(Administration::Zone),
            1 => any::<bool>().prop_map(Administration::Address),
        ];
        let host = prop::collection::vec((millis(0..80), what()), DEEDS);
        let members = prop::collection::vec((millis(0..80), 0..MEMBERS, there()), DEEDS);
        let administrator = (millis(0..700), 0..MEMBERS, administration);
        (host, members, prop::collection::vec(administrator, 0..5))
            .prop_map(|(host, members, administrator)| Deeds {
                host,
                members,
                administrator,
            })
            .boxed()
    }

    fn servers(&self) -> Vec<&Playground> {
        self.world.playgrounds().unwrap_or_default()
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.control_plane
    }

    fn start(&self, _: usize) -> Result<Process> {
        let log = self.logs().join(format!("{}.log", unique("federate")));
        let program = chaos::hawser();
        self.world
            .launching_program(&program, "federate", &log)
            .spawn()
    }

    async fn release(&self, _: usize) -> Result<()> {
        let lock = kind(Of::Map).at(SYSTEM, "kubefed-controller-manager");
        done(self.host.delete(&lock).await)?;
        Ok(())
    }

    fn logs(&self) -> &Path {
        self.world.logs()
    }

    async fn live(&self, deeds: &Deeds) -> Result<()> {
        tokio::try_join!(
            self.use_host(&deeds.host),
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
        self.check_all(&wanted).await
    }

    async fn rest(&self) -> Result<()> {
        chaos::still(async || {
            // Probes and the lock go on.
            let mut written = chaos::writes(self, |request| {
                request.resource == "kubefedclusters" || request.namespace == SYSTEM
            });
            for namespace in 0..NAMESPACES {
                for of in [Of::Map, Of::Secret] {
                    let all = all((namespace, of, 0));
                    written.extend(chaos::versions(&self.host, &all).await?);
                }
            }
            for member in &self.members {
                for of in [Of::Map, Of::Secret] {
                    for namespace in 0..NAMESPACES {
                        let all = kind(of).within(&namespace_name(namespace));
                        written.extend(chaos::versions(member, &all).await?);
                    }
                }
            }
            Ok(written)
        })
        .await
    }

    async fn end(&self) -> Result<()> {
        let wanted = std::mem::take(&mut *self.wanted.lock());
        for at in wanted.objects.keys() {
            done(self.host.delete(&path(*at)).await)?;
        }
        for number in wanted.namespaces.keys() {
            done(self.host.delete(&path_of_namespace(*number)).await)?;
        }
        self.wanted.lock().zones = wanted.zones;
        Ok(())
    }
}

impl Life {
    async fn check_all(&self, wanted: &Wanted) -> Result<()> {
        for namespace in 0..NAMESPACES {
            for of in [Of::Map, Of::Secret] {
                let found = self.host.list(&all((namespace, of, 0))).await?;
                let found: BTreeSet<String> = found.iter().map(name_of).collect();
                let expected = wanted.objects.keys();
                let expected = expected.filter(|at| at.0 == namespace && at.1 == of);
                let expected: BTreeSet<String> = expected.map(|at| object_name(at.2)).collect();
                ensure!(
                    found == expected,
                    "the host has {found:?} in namespace {namespace}, not {expected:?}"
                );
            }
            let found = self.host.find(&path_of_namespace(namespace)).await?;
            let is_wanted = wanted.namespaces.contains_key(&namespace);
            ensure!(
                found.is_some() == is_wanted,
                "the namespace {namespace} is federated: {found:#?}"
            );
        }
        self.check_members(wanted).await?;
        for (at, wish) in &wanted.objects {
            let members = wanted.members(*at, wish);
            let is_around = wanted.namespaces.contains_key(&at.0);
            self.check_status(&path(*at), &members, is_around).await?;
        }
        for (number, place) in &wanted.namespaces {
            let on = (0..MEMBERS).filter(|member| wanted.selects(place, *member));
            let on: Vec<usize> = on.collect();
            self.check_status(&path_of_namespace(*number), &on, true)
                .await?;
        }
        self.check_versions(wanted).await
    }
}

async fn live_by(seed: u64) {
    chaos::run(Box::pin(Life::begin(seed.is_multiple_of(4))), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_members_are_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("federate", live_by).await;
}
