//! Servers that do not answer, refuse or store something else, and writers who insist.

use std::time::Duration;

use anyhow::{Context as _, Result};
use hawser_sync::Code;
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};

use super::super::world::World;
use super::{End, Scene, Shown, Ware, name_of, start};

on_the_playground!(what_servers_and_other_writers_do_is_explained_and_mended);

fn status(code: u16) -> Action {
    Action::Status {
        code,
        when: When::Before,
    }
}

async fn what_servers_and_other_writers_do_is_explained_and_mended(world: &World) -> Result<()> {
    let naming = json!({"naming": {"name": "{{ .Object.metadata.name }}"}});
    let ware = world.ware("Gadget", naming).await?;
    let _agent = start(world, &[])?;
    let scene = world.scene(&[&ware], &json!({})).await?;
    answers(&scene, &ware).await?;
    stored_otherwise(&scene, &ware).await?;
    too_large(&scene, &ware).await?;
    contested(&scene, &ware).await?;
    scene.has_shown(Shown::Faults)
}

async fn resize(scene: &Scene<'_>, ware: &Ware, name: &str) -> Result<()> {
    let edit = json!({"spec": {"size": 2}});
    scene.team.patch(&ware.kind, name, edit).await?;
    Ok(())
}

/// The name of the state of an object.
async fn state(scene: &Scene<'_>, end: &End) -> Result<String> {
    let object = scene.explained(end).await?;
    let state = object["state"].as_str().context("no state")?;
    Ok(state.rsplit('/').next().unwrap_or_default().to_owned())
}

async fn answers(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let world = scene.world;
    let clear = || world.playground.faults().clear();
    let (_, ends) = scene.made(ware, "mute", json!({"size": 1})).await;
    scene.strike("patch", &ware.kind.plural, "mute", status(503));
    resize(scene, ware, "mute").await?;
    let advice = "check that the server is reachable";
    scene.blocks(Code::NoAnswer, advice, &ends).await;
    clear();
    scene.mended(&ends).await;

    let (_, ends) = scene.made(ware, "dark", json!({"size": 1})).await;
    scene.mended(&ends).await;
    let secret = state(scene, &ends[0]).await?;
    scene.strike("get", &ware.kind.plural, "dark", status(403));
    let at = format!("/api/v1/namespaces/{}/secrets/{secret}", world.namespace);
    world.service.delete(&at).await?;
    resize(scene, ware, "dark").await?;
    let advice = "that the agent may read the object";
    scene.blocks(Code::NotSeen, advice, &ends).await;
    clear();
    scene.mended(&ends).await;

    let (_, ends) = scene.made(ware, "busy", json!({"size": 1})).await;
    scene.mended(&ends).await;
    let secret = state(scene, &ends[0]).await?;
    scene.strike("update", "secrets", &secret, status(409));
    resize(scene, ware, "busy").await?;
    let advice = "find the other writer";
    scene.blocks(Code::TooManyChanges, advice, &ends).await;
    clear();
    scene.mended(&ends).await;
    Ok(())
}

/// A webhook of the workspace that changes what is reported there.
async fn stored_otherwise(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let (copy, ends) = scene.made(ware, "shaped", json!({"size": 1})).await;
    scene.mended(&ends).await;
    let webhook = Matcher {
        cluster: Some(scene.team.cluster.clone()),
        verb: Some("update".to_owned()),
        resource: Some(ware.kind.plural.clone()),
        name: Some("shaped".to_owned()),
        ..Matcher::default()
    };
    let faults = scene.world.playground.faults();
    faults.add(Fault::new(webhook, Action::Mutate(phase("theirs"))));
    let status = status_of(ware, &copy)?;
    scene.world.service.merge(&status, phase("ours")).await?;
    let advice = "an admission webhook";
    scene.blocks(Code::StoredOtherwise, advice, &ends).await;
    scene.world.playground.faults().clear();
    scene.mended(&ends).await;
    Ok(())
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

/// Where a provider writes the status of a copy.
fn status_of(ware: &Ware, copy: &Value) -> Result<String> {
    let namespace = copy["metadata"]["namespace"].as_str();
    let namespace = namespace.context("no namespace")?;
    Ok(format!(
        "{}/status",
        ware.kind.at(namespace, name_of(copy)?)
    ))
}

/// A server with a limit below that of the workspace.
async fn too_large(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let own = ware.of(&scene.team, "vast");
    scene.strike_all("create", &ware.kind.plural, status(413));
    let spec = json!({"size": 1, "text": "long"});
    scene.team.make(&ware.kind, "vast", spec).await;
    let ends = [own.clone()];
    let advice = "make the object smaller";
    scene.blocks(Code::TooLarge, advice, &ends).await;
    scene.world.playground.faults().clear();
    let smaller = json!({"spec": {"text": null}});
    scene.team.patch(&ware.kind, "vast", smaller).await?;
    let copy = scene.copy(ware, "vast").await;
    scene.mended(&[own, ware.copy(&copy)]).await;
    Ok(())
}

/// Runs a program that writes as soon as it may, while something is awaited.
pub(super) async fn beside<T>(
    write: impl AsyncFn() -> Result<()>,
    awaited: impl Future<Output = T>,
) -> T {
    let insists = async {
        loop {
            // It tries again, whatever happens.
            let _ = write().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        found = awaited => found,
        () = insists => unreachable!("it never ends"),
    }
}

async fn contested(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let (copy, ends) = scene.made(ware, "torn", json!({"size": 1})).await;
    let on_copy = status_of(ware, &copy)?;
    scene.world.service.merge(&on_copy, phase("ours")).await?;
    let own = format!("{}/status", ware.kind.at("default", "torn"));
    let insists = async || -> Result<()> {
        let torn: Value = scene.team.get(&ware.kind, "torn").await?;
        if torn["status"]["phase"] == "ours" {
            scene.team.plane.merge(&own, phase("theirs")).await?;
        }
        Ok(())
    };
    let advice = "find the other writer in metadata.managedFields";
    beside(insists, scene.blocks(Code::Contested, advice, &ends)).await;
    // The other writer has stopped.
    scene.mended(&ends).await;
    Ok(())
}
