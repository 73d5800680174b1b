//! How an agent grows: with its objects, with its workspaces, and with its replicas.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use testbed::{Process, eventually};
use tokio::time::Instant;

use super::measures::{
    DEADLINE, Sizes, make_all, megabytes, names, processor, rate, rested, settle, start_with,
};
use super::plane::NAMESPACE;
use super::report::Report;
use super::sightings::{Field, Sightings};
use super::world::{Contender, Service, World};

const SHARDS: usize = 12;

/// More and more objects in the same workspaces.
pub(crate) async fn objects(
    world: &World,
    contender: &Contender,
    steps: &[usize],
    report: &mut Report,
) -> Result<()> {
    let copies = Sightings::start(&world.service, Field::SpecOfCopies).await?;
    let mut all = 0;
    for &step in steps {
        let made = names("grown", step).split_off(all);
        let (process, took) = start_with(world, contender, &copies, &made).await?;
        report.point(
            "new objects [objects/s]",
            "objects",
            step,
            rate(step - all, took),
        );
        let memory = megabytes(process.memory()?.rss_bytes);
        report.point("memory [MB]", "objects", step, memory);
        process.stop(DEADLINE).await?;
        let begin = Instant::now();
        let process = world.start(contender)?;
        let took = rested(&process).await?.duration_since(begin);
        report.point("restart [s]", "objects", step, took.as_secs_f64());
        let memory = megabytes(process.memory()?.rss_bytes);
        report.point("memory after the restart [MB]", "objects", step, memory);
        process.stop(DEADLINE).await?;
        all = step;
    }
    Ok(())
}

/// As many objects in more and more workspaces, each time with control planes of their own; at least one object in each.
pub(crate) async fn workspaces(
    service: Service,
    contender: &Contender,
    setup: &Contender,
    steps: &[usize],
    objects: usize,
    report: &mut Report,
) -> Result<()> {
    for &step in steps {
        let world = World::make(service, setup, step).await?;
        let copies = Sightings::start(&world.service, Field::SpecOfCopies).await?;
        let made = names("grown", objects);
        let (process, took) = start_with(&world, contender, &copies, &made).await?;
        report.point(
            "new objects [objects/s]",
            "workspaces",
            step,
            rate(objects, took),
        );
        let memory = megabytes(process.memory()?.rss_bytes);
        report.point("memory [MB]", "workspaces", step, memory);
        process.stop(DEADLINE).await?;
        world.end().await;
    }
    Ok(())
}

/// One, two and four replicas that share the workspaces of many objects, and the loss of one.
pub(crate) async fn replicas(
    world: &World,
    contender: &Contender,
    sizes: Sizes,
    report: &mut Report,
) -> Result<()> {
    let copies = Sightings::start(&world.service, Field::SpecOfCopies).await?;
    let all = names("item", sizes.many);
    let (process, _) = start_with(world, contender, &copies, &all).await?;
    process.stop(DEADLINE).await?;
    for count in [1, 2, 4] {
        let start = |number| world.replica(contender, number, SHARDS);
        let mut processes: Vec<Process> = (0..count).map(start).collect::<Result<_>>()?;
        spread(world, count).await;
        for process in &processes {
            settle(process).await?;
        }
        let memory: Vec<u64> = processes
            .iter()
            .map(|it| Ok(it.memory()?.rss_bytes))
            .collect::<Result<_>>()?;
        let most = memory.into_iter().max().context("no replica")?;
        report.point(
            "memory of one replica [MB]",
            "replicas",
            count,
            megabytes(most),
        );
        let cost = |processes: &[Process]| processes.iter().map(processor).sum::<Result<f64>>();
        let before = cost(&processes)?;
        let made = names(&format!("shared-{count}"), sizes.objects);
        let took = make_all(&world.teams, &copies, &made).await?;
        report.point(
            "new objects [objects/s]",
            "replicas",
            count,
            rate(made.len(), took),
        );
        for process in &processes {
            settle(process).await?;
        }
        let took = (cost(&processes)? - before) * 1000.0 / sizes.objects as f64;
        report.point(
            "processor of all replicas [ms/object]",
            "replicas",
            count,
            took,
        );
        if count > 1 {
            let lost = processes.pop().context("no replica")?;
            lost.kill().await?;
            let made = names(&format!("lost-{count}"), sizes.objects);
            let took = make_all(&world.teams, &copies, &made).await?;
            report.point(
                "until the last new object after a replica is killed [s]",
                "replicas",
                count,
                took.as_secs_f64(),
            );
        }
        for process in processes {
            process.stop(DEADLINE).await?;
        }
    }
    Ok(())
}

/// Waits until so many replicas have all shards, each its part.
async fn spread(world: &World, count: usize) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    eventually(DEADLINE, "the shards are spread", async || -> Result<()> {
        let found = world.service.get(&path).await?;
        let leases = found["items"].as_array().context("no list")?;
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for lease in leases {
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            if name.contains(".shard-") && !holder.is_empty() {
                *held.entry(holder).or_default() += 1;
            }
        }
        ensure!(
            held.len() == count && held.values().all(|it| *it == SHARDS / count),
            "{held:?}"
        );
        Ok(())
    })
    .await;
}
