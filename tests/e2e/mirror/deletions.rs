//! The deletion matrix, whole, for types of every make.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::world::{LABEL, MAPS, MISSIONS, Sides, Type, World};

/// Of no namespace, with one field of the status, which is a subresource.
const ROBOTS: Type = Type {
    plural: "robots",
    kind: "Robot",
    cluster_scoped: true,
    subtree: Some("robot"),
    ..MISSIONS
};
/// For every robot, with the status as a subresource.
const ZONES: Type = Type {
    plural: "zones",
    kind: "Zone",
    filtered: false,
    ..MISSIONS
};
/// For one robot, with the status in the object.
const TASKS: Type = Type {
    plural: "tasks",
    kind: "Task",
    subresource: false,
    ..MISSIONS
};

const HELD: &str = "example.com/held";

fn done(of: &Type, phase: &str) -> Value {
    match of.subtree {
        Some(key) => json!({key: {"phase": phase}}),
        None => json!({"phase": phase}),
    }
}

fn phase(of: &Type) -> String {
    of.subtree
        .map_or("/status/phase".into(), |key| format!("/status/{key}/phase"))
}

/// An object that is on both sides, with a status.
async fn both(of: &Type, on: &Sides, name: &str) -> Result<Value> {
    on.cloud.create(name, json!({})).await?;
    on.robot.has(name, "/spec/goal", json!("a")).await;
    on.robot.status(name, done(of, "old")).await?;
    on.cloud.has(name, &phase(of), json!("old")).await;
    on.robot.get(name).await?.context("it is there")
}

async fn deleted_by_the_owner(of: &Type, on: &Sides) -> Result<()> {
    both(of, on, "plain").await?;
    on.cloud.delete("plain").await?;
    on.robot.gone("plain").await;

    // Held in the cloud it goes on the robot at once.
    both(of, on, "held").await?;
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    on.cloud.patch("held", hold(json!([HELD]))).await?;
    on.cloud.delete("held").await?;
    on.robot.gone("held").await;
    ensure!(on.cloud.get("held").await?.is_some(), "the cloud holds it");
    on.cloud.patch("held", hold(json!(null))).await?;
    on.cloud.gone("held").await;

    // Deleted and made again, one way or another the copy has what is new.
    both(of, on, "again").await?;
    on.cloud.delete("again").await?;
    on.cloud
        .create("again", json!({"spec": {"goal": "b"}}))
        .await?;
    on.robot.has("again", "/spec/goal", json!("b")).await;
    Ok(())
}

async fn held_on_the_robot(of: &Type, on: &Sides) -> Result<()> {
    let before = both(of, on, "slow").await?;
    on.robot
        .patch("slow", json!({"metadata": {"finalizers": [HELD]}}))
        .await?;
    on.cloud.delete("slow").await?;
    let at = before["metadata"]["generation"].clone();
    on.robot.has("slow", "/spec/goal", json!("a")).await;
    testbed::eventually(testbed::SOON, "it is in deletion", async || {
        let copy = on.robot.get("slow").await?.context("it is held")?;
        ensure!(copy["metadata"]["deletionTimestamp"].is_string(), "{copy}");
        anyhow::Ok(())
    })
    .await;
    // The cloud has a new one by the same name: it gets nothing of the old one, nor the old one of it.
    on.cloud
        .create("slow", json!({"spec": {"goal": "new"}}))
        .await?;
    on.robot.status("slow", done(of, "dying")).await?;
    both(of, on, "slow-witness").await?;
    let copy = on.robot.get("slow").await?.context("it is held")?;
    ensure!(copy["spec"]["goal"] == "a", "{copy} was at {at}");
    let new = on.cloud.get("slow").await?.context("it is there")?;
    ensure!(new.pointer(&phase(of)).is_none(), "{new}");
    on.robot
        .patch("slow", json!({"metadata": {"finalizers": null}}))
        .await?;
    on.robot.anew("slow", &before).await;
    on.robot.has("slow", "/spec/goal", json!("new")).await;
    on.robot.status("slow", done(of, "fresh")).await?;
    on.cloud.has("slow", &phase(of), json!("fresh")).await;
    Ok(())
}

async fn deleted_on_the_robot(of: &Type, on: &Sides) -> Result<()> {
    let before = both(of, on, "lost").await?;
    on.robot.delete("lost").await?;
    on.robot.anew("lost", &before).await;
    both(of, on, "lost-witness").await?;
    on.cloud.has("lost", &phase(of), json!("old")).await;
    on.robot.status("lost", done(of, "again")).await?;
    on.cloud.has("lost", &phase(of), json!("again")).await;
    Ok(())
}

