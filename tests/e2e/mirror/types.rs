//! Both ways a status is kept, and definitions that come and go on either side.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::world::{MAPS, MISSIONS, Type, VERSION, World, writes};

/// The status is a subresource of one field that is carried over.
const CHARTS: Type = Type {
    plural: "charts",
    kind: "Chart",
    subtree: Some("robot"),
    ..MISSIONS
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_goes_back_in_each_way_it_is_kept_and_rest_is_rest() -> Result<()> {
    let types = [MISSIONS, MAPS, CHARTS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let version = format!("/metadata/annotations/{}", VERSION.replace('/', "~1"));

    // A subresource: observed generations are translated, the version is not kept.
    let on = world.objects(MISSIONS)?;
    let more =
        json!({"metadata": {"annotations": {"note": "n"}, "finalizers": ["example.com/own"]}});
    on.cloud.create("a", more).await?;
    let copy = on
        .robot
        .has("a", "/metadata/annotations/note", json!("n"))
        .await;
    ensure!(copy["metadata"].get("finalizers").is_none(), "{copy}");
    on.cloud.patch("a", json!({"spec": {"goal": "b"}})).await?;
    on.cloud.patch("a", json!({"spec": {"goal": "c"}})).await?;
    let copy = on.robot.has("a", "/spec/goal", json!("c")).await;
    let status = json!({"phase": "done", "observedGeneration": copy["metadata"]["generation"]});
    on.robot.status("a", status).await?;
    let owner = on.cloud.has("a", "/status/phase", json!("done")).await;
    ensure!(
        owner["status"]["observedGeneration"] == owner["metadata"]["generation"],
        "{owner}"
    );
    on.robot
        .status("a", json!({"observedGeneration": 99}))
        .await?;
    on.cloud
        .has("a", "/status/observedGeneration", json!(0))
        .await;

    // In the object: written whole, with the version; the version never comes back.
    let on = world.objects(MAPS)?;
    on.cloud.create("a", json!({"status": {"seed": 1}})).await?;
    on.robot.has("a", "/status/seed", json!(1)).await;
    on.robot.status("a", json!({"phase": "done"})).await?;
    let owner = on.cloud.has("a", "/status/phase", json!("done")).await;
    let noted = owner.pointer(&version).context("a version")?.as_str();
    ensure!(noted.is_some(), "{owner}");
    on.cloud.patch("a", json!({"spec": {"goal": "b"}})).await?;
    let copy = on.robot.has("a", "/spec/goal", json!("b")).await;
    ensure!(copy.pointer(&version).is_none(), "{copy}");

    // One field of it: the rest stays the owner's.
    let on = world.objects(CHARTS)?;
    on.cloud.create("a", json!({})).await?;
    on.cloud
        .status("a", json!({"cloud": 1, "robot": {"old": 1}}))
        .await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    on.robot
        .status("a", json!({"robot": {"phase": "up"}, "cloud": 2}))
        .await?;
    let owner = on.cloud.has("a", "/status/robot/phase", json!("up")).await;
    ensure!(
        owner["status"] == json!({"cloud": 1, "robot": {"phase": "up"}}),
        "{owner}"
    );
    on.robot.status("a", json!({"robot": null})).await?;
    on.cloud.has("a", "/status", json!({"cloud": 1})).await;

    // Drift is put right, and then nothing is sent by anybody, restarted or not.
    let on = world.objects(MISSIONS)?;
    on.robot
        .patch(
            "a",
            json!({"spec": {"goal": "drift"}, "metadata": {"annotations": {"x": "y"}}}),
        )
        .await?;
    let copy = on.robot.has("a", "/spec/goal", json!("c")).await;
    ensure!(copy.pointer("/metadata/annotations/x").is_none(), "{copy}");
    mirror.stop().await?;
    let mark = world.entry.mark();
    let mirror = world.mirror(&[])?;
    on.cloud.create("witness", json!({})).await?;
    on.robot.has("witness", "/spec/goal", json!("a")).await;
    ensure!(
        writes(&world.entry.since(mark)).is_empty(),
        "{:?}",
        writes(&world.entry.since(mark))
    );
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_come_and_go_on_either_side() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MAPS)?;
    let names: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
    for name in &names {
        on.cloud.create(name, json!({})).await?;
        on.robot.has(name, "/spec/goal", json!("a")).await;
    }

    // On the robot: copies go with it, nothing happens in the cloud, and all is there again with it.
    world.undefine(&world.robot, &MAPS).await?;
    let missions = world.objects(MISSIONS)?;
    missions.cloud.create("witness", json!({})).await?;
    missions
        .robot
        .has("witness", "/spec/goal", json!("a"))
        .await;
    ensure!(
        on.cloud.all().await?.len() == 8,
        "nothing goes in the cloud"
    );
    world.define(&world.robot, &MAPS).await?;
    for name in &names {
        on.robot.has(name, "/spec/goal", json!("a")).await;
    }

    // Without its annotation it is left alone, and followed again with it.
    world
        .annotate(&MAPS, "cr-syncer.cloudrobotics.com/spec-source-")
        .await?;
    testbed::eventually(testbed::SOON, "it is left alone", async || {
        let log = mirror.log();
        let stops = log.matches("Stopping syncer").count();
        ensure!(
            stops > log.matches("Starting syncer").count() - 2,
            "{stops}"
        );
        anyhow::Ok(())
    })
    .await;
    on.robot
        .patch("m0", json!({"spec": {"goal": "own"}}))
        .await?;
    on.cloud.patch("m1", json!({"spec": {"goal": "b"}})).await?;
    missions.cloud.create("witness-2", json!({})).await?;
    missions
        .robot
        .has("witness-2", "/spec/goal", json!("a"))
        .await;
    let kept = on.robot.all().await?;
    ensure!(
        kept["m0"]["spec"]["goal"] == "own" && kept["m1"]["spec"]["goal"] == "a",
        "{kept:?}"
    );
    world
        .annotate(&MAPS, "cr-syncer.cloudrobotics.com/spec-source=cloud")
        .await?;
    on.robot.has("m0", "/spec/goal", json!("a")).await;
    on.robot.has("m1", "/spec/goal", json!("b")).await;

    // In the cloud: the copies stay, and so they do when the type is back without its objects.
    world.undefine(&world.cloud, &MAPS).await?;
    mirror.says("holding deletions on the robot").await?;
    ensure!(on.robot.all().await?.len() == 8, "they stay");
    world.define(&world.cloud, &MAPS).await?;
    on.cloud
        .create("m0", json!({"spec": {"goal": "back"}}))
        .await?;
    on.robot.has("m0", "/spec/goal", json!("back")).await;
    ensure!(on.robot.all().await?.len() == 8, "they still stay");

    // A mirror that begins now knows nothing of all that. One in eight came back.
    mirror.kill().await?;
    for name in &names[1..] {
        on.cloud.create(name, json!({})).await?;
    }
    let mirror = world.mirror(&[])?;
    on.cloud.patch("m7", json!({"spec": {"goal": "b"}})).await?;
    on.robot.has("m7", "/spec/goal", json!("b")).await;
    ensure!(on.robot.all().await?.len() == 8, "nothing went");
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_stay_over_a_restart_while_the_cloud_looks_empty() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let (maps, missions) = (world.objects(MAPS)?, world.objects(MISSIONS)?);
    for on in [&maps, &missions] {
        for n in 0..6 {
            on.cloud.create(&format!("m{n}"), json!({})).await?;
        }
        on.robot.has("m5", "/spec/goal", json!("a")).await;
        on.robot.has("m0", "/spec/goal", json!("a")).await;
    }
    testbed::eventually(testbed::SOON, "all are there", async || {
        ensure!(
            maps.robot.all().await?.len() + missions.robot.all().await?.len() == 12,
            "not yet"
        );
        anyhow::Ok(())
    })
    .await;
    mirror.kill().await?;

    // The one type is made anew without its objects, the other one is gone.
    world.undefine(&world.cloud, &MAPS).await?;
    world.define(&world.cloud, &MAPS).await?;
    world.undefine(&world.cloud, &MISSIONS).await?;
    for _ in 0..2 {
        let mirror = world.mirror(&[])?;
        mirror.says("holding deletions on the robot").await?;
        mirror.kill().await?;
        ensure!(maps.robot.all().await?.len() == 6, "they stay");
    }
    // The other one comes back while the mirror waits for it.
    let mirror = world.mirror(&[])?;
    let held = mirror.says("holding deletions on the robot").await?;
    ensure!(held.contains("maps"), "{held}");
    mirror.says("cannot watch objects").await?;
    world.define(&world.cloud, &MISSIONS).await?;
    missions
        .cloud
        .create("m0", json!({"spec": {"goal": "back"}}))
        .await?;
    missions.robot.has("m0", "/spec/goal", json!("back")).await;
    ensure!(missions.robot.all().await?.len() == 6, "they stay");

    // Somebody says that it is meant.
    let id = serde_json::from_str::<serde_json::Value>(&held)?["hold"].clone();
    let id = id.as_str().with_context(|| held.clone())?;
    world
        .annotate(&MAPS, &format!("hawser.dev/approve-deletions={id}"))
        .await?;
    for n in 0..6 {
        maps.robot.gone(&format!("m{n}")).await;
    }
    world.check(&types)?;
    mirror.stop().await
}
