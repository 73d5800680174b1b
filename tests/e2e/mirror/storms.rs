//! Much at once: conflicts, floods, and a mirror that is killed at any moment.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::entry::What;

use super::world::{MAPS, MISSIONS, Sides, World};

/// Both sides have the same specs and statuses, and nothing but what is in the cloud.
async fn agree(on: &Sides, count: usize) {
    testbed::eventually(testbed::SOON, "both sides agree", async || {
        let (cloud, robot) = (on.cloud.all().await?, on.robot.all().await?);
        ensure!(cloud.len() == count, "the cloud has {}", cloud.len());
        let names = |all: &std::collections::BTreeMap<String, Value>| {
            all.keys().cloned().collect::<Vec<_>>()
        };
        ensure!(
            names(&cloud) == names(&robot),
            "{:?} is not {:?}",
            names(&robot),
            names(&cloud)
        );
        for (name, owner) in &cloud {
            for part in ["spec", "status"] {
                let (owner, copy) = (&owner[part], &robot[name][part]);
                ensure!(
                    owner == copy,
                    "{part} of {name}: {owner} in the cloud, {copy} on the robot"
                );
            }
        }
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_in_masses_end_and_the_cloud_is_listed_anew() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let (missions, maps) = (world.objects(MISSIONS)?, world.objects(MAPS)?);
    for on in [&missions, &maps] {
        for n in 0..4 {
            on.cloud.create(&format!("m{n}"), json!({})).await?;
        }
        for n in 0..4 {
            on.robot
                .has(&format!("m{n}"), "/spec/goal", json!("a"))
                .await;
        }
    }
    // While an image is rolled out there may be two of them.
    let second = world.mirror(&[])?;
    // Whoever writes in the cloud all the time takes the version from what is on its way.
    let busy = async {
        for round in 0..60 {
            for on in [&missions, &maps] {
                let note = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                on.cloud.patch(&format!("m{}", round % 4), note).await?;
                on.robot
                    .status(&format!("m{}", round % 4), json!({"round": round}))
                    .await?;
            }
        }
        anyhow::Ok(())
    };
    busy.await?;
    // As large as a server takes it.
    for on in [&missions, &maps] {
        on.cloud
            .patch("m0", json!({"spec": {"goal": "g".repeat(700_000)}}))
            .await?;
        on.robot
            .has("m0", "/spec/goal", json!("g".repeat(700_000)))
            .await;
        on.robot
            .status("m0", json!({"said": "s".repeat(500_000)}))
            .await?;
    }
    agree(&missions, 4).await;
    agree(&maps, 4).await;

    second.lives()?;
    second.stop().await?;

    // A proxy that says conflict whatever is written.
    let conflict = r#"{"kind": "Status", "code": 409, "reason": "Conflict", "status": "Failure"}"#;
    world
        .entry
        .fault(What::Answer(409, conflict.into()), Some(6), |r| {
            r.method == "PUT"
        });
    for n in 0..4 {
        missions
            .robot
            .status(&format!("m{n}"), json!({"round": "last"}))
            .await?;
    }
    mirror
        .says("Restarting informers because of too many conflict errors")
        .await?;
    agree(&missions, 4).await;
    mirror.lives()?;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_with_a_bad_link_it_ends_in_step() -> Result<()> {
    const ROUNDS: u64 = 10;
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let (missions, maps) = (world.objects(MISSIONS)?, world.objects(MAPS)?);
    let mut mirror = world.mirror(&[])?;
    for round in 0..ROUNDS {
        for on in [&missions, &maps] {
            on.cloud
                .create(&format!("m{round}"), json!({"spec": {"goal": round}}))
                .await?;
            if round > 1 {
                let before = format!("m{}", round - 1);
                on.cloud
                    .patch(&before, json!({"spec": {"goal": round}}))
                    .await?;
                // It may not be there yet, or be in somebody's hands.
                let _ = on.robot.status(&before, json!({"round": round})).await;
                let _ = on.robot.delete(&format!("m{}", round - 2)).await;
            }
            if round % 3 == 2 {
                on.cloud.delete(&format!("m{}", round - 1)).await?;
            }
        }
        if round % 2 == 0 {
            world.entry.link().cut();
            world.near.cut();
        }
        // From at once to well into its work.
        let dies = tokio::time::timeout(Duration::from_millis(round * 120), mirror.says("never"));
        let _ = dies.await;
        mirror.kill().await?;
        mirror = world.mirror(&[])?;
    }
    let left = usize::try_from(ROUNDS - ROUNDS / 3)?;
    for on in [&missions, &maps] {
        testbed::eventually(testbed::SOON, "each is there", async || {
            ensure!(on.robot.all().await?.len() == left, "not yet");
            anyhow::Ok(())
        })
        .await;
        for name in on.cloud.all().await?.keys() {
            on.robot.status(name, json!({"round": "last"})).await?;
        }
        agree(on, left).await;
    }
    mirror.lives()?;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_write_is_made_once_a_pass_and_told_once_by_the_log() -> Result<()> {
    const TIMES: usize = 3;
    let world = World::with(&[MISSIONS]).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    on.cloud.create("m", json!({})).await?;
    on.robot.has("m", "/spec/goal", json!("a")).await;
    for (step, code) in [(1, 500), (2, 503), (3, 504), (4, 404)] {
        let told = || {
            mirror
                .log()
                .matches("Syncing key from queue failed")
                .count()
        };
        let (mark, before) = (world.entry.mark(), told());
        let answer =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
        let fault = What::Answer(code, answer.to_string());
        world
            .entry
            .fault(fault, Some(TIMES), |request| request.method == "PUT");
        on.robot.status("m", json!({"step": step})).await?;
        on.cloud.has("m", "/status/step", json!(step)).await;
        let record = world.entry.since(mark);
        let of_it = record.iter().filter(|one| one.path.contains("missions/m"));
        let methods: Vec<_> = of_it.map(|one| one.method.as_str()).collect();
        ensure!(methods == ["PUT"; TIMES + 1], "{code}: {methods:?}");
        let lines = told() - before;
        // The same again is not told again.
        ensure!(lines == 1, "{code}: {lines} lines tell of it");
    }
    mirror.stop().await
}
