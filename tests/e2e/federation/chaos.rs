//! The life of `hawser federate`: users of federated objects and their namespaces, users of the members, and an
//! administrator who changes labels and addresses of members.

mod check;
mod wishes;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kcp_playground::Playground;
use parking_lot::Mutex;
use proptest::prelude::BoxedStrategy;
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{Launch, Link, Process, ServiceCluster, unique};
use tokio::time::sleep;

use self::wishes::{
    Administration, At, Deeds, MANAGED, MEMBERS, NAMESPACES, Of, Place, There, Wanted, What, Wish,
    ZONES,
};
use super::world::{MEMBER_NAMES, SYSTEM, World, core, federated, target};
use crate::agent::plane::{Kind, Plane};
use crate::canary::{CANARY, Logging as _};
use crate::chaos::{self, done, without_nulls};

struct Life {
    world: World,
    host: Plane,
    members: Vec<Plane>,
    /// How the members are registered.
    clusters: Vec<Value>,
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

fn cluster_path(number: usize) -> String {
    format!("{}/{}", core("kubefedclusters"), MEMBER_NAMES[number])
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
    let overrides = (0..MEMBERS).filter_map(|number| {
        let mut all = Vec::new();
        if let Some(value) = wish.overrides[number] {
            all.push(json!({"path": "/data/k", "value": data(of, value)}));
            all.push(
                json!({"op": "add", "path": "/metadata/labels", "value": {"overridden": "yes"}}),
            );
        }
        if wish.is_unfit(number) {
            all.push(json!({"op": "remove", "path": "/data/nothing"}));
        }
        let name = MEMBER_NAMES[number];
        (!all.is_empty()).then(|| json!({"clusterName": name, "clusterOverrides": all}))
    });
    let overrides: Vec<Value> = overrides.collect();
    json!({
        "template": {"data": {"k": data(of, wish.value)}, "metadata": {"labels": {"color": "red"}}},
        "placement": placement(&wish.place),
        "overrides": overrides,
    })
}

impl Life {
    async fn begin(seed: u64) -> Result<Self> {
        let host = chaos::place(seed, Controllers::All).await?;
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.push(chaos::place(seed, Controllers::All).await?);
        }
        let world = World::installed_among(host, members).await?;
        let secrets = target("", "Secret", "secrets", "Namespaced");
        world.enable(&secrets).await?;
        let host = chaos::plane(&world.host).await?;
        // A lock that is lost soon.
        let lock = json!({"spec": {"leaderElect":
            {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}}});
        let config = format!("{}/kubefed", core("kubefedconfigs"));
        host.merge(&config, lock).await?;
        let (mut members, mut clusters, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..MEMBERS {
            let member = chaos::plane(&world.members[number]).await?;
            let zone = json!({"metadata": {"labels": {"zone": ZONES[0]}}});
            let mut cluster = host.merge(&cluster_path(number), zone).await?;
            cluster["status"].take();
            clusters.push(cluster);
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
            clusters,
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
                There::Drift(at, value, is_relabeled) => {
                    let mut drift =
                        json!({"data": {"k": data(at.1, *value), "more": data(at.1, *value)}});
                    if *is_relabeled {
                        drift["metadata"] = json!({"labels": {"color": "blue"}});
                    }
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
        for (wait, number, what) in deeds {
            sleep(*wait).await;
            match what {
                Administration::Zone(zone) => {
                    let label = json!({"metadata": {"labels": {"zone": ZONES[*zone]}}});
                    if done(self.host.merge(&cluster_path(*number), label).await)? {
                        self.wanted.lock().zones[*number] = *zone;
                    }
                }
                Administration::Address(is_own) => {
                    let own = is_own.then(|| self.clusters[*number]["spec"]["apiEndpoint"].clone());
                    let address = own.unwrap_or_else(|| "https://127.0.0.1:1".into());
                    let change = json!({"spec": {"apiEndpoint": address}});
                    done(self.host.merge(&cluster_path(*number), change).await)?;
                }
                Administration::Registered(true) => self.register(*number).await?,
                Administration::Registered(false) => {
                    done(self.host.delete(&cluster_path(*number)).await)?;
                }
                Administration::Propagated(of, is) => self.set_propagated(*of, *is).await?,
            }
        }
        for number in 0..MEMBERS {
            self.register(number).await?;
        }
        for of in [Of::Map, Of::Secret] {
            self.set_propagated(of, true).await?;
        }
        Ok(())
    }

    /// Registers a member, if it is not, and gives it its own address.
    async fn register(&self, number: usize) -> Result<()> {
        let cluster = &self.clusters[number];
        let zone = ZONES[self.wanted.lock().zones[number]];
        let mut object = cluster.clone();
        object["metadata"] = json!({"name": MEMBER_NAMES[number], "labels": {"zone": zone}});
        done(self.host.create(&core("kubefedclusters"), &object).await)?;
        let change = json!({"spec": {"apiEndpoint": cluster["spec"]["apiEndpoint"]}});
        self.host.merge(&cluster_path(number), change).await?;
        Ok(())
    }

    async fn set_propagated(&self, of: Of, is_propagated: bool) -> Result<()> {
        let propagation = if is_propagated { "Enabled" } else { "Disabled" };
        let config = format!("{}/{}", core("federatedtypeconfigs"), plural(of));
        let change = json!({"spec": {"propagation": propagation}});
        self.host.merge(&config, change).await?;
        Ok(())
    }
}

impl chaos::Life for Life {
    const DIALECT: &'static str = "federate";
    const AGENT: &'static str = "hawser";
    const SERVERS: usize = MEMBERS + 1;
    const PROCESSES: usize = 1;

    type Deeds = Deeds;

    fn deeds() -> BoxedStrategy<Deeds> {
        wishes::deeds()
    }

    fn servers(&self) -> Vec<&Playground> {
        self.world.playgrounds().unwrap_or_default()
    }

    fn links(&self) -> Vec<&Link> {
        self.world.host.link().into_iter().collect()
    }

    fn clusters(&mut self) -> Vec<&mut ServiceCluster> {
        self.world.host.servers().into_iter().collect()
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.control_plane
    }

    fn launch(&self, _: usize) -> Result<Launch> {
        let log = self.logs().join(format!("{}.log", unique("federate")));
        let program = chaos::hawser();
        Ok(self.world.launching_program(&program, "federate", &log))
    }

    fn lost(&self) -> Option<Duration> {
        Some(chaos::LOST)
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
        self.use_members(&deeds.drifts).await
    }

    async fn check(&self) -> Result<()> {
        chaos::check_foreign(&self.members, &self.foreign).await?;
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

async fn live_by(seed: u64) {
    chaos::run(Box::pin(Life::begin(seed)), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_members_are_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("federate", live_by).await;
}
