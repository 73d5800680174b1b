//! The life of `hawser agent`: consumers in three workspaces and a provider, who adds fields of his own to copies and
//! changes the published resource. Nothing foreign is touched, not even in the place of a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use kcp_playground::Playground;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::{Launch, Process};
use tokio::time::sleep;

use super::crash::{copies, idle, states};
use super::plane::{Kind, Plane};
use super::service::Ground;
use super::stage::Stage;
use super::world::{self, Counted as _, Team, World, bare};
use crate::canary::CANARY;
use crate::chaos::{self, done, millis, name_of, versions};

const TEAMS: usize = 3;
/// The names in a workspace. Few, so that deeds meet.
const NAMES: usize = 8;
/// The number of an object that nobody changes. The place of its Secret's copy is taken.
const TAKEN: usize = NAMES;
const DEEDS: usize = 25;

/// What consumers and the provider do in a round.
#[derive(Clone, Debug)]
struct Deeds {
    consumers: Vec<Vec<Deed>>,
    provider: Vec<(usize, Service)>,
    /// When the provider changes the mutation of the published resource, and the field that it then adds.
    publisher: Option<(Duration, Option<u8>)>,
    /// When the provider adds a field to the definition of the objects, and its number.
    upgrade: Option<(Duration, u8)>,
}

/// What a consumer does, and the wait before it.
#[derive(Clone, Debug)]
struct Deed {
    wait: Duration,
    name: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Create(Wish),
    Change(Wish),
    Delete,
    Label(u8),
    /// Writes the Secret that an object may refer to, or deletes it.
    Secret(Option<u8>),
}

/// The spec of an object.
#[derive(Clone, Debug)]
struct Wish {
    value: u8,
    /// Whether it refers to a Secret of the consumer,
    up: bool,
    /// and to one of the provider.
    down: bool,
}

/// What the provider does about an object of a workspace.
#[derive(Clone, Debug)]
struct Service {
    wait: Duration,
    name: usize,
    what: ServiceDeed,
}

#[derive(Clone, Debug)]
enum ServiceDeed {
    Status(u8),
    /// Sets a field, a label and an annotation that the consumer does not have.
    Own(u8),
    DeleteCopy,
    Secret(Option<u8>),
}

fn wish() -> impl Strategy<Value = Wish> {
    (any::<u8>(), any::<bool>(), any::<bool>()).prop_map(|(value, up, down)| Wish {
        value,
        up,
        down,
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    let what = prop_oneof![
        4 => wish().prop_map(What::Create),
        4 => wish().prop_map(What::Change),
        2 => Just(What::Delete),
        1 => any::<u8>().prop_map(What::Label),
        3 => prop::option::weighted(0.7, any::<u8>()).prop_map(What::Secret),
    ];
    (millis(0..80), 0..NAMES, what).prop_map(|(wait, name, what)| Deed { wait, name, what })
}

fn service() -> impl Strategy<Value = (usize, Service)> {
    let what = prop_oneof![
        4 => any::<u8>().prop_map(ServiceDeed::Status),
        2 => any::<u8>().prop_map(ServiceDeed::Own),
        1 => Just(ServiceDeed::DeleteCopy),
        3 => prop::option::weighted(0.7, any::<u8>()).prop_map(ServiceDeed::Secret),
    ];
    let deed = (millis(0..80), 0..NAMES, what);
    let deed = deed.prop_map(|(wait, name, what)| Service { wait, name, what });
    (0..TEAMS, deed)
}

/// What the last acknowledged deeds left, by workspace and number of the name.
#[derive(Default)]
struct Wanted {
    objects: BTreeMap<(usize, usize), Value>,
    /// Secrets of consumers,
    up: BTreeMap<(usize, usize), String>,
    /// and of the provider.
    down: BTreeMap<(usize, usize), String>,
    /// What the provider has of his own in a copy, by its uid.
    own: BTreeMap<String, String>,
    /// The field that the mutation adds.
    tier: Option<String>,
}

struct Life<'w> {
    stage: Stage<'w>,
    teams: Vec<Team>,
    agent: [tokio::sync::Mutex<Process>; 1],
    /// Whether agents elect a leader.
    elects: bool,
    wanted: Mutex<Wanted>,
    /// Foreign objects, by their places, with the versions that they had.
    foreign: Vec<(String, Value)>,
}

/// The label and the annotation of the provider.
const OWN: &str = "example.com/own";

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].to_string()
}

fn secrets() -> Kind {
    Kind::new("", "v1", "secrets", "Secret")
}

