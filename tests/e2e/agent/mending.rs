//! What an owner does about related entries that are wrong, and what a consumer about claims that it
//! has not accepted: both are told, and neither waits.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::plane::{Kind, Plane};
use super::stage::Stage;
use super::world::{PUBLISHED, World, has};

on_the_playground!(
    what_was_refused_is_looked_at_as_soon_as_its_rules_change,
    a_warning_leaves_what_is_published_ready,
    a_claim_on_what_nobody_knows_keeps_nothing_else_back,
    a_status_that_has_nowhere_to_go_is_told,
    a_claim_that_a_workspace_has_not_accepted_is_told_to_both_sides,
);

fn config_maps() -> Kind {
    Kind::new("", "v1", "configmaps", "ConfigMap")
}

fn entry(object: Value) -> Value {
    json!({"identifier": "up", "origin": "kcp", "kind": "ConfigMap", "object": object})
}

async fn publish_with(stage: &Stage<'_>, related: Value) -> Result<()> {
    let patch = json!({"spec": {"related": related}});
    stage
        .world
        .change_published(&stage.published, patch)
        .await?;
    Ok(())
}

/// Waits until the condition says something; all of it.
async fn await_ready(stage: &Stage<'_>, published: &str, status: &str, word: &str) -> Value {
    let path = format!("{PUBLISHED}/{published}");
    eventually(SOON, &format!("the condition says {word:?}"), async || {
        let found = stage.world.service.get(&path).await?;
        let ready = found["status"]["conditions"][0].clone();
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(
            ready["status"] == status && message.contains(word),
            "{ready}"
        );
        Ok(ready)
    })
    .await
}

/// Waits until the consumer is told something of one of its objects.
async fn await_told(stage: &Stage<'_>, name: &str, reason: &str, word: &str) {
    await_events(&stage.team.plane, name, reason, word).await;
}

async fn await_events(plane: &Plane, name: &str, reason: &str, word: &str) {
    eventually(SOON, &format!("the consumer reads {word:?}"), async || {
        let events = plane.list("/api/v1/events").await?;
        let about = |event: &&Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == *name
                && event["reason"] == *reason
                && message.contains(word)
        };
        ensure!(events.iter().any(|event| about(&event)), "{events:?}");
        Ok(())
    })
    .await;
}

async fn what_was_refused_is_looked_at_as_soon_as_its_rules_change(world: &World) -> Result<()> {
    let closed = json!({"reference": {"path": "spec.up"},
        "namespace": {"reference": {"path": "spec.place"}}});
    let stage = world.stage(json!({"related": [entry(closed)]})).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"k": "v"}});
    let (team, service) = (&stage.team.plane, &world.service);
    team.namespace("vault", json!({})).await.ok();
    for place in ["default", "vault"] {
        team.create(&config_maps().within(place), &map).await?;
    }
    stage
        .made("one", json!({"up": "mine", "place": "vault"}))
        .await;
    await_told(&stage, "one", "ReconcilingError", "(up)").await;
    // It would have been looked at again a minute later.
    publish_with(
        &stage,
        json!([entry(json!({"reference": {"path": "spec.up"}}))]),
    )
    .await?;
    let copy = config_maps().at(&stage.team.cluster, "mine");
    eventually(SOON, "the ConfigMap is copied", async || {
        ensure!(service.find(&copy).await?.is_some(), "it is not there");
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_warning_leaves_what_is_published_ready(world: &World) -> Result<()> {
    let naming =
        json!({"namespace": "shared", "name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"});
    let by_path = json!({"reference": {"path": "spec.up"}});
    let stage = world
        .stage(json!({"naming": naming, "related": [entry(by_path)]}))
        .await?;
    let ready = await_ready(
        &stage,
        &stage.published,
        "True",
        "warning: spec.related[0].object",
    )
    .await;
    ensure!(ready["reason"] == "Synchronizing", "{ready}");
    stage.made("one", json!({})).await;
    Ok(())
}

async fn a_claim_on_what_nobody_knows_keeps_nothing_else_back(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let unknown = json!([{"identifier": "x", "origin": "kcp", "group": "nope.io", "version": "v1",
        "resource": "gizmos", "object": {"reference": {"path": "spec.up"}}}]);
    publish_with(&stage, unknown).await?;
    await_ready(
        &stage,
        &stage.published,
        "False",
        "kcp does not take a claim on nope.io/gizmos",
    )
    .await;
    await_ready(
        &stage,
        &stage.published,
        "False",
        "gizmos.nope.io in version v1 on the service cluster",
    )
    .await;
    // The object itself is kept in step, and another one can be published.
    stage.made("one", json!({"up": "x"})).await;
    await_told(
        &stage,
        "one",
        "ReconcilingError",
        "its kind is not served here",
    )
    .await;
    let mut crd = super::definition(&world.group, "sprockets", "Sprocket");
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let kind = world.install(&crd).await?;
    let other = world.publish(&kind, json!({})).await?;
    world.await_published(&other).await;
    await_ready(&stage, &other, "True", "published as").await;
    Ok(())
}

async fn a_status_that_has_nowhere_to_go_is_told(world: &World) -> Result<()> {
    let mut crd = super::definition(&world.group, "parts", "Part");
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let part = world.install(&crd).await?;
    let plain = super::definition(&world.group, "plains", "Plain");
    let plain = world.install(&plain).await?;
    let schema_only = json!({"synchronization": {"enabled": false}});
    let parts = world.publish(&part, schema_only).await?;
    let more = json!({"related": [{
        "identifier": "part", "origin": "kcp", "group": part.group, "version": "v1", "resource": "parts",
        "projection": {"resource": "plains"}, "syncStatus": true,
        "object": {"reference": {"path": "spec.part"}},
    }]});
    let stage = world.stage(more).await?;
    world.await_published(&parts).await;
    stage.made("lamp", json!({"part": "bulb"})).await;
    stage.team.make(&part, "bulb", json!({"watts": 5})).await;
    let status = format!("{}/status", part.at("default", "bulb"));
    let patch = json!({"status": {"lit": true}});
    stage.team.plane.merge(&status, patch).await?;
    await_told(&stage, "lamp", "StatusSubresourceMissing", "(part)").await;
    let copy = world
        .service
        .get(&plain.at(&stage.team.cluster, "bulb"))
        .await?;
    has(&copy, "/spec", &json!({"watts": 5}))?;
    Ok(())
}

async fn a_claim_that_a_workspace_has_not_accepted_is_told_to_both_sides(
    world: &World,
) -> Result<()> {
    let mut down = entry(json!({"reference": {"path": "spec.down"}}));
    down["origin"] = "service".into();
    let stage = world.stage(json!({"related": [down]})).await?;
    let poor = world.workspace("poor").await?;
    let events = json!([{"group": "", "resource": "events", "all": true, "state": "Accepted"}]);
    world.bind_accepting(&poor, events).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "given"}, "data": {"k": "v"}});
    world.service.namespace(&poor.cluster, json!({})).await.ok();
    world
        .service
        .create(&config_maps().within(&poor.cluster), &map)
        .await?;
    poor.make(&stage.kind, "one", json!({"down": "given"}))
        .await;
    await_events(
        &poor.plane,
        "one",
        "ReconcilingError",
        "has to accept the permission claim",
    )
    .await;
    let word = "1 workspace does not let the agent write ConfigMap";
    await_ready(&stage, &stage.published, "True", word).await;
    world.bind(&poor).await.ok();
    Ok(())
}
