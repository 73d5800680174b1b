//! The hub and the members of a fleet beside the floor, on real servers.
//!
//!     ./hack/bench placement [--single=N] [--placements=N] [--no-floor]
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
mod fleet;
mod floor;
#[path = "../../tests/e2e/federation/place.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod place;
#[path = "../federation/sightings.rs"]
mod sightings;
#[path = "../../tests/e2e/federation/world.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod world;

use anyhow::{Result, bail};
use tokio::time::Instant;

use fleet::{Agents, Fleet};
use sightings::{millis, print_times};

/// `ConfigMap`s of each placement in the burst.
const EACH: usize = 10;

fn main() -> Result<()> {
    let (mut single, mut placements, mut floor) = (20, 20, true);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=').unwrap_or((&arg, "")) {
            ("--bench", _) => {}
            ("--single", count) => single = count.parse()?,
            ("--placements", count) => placements = count.parse()?,
            ("--no-floor", _) => floor = false,
            _ => bail!("{arg} is none of --single=N, --placements=N and --no-floor"),
        }
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        if floor {
            let fleet = Fleet::start().await?;
            let running = floor::run(&fleet)?;
            println!("the floor");
            singles(&fleet, single, false).await?;
            burst(&fleet, placements).await?;
            drop(running);
        }
        let fleet = Fleet::start().await?;
        let agents = Agents::start(&fleet).await?;
        println!("hub and members");
        singles(&fleet, single, true).await?;
        burst(&fleet, placements).await?;
        let [(hub, own), (member, of_member)] = agents.megabytes()?;
        println!(
            "  memory: hub {hub:.0} MB, a member {member:.0} MB; without the program {own:.0} and {of_member:.0} MB"
        );
        Ok(())
    })
}

/// How long single placements, updates and drifts take.
async fn singles(fleet: &Fleet, count: usize, has_status: bool) -> Result<()> {
    fleet.prepare("first", 1).await?;
    fleet.place("first").await?;
    fleet.until_there("first-0", "made").await?;
    let (mut news, mut applied, mut updates, mut drifts) = (vec![], vec![], vec![], vec![]);
    for number in 0..count {
        let name = format!("single-{number}");
        let map = format!("{name}-0");
        fleet.prepare(&name, 1).await?;
        let begun = Instant::now();
        fleet.place(&name).await?;
        news.push(fleet.until_there(&map, "made").await? - begun);
        if has_status {
            applied.push(fleet.until_said(&name, "Applied").await? - begun);
            // The roll-out of the update begins with everything in place.
            fleet.until_said(&name, "Available").await?;
        }
        let begun = Instant::now();
        let drifted = fleet.drift(&name, &map).await?;
        drifts.push(fleet.restored(&map, drifted).await? - begun);
        let begun = Instant::now();
        fleet.update(&name, &map).await?;
        updates.push(fleet.until_there(&map, "updated").await? - begun);
    }
    print_times("a ConfigMap on 2 members", news);
    if has_status {
        print_times("until it is said: Applied", applied);
    }
    print_times("an update on 2 members", updates);
    print_times("a drift reverted", drifts);
    Ok(())
}

/// How long many placements take that are made at once.
async fn burst(fleet: &Fleet, placements: usize) -> Result<()> {
    let names: Vec<String> = (0..placements).map(|one| format!("burst-{one}")).collect();
    for name in &names {
        fleet.prepare(name, EACH).await?;
    }
    let begun = Instant::now();
    futures::future::try_join_all(names.iter().map(|name| fleet.place(name))).await?;
    let mut last = begun;
    for name in &names {
        for number in 0..EACH {
            let map = format!("{name}-{number}");
            last = last.max(fleet.until_there(&map, "made").await?);
        }
    }
    let what = format!("{placements} placements x {EACH}");
    println!("  {what:<28} {} ms", millis(last - begun));
    Ok(())
}