fn object_name(number: usize) -> String {
    format!("lamp{number}")
}

fn spec(number: usize, wish: &Wish) -> Value {
    let mut spec = json!({"value": format!("{CANARY}-{}", wish.value)});
    for (field, is_there) in [("up", wish.up), ("down", wish.down)] {
        if is_there {
            spec[field] = format!("{field}{number}").into();
        }
    }
    spec
}

/// Writes a Secret or deletes it; what it has then, if that was taken. One in deletion is left alone.
async fn put_secret(
    plane: &Plane,
    namespace: &str,
    name: &str,
    value: Option<u8>,
) -> Result<Option<Option<String>>> {
    let at = secrets().at(namespace, name);
    let Some(value) = value.map(|value| format!("{CANARY}-{value}")) else {
        done(plane.delete(&at).await)?;
        return Ok(Some(None));
    };
    let data = json!({"data": {"k": STANDARD.encode(&value)}});
    let taken = match plane.find(&at).await? {
        Some(found) if !found["metadata"]["deletionTimestamp"].is_null() => false,
        Some(_) => done(plane.merge(&at, data).await)?,
        None => {
            let mut object =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
            object["data"] = data["data"].clone();
            done(plane.create(&secrets().within(namespace), &object).await)?
        }
    };
    Ok(taken.then_some(Some(value)))
}

fn note(into: &mut BTreeMap<(usize, usize), String>, at: (usize, usize), value: Option<String>) {
    match value {
        Some(value) => into.insert(at, value),
        None => into.remove(&at),
    };
}

