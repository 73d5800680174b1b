//! Chaos: users at work while requests fail and processes are killed, suspended and doubled. A seed decides what happens.
//! When the faults end, everything comes into step, and then nothing is written any more.
//!
//! Each dialect has a life: what its users do, and a check that has its own reading of the contract. It shares no code with
//! the product.

mod broken;
mod draw;

use std::collections::BTreeSet;
use std::env;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use kcp_playground::server::LoggedRequest;
use kcp_playground::{Playground, PlaygroundOptions};
use proptest::strategy::BoxedStrategy;
use serde_json::Value;
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::link::Weather;
use testbed::process::LIMITED;
use testbed::{Launch, Link, Process, ServiceCluster, Signal, within};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

pub(crate) use self::draw::millis;
use self::draw::{Blow, Outage, Round, drawn};
use crate::agent::plane::{Plane, Refused};
use crate::canary::is_told;
use crate::federation::place::Place;

/// The time in which everything comes into step once the faults have ended.
const DONE: Duration = Duration::from_mins(3);
/// Longer than the locks of federation and fleet hold in a life.
pub(crate) const LOST: Duration = Duration::from_millis(4500);
/// The memory of a process that has little of it, in MiB.
const LITTLE: usize = 64;
/// So long a process has little memory.
const SQUEEZED: Duration = Duration::from_secs(3);
/// The message of a panic where a process is refused a thread.
const NO_THREAD: &str = "OS can't spawn worker thread";
/// So often, processes that ended are started again, as by a kubelet.
const RESTARTED: Duration = Duration::from_secs(1);
/// The round after which the faults end once for everything to come into step.
const MIDDLE: usize = 2;
/// The time without a write that is a rest.
const STILL: Duration = Duration::from_secs(3);

/// The program under test. `hack/chaos --broken` puts another one in its place.
pub(crate) fn hawser() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_hawser").into();
    env::var_os("HAWSER_CHAOS_PROGRAM").map_or_else(built, PathBuf::from)
}

/// The life of one dialect.
pub(crate) trait Life {
    /// The name for `hack/chaos --dialect`.
    const DIALECT: &'static str;
    /// A part of the user agent of the processes.
    const AGENT: &'static str;
    /// How many servers can have faults.
    const SERVERS: usize;
    const PROCESSES: usize;

    /// What users do in a round.
    type Deeds: Clone + Debug;

    fn deeds() -> BoxedStrategy<Self::Deeds>;

    /// The servers by their numbers, if they are places.
    fn places(&self) -> Vec<&Place> {
        Vec::new()
    }
    fn places_mut(&mut self) -> Vec<&mut Place> {
        Vec::new()
    }
    /// The servers that have faults; none if they are real.
    fn servers(&self) -> Vec<&Playground> {
        let places = self.places().into_iter();
        places.filter_map(|place| place.playground().ok()).collect()
    }
    /// Between the processes and real servers, by the numbers of these.
    fn links(&self) -> Vec<&Link> {
        self.places().into_iter().filter_map(Place::link).collect()
    }
    /// The real servers, by their numbers.
    fn clusters(&mut self) -> Vec<&mut ServiceCluster> {
        let places = self.places_mut().into_iter();
        places.filter_map(|place| place.servers().ok()).collect()
    }
    fn processes(&self) -> &[Mutex<Process>];
    /// A process that is about to be started.
    fn launch(&self, process: usize) -> Result<Launch>;
    fn start(&self, process: usize) -> Result<Process> {
        self.launch(process)?.spawn()
    }
    /// The time after which a suspended process has lost its lock, if it has one. It ends then, and is started again, as by
    /// a kubelet.
    fn lost(&self) -> Option<Duration> {
        None
    }
    /// What is to be done after a kill, so that the next process does not wait for the lock of this one.
    async fn release(&self, _process: usize) -> Result<()> {
        Ok(())
    }
    /// The directory of the logs.
    fn logs(&self) -> &Path;

