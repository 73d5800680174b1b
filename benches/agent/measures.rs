//! What is measured, one thing after the other, in one world.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use testbed::{Process, eventually};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::plane::{Plane, gadget, within};
use super::report::Report;
use super::sightings::{Field, Sightings};
use super::world::{Contender, Team, World};

pub(crate) const DEADLINE: Duration = Duration::from_mins(10);
/// Requests of the load generator that are under way at the same time.
const CLIENTS: usize = 32;
const SAMPLES: u64 = 200;
/// Objects that are changed while a tenant's burst runs, each so often.
const CHANGED: usize = 20;
const EVERY: Duration = Duration::from_millis(50);

/// Sizes, all of them smaller in a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) objects: usize,
    pub(crate) many: usize,
    pub(crate) teams: usize,
}

pub(crate) fn names(what: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{what}-{number}"))
        .collect()
}

/// Makes objects, in the teams by turns.
async fn make(teams: &[Team], names: &[String]) -> Result<()> {
    let creates = names.iter().zip(teams.iter().cycle());
    stream::iter(creates)
        .map(async |(name, team)| {
            team.plane
                .create(&within("default"), &gadget(name))
                .await
                .map(drop)
        })
        .buffer_unordered(CLIENTS)
        .try_collect()
        .await
}

/// Makes objects, and waits until they have copies; the time that this took.
pub(crate) async fn make_all(
    teams: &[Team],
    copies: &Sightings,
    names: &[String],
) -> Result<Duration> {
    let begin = Instant::now();
    make(teams, names).await?;
    let last = copies.await_last(names, 0, DEADLINE).await?;
    Ok(last.duration_since(begin))
}

/// Makes objects in all teams, starts a contender, and waits until it has made all copies; the time that this took.
pub(crate) async fn start_with(
    world: &World,
    contender: &Contender,
    copies: &Sightings,
    names: &[String],
) -> Result<(Process, Duration)> {
    make(&world.teams, names).await?;
    let begin = Instant::now();
    let process = world.start(contender)?;
    let last = copies.await_last(names, 0, DEADLINE).await?;
    let took = last.duration_since(begin);
    settle(&process).await?;
    Ok((process, took))
}

async fn set(plane: &Plane, namespace: &str, name: &str, part: &str, count: u64) -> Result<()> {
    let suffix = if part == "status" { "/status" } else { "" };
    let path = format!("{}/{name}{suffix}", within(namespace));
    plane
        .patch(&path, &json!({ part: { "count": count } }))
        .await
        .map(drop)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = bytes as f64;
    bytes / 1e6
}

/// The time that a process ran so far, user and system.
pub(crate) fn processor(process: &Process) -> Result<f64> {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid()))?;
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_A_SECOND)
}

pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count / took.as_secs_f64()
}

/// Speed and latency, in a world with one team more than objects are spread over.
pub(crate) async fn speed(
    world: &World,
    contender: &Contender,
    sizes: Sizes,
    report: &mut Report,
) -> Result<()> {
    let copies = Sightings::start(&world.service, Field::SpecOfCopies).await?;
    let (one, many) = world.teams.split_first().context("no team")?;
    let one = std::slice::from_ref(one);
    let awaited = async |names: &[String]| copies.await_last(names, 0, DEADLINE).await;

    let there = names("there", sizes.objects);
    make(one, &there).await?;
    let begin = Instant::now();
    let process = world.start(contender)?;
    let took = awaited(&there).await?.duration_since(begin);
    report.add("start, 1 workspace [objects/s]", rate(there.len(), took));
    report.add(
        "  of the process: processor [ms/object]",
        processor(&process)? * 1000.0 / sizes.objects as f64,
    );
    settle(&process).await?;

    for (what, title, teams) in [
        ("live", "running, 1 workspace [objects/s]", one),
        ("spread", "running, 100 workspaces [objects/s]", many),
    ] {
        let made = names(what, sizes.objects);
        let before = processor(&process)?;
        let took = make_all(teams, &copies, &made).await?;
        report.add(title, rate(made.len(), took));
        settle(&process).await?;
        report.add(
            "  of the process: processor [ms/object]",
            (processor(&process)? - before) * 1000.0 / sizes.objects as f64,
        );
    }
    process.stop(DEADLINE).await?;
    let again = names("again", sizes.objects);
    make(many, &again).await?;
    let begin = Instant::now();
    let process = world.start(contender)?;
    let took = awaited(&again).await?.duration_since(begin);
    report.add("start, 100 workspaces [objects/s]", rate(again.len(), took));
    settle(&process).await?;

    idle(world, many, &copies, report).await?;
    burst(world, &copies, sizes, report).await?;
    process.stop(DEADLINE).await?;
    Ok(())
}