impl Life<'_> {
    async fn consume(&self, team: usize, deeds: &[Deed]) -> Result<()> {
        let (kind, plane) = (&self.stage.kind, &self.teams[team].plane);
        for Deed { wait, name, what } in deeds {
            sleep(*wait).await;
            let at = (team, *name);
            let path = kind.at("default", &object_name(*name));
            match what {
                What::Create(wish) => {
                    let spec = spec(*name, wish);
                    let object = kind.object(&object_name(*name), spec.clone());
                    if done(plane.create(&kind.within("default"), &object).await)? {
                        self.wanted.lock().objects.insert(at, spec);
                    }
                }
                What::Change(wish) => {
                    let spec = spec(*name, wish);
                    let mut patch = json!({"up": null, "down": null});
                    if let (Some(patch), Some(spec)) = (patch.as_object_mut(), spec.as_object()) {
                        patch.extend(spec.clone());
                    }
                    let is_wanted = self.wanted.lock().objects.contains_key(&at);
                    // One in deletion takes changes too, and goes all the same.
                    if is_wanted && done(plane.merge(&path, json!({"spec": patch})).await)? {
                        self.wanted.lock().objects.insert(at, spec);
                    }
                }
                What::Delete => {
                    done(plane.delete(&path).await)?;
                    self.wanted.lock().objects.remove(&at);
                }
                What::Label(value) => {
                    let labels = json!({"metadata": {"labels": {"shade": value.to_string()}}});
                    done(plane.merge(&path, labels).await)?;
                }
                What::Secret(value) => {
                    let name = format!("up{name}");
                    if let Some(has) = put_secret(plane, "default", &name, *value).await? {
                        note(&mut self.wanted.lock().up, at, has);
                    }
                }
            }
        }
        Ok(())
    }

    async fn provide(&self, deeds: &[(usize, Service)]) -> Result<()> {
        let (world, kind) = (self.stage.world, &self.stage.kind);
        for (team, Service { wait, name, what }) in deeds {
            sleep(*wait).await;
            let (number, team) = (*team, &self.teams[*team]);
            if let ServiceDeed::Secret(value) = what {
                let secret = format!("down{name}");
                let put = put_secret(&world.service, &team.cluster, &secret, *value);
                if let Some(has) = put.await? {
                    note(&mut self.wanted.lock().down, (number, *name), has);
                }
                continue;
            }
            let Some(copy) = world.copy(kind, team.of(&object_name(*name))).await? else {
                continue;
            };
            let place = self.stage.place(&copy);
            let answer = match what {
                ServiceDeed::Own(value) => {
                    let text = value.to_string();
                    let marks = json!({OWN: text});
                    let own = json!({"spec": {"own": text}, "metadata": {"labels": marks, "annotations": marks}});
                    let answer = world.service.merge(&place, own).await;
                    if let Ok(copy) = &answer {
                        self.wanted.lock().own.insert(uid(copy), text);
                    }
                    answer
                }
                ServiceDeed::Status(value) => {
                    let status = json!({"status": {"seen": value}});
                    world
                        .service
                        .merge(&format!("{place}/status"), status)
                        .await
                }
                ServiceDeed::DeleteCopy => world.service.delete(&place).await,
                ServiceDeed::Secret(_) => continue,
            };
            done(answer)?;
        }
        Ok(())
    }

    async fn upgrade(&self, wait: Duration, number: u8) -> Result<()> {
        sleep(wait).await;
        let Stage { world, kind, .. } = &self.stage;
        let name = format!("{}.{}", kind.plural, kind.group);
        let crd = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let mut versions = world.service.get(&crd).await?["spec"]["versions"].clone();
        let properties = &mut versions[0]["schema"]["openAPIV3Schema"]["properties"];
        properties["spec"]["properties"][format!("field{number}")] = json!({"type": "string"});
        let upgraded = json!({"spec": {"versions": versions}});
        world.service.merge(&crd, upgraded).await?;
        Ok(())
    }

    async fn publish(&self, wait: Duration, tier: Option<u8>) -> Result<()> {
        sleep(wait).await;
        let tier = tier.map(|tier| format!("tier{tier}"));
        let step = |tier| json!({"template": {"path": "spec.tier", "template": tier}});
        let steps: Vec<Value> = tier.iter().map(step).collect();
        let change = json!({"spec": {"mutation": {"spec": steps}}});
        let stage = &self.stage;
        let changed = stage.world.change_published(&stage.published, change);
        changed.await?;
        self.wanted.lock().tier = tier;
        Ok(())
    }

    /// Makes objects beside the copies that no agent may touch.
    async fn make_foreign(&mut self) -> Result<()> {
        let (service, kind) = (&self.stage.world.service, &self.stage.kind);
        for team in &self.teams {
            let namespace = &team.cluster;
            service.namespace(namespace, json!({})).await?;
            let gadget = kind.object("bystander", json!({"value": "own"}));
            service.create(&kind.within(namespace), &gadget).await?;
            let taken = format!("up{TAKEN}");
            for name in ["bystander", &taken] {
                let secret =
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
                service
                    .create(&secrets().within(namespace), &secret)
                    .await?;
            }
            for at in [
                kind.at(namespace, "bystander"),
                secrets().at(namespace, "bystander"),
                secrets().at(namespace, &taken),
            ] {
                let version = service.get(&at).await?["metadata"]["resourceVersion"].clone();
                self.foreign.push((at, version));
            }
        }
        Ok(())
    }

    /// Makes objects whose Secrets cannot be copied, because others are in their places.
    async fn make_refused(&self) -> Result<()> {
        for (number, team) in self.teams.iter().enumerate() {
            let wish = Wish {
                value: 0,
                up: true,
                down: false,
            };
            put_secret(&team.plane, "default", &format!("up{TAKEN}"), Some(0)).await?;
            let spec = spec(TAKEN, &wish);
            let object = self.stage.kind.object(&object_name(TAKEN), spec.clone());
            let all = self.stage.kind.within("default");
            team.plane.create(&all, &object).await?;
            self.wanted.lock().objects.insert((number, TAKEN), spec);
        }
        Ok(())
    }

    /// The Secrets of a namespace that are copied, and their copies, with their contents.
    async fn held(&self, plane: &Plane, namespace: &str) -> Result<BTreeMap<String, String>> {
        let mut held = BTreeMap::new();
        for secret in plane.list(&secrets().within(namespace)).await? {
            let value = STANDARD.decode(secret["data"]["k"].as_str().unwrap_or_default())?;
            held.insert(name_of(&secret), String::from_utf8(value)?);
        }
        held.retain(|name, _| name != "bystander" && *name != format!("up{TAKEN}"));
        Ok(held)
    }

    /// All that is stored of objects and copies, with the versions.
    async fn stored(&self) -> Result<BTreeSet<String>> {
        let (world, kind) = (self.stage.world, &self.stage.kind);
        let mut stored = versions(&world.service, &kind.everywhere()).await?;
        stored.extend(versions(&world.service, &secrets().within(&world.namespace)).await?);
        for team in &self.teams {
            stored.extend(versions(&world.service, &secrets().within(&team.cluster)).await?);
            for kind in [kind, &secrets()] {
                stored.extend(versions(&team.plane, &kind.within("default")).await?);
            }
        }
        Ok(stored)
    }

    async fn check_team(
        &self,
        number: usize,
        team: &Team,
        copies: &BTreeMap<(String, String), Vec<Value>>,
    ) -> Result<usize> {
        let mut wished = BTreeMap::new();
        let (mut below, mut above) = (BTreeMap::new(), BTreeMap::new());
        {
            let wanted = self.wanted.lock();
            for name in 0..=TAKEN {
                let at = (number, name);
                let (up, down) = (wanted.up.get(&at), wanted.down.get(&at));
                let own = |field: &str| format!("{field}{name}");
                above.extend(up.map(|value| (own("up"), value.clone())));
                below.extend(down.map(|value| (own("down"), value.clone())));
                let Some(spec) = wanted.objects.get(&at) else {
                    continue;
                };
                wished.insert(object_name(name), spec.clone());
                if !spec["up"].is_null() {
                    below.extend(up.map(|value| (own("up"), value.clone())));
                }
                if !spec["down"].is_null() {
                    above.extend(down.map(|value| (own("down"), value.clone())));
                }
            }
        }
        let sources = team.plane.list(&self.stage.kind.within("default")).await?;
        let there: BTreeSet<String> = sources.iter().map(name_of).collect();
        ensure!(
            there.iter().eq(wished.keys()),
            "{} has {there:?}, not {:?}",
            team.name,
            wished.keys()
        );
        for source in &sources {
            let name = name_of(source);
            ensure!(
                source["spec"] == wished[&name],
                "the spec of {name} was changed: {}",
                source["spec"]
            );
            let meta = &source["metadata"];
            ensure!(meta["deletionTimestamp"].is_null(), "{name} is in deletion");
            ensure!(
                meta["finalizers"] == json!(["syncagent.kcp.io/cleanup"]),
                "{name} has {}",
                meta["finalizers"]
            );
            let found = copies.get(&(team.cluster.clone(), name.clone()));
            let Some([copy]) = found.map(Vec::as_slice) else {
                bail!(
                    "{} copies of {name} of {}",
                    found.map_or(0, Vec::len),
                    team.name
                );
            };
            let (own, tier) = {
                let wanted = self.wanted.lock();
                let own = wanted.own.get(&uid(copy)).cloned();
                (Value::from(own), Value::from(wanted.tier.clone()))
            };
            let mut spec = source["spec"].clone();
            for (field, value) in [("own", &own), ("tier", &tier)] {
                if !value.is_null() {
                    spec[field] = value.clone();
                }
            }
            let marks = &copy["metadata"];
            ensure!(
                copy["spec"] == spec
                    && [&marks["labels"][OWN], &marks["annotations"][OWN]] == [&own, &own],
                "the copy of {name} has {} with {marks}, not {spec} with {own}",
                copy["spec"]
            );
            // What a copy that was deleted said is not taken back.
            let (ours, theirs) = (bare(&source["status"]), bare(&copy["status"]));
            ensure!(
                theirs.is_null() || ours == theirs,
                "{name} has status {ours}, its copy {theirs}"
            );
        }
        let held = self.held(&self.stage.world.service, &team.cluster).await?;
        ensure!(
            held == below,
            "Secrets with the copies of {}: {held:?}, not {below:?}",
            team.name
        );
        let held = self.held(&team.plane, "default").await?;
        ensure!(
            held == above,
            "Secrets of {}: {held:?}, not {above:?}",
            team.name
        );
        Ok(sources.len())
    }
}