    async fn live(&self, deeds: &Self::Deeds) -> Result<()>;
    /// Whether everything is as the contract says.
    async fn check(&self) -> Result<()>;
    /// Whether nothing is written for objects in step any more.
    async fn rest(&self) -> Result<()>;
    /// Users delete everything. Then `check` finds nothing more.
    async fn end(&self) -> Result<()>;
}

/// An answer that says that the object is not there, or is there already, is no failure of a deed.
pub(crate) fn done(answer: Result<Value, Refused>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(refused) if [404, 409].contains(&refused.code) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

pub(crate) fn name_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// A document without its nulls, as a merge patch leaves it.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| (name.clone(), without_nulls(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The servers of a seed forget their history soon, or not.
pub(crate) fn server_options(seed: u64) -> PlaygroundOptions {
    let mut options = PlaygroundOptions::default();
    if !seed.is_multiple_of(2) {
        options.retention.changes = 80;
    }
    options
}

/// A server of a seed: a real one for each fourth seed.
pub(crate) async fn place(seed: u64, controllers: Controllers) -> Result<Place> {
    if seed.is_multiple_of(4) {
        return Place::real(controllers).await?.linked().await;
    }
    Place::played_with(server_options(seed)).await
}

/// Plain requests to a server, by which tests see each refusal.
pub(crate) async fn plane(place: &Place) -> Result<Plane> {
    let mut config = place.config().await?;
    config.default_retry = false;
    Ok(Plane::new(kube::Client::try_from(config)?))
}

/// Begins a life and lives it by a seed.
pub(crate) async fn run<L: Life>(begun: impl Future<Output = Result<L>>, seed: u64) {
    let lived = async { live(&mut begun.await?, seed).await };
    if let Err(error) = lived.await {
        panic!("{error:?}");
    }
}

/// Lives by a seed; on a failure, the logs are kept.
pub(crate) async fn live<L: Life>(life: &mut L, seed: u64) -> Result<()> {
    let lived = lived(life, seed).await;
    if lived.is_err() {
        keep_logs(life, seed)?;
    }
    let dialect = L::DIALECT;
    lived.with_context(|| format!("seed {seed}: replay with ./hack/chaos --dialect {dialect} --seed {seed}; logs are in target/chaos-logs/{dialect}-{seed}"))
}

async fn lived<L: Life>(life: &mut L, seed: u64) -> Result<()> {
    for (number, round) in drawn::<L>(seed).iter().enumerate() {
        let lived = live_round(life, round).await;
        lived.with_context(|| format!("round {number}: {round:#?}"))?;
        // What the processes have begun goes on while servers end: users see no refusal.
        if let Some((number, component)) = round.crash
            && let Some(cluster) = life.clusters().get_mut(number)
        {
            cluster.kill(component).await?;
            cluster.restart(component).await?;
        }
        // The rounds are short for processes that have to start: what follows finds everything in its place.
        if number == MIDDLE {
            in_step(life).await?;
        }
    }
    in_step(life).await?;
    settle(&*life, "nothing written any more", L::rest).await?;
    life.end().await?;
    settle(&*life, "nothing left", L::check).await?;
    check_logs(life.logs())
}

async fn in_step<L: Life>(life: &L) -> Result<()> {
    for server in life.servers() {
        server.faults().clear();
    }
    settle(life, "everything in step", L::check).await
}

async fn live_round<L: Life>(life: &L, round: &Round<L::Deeds>) -> Result<()> {
    let servers = life.servers();
    for server in &servers {
        server.faults().clear();
    }
    for (number, fault) in &round.faults {
        if let Some(server) = servers.get(*number) {
            server.faults().add(fault.clone());
        }
    }
    let blows = round.blows.iter();
    let blows = blows.map(|(process, blow, after)| strike(life, *process, blow, *after));
    let links = life.links();
    let outages = round.outages.iter().filter_map(|(number, outage)| {
        let link = links.get(*number)?;
        Some(strike_link(link, outage))
    });
    let live = async {
        let (live, blows) = (life.live(&round.deeds), try_join_all(blows));
        tokio::try_join!(live, blows, try_join_all(outages)).map(drop)
    };
    // Deeds may wait for what a process does that has ended.
    let restart = async {
        loop {
            sleep(RESTARTED).await;
            if let Err(error) = restart_ended(life).await {
                return error;
            }
        }
    };
    tokio::select! {
        lived = live => lived?,
        error = restart => return Err(error),
    }
    restart_ended(life).await
}

/// Starts the processes that ended because they lost their lock.
async fn restart_ended<L: Life>(life: &L) -> Result<()> {
    for (number, process) in life.processes().iter().enumerate() {
        let mut process = process.lock().await;
        if let Some(exit) = process.exit() {
            let tail = process.log_tail(20);
            let is_code = matches!(exit.reason, testbed::process::Reason::Code(_));
            let may_end = life.lost().is_some() && is_code || is_squeezed(&process);
            ensure!(may_end, "a process ended by {exit}:\n{tail}");
            *process = life.start(number)?;
        }
    }
    Ok(())
}

async fn settle<'l, L: Life>(
    life: &'l L,
    what: &str,
    check: impl AsyncFn(&'l L) -> Result<()>,
) -> Result<()> {
    let settled = within(DONE, async || {
        let checked = async {
            restart_ended(life).await?;
            check(life).await
        };
        checked.await.map_err(|error| format!("{error:#}"))
    });
    settled
        .await
        .map_err(|last| anyhow!("not within {DONE:?}: {what}; last seen: {last}"))
}

/// Kills a process and starts the next one, which may have a hardship.
async fn restart<L: Life>(
    life: &L,
    number: usize,
    hardship: impl FnOnce(Launch) -> Launch,
) -> Result<()> {
    let mut process = life.processes()[number].lock().await;
    process.kill().await?;
    life.release(number).await?;
    *process = hardship(life.launch(number)?).spawn()?;
    Ok(())
}

/// Whether a process has little memory. It may end at any time.
fn is_squeezed(process: &Process) -> bool {
    process.log().contains(LIMITED)
}

async fn strike<L: Life>(life: &L, number: usize, blow: &Blow, after: Duration) -> Result<()> {
    let process = &life.processes()[number];
    let crash = async || restart(life, number, |launch| launch).await;
    sleep(after).await;
    // Nothing tells a process without a lock that another one works by now.
    let lost = life.lost();
    let blow = match blow {
        Blow::Usurp if lost.is_none() => &Blow::Double,
        other => other,
    };
    match blow {
        Blow::Kill => crash().await?,
        Blow::KillTwice => {
            crash().await?;
            sleep(after / 4).await;
            crash().await?;
        }
        Blow::Squeeze => {
            restart(life, number, |launch| launch.with_memory(LITTLE)).await?;
            // One that is refused a thread may hang.
            sleep(SQUEEZED).await;
            crash().await?;
        }
        Blow::FillDisk => restart(life, number, |launch| launch.log("/dev/full")).await?,
        Blow::Suspend(time) => {
            let process = process.lock().await;
            process.signal(Signal::Stop)?;
            sleep(*time).await;
            process.signal(Signal::Continue)?;
        }
        Blow::Double => {
            let second = life.start(number)?;
            sleep(after).await;
            let mut process = process.lock().await;
            process.kill().await?;
            life.release(number).await?;
            *process = second;
        }
        Blow::Usurp => {
            let mut process = process.lock().await;
            process.signal(Signal::Stop)?;
            let second = life.start(number)?;
            sleep(lost.unwrap_or_default()).await;
            process.signal(Signal::Continue)?;
            sleep(after).await;
            process.kill().await?;
            *process = second;
        }
    }
    Ok(())
}

/// Has a link fail: cut, deaf in a way, or away for a while.
async fn strike_link(link: &Link, outage: &Outage) -> Result<()> {
    sleep(outage.after).await;
    link.set(outage.weather).await?;
    if !matches!(outage.weather, Weather::Deaf(_)) {
        link.cut();
    }
    sleep(outage.time).await;
    link.set(Weather::Clear).await
}

/// No log tells what an object contains, and no process panicked.
fn check_logs(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let log = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let is_squeezed = log.contains(LIMITED);
        let next = log.lines().skip(1).chain([""]);
        let bad = |(line, next): &(&str, &str)| {
            let is_refused = is_squeezed && next.contains(NO_THREAD);
            is_told(line) || line.contains("panicked at") && !is_refused
        };
        let bad: Vec<_> = log.lines().zip(next).filter(bad).take(5).collect();
        ensure!(bad.is_empty(), "{}: {bad:#?}", path.display());
    }
    Ok(())
}