/// Waits until a process rests.
pub(crate) async fn settle(process: &Process) -> Result<()> {
    let mut before = -1.0;
    eventually(DEADLINE, "the process rests", async || -> Result<()> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = processor(process)?;
        let rests = now - before < 0.015;
        before = now;
        anyhow::ensure!(rests, "it works");
        Ok(())
    })
    .await;
    Ok(())
}

async fn idle(world: &World, many: &[Team], copies: &Sightings, report: &mut Report) -> Result<()> {
    let team = many.first().context("no team")?;
    let statuses = Sightings::start(&world.watched(team).await?, Field::Status).await?;
    let name = "spread-0";
    let found = world
        .service
        .get(&format!("{}?limit=500", within(&team.cluster)))
        .await?;
    let copy = found["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|copy| {
            copy["metadata"]["annotations"]["syncagent.kcp.io/remote-object-name"] == name
        });
    let copy = copy
        .and_then(|copy| copy["metadata"]["name"].as_str())
        .context("there is no copy")?;
    let (mut spec, mut status) = (Vec::new(), Vec::new());
    for count in 1..=SAMPLES {
        let begin = Instant::now();
        set(&team.plane, "default", name, "spec", count).await?;
        let seen = copies.await_one(name, count).await?;
        spec.push(milliseconds(seen.saturating_duration_since(begin)));

        let begin = Instant::now();
        set(&world.service, &team.cluster, copy, "status", count).await?;
        let seen = statuses.await_one(name, count).await?;
        status.push(milliseconds(seen.saturating_duration_since(begin)));
    }
    report.add_all("idle, spec to copy", &mut spec);
    report.add_all("idle, status to workspace", &mut status);
    Ok(())
}

