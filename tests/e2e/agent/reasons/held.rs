//! Many deletions at once.

use anyhow::{Context as _, Result, ensure};
use hawser_sync::Code;
use serde_json::json;
use testbed::eventually;

use super::super::masses::{approve, await_held, delete_all, eight_teams};
use super::super::stage::Stage;
use super::super::world::World;
use super::{Scene, Shown, Ware, start};
use crate::agent::SOON;

on_the_playground!(held_deletions_are_explained_and_approved);

async fn held_deletions_are_explained_and_approved(world: &World) -> Result<()> {
    let ware = world.ware("Gadget", json!({})).await?;
    let agent = start(world, &[])?;
    let scene = world.scene(&[&ware], &json!({})).await?;
    let Ware { kind, published } = &ware;
    let stage = Stage {
        world,
        kind: kind.clone(),
        published: published.clone(),
        team: scene.team.clone(),
        agent,
    };
    let teams = eight_teams(&stage).await?;
    delete_all(&stage, &teams).await?;
    let condition = await_held(&stage).await;
    let (copy, ends) = still_held(&scene, &ware, &teams).await;
    let advice = "approve the deletions";
    scene.blocks(Code::Held, advice, &ends).await;
    approve(&stage, &condition).await?;
    eventually(SOON, "the copy is gone", async || {
        let found = world.service.list(&kind.everywhere()).await?;
        ensure!(
            !found
                .iter()
                .any(|one| one["metadata"]["uid"] == copy["metadata"]["uid"])
        );
        Ok(())
    })
    .await;
    scene.is_gone(&ends[0]).await;
    scene.has_shown(Shown::Held)
}

/// A copy that is there though its object is deleted, and both ends.
async fn still_held(
    scene: &Scene<'_>,
    ware: &Ware,
    teams: &[super::Team],
) -> (serde_json::Value, [super::End; 2]) {
    eventually(SOON, "a copy is held", async || {
        let found = scene.world.service.list(&ware.kind.everywhere()).await?;
        let copy = found.into_iter().next().context("no copy is left")?;
        let cluster = &copy["metadata"]["labels"]["syncagent.kcp.io/remote-object-cluster"];
        let team = teams.iter().find(|team| *cluster == *team.cluster);
        let name = &copy["metadata"]["annotations"]["syncagent.kcp.io/remote-object-name"];
        let name = name.as_str().context("no name")?.to_owned();
        let ends = [ware.of(team.context("no team")?, &name), ware.copy(&copy)];
        let object = scene.explained(&ends[0]).await?;
        ensure!(object["reason"]["code"] == "Held", "{object:#}");
        anyhow::Ok((copy, ends))
    })
    .await
}