impl chaos::Life for Life<'_> {
    const DIALECT: &'static str = "agent";
    const AGENT: &'static str = "hawser";
    const SERVERS: usize = 1;
    const PROCESSES: usize = 1;

    type Deeds = Deeds;

    fn deeds() -> BoxedStrategy<Deeds> {
        let consumers = prop::collection::vec(prop::collection::vec(deed(), DEEDS), TEAMS);
        let provider = prop::collection::vec(service(), DEEDS);
        let publisher = (millis(0..1500), prop::option::of(any::<u8>()));
        let upgrade = prop::option::weighted(0.3, (millis(0..1500), any::<u8>()));
        (consumers, provider, prop::option::of(publisher), upgrade)
            .prop_map(|(consumers, provider, publisher, upgrade)| Deeds {
                consumers,
                provider,
                publisher,
                upgrade,
            })
            .boxed()
    }

    fn servers(&self) -> Vec<&Playground> {
        vec![&self.stage.world.playground]
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.agent
    }

    fn launch(&self, _: usize) -> Result<Launch> {
        let launch = self.stage.world.launch()?;
        Ok(launch.arg(format!("--enable-leader-election={}", self.elects)))
    }

    fn lost(&self) -> Option<Duration> {
        // The Lease lasts 15 seconds.
        self.elects.then_some(Duration::from_secs(17))
    }

    async fn release(&self, _: usize) -> Result<()> {
        let World {
            namespace, agent, ..
        } = self.stage.world;
        let leases = Kind::new("coordination.k8s.io", "v1", "leases", "Lease");
        let lease = leases.at(namespace, &format!("syncagent.{agent}"));
        done(self.stage.world.service.delete(&lease).await)?;
        Ok(())
    }

    fn logs(&self) -> &Path {
        self.stage.world.directory.path()
    }

    async fn live(&self, deeds: &Deeds) -> Result<()> {
        let consumers = deeds.consumers.iter().enumerate();
        let consumers = consumers.map(|(team, deeds)| self.consume(team, deeds));
        let publish = async {
            match deeds.publisher {
                Some((wait, tier)) => self.publish(wait, tier).await,
                None => Ok(()),
            }
        };
        let provide = self.provide(&deeds.provider);
        let upgrade = async {
            match deeds.upgrade {
                Some((wait, number)) => self.upgrade(wait, number).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(try_join_all(consumers), provide, publish, upgrade)?;
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        let world = self.stage.world;
        for (at, version) in &self.foreign {
            let now = world.service.get(at).await?["metadata"]["resourceVersion"].clone();
            ensure!(now == *version, "{at} was changed");
        }
        let copies = copies(&self.stage).await?;
        let mut sources = 0;
        for (number, team) in self.teams.iter().enumerate() {
            sources += self.check_team(number, team, &copies).await?;
        }
        ensure!(
            copies.len() == sources,
            "{} copies of {sources} objects",
            copies.len()
        );
        let states = states(world).await?.len();
        ensure!(states == sources, "{states} states of {sources} objects");
        Ok(())
    }

    async fn rest(&self) -> Result<()> {
        let world = self.stage.world;
        let (mark, before) = (world.requests().mark(), self.stored().await?);
        world.await_still(&self.stage.kind, &self.teams[0]).await;
        let after = self.stored().await?;
        let changed: Vec<&String> = before.difference(&after).collect();
        ensure!(changed.is_empty(), "written without a reason: {changed:#?}");
        // Writes that change nothing.
        let names: BTreeSet<String> = (0..=TAKEN).map(object_name).collect();
        let mut written = world.agents_requests(mark);
        written.retain(|one| one.is_write() && names.contains(&one.name));
        ensure!(written.is_empty(), "the agent writes on: {written:#?}");
        Ok(())
    }

    async fn end(&self) -> Result<()> {
        self.wanted.lock().objects.clear();
        for team in &self.teams {
            for object in team.plane.list(&self.stage.kind.within("default")).await? {
                let at = self.stage.kind.at("default", &name_of(&object));
                done(team.plane.delete(&at).await)?;
            }
        }
        Ok(())
    }
}

async fn begun(world: &World, elects: bool) -> Result<Life<'_>> {
    let entry = |identifier: &str, origin: &str| {
        json!({"identifier": identifier, "origin": origin, "kind": "Secret",
            "object": {"reference": {"path": format!("spec.{identifier}")}}})
    };
    let mut down = entry("down", "service");
    down["cleanup"] = true.into();
    let related = json!({"related": [down, entry("up", "kcp")]});
    let mut stage = world.related(related).await?;
    let mut teams = vec![stage.team.clone()];
    for name in ["second", "third"] {
        teams.push(world.team(name).await?);
    }
    let mut agent = std::mem::replace(&mut stage.agent, idle()?);
    if elects {
        agent.kill().await?;
        agent = world.start_agent_that_elects()?;
    }
    let mut life = Life {
        stage,
        teams,
        agent: [tokio::sync::Mutex::new(agent)],
        elects,
        wanted: Mutex::default(),
        foreign: Vec::new(),
    };
    life.make_foreign().await?;
    life.make_refused().await?;
    Ok(life)
}

async fn live_by(seed: u64) {
    let ground = if seed.is_multiple_of(4) {
        Ground::Ours
    } else {
        Ground::Playground
    };
    world::run_with(ground, chaos::server_options(seed), async |world| {
        let elects = !seed.is_multiple_of(2);
        chaos::live(&mut begun(world, elects).await?, seed).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_everything_is_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_everything_is_in_step_on_a_real_server() {
    live_by(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("agent", live_by).await;
}
