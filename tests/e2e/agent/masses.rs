//! Many copies that would go at once, and kinds that vanish: what is held, and what comes back.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::gadgets;
use super::plane::Kind;
use super::service::{self, Ground};
use super::stage::Stage;
use super::world::{PUBLISHED, Team, World, has};

on_both_grounds!(
    a_definition_that_vanishes_and_comes_back_has_its_copies_made_again,
    rights_that_are_missing_stop_nobody_else,
);

on_the_playground!(
    many_deletions_at_once_wait_for_an_approval,
    copies_of_workspaces_that_unbind_at_once_wait_for_an_approval_before_they_go,
    the_deletion_brake_can_be_switched_off,
    who_clears_one_workspace_or_two_is_not_held_up_and_holds_up_nobody,
);

const OBJECTS: usize = 80;
const APPROVAL: &str = "hawser.dev/approve-deletions";

/// Eight workspaces, each with as many lamps as the others.
pub(super) async fn eight_teams(stage: &Stage<'_>) -> Result<Vec<Team>> {
    let mut teams = vec![stage.team.clone()];
    for number in 2..=8 {
        teams.push(stage.world.team(&format!("team{number}")).await?);
    }
    for (team, name) in lamps(&teams) {
        team.make(&stage.kind, &name, json!({})).await;
    }
    for (team, name) in lamps(&teams) {
        stage.world.await_copy(&stage.kind, team.of(&name)).await;
    }
    Ok(teams)
}

fn lamps(teams: &[Team]) -> impl Iterator<Item = (&Team, String)> {
    (0..OBJECTS).map(|number| (&teams[number % teams.len()], format!("lamp{number}")))
}

pub(super) async fn delete_all(stage: &Stage<'_>, teams: &[Team]) -> Result<()> {
    for (team, name) in lamps(teams) {
        team.delete(&stage.kind, &name).await?;
    }
    Ok(())
}

async fn await_left(stage: &Stage<'_>, wanted: usize) {
    eventually(SOON, "the right number of copies is left", async || {
        let left = left(stage).await?;
        ensure!(left == wanted, "{left} are left instead of {wanted}");
        Ok(())
    })
    .await;
}

async fn left(stage: &Stage<'_>) -> Result<usize> {
    let copies = stage.world.service.list(&stage.kind.everywhere()).await?;
    Ok(copies.len())
}

async fn many_deletions_at_once_wait_for_an_approval(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let teams = eight_teams(&stage).await?;
    delete_all(&stage, &teams).await?;
    let at = format!("{PUBLISHED}/{}", stage.published);
    let condition = await_held(&stage).await;
    eventually(SOON, "the owner is told by an event", async || {
        let events = "/api/v1/namespaces/default/events";
        let events = world.service.list(events).await?;
        let told = events.iter().any(|event| {
            event["reason"] == "DeletionsHeld"
                && event["involvedObject"]["name"] == *stage.published
        });
        ensure!(told, "{} events", events.len());
        Ok(())
    })
    .await;
    // New objects go on meanwhile; what was let go before is gone soon, and nothing more goes.
    let mut markers = 0;
    let mut held = 0;
    eventually(SOON, "no more of them go", async || {
        let before = left(&stage).await?;
        markers += 1;
        stage.marker(&format!("marker{markers}")).await;
        held = left(&stage).await?;
        ensure!(held == before + 1, "there were {before}, there are {held}");
        anyhow::Ok(())
    })
    .await;
    ensure!(
        held - markers + 1 >= OBJECTS * 2 / 5,
        "{held} are left with {markers} markers"
    );

    let wrong = json!({"metadata": {"annotations": {APPROVAL: "something-else"}}});
    world.service.merge(&at, wrong).await?;
    stage.marker("marker").await;
    markers += 1;
    ensure!(left(&stage).await? == held + 1);
    approve(&stage, &condition).await?;
    await_left(&stage, markers).await;
    world.await_conditions(&stage.published).await;
    Ok(())
}