fn keep_logs<L: Life>(life: &L, seed: u64) -> Result<()> {
    let name = format!("target/chaos-logs/{}-{seed}", L::DIALECT);
    let directory = repository().join(name);
    fs::create_dir_all(&directory)?;
    for entry in fs::read_dir(life.logs())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), directory.join(entry.file_name()))?;
        }
    }
    for (number, server) in life.servers().into_iter().enumerate() {
        let mut text = String::new();
        for request in server.requests().since(0) {
            writeln!(text, "{request:?}")?;
        }
        fs::write(directory.join(format!("requests-{number}.txt")), text)?;
    }
    Ok(())
}

/// Whether nothing more is written in a while. What was written is told apart by its text.
pub(crate) async fn still(written: impl AsyncFn() -> Result<BTreeSet<String>>) -> Result<()> {
    let before = written().await?;
    sleep(STILL).await;
    let after = written().await?;
    let new: Vec<&String> = after.difference(&before).collect();
    ensure!(new.is_empty(), "written without a reason: {new:#?}");
    Ok(())
}

/// Whether objects of others have the versions that they had; each is in the member with its number.
pub(crate) async fn check_foreign(
    members: &[Plane],
    foreign: &[(usize, String, Value)],
) -> Result<()> {
    for (number, at, version) in foreign {
        let now = members[*number].get(at).await?;
        ensure!(
            now["metadata"]["resourceVersion"] == *version,
            "{at} in member {number} was changed"
        );
    }
    Ok(())
}

