//! What consumers and owners are told by events.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::plane::{Kind, Plane};
use super::world::World;
use super::{SOON, gadgets};

on_both_grounds!(
    consumers_are_told_what_happened_to_their_objects,
    consumers_learn_why_an_object_is_refused_and_nothing_of_the_provider,
    a_failing_rule_is_a_warning_without_its_details,
    the_end_of_a_problem_is_told_though_nothing_is_written_for_it,
    the_owner_is_told_of_a_crd_that_is_missing,
    the_owner_is_told_what_was_added_to_the_export,
    a_consumer_that_accepts_no_events_gets_its_copies_all_the_same,
);

async fn reasons(plane: &Plane, name: &str) -> Result<Vec<Value>> {
    let mut events = plane.list("/api/v1/namespaces/default/events").await?;
    events.retain(|event| event["involvedObject"]["name"] == name);
    Ok(events)
}

async fn await_event(plane: &Plane, name: &str, reason: &str) -> Value {
    let what = format!("an event {reason} for {name}");
    eventually(SOON, &what, async || {
        let events = reasons(plane, name).await?;
        let found = events
            .iter()
            .find(|event| event["reason"] == reason)
            .cloned();
        let others = || {
            events
                .iter()
                .map(|event| event["reason"].to_string())
                .collect::<Vec<_>>()
        };
        found.with_context(|| format!("there are {:?}", others()))
    })
    .await
}

async fn consumers_are_told_what_happened_to_their_objects(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (lamp, copy) = stage.made("lamp", json!({"size": 1})).await;
    let plane = &stage.team.plane;
    let placed = await_event(plane, "lamp", "ObjectPlaced").await;
    ensure!(placed["type"] == "Normal", "{placed}");
    ensure!(
        placed["source"]["component"] == "syncagent-sync",
        "{placed}"
    );
    let involved = &placed["involvedObject"];
    ensure!(involved["uid"] == lamp["metadata"]["uid"], "{involved}");
    ensure!(
        involved["kind"] == "Gadget" && involved["namespace"] == "default",
        "{involved}"
    );
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    await_event(plane, "lamp", "ObjectSynced").await;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    await_event(plane, "lamp", "ObjectStatusSynced").await;
    stage
        .patch_copy(
            &copy,
            json!({"metadata": {"finalizers": ["example.com/x"]}}),
        )
        .await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    await_event(plane, "lamp", "ObjectCleanup").await;
    stage
        .patch_copy(&copy, json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    await_event(plane, "lamp", "ObjectDeleted").await;
    Ok(())
}

async fn consumers_learn_why_an_object_is_refused_and_nothing_of_the_provider(
    world: &World,
) -> Result<()> {
    // Published free, and strict where it is stored: the version in between decides.
    let mut crd = gadgets(&world.group);
    let mut strict = crd["spec"]["versions"][0].clone();
    strict["name"] = "v2".into();
    crd["spec"]["versions"][0]["storage"] = false.into();
    strict["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}});
    crd["spec"]["versions"]
        .as_array_mut()
        .context("versions")?
        .push(strict);
    let local = world.install(&crd).await?;
    let published = world
        .publish(&local, json!({"resource": {"version": "v1"}}))
        .await?;
    let _agent = world.start_agent()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    let kind = Kind::new(&world.group, "v1", "gadgets", "Gadget");
    team.make(&kind, "lamp", json!({"size": 7})).await;
    let event = await_event(&team.plane, "lamp", "ReconcilingError").await;
    ensure!(event["type"] == "Warning", "{event}");
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message.contains("spec.size"), "{message}");
    let internal = [
        team.cluster.as_str(),
        world.namespace.as_str(),
        world.agent.as_str(),
    ];
    let place = super::sha3_short("lamp");
    for secret in internal.iter().chain([&place.as_str()]) {
        ensure!(!message.contains(secret), "{message:?} tells of {secret}");
    }
    team.patch(&kind, "lamp", json!({"spec": {"size": 3}}))
        .await?;
    world.await_copy(&local, team.of("lamp")).await;
    Ok(())
}

async fn a_failing_rule_is_a_warning_without_its_details(world: &World) -> Result<()> {
    let rule = json!([{"cel": {"path": "spec.size", "expression": "self.spec.veryInternal + 1"}}]);
    let stage = world.stage(json!({"mutation": {"spec": rule}})).await?;
    stage.team.make(&stage.kind, "lamp", json!({})).await;
    let event = await_event(&stage.team.plane, "lamp", "ReconcilingError").await;
    ensure!(event["type"] == "Warning", "{event}");
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(
        !message.is_empty() && !message.contains("veryInternal"),
        "{message}"
    );
    Ok(())
}

async fn the_end_of_a_problem_is_told_though_nothing_is_written_for_it(
    world: &World,
) -> Result<()> {
    let expression = "value == 7 ? 1 / 0 : value";
    let rule = json!({"cel": {"path": "spec.size", "expression": expression}});
    let stage = world.stage(json!({"mutation": {"spec": [rule]}})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let plane = &stage.team.plane;
    let times = async |reason: &str| -> Result<usize> {
        let mut events = reasons(plane, "lamp").await?;
        events.retain(|event| event["reason"] == reason);
        Ok(events.len())
    };
    for round in 1..3 {
        for (size, reason) in [(7, "ReconcilingError"), (1, "ObjectSynced")] {
            let patch = json!({"spec": {"size": size}});
            stage.team.patch(&stage.kind, "lamp", patch).await?;
            eventually(SOON, "each turn is told", async || {
                let told = times(reason).await?;
                ensure!(told == round, "{reason}: {told} of {round}");
                Ok(())
            })
            .await;
        }
    }
    Ok(())
}

async fn the_owner_is_told_of_a_crd_that_is_missing(world: &World) -> Result<()> {
    let missing = Kind::new(&world.group, "v1", "widgets", "Widget");
    let broken = world.publish(&missing, json!({})).await?;
    let _agent = world.start_agent()?;
    let event = await_event(&world.service, &broken, "ReconcilingError").await;
    ensure!(event["type"] == "Warning", "{event}");
    ensure!(
        event["source"]["component"] == "syncagent-apiresourceschema",
        "{event}"
    );
    Ok(())
}

async fn the_owner_is_told_what_was_added_to_the_export(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    let schema = world.await_published(&published).await;
    let export = super::world::EXPORT;
    let event = await_event(&world.org, export, "AddingResourceSchemas").await;
    ensure!(
        event["source"]["component"] == "syncagent-apiexport",
        "{event}"
    );
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message.contains(&schema), "{message}");
    let event = await_event(&world.org, export, "AddingPermissionClaims").await;
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message.contains("events"), "{message}");
    Ok(())
}

async fn a_consumer_that_accepts_no_events_gets_its_copies_all_the_same(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let silent = world.workspace("silent").await?;
    world.bind_accepting(&silent, json!([])).await?;
    for name in ["lamp", "sofa"] {
        silent.make(&stage.kind, name, json!({"size": 1})).await;
        world.await_copy(&stage.kind, silent.of(name)).await;
    }
    silent
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    world
        .await_in_copy(&stage.kind, silent.of("lamp"), "/spec/size", json!(2))
        .await;
    silent.delete(&stage.kind, "lamp").await?;
    silent.await_gone(&stage.kind, "lamp").await;
    ensure!(reasons(&silent.plane, "lamp").await?.is_empty());
    Ok(())
}
