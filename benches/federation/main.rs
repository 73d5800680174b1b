//! The control plane of a federation beside the floor, between a real host and three real members.
//!
//!     ./hack/bench federate [--objects=N] [--many=N] [--no-floor]
//!
//! Each has clusters of its own. The load, the floor and the watchers that take the times are in this process.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "what a benchmark finds is for its terminal, and its counts are small"
)]

#[path = "../../tests/e2e/canary.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod canary;
mod floor;
mod load;
#[path = "../../tests/e2e/federation/place.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod place;
mod sightings;
#[path = "../../tests/e2e/federation/world.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod world;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use testbed::cluster::Controllers;
use tokio::time::Instant;

use load::{ControlPlane, Load, configure};
use sightings::{millis, print_times};
use world::World;

/// Single objects, and drifts, that are measured.
const SINGLE: usize = 40;
/// How long rest is looked at.
const REST: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let (mut objects, mut many, mut floor) = (200, 10_000, true);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=').unwrap_or((&arg, "")) {
            ("--bench", _) => {}
            ("--objects", count) => objects = count.parse()?,
            ("--many", count) => many = count.parse()?,
            ("--no-floor", _) => floor = false,
            _ => bail!("{arg} is none of --objects=N, --many=N and --no-floor"),
        }
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        if floor {
            let world = world().await?;
            let running = floor::run(&world).await?;
            println!("the floor");
            let load = Load::start(&world).await?;
            speed(&load, objects).await?;
            drop(running);
        }
        let world = world().await?;
        let control_plane = ControlPlane::start(&world)?;
        println!("the control plane");
        let load = Load::start(&world).await?;
        speed(&load, objects).await?;
        size(&load, &control_plane, many).await
    })
}

async fn world() -> Result<World> {
    let world = World::of(3, Controllers::None).await?;
    configure(&world).await?;
    Ok(world)
}

/// How long single objects, a burst and drifts take, on two members.
async fn speed(load: &Load, objects: usize) -> Result<()> {
    let two = &["cluster1", "cluster2"];
    load.create("first", two).await?;
    load.until(two, "first", "made").await?;
    let (mut news, mut drifts) = (Vec::new(), Vec::new());
    for number in 0..SINGLE {
        let name = format!("single-{number}");
        let begun = Instant::now();
        load.create(&name, two).await?;
        news.push(load.until(two, &name, "made").await? - begun);
        let begun = Instant::now();
        let drifted = load.drift(&name).await?;
        drifts.push(load.restored(&name, drifted).await? - begun);
    }
    print_times("a new object on 2 members", news);
    print_times("a drift reverted", drifts);
    let begun = Instant::now();
    load.create_many("burst", objects, two).await?;
    let made = begun.elapsed();
    for number in 0..objects {
        load.until(two, &format!("burst-{number}"), "made").await?;
    }
    println!(
        "  {:<28} {} ms, of which making them {} ms",
        format!("{objects} objects on 2 members"),
        millis(begun.elapsed()),
        millis(made)
    );
    Ok(())
}

/// What many objects on three members cost, and what rest does.
async fn size(load: &Load, control_plane: &ControlPlane, many: usize) -> Result<()> {
    let three = &["cluster1", "cluster2", "cluster3"];
    let begun = Instant::now();
    load.create_many("many", many, three).await?;
    for number in 0..many {
        load.until(three, &format!("many-{number}"), "made").await?;
    }
    let what = format!("{many} objects on 3 members");
    println!("  {what:<28} {} ms", millis(begun.elapsed()));
    control_plane.until_idle().await?;
    println!(
        "  {:<28} {:.0} MB",
        format!("memory with {many} objects"),
        control_plane.megabytes()?
    );
    let before = control_plane.requests().await?;
    tokio::time::sleep(REST).await;
    let after = control_plane.requests().await?;
    let sent = after.0.checked_sub(before.0).context("a counter fell")?;
    println!(
        "  {:<28} {sent}, of which writes {}; probes, watches that begin anew and the lock included",
        format!("requests in {} s of rest", REST.as_secs()),
        after.1 - before.1
    );
    Ok(())
}