async fn made_on_the_robot(of: &Type, on: &Sides) -> Result<()> {
    on.robot.create("own", json!({})).await?;
    on.robot.gone("own").await;
    let of_others = [
        ("free", json!({LABEL: null})),
        ("other", json!({LABEL: "r2"})),
    ];
    for (name, labels) in &of_others {
        on.robot
            .create(name, json!({"metadata": {"labels": labels}}))
            .await?;
    }
    both(of, on, "own-witness").await?;
    for (name, _) in of_others {
        if of.filtered {
            ensure!(
                on.robot.get(name).await?.is_some(),
                "{name} is nobody's business"
            );
        } else {
            on.robot.gone(name).await;
        }
    }
    Ok(())
}

async fn given_to_others(of: &Type, on: &Sides) -> Result<()> {
    if !of.filtered {
        return Ok(());
    }
    let label = |robot: Value| json!({"metadata": {"labels": {LABEL: robot}}});
    for (name, robot) in [("moved", json!("r2")), ("freed", json!(null))] {
        let before = both(of, on, name).await?;
        on.cloud.patch(name, label(robot)).await?;
        on.robot.gone(name).await;
        on.cloud.has(name, &phase(of), json!("old")).await;
        on.cloud.patch(name, label(json!("r1"))).await?;
        on.robot.anew(name, &before).await;
    }
    // Without the label it is for nobody.
    on.cloud.create("nobodys", label(json!(null))).await?;
    both(of, on, "label-witness").await?;
    ensure!(on.robot.get("nobodys").await?.is_none(), "it is for nobody");

    // A label that is lost on the robot is put back, and so it is on what bears the name of another's.
    on.robot.patch("label-witness", label(json!(null))).await?;
    let labelled = "/metadata/labels/cloudrobotics.com~1robot-name";
    on.robot.has("label-witness", labelled, json!("r1")).await;
    on.robot.create("namesake", label(json!(null))).await?;
    on.cloud
        .create("namesake", json!({"spec": {"goal": "c"}}))
        .await?;
    on.robot.has("namesake", labelled, json!("r1")).await;
    on.robot.has("namesake", "/spec/goal", json!("c")).await;
    Ok(())
}

async fn matrix(of: Type, on: &Sides) -> Result<()> {
    // All of them go on at the same time, as they do in life.
    let all = tokio::try_join!(
        deleted_by_the_owner(&of, on),
        held_on_the_robot(&of, on),
        deleted_on_the_robot(&of, on),
        made_on_the_robot(&of, on),
        given_to_others(&of, on),
    );
    all.with_context(|| format!("{of:?}")).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_matrix_holds_for_types_of_every_make() -> Result<()> {
    let types = [MISSIONS, MAPS, ROBOTS, ZONES, TASKS];
    let world = World::with(&types).await?;
    // What was left over while nobody looked goes first.
    for of in types {
        world
            .objects(of)?
            .robot
            .create("left-over", json!({}))
            .await?;
    }
    // The brake holds the deletions that this makes on purpose.
    let mirror = world.mirror(&["--deletion-brake=off"])?;
    for of in types {
        world.objects(of)?.robot.gone("left-over").await;
    }
    let all = types.map(|of| {
        let on = world.objects(of);
        async move { matrix(of, &on?).await }
    });
    futures::future::try_join_all(all).await?;
    mirror.lives()?;
    world.check(&types)?;

    // Deleted while the mirror is away.
    let on = world.objects(MISSIONS)?;
    both(&MISSIONS, &on, "gone-meanwhile").await?;
    mirror.kill().await?;
    on.cloud.delete("gone-meanwhile").await?;
    let mirror = world.mirror(&["--deletion-brake=off"])?;
    on.robot.gone("gone-meanwhile").await;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_the_robot_go_to_the_cloud_where_that_was_asked_for() -> Result<()> {
    const REPORTS: Type = Type {
        plural: "reports",
        kind: "Report",
        owner: "robot",
        ..MISSIONS
    };
    let world = World::with(&[REPORTS]).await?;
    let on = world.objects(REPORTS)?;
    let mirror = world.mirror(&["--enable-robot-spec-source"])?;
    on.robot.create("a", json!({})).await?;
    on.cloud.has("a", "/spec/goal", json!("a")).await;
    on.cloud.status("a", json!({"phase": "read"})).await?;
    on.robot.has("a", "/status/phase", json!("read")).await;
    on.robot.patch("a", json!({"spec": {"goal": "b"}})).await?;
    on.cloud.has("a", "/spec/goal", json!("b")).await;
    // Those of other robots stay.
    let other = json!({"metadata": {"labels": {LABEL: "r2"}}});
    on.cloud.create("other", other).await?;
    on.cloud.create("left-over", json!({})).await?;
    on.cloud.gone("left-over").await;
    let before = on.cloud.get("a").await?.context("it is there")?;
    on.cloud.delete("a").await?;
    on.cloud.anew("a", &before).await;
    on.robot.delete("a").await?;
    on.cloud.gone("a").await;
    ensure!(
        on.cloud.get("other").await?.is_some(),
        "it is another robot's"
    );
    world.check(&[REPORTS])?;
    mirror.stop().await
}
