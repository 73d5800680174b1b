//! Chaos: consumers and a provider at work while requests fail and the agent is killed, suspended and doubled. A seed
//! decides what happens. When the faults end, everything comes into step, and nothing foreign was touched.
//!
//! The check has its own reading of the contract: it shares no code with the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use kcp_playground::server::{Action, Fault, Matcher, When};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use testbed::{Process, Signal, within};
use tokio::time::{Instant, sleep};

use super::crash::{copies, crash, idle, states};
use super::plane::{Kind, Plane, Refused};
use super::service::Ground;
use super::stage::Stage;
use super::world::{self, Counted as _, Team, World, bare};
use crate::canary::CANARY;

const TEAMS: usize = 3;
/// The names in a workspace. Few, so that deeds meet.
const NAMES: usize = 8;
const ROUNDS: usize = 5;
const DEEDS: usize = 25;
/// The time in which everything comes into step once the faults have ended.
const DONE: Duration = Duration::from_mins(3);

/// What a seed decides: rounds of faults, deeds and a blow at the agent.
#[derive(Clone, Debug)]
struct Round {
    faults: Vec<Fault>,
    consumers: Vec<Vec<Deed>>,
    provider: Vec<(usize, Service)>,
    blow: Blow,
    blow_after: Duration,
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
    Annotate(u8),
    DeleteCopy,
    Secret(Option<u8>),
}

/// What happens to the agent.
#[derive(Clone, Debug)]
enum Blow {
    Nothing,
    Kill,
    KillTwice,
    Suspend(Duration),
    /// A second agent works beside the first one, which is killed then.
    Double,
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
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
        1 => any::<u8>().prop_map(ServiceDeed::Annotate),
        1 => Just(ServiceDeed::DeleteCopy),
        3 => prop::option::weighted(0.7, any::<u8>()).prop_map(ServiceDeed::Secret),
    ];
    let deed = (millis(0..80), 0..NAMES, what);
    let deed = deed.prop_map(|(wait, name, what)| Service { wait, name, what });
    (0..TEAMS, deed)
}

/// A fault of the agent's requests. Not among them: refusals that the agent rightly takes for final.
fn fault() -> impl Strategy<Value = Fault> {
    let when = prop_oneof![Just(When::Before), Just(When::After)];
    let broken = (prop::sample::select(vec![500, 503, 504]), when.clone());
    let action = prop_oneof![
        2 => broken.prop_map(|(code, when)| Action::Status { code, when }),
        1 => prop::sample::select(vec![409, 429]).prop_map(|code| Action::Status { code, when: When::Before }),
        2 => when.prop_map(Action::Reset),
        2 => millis(20..600).prop_map(Action::Latency),
        1 => millis(0..500).prop_map(Action::CutWatch),
        1 => millis(0..500).prop_map(Action::FailWatch),
        1 => millis(50..1500).prop_map(Action::DelayWatch),
        1 => (1..40u64).prop_map(Action::StaleList),
    ];
    (action, 0.01..0.4).prop_map(|(action, rate)| Fault {
        rate,
        ..Fault::new(
            Matcher {
                agent: Some("hawser".to_owned()),
                ..Matcher::default()
            },
            action,
        )
    })
}

fn round() -> impl Strategy<Value = Round> {
    let blow = prop_oneof![
        2 => Just(Blow::Nothing),
        3 => Just(Blow::Kill),
        1 => Just(Blow::KillTwice),
        2 => millis(100..3000).prop_map(Blow::Suspend),
        2 => Just(Blow::Double),
    ];
    (
        prop::collection::vec(fault(), 0..4),
        prop::collection::vec(prop::collection::vec(deed(), DEEDS), TEAMS),
        prop::collection::vec(service(), DEEDS),
        blow,
        millis(0..1200),
    )
        .prop_map(|(faults, consumers, provider, blow, blow_after)| Round {
            faults,
            consumers,
            provider,
            blow,
            blow_after,
        })
}

fn drawn(seed: u64) -> Vec<Round> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), random);
    let rounds = prop::collection::vec(round(), ROUNDS).new_tree(&mut runner);
    rounds.expect("nothing is filtered").current()
}

/// What the last acknowledged deeds left, by workspace and number of the name.
#[derive(Default)]
struct Wanted {
    objects: BTreeMap<(usize, usize), Value>,
    /// Secrets of consumers,
    up: BTreeMap<(usize, usize), String>,
    /// and of the provider.
    down: BTreeMap<(usize, usize), String>,
}

struct Life<'w> {
    stage: Stage<'w>,
    teams: Vec<Team>,
    agent: tokio::sync::Mutex<Process>,
    wanted: Mutex<Wanted>,
    /// Foreign objects, by their places, with the versions that they had.
    foreign: Vec<(String, Value)>,
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

