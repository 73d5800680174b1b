//! What happens to objects from their creation to their end.

use anyhow::Result;
use hawser_sync::Code;
use serde_json::{Value, json};
use testbed::{eventually, unique};

use super::super::pause::{annotations, soon};
use super::super::world::World;
use super::{Scene, Shown, Ware, name_of, start};
use crate::agent::SOON;

on_the_playground!(what_happens_in_the_life_of_objects_is_explained);

const HOLD: &str = "example.org/hold";

fn held(by: Value) -> Value {
    json!({"metadata": {"finalizers": by}})
}

async fn what_happens_in_the_life_of_objects_is_explained(world: &World) -> Result<()> {
    let ware = world.ware("Gadget", json!({})).await?;
    let place = unique("place");
    let housed = json!({"naming": {"name": "{{ .Object.metadata.name }}", "namespace": place}});
    let housed = world.ware("Housed", housed).await?;
    let mut agent = start(world, &[])?;
    let scene = world.scene(&[&ware, &housed], &json!({})).await?;
    let (_, lamp) = scene.made(&ware, "lamp", json!({"size": 1})).await;
    scene.settles(Code::InStep, &lamp).await;
    let (_, orphan) = scene.made(&ware, "orphan", json!({"size": 1})).await;

    agent.stop(SOON).await?;
    let edit = json!({"spec": {"size": 2}});
    scene.team.patch(&ware.kind, "lamp", edit).await?;
    scene
        .blocks(Code::Working, "check that an agent leads", &lamp)
        .await;
    // Somebody removes the finalizer of another one meanwhile.
    let lets_go = held(Value::Null);
    scene.team.patch(&ware.kind, "orphan", lets_go).await?;
    scene.team.delete(&ware.kind, "orphan").await?;
    scene.team.await_gone(&ware.kind, "orphan").await;
    agent = start(world, &[])?;
    scene.mended(&lamp).await;
    scene.settles(Code::NoSource, &orphan[1..]).await;

    paused(&scene, &ware, &lamp).await?;
    deletions(&scene, &ware).await?;
    namespace_in_deletion(&scene, &housed, &place).await?;
    unbound(&scene, &ware).await?;
    drop(agent);
    scene.has_shown(Shown::Life)
}

async fn paused(scene: &Scene<'_>, ware: &Ware, lamp: &[super::End]) -> Result<()> {
    let mut pause = annotations(soon(3_600).into());
    pause["spec"] = json!({"size": 3});
    scene.team.patch(&ware.kind, "lamp", pause).await?;
    let advice = "remove its annotations syncagent.kcp.io/pause-";
    scene.blocks(Code::Paused, advice, lamp).await;
    let mut removed = annotations(Value::Null);
    if let Some(names) = removed["metadata"]["annotations"].as_object_mut() {
        names.values_mut().for_each(|value| *value = Value::Null);
    }
    scene.team.patch(&ware.kind, "lamp", removed).await?;
    scene.mended(lamp).await;
    Ok(())
}

async fn deletions(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let (copy, ends) = scene.made(ware, "leaving", json!({"size": 1})).await;
    let home = copy["metadata"]["namespace"].as_str().unwrap_or_default();
    let at = ware.kind.at(home, name_of(&copy)?);
    scene.world.service.merge(&at, held(json!([HOLD]))).await?;
    scene.team.delete(&ware.kind, "leaving").await?;
    let advice = "or remove these finalizers";
    scene.blocks(Code::WaitingForDeletion, advice, &ends).await;
    scene.world.service.merge(&at, held(Value::Null)).await?;
    scene.team.await_gone(&ware.kind, "leaving").await;
    scene.is_gone(&ends[0]).await;

    // The agent has let go, another program has not.
    scene.made(ware, "kept", json!({"size": 1})).await;
    hold(scene, ware, "kept").await?;
    scene.team.delete(&ware.kind, "kept").await?;
    let own = [ware.of(&scene.team, "kept")];
    scene.settles(Code::Gone, &own).await;
    Ok(())
}

/// Adds the finalizer of another program.
async fn hold(scene: &Scene<'_>, ware: &Ware, name: &str) -> Result<()> {
    eventually(
        SOON,
        "another finalizer is added",
        async || -> Result<()> {
            let found = scene.team.get(&ware.kind, name).await?;
            let mut finalizers = found["metadata"]["finalizers"].clone();
            if let Some(finalizers) = finalizers.as_array_mut() {
                finalizers.push(HOLD.into());
            }
            let mut patch = held(finalizers);
            patch["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            scene.team.patch(&ware.kind, name, patch).await?;
            Ok(())
        },
    )
    .await;
    Ok(())
}

async fn namespace_in_deletion(scene: &Scene<'_>, housed: &Ware, place: &str) -> Result<()> {
    let service = &scene.world.service;
    service.namespace(place, json!({})).await?;
    let mut stays = housed.kind.object("stays", json!({}));
    stays["metadata"]["finalizers"] = json!([HOLD]);
    service.create(&housed.kind.within(place), &stays).await?;
    service
        .delete(&format!("/api/v1/namespaces/{place}"))
        .await?;
    let lamp = json!({"size": 1});
    scene.team.make(&housed.kind, "lamp", lamp).await;
    let own = housed.of(&scene.team, "lamp");
    let advice = "wait until the namespace of the copy is deleted";
    let ends = [own.clone()];
    scene.blocks(Code::WaitingForNamespace, advice, &ends).await;
    let at = housed.kind.at(place, "stays");
    service.merge(&at, held(Value::Null)).await?;
    let copy = scene.copy(housed, "lamp").await;
    scene.mended(&[own, housed.copy(&copy)]).await;
    Ok(())
}

/// A workspace that leaves keeps its copies.
async fn unbound(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    scene.made(ware, "left", json!({"size": 1})).await;
    hold(scene, ware, "left").await?;
    scene.world.unbind(&scene.team).await?;
    let own = [ware.of(&scene.team, "left")];
    scene.settles(Code::Kept, &own).await;
    Ok(())
}
