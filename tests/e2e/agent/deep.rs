//! Objects that are nested deeper than can be read: a server takes them, and nobody else may suffer.

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::eventually;

use super::SOON;
use super::stage::Stage;
use super::world::{World, has};

on_our_ground!(
    an_object_that_is_too_deep_stops_nobody,
    a_status_that_is_too_deep_stops_nobody,
);

on_the_playground!(
    an_object_that_is_too_deep_stops_nobody,
    a_status_that_is_too_deep_stops_nobody,
);

on_a_slow_kcp!(
    an_object_that_is_too_deep_stops_nobody,
    a_status_that_is_too_deep_stops_nobody,
);

/// As deep as servers take objects, with room for what is around it.
const LEVELS: usize = 9_000;

/// A document that ends in a value of so many levels.
fn deep(before: &str) -> String {
    let (open, close) = ("[".repeat(LEVELS), "]".repeat(LEVELS));
    let braces = "}".repeat(before.matches('{').count());
    format!("{before}{open}{close}{braces}")
}

/// An agent that begins anew with what there is.
async fn restarted(stage: Stage<'_>) -> Result<Stage<'_>> {
    stage.agent.kill().await?;
    let agent = stage.world.start_agent()?;
    Ok(Stage { agent, ..stage })
}

async fn an_object_that_is_too_deep_stops_nobody(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    let (team, kind) = (&stage.team, &stage.kind);
    stage.made("lamp", json!({"size": 1})).await;
    stage.made("leaving", json!({"size": 1})).await;

    let (api, name) = (format!("{}/{}", kind.group, kind.version), &kind.name);
    let object = format!(
        r#"{{"apiVersion":"{api}","kind":"{name}","metadata":{{"name":"deep"}},{}"#,
        &deep(r#"{"spec":{"free":"#)[1..]
    );
    let place = kind.within("default");
    team.plane.send("POST", &place, object).await?;
    for lamp in ["lamp", "leaving"] {
        let patch = deep(r#"{"spec":{"size":2,"free":"#);
        let place = kind.at("default", lamp);
        team.plane.send("PATCH", &place, patch).await?;
    }
    // Neither its own workspace nor another one waits for it.
    world.await_marker(kind, &other).await;
    world.await_marker(kind, team).await;
    eventually(SOON, "its owner is told", async || -> Result<()> {
        let place = "/api/v1/namespaces/default/events";
        let told = team.plane.list(place).await?;
        let deep = |event: &&serde_json::Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == "deep" && message.contains("nested deeper")
        };
        ensure!(told.iter().any(|event| deep(&event)), "{told:?}");
        Ok(())
    })
    .await;

    let stage = restarted(stage).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    world.await_marker(kind, &other).await;
    world.await_marker(kind, team).await;
    ensure!(world.copy(kind, stage.of("deep")).await?.is_none());
    let copy = stage.copy("lamp").await;
    has(&copy, "/spec", &json!({"size": 1}))?;

    // Its end, and its becoming readable, are seen.
    let leaving = kind.at("default", "leaving");
    team.plane.send("DELETE", &leaving, String::new()).await?;
    world.await_no_copy(kind, stage.of("leaving")).await;
    team.await_gone(kind, "leaving").await;
    for lamp in ["lamp", "deep"] {
        let flat = json!({"spec": {"size": 3, "free": null}});
        team.patch(kind, lamp, flat).await?;
        stage.await_in_copy(lamp, "/spec/size", json!(3)).await;
    }
    Ok(())
}

async fn a_status_that_is_too_deep_stops_nobody(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let (_, leaving) = stage.made("leaving", json!({"size": 1})).await;
    for copy in [&copy, &leaving] {
        let status = format!("{}/status", stage.place(copy));
        let patch = deep(r#"{"status":{"free":"#);
        world.service.send("PATCH", &status, patch).await?;
    }
    let change = json!({"spec": {"size": 2}});
    team.patch(kind, "lamp", change).await?;
    world.await_marker(kind, &other).await;
    world.await_marker(kind, team).await;

    let stage = restarted(stage).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    world.await_marker(kind, &other).await;
    world.await_marker(kind, team).await;
    // Deleted although nobody can read it.
    team.delete(kind, "leaving").await?;
    team.await_gone(kind, "leaving").await;
    let gone = world.service.find(&stage.place(&leaving)).await?;
    ensure!(gone.is_none(), "{gone:?}");
    // Readable again, it takes what it has missed and tells its status.
    let status = format!("{}/status", stage.place(&copy));
    let flat = json!({"status": {"free": null, "ready": true}});
    world.service.merge(&status, flat).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    team.await_in(kind, "lamp", "/status/ready", json!(true))
        .await;
    Ok(())
}