/// The objects of a collection with their versions, one a line.
pub(crate) async fn versions(plane: &Plane, all: &str) -> Result<BTreeSet<String>> {
    let line = |object: &Value| {
        let metadata = &object["metadata"];
        let [namespace, name, version] =
            ["namespace", "name", "resourceVersion"].map(|field| metadata[field].to_string());
        format!("{all} {namespace} {name} {version}")
    };
    Ok(plane.list(all).await?.iter().map(line).collect())
}

/// The writes of the processes on servers that have faults, without those that go on for ever.
pub(crate) fn writes<L: Life>(
    life: &L,
    goes_on: impl Fn(&LoggedRequest) -> bool,
) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (number, server) in life.servers().into_iter().enumerate() {
        let all = server.requests().since(0).into_iter().filter(|request| {
            request.user_agent.contains(L::AGENT)
                && !["get", "list", "watch"].contains(&&*request.verb)
                && !goes_on(request)
        });
        lines.extend(all.map(|request| format!("server {number}: {request:?}")));
    }
    lines
}

/// One fresh seed, or what `hack/chaos` asks for.
pub(crate) async fn fresh(dialect: &str, live: impl AsyncFn(u64)) {
    let asked = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = asked("HAWSER_CHAOS_SEED") {
        return live(seed).await;
    }
    let minutes = asked("HAWSER_CHAOS_MINUTES").unwrap_or_default();
    let (begin, time) = (Instant::now(), Duration::from_mins(minutes));
    let mut seed = RandomState::new().hash_one("seed") >> 32;
    loop {
        told(&format!("chaos: {dialect}, seed {seed}"));
        live(seed).await;
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
