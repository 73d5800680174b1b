//! Names, mutations and what a service cluster makes of the result.

use anyhow::Result;
use hawser_sync::Code;
use serde_json::{Value, json};
use testbed::unique;

use super::super::world::World;
use super::{Scene, Shown, Ware, start};
use crate::agent::definition;

on_the_playground!(what_names_and_mutations_do_is_explained_and_mended);

const PLAIN: &str = "{{ .Object.metadata.name }}";

fn cel(expression: &str) -> Value {
    json!({"spec": [{"cel": {"path": "spec.size", "expression": expression}}]})
}

async fn what_names_and_mutations_do_is_explained_and_mended(world: &World) -> Result<()> {
    let shared = unique("shared");
    let taken = world
        .ware(
            "Taken",
            json!({"naming": {"name": PLAIN, "namespace": shared}, "safety": {"adoption": "Never"}}),
        )
        .await?;
    let named = |name: &str, template: &str| {
        let naming = json!({"naming": {"name": template}});
        let name = name.to_owned();
        async move { world.ware(&name, naming).await }
    };
    let odd = named("Odd", "Odd_{{ .Object.metadata.name }}").await?;
    let lost = named("Lost", "{{ index .Object.spec.names 5 }}").await?;
    let closed = json!({"naming": {"name": PLAIN, "namespace": "{{ .Object.spec.place }}"}});
    let closed = world.ware("Closed", closed).await?;
    let counted = json!({"mutation": cel("int(value) + 1")});
    let counted = world.ware("Counted", counted).await?;
    let mut strict = definition(&world.group, "stricts", "Strict");
    let schema = &mut strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] =
        json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let strict = world
        .ware_of(&strict, json!({"mutation": cel("'large'")}))
        .await?;
    let _agent = start(world, &[])?;
    let wares = [&taken, &odd, &lost, &closed, &counted, &strict];
    let scene = world.scene(&wares, &json!({})).await?;

    taken_names(&scene, &taken, &shared).await?;
    for (ware, code, spec) in [
        (&odd, Code::NameInvalid, json!({})),
        (&lost, Code::NamingFailed, json!({"names": []})),
    ] {
        scene.team.make(&ware.kind, "lamp", spec).await;
        let own = ware.of(&scene.team, "lamp");
        scene.blocks(code, "correct spec.naming", &[own]).await;
        let better = json!({"naming": {"name": PLAIN}});
        ware.republish(world, better).await?;
        scene.mended(&both_ends(&scene, ware).await).await;
    }
    let place = json!({"place": "kube-system"});
    scene.team.make(&closed.kind, "lamp", place).await;
    let own = closed.of(&scene.team, "lamp");
    let advice = "use another namespace in spec.naming";
    scene.blocks(Code::NamespaceClosed, advice, &[own]).await;
    let better = json!({"naming": {"namespace": unique("open")}});
    closed.republish(world, better).await?;
    scene.mended(&both_ends(&scene, &closed).await).await;

    let size = json!({"size": "x"});
    scene.team.make(&counted.kind, "lamp", size).await;
    let own = counted.of(&scene.team, "lamp");
    let advice = "correct spec.mutation. hawser render tries it";
    scene.blocks(Code::MutationFailed, advice, &[own]).await;
    let better = json!({"mutation": cel("value")});
    counted.republish(world, better).await?;
    scene.mended(&both_ends(&scene, &counted).await).await;

    scene
        .team
        .make(&strict.kind, "lamp", json!({"size": 1}))
        .await;
    let own = strict.of(&scene.team, "lamp");
    let advice = "or correct spec.mutation";
    scene.blocks(Code::Invalid, advice, &[own]).await;
    strict.republish(world, json!({"mutation": null})).await?;
    scene.mended(&both_ends(&scene, &strict).await).await;
    scene.has_shown(Shown::Naming)
}

/// Both ends of the lamp, once it has a copy.
async fn both_ends(scene: &Scene<'_>, ware: &Ware) -> [super::End; 2] {
    let copy = scene.copy(ware, "lamp").await;
    [ware.of(&scene.team, "lamp"), ware.copy(&copy)]
}

async fn taken_names(scene: &Scene<'_>, taken: &Ware, shared: &str) -> Result<()> {
    let world = scene.world;
    let (_, ends) = scene.made(taken, "sofa", json!({"size": 1})).await;
    scene.mended(&ends).await;
    let other = world.team("other").await?;
    other.make(&taken.kind, "sofa", json!({"size": 2})).await;
    let own = taken.of(&other, "sofa");
    let advice = "rename one of the two objects";
    scene.blocks(Code::NameConflict, advice, &[own]).await;
    other.delete(&taken.kind, "sofa").await?;
    other.make(&taken.kind, "couch", json!({"size": 2})).await;
    scene.mended(&[taken.of(&other, "couch")]).await;

    let foreign = taken.kind.object("lamp", json!({"size": 9}));
    let place = taken.kind.within(shared);
    world.service.create(&place, &foreign).await?;
    scene
        .team
        .make(&taken.kind, "lamp", json!({"size": 1}))
        .await;
    let own = taken.of(&scene.team, "lamp");
    let advice = "allow adoption in spec.safety";
    scene.blocks(Code::AdoptionRefused, advice, &[own]).await;
    let adopts = json!({"safety": {"adoption": "Unowned"}});
    taken.republish(world, adopts).await?;
    scene.mended(&both_ends(scene, taken).await).await;
    Ok(())
}
