//! An agent that is killed while it writes, a member that is cut off, a member that leaves and comes back.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::world::{
    APPLIED, AwaitWork as _, End, INTERNAL, NAME, WORKS, World, condition, config_map, config_maps,
    work,
};

/// How many `ConfigMap`s of a prefix are there.
async fn count(member: &super::world::Way, prefix: &str) -> Result<usize> {
    let all = member
        .get(&config_maps("default"))
        .await?
        .unwrap_or_default();
    let items = all["items"].as_array().cloned().unwrap_or_default();
    let is_ours = |item: &&Value| {
        let name = item["metadata"]["name"].as_str();
        name.is_some_and(|name| name.starts_with(prefix))
    };
    Ok(items.iter().filter(is_ours).count())
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_writes_leaves_nothing_behind() -> Result<()> {
    let mut world = World::new().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    for written in [0, 1, 3, 8, 20] {
        let name = unique("killed");
        let manifests: Vec<Value> = (0..40)
            .map(|number| config_map("default", &format!("{name}-{number}"), &json!({"a": "1"})))
            .collect();
        hub.create(WORKS, &work(&name, &manifests, &json!(null)))
            .await?;
        world.start()?;
        eventually(SOON, "some are written", async || -> Result<()> {
            let count = count(&member, &name).await?;
            anyhow::ensure!(count >= written, "{count} are written");
            Ok(())
        })
        .await;
        world.kill().await?;
        // While nobody looks, the hub drops all but one.
        let kept = [manifests[39].clone()];
        let fewer = json!({"spec": {"workload": {"manifests": kept}}});
        hub.patch(&format!("{WORKS}/{name}"), &fewer).await?;
        world.start()?;
        hub.until_work(&name, "Applied", "AllManifestsApplied")
            .await;
        eventually(SOON, "the others are gone", async || -> Result<()> {
            let count = count(&member, &name).await?;
            anyhow::ensure!(count == 1, "{count} are there");
            Ok(())
        })
        .await;
        world.kill().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_member_that_is_cut_off_catches_up_and_one_that_leaves_keeps_its_objects() -> Result<()> {
    let mut world = World::new().await?;
    world.link().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    world.start()?;
    let name = unique("cut");
    let manifest = |value: &str| config_map("default", &name, &json!({"a": value}));
    hub.create(WORKS, &work(&name, &[manifest("1")], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let internal = format!("{INTERNAL}/{NAME}");
    let agent = |internal: &Value, type_: &str| {
        condition(&internal["status"]["agentStatus"][0], type_)["status"].clone()
    };

    world.cut_off(End::Member, true).await?;
    let changed = json!({"spec": {"workload": {"manifests": [manifest("2")]}}});
    hub.patch(&format!("{WORKS}/{name}"), &changed).await?;
    let path = format!("{}/{name}", config_maps("default"));
    member.patch(&path, &json!({"data": {"a": "3"}})).await?;
    // Nothing is said of what is not known.
    let unhealthy = |found: &Value| agent(found, "Healthy") == "False";
    hub.until(&internal, unhealthy).await;
    let said = hub.get(&format!("{WORKS}/{name}")).await?.unwrap();
    assert_eq!(condition(&said["status"], "Applied")["status"], "True");
    assert_eq!(
        condition(&said["status"], "Applied")["observedGeneration"],
        1
    );
    world.cut_off(End::Member, false).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member.until(&path, |live| live["data"]["a"] == "2").await;

    // Without the hub, what it said last is kept up, and nothing goes.
    world.cut_off(End::Hub, true).await?;
    let changed = json!({"spec": {"workload": {"manifests": [manifest("5")]}}});
    hub.patch(&format!("{WORKS}/{name}"), &changed).await?;
    member.patch(&path, &json!({"data": {"a": "9"}})).await?;
    member.until(&path, |live| live["data"]["a"] == "2").await;
    let gone = live["metadata"]["uid"].clone();
    member.delete(&path).await?;
    let is_back = |live: &Value| live["metadata"]["uid"] != gone && live["data"]["a"] == "2";
    member.until(&path, is_back).await;
    world.cut_off(End::Hub, false).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member.until(&path, |live| live["data"]["a"] == "5").await;

    hub.patch(&internal, &json!({"spec": {"state": "Leave"}}))
        .await?;
    hub.until(&internal, |found| agent(found, "Joined") == "False")
        .await;
    hub.until("/api/v1/namespaces/fleet-member-m1/events", |events| {
        let events = events["items"].as_array().into_iter().flatten();
        let told: Vec<&Value> = events.map(|one| &one["reason"]).collect();
        let mut wanted = ["Joined", "Unhealthy", "Healthy", "Left"].iter();
        wanted.all(|word| {
            let reason = format!("InternalMemberCluster{word}");
            told.iter().any(|one| **one == *reason)
        })
    })
    .await;
    hub.delete(&format!("{WORKS}/{name}")).await?;
    hub.until_gone(&format!("{WORKS}/{name}")).await;
    assert_eq!(
        member.get(&path).await?.unwrap()["metadata"]["uid"],
        live["metadata"]["uid"]
    );

    // The same objects belong to another Work after the member has come back.
    hub.patch(&internal, &json!({"spec": {"state": "Join"}}))
        .await?;
    let again = unique("again");
    hub.create(WORKS, &work(&again, &[manifest("4")], &json!(null)))
        .await?;
    hub.until_work(&again, "Applied", "AllManifestsApplied")
        .await;
    let adopted = member.get(&path).await?.unwrap();
    assert_eq!(adopted["metadata"]["uid"], live["metadata"]["uid"]);
    let owners = adopted["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], *again);
    assert!(member.get(&format!("{APPLIED}/{again}")).await?.is_some());
    Ok(())
}
