//! The mirror beside the floor, between two real clusters: docs/mirror.md says what it found.
//!
//!     cargo bench --profile ci --bench mirror -- [--many=N] [--no-floor]
//!
//! Each has clusters of its own. The load, the floor and the watchers that take the times are in this process.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "what a benchmark finds is for its terminal, and its counts are small"
)]

mod floor;
mod world;

use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tokio::time::Instant;

use world::{Objects, Sightings, World, millis};

const BURST: usize = 150;
const CHANGES: u64 = 40;
/// How long rest is looked at.
const REST: Duration = Duration::from_secs(20);
const WRITERS: usize = 32;

fn main() -> Result<()> {
    let (mut many, mut floor) = (10_000, true);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=').unwrap_or((&arg, "")) {
            ("--bench", _) => {}
            ("--many", count) => many = count.parse()?,
            ("--no-floor", _) => floor = false,
            _ => bail!("{arg} is neither --many=N nor --no-floor"),
        }
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        if floor {
            let world = World::start().await?;
            let running = floor::run(&world);
            println!("the floor");
            speed(&world).await?;
            drop(running);
        }
        let world = World::start().await?;
        let mirror = world.mirror()?;
        println!("the mirror");
        speed(&world).await?;
        let mirror = size(&world, mirror, many).await?;
        mirror.stop().await
    })
}

async fn create(objects: &Objects, prefix: &str, count: usize) -> Result<()> {
    let names = (0..count).map(|n| format!("{prefix}{n}"));
    let made = futures::stream::iter(names.map(|name| async move { objects.create(&name).await }));
    made.buffer_unordered(WRITERS).try_collect().await
}

/// How long bursts and single changes take.
async fn speed(world: &World) -> Result<()> {
    let on_robot = Sightings::start(&world.robot, "spec");
    let in_cloud = Sightings::start(&world.cloud, "status");
    world.cloud.create("first").await?;
    on_robot.until("first", 0).await?;
    let begun = Instant::now();
    create(&world.cloud, "burst-", BURST).await?;
    let made = begun.elapsed();
    for n in 0..BURST {
        on_robot.until(&format!("burst-{n}"), 0).await?;
    }
    println!(
        "  {BURST} new objects on the robot   {} ms, of which making them {} ms",
        millis(begun.elapsed()),
        millis(made)
    );
    let (mut specs, mut statuses) = (Vec::new(), Vec::new());
    for count in 1..=CHANGES {
        let begun = Instant::now();
        world
            .cloud
            .patch("first", "", &json!({"spec": {"count": count}}))
            .await?;
        specs.push(on_robot.until("first", count).await? - begun);
        let begun = Instant::now();
        let status = json!({"status": {"count": count}});
        world.robot.patch("first", "status", &status).await?;
        statuses.push(in_cloud.until("first", count).await? - begun);
    }
    for (what, mut times) in [
        ("a spec to the robot  ", specs),
        ("a status to the cloud", statuses),
    ] {
        times.sort();
        let at = |part: usize| millis(times[(times.len() - 1) * part / 100]);
        println!(
            "  {what}         p50 {} ms, p90 {} ms, most {} ms",
            at(50),
            at(90),
            at(100)
        );
    }
    Ok(())
}

/// What many objects cost, and what rest and a restart do.
async fn size(world: &World, mirror: world::Mirror, many: usize) -> Result<world::Mirror> {
    let begun = Instant::now();
    create(&world.cloud, "many-", many).await?;
    world.until_copies(many + BURST + 1).await?;
    println!(
        "  {many} objects in step             {} ms",
        millis(begun.elapsed())
    );
    println!(
        "  memory with them                {:.0} MB",
        mirror.megabytes()?
    );
    let before = mirror.requests().await?;
    tokio::time::sleep(REST).await;
    let sent = mirror.requests().await? - before;
    println!(
        "  requests in {} s of rest        {sent}, watches that begin anew included",
        REST.as_secs()
    );
    mirror.stop().await?;
    let begun = Instant::now();
    let mirror = world.mirror()?;
    world
        .cloud
        .patch("first", "", &json!({"spec": {"count": 1_000_000}}))
        .await?;
    let on_robot = Sightings::start(&world.robot, "spec");
    on_robot.until("first", 1_000_000).await?;
    println!(
        "  a change at a restart           {} ms",
        millis(begun.elapsed())
    );
    tokio::time::sleep(REST).await;
    println!(
        "  writes after the restart        {}, of which that change is one",
        mirror.writes().await?
    );
    println!(
        "  memory after it                 {:.0} MB",
        mirror.megabytes()?
    );
    Ok(mirror)
}
