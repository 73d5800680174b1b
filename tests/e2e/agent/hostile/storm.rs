//! A consumer with more than half of all workspaces, who deletes everything in them at once.

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::eventually;

use crate::agent::SOON;
use crate::agent::world::{PUBLISHED, World};

/// Workspaces of the consumer, and objects in each.
const WORKSPACES: usize = 6;
const OBJECTS: usize = 10;
/// Objects of the well-behaved tenant, and how many it deletes.
const STANDING: usize = 9;
const DELETED: usize = 2;

pub(super) async fn who_has_more_than_half_of_all_workspaces_makes_only_its_own_deletions_wait(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (good, kind) = (stage.team.clone(), &stage.kind);
    let mut bad = Vec::new();
    for number in 0..WORKSPACES {
        bad.push(world.team(&format!("bad{number}")).await?);
    }
    let lamps =
        || (0..OBJECTS).flat_map(|n| bad.iter().map(move |team| (team, format!("lamp{n}"))));
    for (team, name) in lamps() {
        team.make(kind, &name, json!({})).await;
    }
    for n in 0..STANDING {
        good.make(kind, &format!("standing{n}"), json!({})).await;
    }
    for (team, name) in lamps() {
        world.await_copy(kind, team.of(&name)).await;
    }
    for n in 0..STANDING {
        world
            .await_copy(kind, good.of(&format!("standing{n}")))
            .await;
    }
    for (team, name) in lamps() {
        team.delete(kind, &name).await?;
    }
    let at = format!("{PUBLISHED}/{}", stage.published);
    eventually(SOON, "the deletions are held", async || {
        let found = world.service.get(&at).await?;
        let ready = &found["status"]["conditions"][0];
        ensure!(ready["reason"] == "DeletionsHeld", "{ready}");
        Ok(())
    })
    .await;
    for n in 0..DELETED {
        let name = format!("standing{n}");
        good.delete(kind, &name).await?;
        good.await_gone(kind, &name).await;
        world.await_no_copy(kind, good.of(&name)).await;
    }
    // Nobody has approved anything.
    let found = world.service.get(&at).await?;
    let ready = &found["status"]["conditions"][0];
    ensure!(ready["reason"] == "DeletionsHeld", "{ready}");
    let left = world.service.list(&kind.everywhere()).await?.len();
    ensure!(left > STANDING - DELETED, "{left} are left");
    Ok(())
}