/// An answer that says that the object is not there, or is there already, is no failure of a deed.
fn done(answer: Result<Value, Refused>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(refused) if [404, 409].contains(&refused.code) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
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
                ServiceDeed::Status(value) => {
                    let status = json!({"status": {"seen": value}});
                    world
                        .service
                        .merge(&format!("{place}/status"), status)
                        .await
                }
                ServiceDeed::Annotate(value) => {
                    let own = json!({"metadata": {"annotations": {"example.com/note": value.to_string()}}});
                    world.service.merge(&place, own).await
                }
                ServiceDeed::DeleteCopy => world.service.delete(&place).await,
                ServiceDeed::Secret(_) => continue,
            };
            done(answer)?;
        }
        Ok(())
    }

    async fn strike(&self, blow: &Blow, after: Duration) -> Result<()> {
        let world = self.stage.world;
        sleep(after).await;
        match blow {
            Blow::Nothing => {}
            Blow::Kill => crash(world, &self.agent).await?,
            Blow::KillTwice => {
                crash(world, &self.agent).await?;
                sleep(after / 4).await;
                crash(world, &self.agent).await?;
            }
            Blow::Suspend(time) => {
                let agent = self.agent.lock().await;
                agent.signal(Signal::Stop)?;
                sleep(*time).await;
                agent.signal(Signal::Continue)?;
            }
            Blow::Double => {
                let second = world.start_agent()?;
                sleep(after).await;
                let mut agent = self.agent.lock().await;
                agent.kill().await?;
                *agent = second;
            }
        }
        Ok(())
    }

    async fn live(&self, round: &Round) -> Result<()> {
        let faults = self.stage.world.playground.faults();
        faults.clear();
        for fault in &round.faults {
            faults.add(fault.clone());
        }
        let consumers = round.consumers.iter().enumerate();
        let consumers = consumers.map(|(team, deeds)| self.consume(team, deeds));
        tokio::try_join!(
            try_join_all(consumers),
            self.provide(&round.provider),
            self.strike(&round.blow, round.blow_after),
        )?;
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
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bystander"}});
            let all = secrets().within(namespace);
            service.create(&all, &secret).await?;
            for at in [
                kind.at(namespace, "bystander"),
                secrets().at(namespace, "bystander"),
            ] {
                let version = service.get(&at).await?["metadata"]["resourceVersion"].clone();
                self.foreign.push((at, version));
            }
        }
        Ok(())
    }

    /// The Secrets of a namespace, with their contents.
    async fn held(&self, plane: &Plane, namespace: &str) -> Result<BTreeMap<String, String>> {
        let mut held = BTreeMap::new();
        for secret in plane.list(&secrets().within(namespace)).await? {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let value = STANDARD.decode(secret["data"]["k"].as_str().unwrap_or_default())?;
            held.insert(name.to_owned(), String::from_utf8(value)?);
        }
        held.remove("bystander");
        Ok(held)
    }

    /// Whether everything is as the contract says.
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
            for name in 0..NAMES {
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
        let name_of = |object: &Value| {
            object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
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
            ensure!(
                copy["spec"] == source["spec"],
                "the copy of {name} has {}",
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

    /// Whether nothing is written for objects in step any more.
    async fn check_rest(&self) -> Result<()> {
        let world = self.stage.world;
        let mark = world.requests().mark();
        world.await_still(&self.stage.kind, &self.teams[0]).await;
        let names: BTreeSet<String> = (0..NAMES).map(object_name).collect();
        let mut written = world.agents_requests(mark);
        written.retain(|one| one.is_write() && names.contains(&one.name));
        ensure!(written.is_empty(), "the agent writes on: {written:#?}");
        Ok(())
    }
}

async fn begun(world: &World) -> Result<Life<'_>> {
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
    let agent = std::mem::replace(&mut stage.agent, idle()?);
    let mut life = Life {
        stage,
        teams,
        agent: tokio::sync::Mutex::new(agent),
        wanted: Mutex::default(),
        foreign: Vec::new(),
    };
    life.make_foreign().await?;
    Ok(life)
}

async fn life(world: &World, seed: u64) -> Result<()> {
    let life = begun(world).await?;
    for round in drawn(seed) {
        life.live(&round)
            .await
            .with_context(|| format!("seed {seed}: {round:#?}"))?;
    }
    world.playground.faults().clear();
    let replay = || format!("seed {seed}: replay with ./hack/chaos --seed {seed}");
    let checked = within(DONE, async || {
        life.check().await.map_err(|error| format!("{error:#}"))
    });
    checked
        .await
        .map_err(|last| anyhow!(last))
        .with_context(replay)?;
    let rested = within(DONE, async || {
        life.check_rest()
            .await
            .map_err(|error| format!("{error:#}"))
    });
    rested
        .await
        .map_err(|last| anyhow!(last))
        .with_context(replay)
}

async fn live_by(seed: u64) {
    let ground = if seed.is_multiple_of(4) {
        Ground::Ours
    } else {
        Ground::Playground
    };
    world::run(ground, async |world| life(world, seed).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_everything_is_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_everything_is_in_step_on_a_real_server() {
    live_by(4).await;
}

/// One fresh seed, or what `hack/chaos` asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    let asked = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = asked("HAWSER_CHAOS_SEED") {
        return live_by(seed).await;
    }
    let minutes = asked("HAWSER_CHAOS_MINUTES").unwrap_or_default();
    let (begin, time) = (Instant::now(), Duration::from_mins(minutes));
    let mut seed = RandomState::new().hash_one("seed") >> 32;
    loop {
        told(&format!("chaos: seed {seed}"));
        live_by(seed).await;
        seed += 1;
        if begin.elapsed() >= time {
            break;
        }
    }
}

#[expect(
    clippy::print_stdout,
    reason = "who runs this for long wants to see how it goes on"
)]
fn told(line: &str) {
    println!("{line}");
}
