//! Objects and Works beyond what servers store, and caches that hold less than there is.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::unique;

use super::world::{
    AwaitWork as _, WORKS, World, condition, config_map, config_maps, manifest_reason, work,
};

#[tokio::test]
async fn an_object_over_the_size_limit_is_refused_while_the_others_go_on() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("large");
    // The hub stores it in a Work; as a ConfigMap it has more than the 1 MiB that is admitted.
    let large = config_map(
        "default",
        &format!("{name}-large"),
        &json!({"a": "x".repeat(1_060_000)}),
    );
    let manifests = [large, config_map("default", &name, &json!({"a": "1"}))];
    hub.create(WORKS, &work(&name, &manifests, &json!(null)))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "ManifestApplyFailed");
    assert_eq!(manifest_reason(&said, 1, "Applied"), "Applied");
    let why = condition(&said["status"]["manifestConditions"][0], "Applied");
    let why = why["message"].as_str().unwrap();
    assert!(
        why.contains("Too long") || why.contains("too large"),
        "{why}"
    );
    let path = format!("{}/{name}", config_maps("default"));
    assert!(member.get(&path).await?.is_some());
    assert_eq!(member.get(&format!("{path}-large")).await?, None);
    // It is tried again from time to time, and goes with its Work nevertheless.
    hub.delete(&format!("{WORKS}/{name}")).await?;
    member.until_gone(&path).await;
    hub.until_gone(&format!("{WORKS}/{name}")).await;
    Ok(())
}

#[tokio::test]
async fn a_work_with_ten_thousand_manifests_says_why_it_is_not_applied_while_others_go_on()
-> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("huge");
    let small = |number: usize| {
        let name = format!("{name}-{number}");
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    };
    hub.create(WORKS, &work(&name, &[small(0)], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let manifests: Vec<Value> = (1..=10_000).map(small).collect();
    let grown = json!({"spec": {"workload": {"manifests": manifests}}});
    hub.patch(&format!("{WORKS}/{name}"), &grown).await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    let why = condition(&said["status"], "Applied");
    assert!(
        why["message"].as_str().unwrap().contains("10000 manifests"),
        "{why}"
    );
    assert_eq!(
        condition(&said["status"], "StatusTrimmed")["reason"],
        "Oversized"
    );
    // Others go on, and nothing leaves because of it.
    let other = unique("beside");
    let manifest = config_map("default", &other, &json!({}));
    hub.create(WORKS, &work(&other, &[manifest], &json!(null)))
        .await?;
    hub.until_work(&other, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    assert!(member.get(&format!("{path}-0")).await?.is_some());
    assert_eq!(member.get(&format!("{path}-1")).await?, None);
    // With fewer, it is as always.
    let fewer = json!({"spec": {"workload": {"manifests": [small(1)]}}});
    hub.patch(&format!("{WORKS}/{name}"), &fewer).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    assert!(member.get(&format!("{path}-1")).await?.is_some());
    member.until_gone(&format!("{path}-0")).await;
    Ok(())
}
