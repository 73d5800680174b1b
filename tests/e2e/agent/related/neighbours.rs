//! Related objects in situations next to those of the other tests.

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher};
use serde_json::{Value, json};
use testbed::eventually;

use super::super::SOON;
use super::super::stage::Stage;
use super::super::world::World;
use super::{await_held, both_ways, entry, put, secrets};

on_the_playground!(
    an_object_whose_namespace_leaves_the_filter_lets_go_of_originals_that_are_deleted,
    a_webhook_that_takes_the_finalizer_off_is_asked_ever_less_often,
);

/// More than any number of writes that are made at once, and less than a pass that begins again at once would make.
const FEW: u64 = 12;

async fn an_object_whose_namespace_leaves_the_filter_lets_go_of_originals_that_are_deleted(
    world: &World,
) -> Result<()> {
    let up = entry("up", "kcp", json!({"reference": {"path": "spec.up"}}));
    let filter = json!({"namespace": {"matchLabels": {"sync": "yes"}}});
    let stage = world
        .related(json!({"related": [up], "filter": filter}))
        .await?;
    let (team, plane) = (&stage.team, &stage.team.plane);
    let namespace = "/api/v1/namespaces/default";
    let labelled = |value: Value| json!({"metadata": {"labels": {"sync": value}}});
    plane.merge(namespace, labelled("yes".into())).await?;
    put(plane, "default", "lamp", "1").await?;
    stage.made("lamp", json!({"up": "lamp"})).await;
    await_held(&world.service, stage.home(), "lamp", Some("1")).await;
    plane.merge(namespace, labelled(Value::Null)).await?;
    plane.delete(&secrets().at("default", "lamp")).await?;
    await_held(plane, "default", "lamp", None).await;
    team.delete(&stage.kind, "lamp").await?;
    team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

/// What the agent sends to the workspace is changed on its way.
fn webhook(stage: &Stage<'_>, verb: &str, resource: &str, patch: Value) {
    let matcher = Matcher {
        verb: Some(verb.to_owned()),
        cluster: Some(stage.team.cluster.clone()),
        resource: Some(resource.to_owned()),
        ..Matcher::default()
    };
    let fault = Fault::new(matcher, Action::Mutate(patch));
    stage.world.playground.faults().add(fault);
}

/// Waits until something was struck, and lets other objects come and go after that.
async fn struck(stage: &Stage<'_>) -> Result<u64> {
    let world = stage.world;
    let other = world.team("other").await?;
    world.await_marker(&stage.kind, &other).await;
    let all = || world.playground.faults().struck().iter().sum::<u64>();
    eventually(SOON, "something is struck", async || {
        ensure!(all() > 0, "nothing");
        Ok(())
    })
    .await;
    world.await_still(&stage.kind, &other).await;
    Ok(all())
}

async fn a_webhook_that_takes_the_finalizer_off_is_asked_ever_less_often(
    world: &World,
) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let none = json!({"metadata": {"finalizers": null}});
    webhook(&stage, "patch", &stage.kind.plural, none.clone());
    webhook(&stage, "patch", "secrets", none);
    put(&stage.team.plane, "default", "lamp-up", "1").await?;
    stage
        .team
        .make(&stage.kind, "lamp", json!({"up": "lamp-up"}))
        .await;
    let struck = struck(&stage).await?;
    ensure!(struck <= FEW, "{struck} patches");
    ensure!(world.copy(&stage.kind, stage.of("lamp")).await?.is_none());
    world.playground.faults().clear();
    stage.copy("lamp").await;
    Ok(())
}
