//! Objects that take long to work out: what they cost others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::world::World;

on_the_playground!(large_objects_of_a_workspace_cost_neither_others_their_turn_nor_the_lease,);

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
