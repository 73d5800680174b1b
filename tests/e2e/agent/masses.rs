//! Many copies that would go at once, and kinds that vanish: what is held, and what comes back.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{Process, eventually};

use super::SOON;
use super::gadgets;
use super::plane::Kind;
use super::service;
use super::stage::Stage;
use super::world::{PUBLISHED, World, has};

on_both_grounds!(
    a_definition_that_vanishes_and_comes_back_has_its_copies_made_again,
    rights_that_are_missing_stop_nobody_else,
);

on_the_playground!(
    many_deletions_at_once_wait_for_an_approval,
    the_deletion_brake_can_be_switched_off,
);

const OBJECTS: usize = 40;
const APPROVAL: &str = "hawser.dev/approve-deletions";

async fn delete_all(stage: &Stage<'_>) -> Result<()> {
    for number in 0..OBJECTS {
        stage
            .team
            .delete(&stage.kind, &format!("lamp{number}"))
            .await?;
    }
    Ok(())
}

async fn make_all(stage: &Stage<'_>) {
    for number in 0..OBJECTS {
        stage
            .team
            .make(&stage.kind, &format!("lamp{number}"), json!({}))
            .await;
    }
    for number in 0..OBJECTS {
        stage.copy(&format!("lamp{number}")).await;
    }
}

async fn left(stage: &Stage<'_>) -> Result<usize> {
    Ok(stage
        .world
        .service
        .list(&stage.kind.everywhere())
        .await?
        .len())
}

async fn await_all_gone(stage: &Stage<'_>) {
    eventually(SOON, "all copies are gone", async || {
        let left = left(stage).await?;
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await;
}

async fn many_deletions_at_once_wait_for_an_approval(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    make_all(&stage).await;
    delete_all(&stage).await?;
    let at = format!("{PUBLISHED}/{}", stage.published);
    let condition = eventually(SOON, "deletions are held", async || {
        let found = world.service.get(&at).await?;
        let condition = found["status"]["conditions"][0].clone();
        ensure!(condition["reason"] == "DeletionsHeld", "{condition}");
        Ok(condition)
    })
    .await;
    let held = left(&stage).await?;
    ensure!(held >= OBJECTS / 2, "only {held} are left");
    // New objects go on meanwhile, and the deletion of one that is new too.
    stage.marker("marker").await;
    ensure!(left(&stage).await? == held + 1);

    let wrong = json!({"metadata": {"annotations": {APPROVAL: "something-else"}}});
    world.service.merge(&at, wrong).await?;
    stage.marker("marker2").await;
    ensure!(left(&stage).await? == held + 2);
    let message = condition["message"].as_str().unwrap_or_default();
    let (_, id) = message
        .split_once(&format!("{APPROVAL}: "))
        .context("no id")?;
    let id = id.split([';', ' ']).next().unwrap_or_default();
    let right = json!({"metadata": {"annotations": {APPROVAL: id}}});
    world.service.merge(&at, right).await?;
    eventually(SOON, "what was approved is gone", async || {
        let left = left(&stage).await?;
        ensure!(left == 2, "{left} are left");
        Ok(())
    })
    .await;
    world.await_conditions(&stage.published).await;
    Ok(())
}

async fn the_deletion_brake_can_be_switched_off(world: &World) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    make_all(&stage).await;
    stage.agent.stop(SOON).await?;
    let agent: Process = world.launch()?.arg("--deletion-brake=off").spawn()?;
    stage.agent = agent;
    delete_all(&stage).await?;
    await_all_gone(&stage).await;
    Ok(())
}

async fn a_definition_that_vanishes_and_comes_back_has_its_copies_made_again(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let crd = gadgets(&world.group);
    for number in 0..5 {
        let name = format!("lamp{number}");
        stage.made(&name, json!({"number": number})).await;
    }
    let at = service::crd_at(&format!("gadgets.{}", world.group));
    world.service.delete(&at).await?;
    eventually(SOON, "the definition is gone", async || {
        ensure!(world.service.find(&at).await?.is_none(), "it is there");
        Ok(())
    })
    .await;
    // Others work on, and the consumers' objects are not touched.
    let widgets = world
        .install(&super::definition(&world.group, "widgets", "Widget"))
        .await?;
    let other = world.publish(&widgets, json!({})).await?;
    world.await_published(&other).await;
    world.await_marker(&widgets, &stage.team).await;
    for number in 0..5 {
        let source = stage
            .team
            .get(&stage.kind, &format!("lamp{number}"))
            .await?;
        has(&source, "/metadata/deletionTimestamp", &Value::Null)?;
    }
    service::install(&world.service, &crd).await?;
    for number in 0..5 {
        let copy = eventually(SOON * 2, "there is a copy again", async || {
            let name = format!("lamp{number}");
            let copy = world.copy(&stage.kind, stage.of(&name)).await?;
            copy.context("there is none")
        })
        .await;
        has(&copy, "/spec/number", &json!(number))?;
    }
    Ok(())
}

async fn rights_that_are_missing_stop_nobody_else(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let secret_group = format!("secret.{}", world.group);
    let forbidden = world.install(&gadgets(&secret_group)).await?;
    let published = world.publish(&forbidden, json!({})).await?;
    world.await_published(&published).await;
    let in_kcp = Kind::new(&secret_group, "v1", "gadgets", "Gadget");
    stage.team.make(&in_kcp, "lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    stage.marker("marker2").await;
    ensure!(world.copy(&forbidden, stage.of("lamp")).await?.is_none());
    ensure!(stage.agent.exit().is_none(), "the agent has ended");
    // Whoever forgot them gives them now.
    let rule = json!({
        "apiGroups": [secret_group], "resources": ["*"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    });
    service::bind(&world.service, &world.user(), None, &[rule]).await?;
    eventually(SOON * 3, "there is a copy", async || {
        let copy = world.copy(&forbidden, stage.of("lamp")).await?;
        copy.context("there is none")
    })
    .await;
    Ok(())
}
