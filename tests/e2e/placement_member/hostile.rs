//! Manifests of somebody who means harm, and objects that somebody takes from under a Work.

use anyhow::Result;
use hawser_placement::names::PARENT_NAMESPACE;
use serde_json::{Value, json};
use testbed::unique;

use super::world::{
    APPLIED, AwaitWork as _, WORKS, World, condition, config_map, config_maps, manifest_reason,
    work,
};

const GROUP: &str = "placement.kubernetes-fleet.io";

fn role(name: &str, metadata: &Value) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata, "rules": [],
    });
    role["metadata"]["name"] = name.into();
    role
}

#[tokio::test]
async fn the_records_of_other_works_and_their_definition_are_not_applied() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let (victim, name) = (unique("victim"), unique("hostile"));
    let map = config_map("default", &victim, &json!({"a": "1"}));
    hub.create(WORKS, &work(&victim, &[map], &json!(null)))
        .await?;
    hub.until_work(&victim, "Applied", "AllManifestsApplied")
        .await;
    let record = format!("{APPLIED}/{victim}");
    let definition =
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/appliedworks.{GROUP}");
    let defined = member.get(&definition).await?.unwrap();
    let manifests = [
        json!({
            "apiVersion": format!("{GROUP}/v1beta1"), "kind": "AppliedWork",
            "metadata": {"name": victim},
            "spec": {"workName": victim, "workNamespace": "fleet-member-m1"},
        }),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("appliedworks.{GROUP}")}, "spec": defined["spec"],
        }),
        config_map("default", &name, &json!({})),
    ];
    hub.create(WORKS, &work(&name, &manifests, &json!(null)))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    for (ordinal, reason) in [
        (0, "ManifestApplyFailed"),
        (1, "ManifestApplyFailed"),
        (2, "Applied"),
    ] {
        assert_eq!(manifest_reason(&said, ordinal, "Applied"), reason);
    }
    for path in [record, definition] {
        let there = member.get(&path).await?.unwrap();
        assert!(there["metadata"]["ownerReferences"].is_null(), "{there:#}");
    }
    Ok(())
}

#[tokio::test]
async fn the_placement_of_a_namespace_applies_nothing_cluster_scoped() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("near");
    let manifests = [
        role(&name, &json!({"namespace": "default"})),
        config_map("default", &name, &json!({})),
    ];
    let mut near = work(&name, &manifests, &json!(null));
    near["metadata"]["labels"] = json!({PARENT_NAMESPACE: "default"});
    hub.create(WORKS, &near).await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "ManifestApplyFailed");
    assert_eq!(manifest_reason(&said, 1, "Applied"), "Applied");
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
    assert!(member.get(&path).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_namespace_makes_no_other_object_of_a_cluster_scoped_manifest() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("same");
    let (with, without) = (
        role(&name, &json!({"namespace": "default"})),
        role(&name, &json!({"labels": {"v": "2"}})),
    );
    hub.create(
        WORKS,
        &work(&name, std::slice::from_ref(&with), &json!(null)),
    )
    .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
    let first = member.get(&path).await?.unwrap();
    let at = format!("{WORKS}/{name}");
    let manifests = |all: &[&Value]| json!({"spec": {"workload": {"manifests": all}}});
    hub.patch(&at, &manifests(&[&without])).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let second = member.get(&path).await?.unwrap();
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(second["metadata"]["labels"]["v"], "2");
    hub.patch(&at, &manifests(&[&without, &with])).await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 1, "Applied"), "Duplicated");
    Ok(())
}

#[tokio::test]
async fn a_work_whose_record_is_in_deletion_is_not_applied() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("taken");
    let mut map = config_map("default", &name, &json!({"a": "1"}));
    map["metadata"]["finalizers"] = json!(["example.org/held"]);
    hub.create(WORKS, &work(&name, &[map], &json!(null)))
        .await?;
    hub.until_work(&name, "Available", "AllManifestsAvailable")
        .await;
    let options = json!({"propagationPolicy": "Foreground"});
    member
        .delete_with(&format!("{APPLIED}/{name}"), &options)
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    let message = &condition(&said["status"], "Applied")["message"];
    assert!(
        message
            .as_str()
            .is_some_and(|it| it.contains("in deletion")),
        "{said:#}"
    );
    assert_eq!(condition(&said["status"], "Available"), json!(null));
    let path = format!("{}/{name}", config_maps("default"));
    let free = json!({"metadata": {"finalizers": null}});
    member.patch(&path, &free).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    Ok(())
}