/// The condition that says that deletions are held.
pub(super) async fn await_held(stage: &Stage<'_>) -> Value {
    let at = format!("{PUBLISHED}/{}", stage.published);
    eventually(SOON, "deletions are held", async || {
        let found = stage.world.service.get(&at).await?;
        let condition = found["status"]["conditions"][0].clone();
        ensure!(condition["reason"] == "DeletionsHeld", "{condition}");
        Ok(condition)
    })
    .await
}

/// Approves the deletions that a condition names.
pub(super) async fn approve(stage: &Stage<'_>, condition: &Value) -> Result<()> {
    let message = condition["message"].as_str().unwrap_or_default();
    let (_, id) = message
        .split_once(&format!("{APPROVAL}: "))
        .context("no id")?;
    let id = id.split([';', ' ']).next().unwrap_or_default();
    let right = json!({"metadata": {"annotations": {APPROVAL: id}}});
    let at = format!("{PUBLISHED}/{}", stage.published);
    stage.world.service.merge(&at, right).await?;
    Ok(())
}

async fn copies_of_workspaces_that_unbind_at_once_wait_for_an_approval_before_they_go(
    world: &World,
) -> Result<()> {
    let spec = json!({"safety": {"onUnbind": "Delete"}});
    let stage = world.stage(spec).await?;
    let other = world.team("other").await?;
    let teams = eight_teams(&stage).await?;
    other.make(&stage.kind, "stays", json!({})).await;
    let stays = world.await_copy(&stage.kind, other.of("stays")).await;
    for team in &teams {
        world.unbind(team).await?;
    }
    let condition = await_held(&stage).await;
    let (mut markers, mut held) = (1, 0);
    eventually(SOON, "no more of them go", async || {
        let before = left(&stage).await?;
        world.await_marker(&stage.kind, &other).await;
        markers += 1;
        held = left(&stage).await?;
        ensure!(held == before + 1, "there were {before}, there are {held}");
        anyhow::Ok(())
    })
    .await;
    ensure!(held > markers, "{held} with {markers}");
    approve(&stage, &condition).await?;
    await_left(&stage, markers).await;
    let after = world.service.get(&stage.place(&stays)).await?;
    has(&after, "/metadata/uid", &stays["metadata"]["uid"])?;
    has(&after, "/metadata/deletionTimestamp", &Value::Null)
}

async fn the_deletion_brake_can_be_switched_off(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let teams = eight_teams(&stage).await?;
    stage.agent.stop(SOON).await?;
    let _agent = world.launch()?.arg("--deletion-brake=off").spawn()?;
    delete_all(&stage, &teams).await?;
    await_left(&stage, 0).await;
    Ok(())
}

async fn who_clears_one_workspace_or_two_is_not_held_up_and_holds_up_nobody(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let two = [stage.team.clone(), world.team("second").await?];
    let others = [world.team("third").await?, world.team("fourth").await?];
    for team in &others {
        team.make(&stage.kind, "only", json!({})).await;
    }
    for (team, name) in lamps(&two) {
        team.make(&stage.kind, &name, json!({})).await;
    }
    await_left(&stage, OBJECTS + others.len()).await;
    delete_all(&stage, &two).await?;
    await_left(&stage, others.len()).await;
    for team in &others {
        team.delete(&stage.kind, "only").await?;
    }
    await_left(&stage, 0).await;
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
    world.withhold(&secret_group);
    let published = world.publish(&forbidden, json!({})).await?;
    world.await_published(&published).await;
    let in_kcp = Kind::new(&secret_group, "v1", "gadgets", "Gadget");
    stage.team.make(&in_kcp, "lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    stage.marker("marker2").await;
    ensure!(world.copy(&forbidden, stage.of("lamp")).await?.is_none());
    ensure!(stage.agent.exit().is_none(), "the agent has ended");
    if world.ground != Ground::Original {
        eventually(SOON, "its owner is told", async || {
            let found = world
                .service
                .get(&format!("{PUBLISHED}/{published}"))
                .await?;
            let ready = &found["status"]["conditions"][0];
            ensure!(ready["reason"] == "NotWatched", "{ready}");
            Ok(())
        })
        .await;
    }
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
