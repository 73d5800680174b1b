//! Objects that are too large or too deep, alone or together.

use anyhow::Result;
use base64::Engine as _;
use hawser_sync::Code;
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};
use testbed::unique;

use super::super::world::World;
use super::{Scene, Shown, Ware, start};
use crate::agent::SOON;

on_the_playground!(what_is_too_large_or_too_deep_is_explained_and_mended);

/// The levels of a value, those above it, and those that a mutation adds: together more than are read.
const LEVELS: usize = 80;
const ABOVE: usize = 40;
const MORE: usize = 19;

async fn what_is_too_large_or_too_deep_is_explained_and_mended(world: &World) -> Result<()> {
    let ware = world.ware("Gadget", json!({})).await?;
    let maps = json!({"related": [{
        "identifier": "maps", "origin": "service", "kind": "ConfigMap",
        "object": {"reference": {"path": "spec.maps"}},
    }]});
    let many = world.ware("Many", maps.clone()).await?;
    let wrapped = format!("{}value{}", "[".repeat(MORE), "]".repeat(MORE));
    let path = format!("spec.{}free", "a.".repeat(ABOVE));
    let wrapped = world
        .ware(
            "Wrapped",
            json!({
                "naming": {"namespace": unique("wrapped")},
                "mutation": {"spec": [{"cel": {"path": path, "expression": wrapped}}]},
            }),
        )
        .await?;
    let agent = start(world, &[])?;
    let scene = world.scene(&[&ware, &many, &wrapped], &maps).await?;
    too_deep(&scene, &ware).await?;
    large_state(&scene, &many).await?;

    agent.stop(SOON).await?;
    let deep = (0..LEVELS).fold(json!(1), |inner, _| json!([inner]));
    let spec = (0..ABOVE).fold(json!({ "free": deep }), |inner, _| json!({ "a": inner }));
    let object = wrapped.kind.object("lamp", spec);
    let place = wrapped.kind.within("default");
    scene.team.make_at(&place, &object).await;
    let own = wrapped.of(&scene.team, "lamp");
    let advice = "or correct spec.mutation";
    let ends = [own.clone()];
    scene.blocks(Code::StateNotKept, advice, &ends).await;
    wrapped.republish(world, json!({"mutation": null})).await?;

    let agent = start(world, &["--workspace-cache-mib=2"])?;
    let copy = scene.copy(&wrapped, "lamp").await;
    scene.mended(&[own, wrapped.copy(&copy)]).await;
    let heavy = world.team("heavy").await?;
    let large = || json!({"blob": "x".repeat(1_200_000)});
    heavy.make(&ware.kind, "first", large()).await;
    world.await_copy(&ware.kind, heavy.of("first")).await;
    heavy.make(&ware.kind, "second", large()).await;
    let own = ware.of(&heavy, "second");
    let advice = "raise --workspace-cache-mib of the agent";
    let ends = [own.clone()];
    scene.blocks(Code::CacheLimitExceeded, advice, &ends).await;
    agent.stop(SOON).await?;
    let _agent = start(world, &[])?;
    let copy = world.await_copy(&ware.kind, heavy.of("second")).await;
    scene.mended(&[own, ware.copy(&copy)]).await;
    scene.has_shown(Shown::Sizes)
}

async fn too_deep(scene: &Scene<'_>, ware: &Ware) -> Result<()> {
    let (_, ends) = scene.made(ware, "deep", json!({"size": 1})).await;
    let (open, close) = ("[".repeat(9_000), "]".repeat(9_000));
    let patch = format!("{{\"spec\":{{\"free\":{open}{close}}}}}");
    let at = ware.kind.at("default", "deep");
    scene.team.plane.send("PATCH", &at, patch).await?;
    let advice = "nest the object less deeply";
    scene.blocks(Code::TooDeep, advice, &ends).await;
    let flat = json!({"spec": {"free": null}});
    scene.team.patch(&ware.kind, "deep", flat).await?;
    scene.mended(&ends).await;
    Ok(())
}

/// Many values that are small and have nothing in common: nothing of them can be left out or packed.
fn noise(number: usize) -> Value {
    let value = |n: usize| {
        let half = |half: u8| Sha1::digest(format!("{number} {n} {half}"));
        let text = [half(0), half(1)].concat();
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let data: Map<String, Value> = (0..6_000)
        .map(|n| (format!("k{n}"), value(n).into()))
        .collect();
    data.into()
}

async fn large_state(scene: &Scene<'_>, many: &Ware) -> Result<()> {
    let (_, ends) = scene.made(many, "lamp", json!({"maps": []})).await;
    let names: Vec<String> = (0..6).map(|number| format!("map{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": noise(number)});
        let place = format!("/api/v1/namespaces/{}/configmaps", scene.team.cluster);
        scene.world.service.create(&place, &map).await?;
    }
    let all = json!({"spec": {"maps": names}});
    scene.team.patch(&many.kind, "lamp", all).await?;
    let advice = "make the object, or those that belong to it, smaller";
    scene.blocks(Code::StateTooLarge, advice, &ends).await;
    let one = json!({"spec": {"maps": ["map0"]}});
    scene.team.patch(&many.kind, "lamp", one).await?;
    scene.mended(&ends).await;
    Ok(())
}
