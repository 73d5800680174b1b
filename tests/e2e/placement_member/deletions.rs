//! Works that go: what is abandoned stays, and nobody else's owner keeps one for ever.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::unique;

use super::world::{APPLIED, AwaitWork as _, WORKS, World, config_map, config_maps, work};

#[tokio::test]
async fn what_a_work_placed_stays_if_the_hub_abandons_it() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("abandoned");
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    hub.create(WORKS, &work(&name, &[manifest], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    let placed = member.get(&path).await?.unwrap();
    assert_eq!(placed["metadata"]["ownerReferences"][0]["name"], *name);
    let at = format!("{WORKS}/{name}");
    let abandon =
        json!({"metadata": {"annotations": {"hawser.dev/propagation-policy": "Abandon"}}});
    hub.patch(&at, &abandon).await?;
    hub.delete(&at).await?;
    hub.until_gone(&at).await;
    member.until_gone(&format!("{APPLIED}/{name}")).await;
    let left = member.get(&path).await?.unwrap();
    assert_eq!(left["metadata"]["uid"], placed["metadata"]["uid"]);
    assert_eq!(left["data"], json!({"a": "1"}));
    assert!(left["metadata"]["ownerReferences"].is_null(), "{left:#}");
    assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left:#}");
    Ok(())
}

#[tokio::test]
async fn an_object_whose_other_owner_nobody_knows_does_not_keep_a_work_for_ever() -> Result<()> {
    let mut world = World::new().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    // A Work that no agent has seen goes at once.
    let name = unique("shared");
    let at = format!("{WORKS}/{name}");
    hub.create(WORKS, &work(&name, &[], &json!(null))).await?;
    hub.delete(&at).await?;
    assert_eq!(hub.get(&at).await?, None);
    world.start_with(&["--deletion-wait-time=1s"])?;
    // The garbage collector cannot ask for an owner of a kind that is not served, and waits.
    let mut there = config_map("default", &name, &json!({"a": "1"}));
    there["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "gone.example.org/v1", "kind": "Ghost", "name": "g", "uid": "1-2-3",
    }]);
    member.create(&config_maps("default"), &there).await?;
    let manifest = config_map("default", &name, &json!({"a": "2"}));
    let strategy = json!({"allowCoOwnership": true});
    hub.create(WORKS, &work(&name, &[manifest], &strategy))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    assert_eq!(
        said["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/work-cleanup"])
    );
    hub.delete(&at).await?;
    hub.until_gone(&at).await;
    let path = format!("{}/{name}", config_maps("default"));
    let is_a_ghosts = |left: &Value| {
        let owners = left["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|all| all.iter().any(|one| one["kind"] == "Ghost"))
    };
    let left = member.get(&path).await?.unwrap();
    assert!(is_a_ghosts(&left), "{left:#}");
    assert_eq!(left["data"], json!({"a": "2"}));
    Ok(())
}
