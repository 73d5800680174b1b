//! Two writers who insist on one field: noticed, told to both sides, slowed down.

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::plane::Kind;
use super::world::{PUBLISHED, World};

on_our_ground!(a_consumer_who_insists_on_a_status_is_told_and_so_is_the_provider);

on_the_playground!(
    a_provider_who_takes_our_labels_off_is_answered_ever_less_often,
    what_a_webhook_changed_is_repaired_once_it_is_gone,
);

async fn await_told(world: &World, published: &str) {
    eventually(SOON, "the condition tells of it", async || -> Result<()> {
        let found = world
            .service
            .get(&format!("{PUBLISHED}/{published}"))
            .await?;
        let conditions = found["status"]["conditions"].to_string();
        ensure!(conditions.contains("another writer undoes"), "{conditions}");
        Ok(())
    })
    .await;
}

async fn a_consumer_who_insists_on_a_status_is_told_and_so_is_the_provider(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let status = |phase: &str| json!({"status": {"phase": phase}});
    let on_copy = format!("{}/status", stage.place(&copy));
    world.service.merge(&on_copy, status("ours")).await?;
    let own = format!("{}/status", stage.kind.at("default", "lamp"));
    let plane = &stage.team.plane;
    let mut writes = 0;
    let told = |events: &[Value]| {
        events.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == "lamp" && message.contains("undoes")
        })
    };
    // As a program that writes what it wants as soon as it is otherwise.
    eventually(SOON, "it is told so", async || -> Result<()> {
        let lamp = stage.team.get(&stage.kind, "lamp").await?;
        if lamp["status"]["phase"] == "ours" {
            plane.merge(&own, status("theirs")).await?;
            writes += 1;
        }
        let events = plane.list("/api/v1/namespaces/default/events").await?;
        ensure!(told(&events), "{events:?}");
        Ok(())
    })
    .await;
    ensure!((4..=6).contains(&writes), "{writes}");
    await_told(world, &stage.published).await;
    ensure!(
        world
            .logged()?
            .contains("changes status.phase after each write")
    );
    // What the service says next is news.
    world.service.merge(&on_copy, status("done")).await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/phase", json!("done"))
        .await;
    Ok(())
}

async fn a_provider_who_takes_our_labels_off_is_answered_ever_less_often(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let label = copy["metadata"]["labels"]
        .as_object()
        .and_then(|labels| {
            labels
                .keys()
                .find(|label| label.ends_with("remote-object-name-hash"))
        })
        .cloned()
        .unwrap_or_default();
    let mut taken = 0;
    eventually(SOON, "it is noticed", async || -> Result<()> {
        let found = world.service.get(&stage.place(&copy)).await?;
        if found["metadata"]["labels"].get(label.as_str()).is_some() {
            let off = json!({"metadata": {"labels": {&label: null}}});
            stage.patch_copy(&copy, off).await?;
            taken += 1;
        }
        ensure!(world.logged()?.contains("Contested"), "{taken} times");
        Ok(())
    })
    .await;
    ensure!((4..=6).contains(&taken), "{taken}");
    await_told(world, &stage.published).await;
    // It is the consumer's object all the same.
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

/// What a webhook of a workspace put into what the agent wrote there is written over soon after the webhook is gone, and
/// while it is there the agent does not insist.
async fn what_a_webhook_changed_is_repaired_once_it_is_gone(world: &World) -> Result<()> {
    let down = json!({"identifier": "down", "origin": "service", "kind": "Secret", "object": {"reference": {"path": "spec.down"}}});
    let stage = world.stage(json!({"related": [down]})).await?;
    let given = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}, "data": {"k": "b3Vycw=="}});
    let (_, copy) = stage.made("lamp", json!({"down": "given"})).await;
    let namespace = copy["metadata"]["namespace"].as_str().unwrap_or_default();
    let secrets = Kind::new("", "v1", "secrets", "Secret");
    let strike = |verb: &str, resource: &str, change: Value| {
        let matcher = Matcher {
            cluster: Some(stage.team.cluster.clone()),
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            ..Matcher::default()
        };
        let fault = Fault::new(matcher, Action::Mutate(change));
        world.playground.faults().add(fault);
    };
    let theirs = json!({"data": {"k": "dGhlaXJz"}});
    strike("create", "secrets", theirs.clone());
    strike("patch", "secrets", theirs);
    strike(
        "update",
        &stage.kind.plural,
        json!({"status": {"phase": "theirs"}}),
    );
    world
        .service
        .create(&secrets.within(namespace), &given)
        .await?;
    let on_copy = format!("{}/status", stage.place(&copy));
    let status = json!({"status": {"phase": "ours"}});
    world.service.merge(&on_copy, status).await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/phase", json!("theirs"))
        .await;
    eventually(SOON, "it is noticed", async || -> Result<()> {
        ensure!(world.logged()?.contains("StoredOtherwise"), "it is not");
        Ok(())
    })
    .await;
    world.playground.faults().clear();
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/phase", json!("ours"))
        .await;
    stage
        .team
        .await_in(&secrets, "given", "/data/k", json!("b3Vycw=="))
        .await;
    Ok(())
}