/// Others change their objects while one tenant makes many.
async fn burst(world: &World, copies: &Sightings, sizes: Sizes, report: &mut Report) -> Result<()> {
    let (one, others) = world.teams.split_first().context("no team")?;
    let made = names("burst", sizes.objects);
    let done = tokio_util::sync::CancellationToken::new();
    let changing = async {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut changes = Vec::new();
        for number in 0_usize.. {
            tokio::select! {
                _ = ticks.tick() => {}
                () = done.cancelled() => break,
            }
            // Never the first one, which was changed before.
            let which = 1 + number % CHANGED.min(others.len() - 1);
            let (plane, name) = (others[which].plane.clone(), format!("spread-{which}"));
            let count = 1000 + number as u64;
            let begin = Instant::now();
            let changed = tokio::spawn({
                let name = name.clone();
                async move { set(&plane, "default", &name, "spec", count).await }
            });
            changes.push((name, count, begin, changed));
        }
        let mut took = Vec::new();
        for (name, count, begin, changed) in changes {
            changed.await??;
            // One that was overtaken by the next change of the object counts with that.
            let mut seen = copies.of(&name, count);
            let end = Instant::now() + DEADLINE;
            while seen.is_none() && Instant::now() < end {
                seen = (count..count + 4000)
                    .step_by(CHANGED.min(others.len() - 1))
                    .find_map(|later| copies.of(&name, later));
                if seen.is_none() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            let seen = seen.context("a change was not seen")?;
            took.push(milliseconds(seen.saturating_duration_since(begin)));
        }
        anyhow::Ok(took)
    };
    let running = async {
        let took = make_all(std::slice::from_ref(one), copies, &made).await;
        done.cancel();
        took
    };
    let (mut took, burst) = futures::try_join!(changing, running)?;
    report.add("burst of one tenant [objects/s]", rate(made.len(), burst));
    report.add_all("another tenant's change meanwhile", &mut took);
    Ok(())
}

/// Memory with many objects, and a restart with all of them in step.
pub(crate) async fn size(
    world: &World,
    contender: &Contender,
    sizes: Sizes,
    report: &mut Report,
) -> Result<()> {
    let copies = Sightings::start(&world.service, Field::SpecOfCopies).await?;
    let all = names("item", sizes.many);
    let (process, took) = start_with(world, contender, &copies, &all).await?;
    report.add(
        "10,000 objects at the start [objects/s]",
        rate(all.len(), took),
    );
    let memory = process.memory()?;
    report.add(
        "memory with them, after their start [MB]",
        megabytes(memory.rss_bytes),
    );
    report.add("  its peak [MB]", megabytes(memory.peak_rss_bytes));
    let before = processor(&process)?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    report.add(
        "  idle: processor [% of one core]",
        (processor(&process)? - before) * 5.0,
    );
    process.stop(DEADLINE).await?;

    let mark = world.playground.requests().mark();
    let asked = world.service_requests().await?;
    let (plane, name) = (&world.teams[0].plane, &all[0]);
    let begin = Instant::now();
    let process = world.start(contender)?;
    set(plane, "default", name, "spec", 1).await?;
    let seen = copies.await_one(name, 1).await?;
    report.add(
        "restart: a change at its begin [ms]",
        milliseconds(seen.duration_since(begin)),
    );
    let rested = rested(&process).await?;
    report.add(
        "restart: until nothing is left to do [s]",
        rested.duration_since(begin).as_secs_f64(),
    );
    report.add("  processor [s]", processor(&process)?);
    let (calls, watches) = world.playground_requests(mark);
    let asked = world.service_requests().await?.saturating_sub(asked);
    report.add("  requests to kcp, watches apart", calls as f64);
    report.add("  watches of kcp", watches as f64);
    report.add("  requests to the service cluster", asked as f64);
    let memory = process.memory()?;
    report.add("memory after the restart [MB]", megabytes(memory.rss_bytes));
    report.add("  its peak [MB]", megabytes(memory.peak_rss_bytes));
    process.stop(DEADLINE).await?;
    match contender {
        Contender::Agent(_) => failover(world, contender, &copies, name, report).await,
        Contender::Floor => Ok(()),
    }
}

/// A standby takes over: its leader is stopped, and the next one killed.
async fn failover(
    world: &World,
    contender: &Contender,
    copies: &Sightings,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let plane = &world.teams[0].plane;
    let mut leader = world.candidate(contender, "first")?;
    rested(&leader).await?;
    for (value, successor, is_killed) in [(2, "second", false), (3, "third", true)] {
        let standby = world.candidate(contender, successor)?;
        rested(&standby).await?;
        let begin = Instant::now();
        let end = async {
            if is_killed {
                leader.kill().await
            } else {
                leader.stop(DEADLINE).await
            }
        };
        let change = async {
            set(plane, "default", name, "spec", value).await?;
            copies.await_one(name, value).await
        };
        let (_, seen) = futures::try_join!(end, change)?;
        let lost = if is_killed { "is killed" } else { "stops" };
        report.add(
            &format!("a change when the leader {lost}, with a standby [s]"),
            seen.duration_since(begin).as_secs_f64(),
        );
        leader = standby;
    }
    leader.stop(DEADLINE).await?;
    Ok(())
}

/// The time at which a process came to rest: from then on it took no processor for a while.
pub(crate) async fn rested(process: &Process) -> Result<Instant> {
    const QUIET: Duration = Duration::from_millis(1500);
    let (mut before, mut since) = (processor(process)?, Instant::now());
    let end = since + DEADLINE;
    while since.elapsed() < QUIET {
        anyhow::ensure!(Instant::now() < end, "it never rests");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = processor(process)?;
        // One tick of the clock is what beating takes.
        if now - before > 0.015 {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(since)
}
