//! What happens to an object in the middle of a pass about it: one request of the agent is slow, and
//! meanwhile somebody changes what the pass has seen.

use std::time::Duration;

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::stage::Stage;
use super::world::{World, has};

on_the_playground!(
    a_change_that_comes_while_the_copy_is_being_made_is_carried_over,
    a_deletion_that_comes_while_the_copy_is_being_made_is_carried_out,
    a_field_that_comes_and_goes_while_the_state_is_written_goes_from_the_copy_too,
    a_field_that_comes_and_goes_while_it_is_carried_over_goes_from_the_copy_too,
    a_status_that_comes_while_the_state_is_written_is_shown,
    a_copy_that_is_deleted_while_its_status_is_shown_is_made_again,
    workspaces_that_take_part_in_any_order_lose_nothing,
);

/// Makes the next such request of the agent slow, and awaits that it is under way.
struct Slow<'s, 'w> {
    stage: &'s Stage<'w>,
}

impl<'s, 'w> Slow<'s, 'w> {
    fn next(stage: &'s Stage<'w>, verb: &str, resource: &str, cluster: &str) -> Self {
        let matcher = Matcher {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            cluster: Some(cluster.to_owned()),
            ..Matcher::default()
        };
        let fault = Fault::new(matcher, Action::Latency(Duration::from_millis(700)));
        let faults = stage.world.playground.faults();
        faults.clear();
        faults.add(Fault {
            times: Some(1),
            ..fault
        });
        Self { stage }
    }

    async fn is_under_way(&self) {
        eventually(SOON, "the slow request is under way", async || {
            let struck = self.stage.world.playground.faults().struck();
            ensure!(struck == [1], "{struck:?}");
            Ok(())
        })
        .await;
    }
}

async fn a_change_that_comes_while_the_copy_is_being_made_is_carried_over(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "create", "gadgets", "");
    stage
        .team
        .make(&stage.kind, "lamp", json!({"size": 1}))
        .await;
    slow.is_under_way().await;
    let patch = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

async fn a_deletion_that_comes_while_the_copy_is_being_made_is_carried_out(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "create", "gadgets", "");
    stage
        .team
        .make(&stage.kind, "lamp", json!({"size": 1}))
        .await;
    slow.is_under_way().await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(world.copy(&stage.kind, stage.of("lamp")).await?.is_none());
    Ok(())
}

async fn a_field_that_comes_and_goes_while_the_state_is_written_goes_from_the_copy_too(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "update", "secrets", "");
    let patch = json!({"spec": {"colour": "red"}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    slow.is_under_way().await;
    // What is about to change is remembered first.
    let copy = stage.copy("lamp").await;
    has(&copy, "/spec", &json!({"size": 1}))?;
    let patch = json!({"spec": {"colour": null, "size": 2}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    stage
        .await_in_copy("lamp", "/spec", json!({"size": 2}))
        .await;
    Ok(())
}

async fn a_field_that_comes_and_goes_while_it_is_carried_over_goes_from_the_copy_too(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "patch", "gadgets", "");
    let patch = json!({"spec": {"colour": "red"}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    slow.is_under_way().await;
    let patch = json!({"spec": {"colour": null, "size": 2}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    stage
        .await_in_copy("lamp", "/spec", json!({"size": 2}))
        .await;
    Ok(())
}

async fn a_status_that_comes_while_the_state_is_written_is_shown(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "update", "secrets", "");
    let patch = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    slow.is_under_way().await;
    let status = format!("{}/status", stage.place(&copy));
    let lit = json!({"status": {"lit": true}});
    world.service.merge(&status, lit).await?;
    let wanted = json!({"lit": true});
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status", wanted)
        .await;
    Ok(())
}

async fn a_copy_that_is_deleted_while_its_status_is_shown_is_made_again(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("marker").await;
    let slow = Slow::next(&stage, "update", "gadgets", &stage.team.cluster);
    let status = format!("{}/status", stage.place(&copy));
    let lit = json!({"status": {"lit": true}});
    world.service.merge(&status, lit).await?;
    slow.is_under_way().await;
    world.service.delete(&stage.place(&copy)).await?;
    stage.copy("lamp").await;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status", Value::Null)
        .await;
    Ok(())
}

async fn workspaces_that_take_part_in_any_order_lose_nothing(world: &World) -> Result<()> {
    // First lists, bindings and the start of the work come in an order of their own each time.
    let stage = world.stage(json!({})).await?;
    let mut agent = stage.agent;
    for round in 0..8 {
        let team = world.team(&format!("team{round}")).await?;
        team.make(&stage.kind, "before", json!({})).await;
        agent.stop(SOON).await?;
        team.make(&stage.kind, "between", json!({})).await;
        agent = world.start_agent()?;
        team.make(&stage.kind, "after", json!({})).await;
        for name in ["before", "between", "after"] {
            world.await_copy(&stage.kind, team.of(name)).await;
        }
    }
    Ok(())
}
