//! Objects that take long to work out: what they cost others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::world::{World, has};

on_the_playground!(
    large_objects_of_a_workspace_cost_neither_others_their_turn_nor_the_lease,
    beyond_the_cache_limit_of_a_workspace_nothing_is_copied_and_nothing_is_lost,
);

on_our_ground!(objects_as_large_as_servers_take_are_kept_in_step,);

/// As large as servers take them.
const ITEMS: usize = 5_000;
const NOTE: usize = 240;
/// Each is looked at again and again: what is remembered of it would be too large for a Secret.
const OBJECTS: usize = 6;

async fn large_objects_of_a_workspace_cost_neither_others_their_turn_nor_the_lease(
    world: &World,
) -> Result<()> {
    let kind = world.gadgets().await?;
    let each =
        |template: &str| json!({"template": {"path": "spec.items[*].image", "template": template}});
    let mutation = json!({"spec": [
        each("reg/{{ .Value }}"),
        each("{{ .Value }}-{{ len .LocalObject.spec.items }}{{ with .RemoteObject.none }}x{{ end }}"),
    ]});
    let published = world.publish(&kind, json!({"mutation": mutation})).await?;
    let agent = world.launch()?.arg("--enable-leader-election").spawn()?;
    world.await_published(&published).await;
    let (heavy, light) = (world.team("heavy").await?, world.team("light").await?);
    world.await_marker(&kind, &light).await;
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/syncagent.{}",
        world.namespace, world.agent
    );
    let before = world.service.get(&lease).await?["spec"].clone();

    let items = |number| -> Vec<Value> {
        let item = |i| json!({"image": format!("image-{number}-{i}"), "note": "x".repeat(NOTE)});
        (0..ITEMS).map(item).collect()
    };
    for number in 0..OBJECTS {
        let spec = json!({"items": items(number)});
        heavy.make(&kind, &format!("heavy{number}"), spec).await;
    }
    for number in 0..5 {
        let name = format!("light{number}");
        light.make(&kind, &name, json!({})).await;
        world.await_copy(&kind, light.of(&name)).await;
    }
    let exit = agent.exit();
    ensure!(exit.is_none(), "the agent ended: {exit:?}");
    eventually(SOON, "the lease is renewed", async || {
        let now = world.service.get(&lease).await?["spec"].clone();
        ensure!(now["renewTime"] != before["renewTime"], "{now}");
        for field in ["holderIdentity", "leaseTransitions"] {
            ensure!(now[field] == before[field], "{now}");
        }
        Ok(())
    })
    .await;
    Ok(())
}

async fn beyond_the_cache_limit_of_a_workspace_nothing_is_copied_and_nothing_is_lost(
    world: &World,
) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let begin = || world.launch()?.arg("--workspace-cache-mib=2").spawn();
    let agent = begin()?;
    world.await_published(&published).await;
    let (heavy, light) = (world.team("heavy").await?, world.team("light").await?);
    // There is room for one of these.
    let large = || "x".repeat(1_200_000);
    heavy.make(&kind, "lamp", json!({"size": 1})).await;
    world.await_copy(&kind, heavy.of("lamp")).await;
    heavy.make(&kind, "large0", json!({"blob": large()})).await;
    world.await_copy(&kind, heavy.of("large0")).await;
    heavy.make(&kind, "large1", json!({"blob": large()})).await;
    let grown = json!({"spec": {"size": 2, "blob": large()}});
    heavy.patch(&kind, "lamp", grown).await?;
    for name in ["large1", "lamp"] {
        eventually(SOON, "its owner is told", async || -> Result<()> {
            let told = heavy
                .plane
                .list("/api/v1/namespaces/default/events")
                .await?;
            let is_told = |event: &Value| {
                let message = event["message"].as_str().unwrap_or_default();
                event["involvedObject"]["name"] == name && message.contains("exceed the size")
            };
            ensure!(told.iter().any(is_told), "{told:?}");
            Ok(())
        })
        .await;
    }
    light.make(&kind, "large", json!({"blob": large()})).await;
    world.await_copy(&kind, light.of("large")).await;
    world.await_marker(&kind, &heavy).await;

    // Another process reads them in another order, and leaves out one that has a copy.
    agent.kill().await?;
    let _agent = begin()?;
    for team in [&heavy, &light] {
        world.await_marker(&kind, team).await;
    }
    ensure!(world.copy(&kind, heavy.of("large1")).await?.is_none());
    let standing = world.copy(&kind, heavy.of("large0")).await?;
    ensure!(standing.is_some(), "a copy is gone");
    world
        .await_in_copy(&kind, heavy.of("lamp"), "/spec/size", json!(2))
        .await;
    heavy.delete(&kind, "large0").await?;
    heavy.await_gone(&kind, "large0").await;
    world.await_no_copy(&kind, heavy.of("large0")).await;
    heavy.delete(&kind, "lamp").await?;
    heavy.await_gone(&kind, "lamp").await;
    // There is room again.
    let changed = json!({"spec": {"size": 3}});
    heavy.patch(&kind, "large1", changed).await?;
    world
        .await_in_copy(&kind, heavy.of("large1"), "/spec/size", json!(3))
        .await;
    Ok(())
}

/// What is remembered of most of these would be too large for a Secret.
async fn objects_as_large_as_servers_take_are_kept_in_step(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let text = |bytes: usize| json!({"first": "x".repeat(bytes), "second": 1, "third": 1});
    let list = |bytes: usize| {
        let items: Vec<Value> = (0..bytes / 40)
            .map(|n| json!({"note": format!("{n:029}")}))
            .collect();
        json!({"first": items, "second": 1, "third": 1})
    };
    // Servers keep an account of each field of a map, which is as large again.
    let map = |bytes: usize| {
        let of = (0..bytes / 15).map(|n| (format!("k{n:08}"), json!(1)));
        json!({"first": of.collect::<serde_json::Map<_, _>>(), "second": 1, "third": 1})
    };
    let mut specs = vec![("map", map(600_000))];
    for (name, bytes) in [("s", 700_000), ("m", 1_000_000), ("l", 1_400_000)] {
        specs.extend([(name, text(bytes))]);
    }
    for (name, bytes) in [
        ("list-s", 700_000),
        ("list-m", 1_000_000),
        ("list-l", 1_400_000),
    ] {
        specs.extend([(name, list(bytes))]);
    }
    for (name, spec) in &specs {
        let (_, copy) = stage.made(name, spec.clone()).await;
        has(&copy, "/spec", spec)?;
    }
    for (name, _) in &specs {
        // What was taken out is missed only by who remembers it.
        let change = json!({"spec": {"second": 2, "third": null}});
        stage.team.patch(&stage.kind, name, change).await?;
    }
    for (name, _) in &specs {
        let copy = stage.await_in_copy(name, "/spec/second", json!(2)).await;
        ensure!(
            copy["spec"]["third"].is_null(),
            "{name} has kept what is gone"
        );
        let status = format!("{}/status", stage.place(&copy));
        let said = json!({"status": {"phase": "Ready"}});
        world.service.merge(&status, said).await?;
    }
    for (name, _) in &specs {
        let (team, kind) = (&stage.team, &stage.kind);
        team.await_in(kind, name, "/status/phase", json!("Ready"))
            .await;
        team.delete(kind, name).await?;
        team.await_gone(kind, name).await;
    }
    Ok(())
}
