//! Take-over, ownership, drift and diff by the apply strategies.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::unique;

use super::world::{
    AwaitWork as _, WORKS, World, condition, config_map, config_maps, manifest_reason, work,
};

#[tokio::test]
async fn a_foreign_object_is_taken_over_as_the_strategy_says() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let cases = [
        ("Never", "2", "NotTakenOver"),
        ("IfNoDiff", "2", "FailedToTakeOver"),
        ("IfNoDiff", "1", "Applied"),
        ("Always", "2", "Applied"),
    ];
    for (when, there, reason) in cases {
        let name = unique("foreign");
        let foreign = config_map("default", &name, &json!({"a": there}));
        member.create(&config_maps("default"), &foreign).await?;
        let manifest = config_map("default", &name, &json!({"a": "1"}));
        let strategy = json!({"whenToTakeOver": when});
        hub.create(WORKS, &work(&name, &[manifest], &strategy))
            .await?;
        let overall = if reason == "Applied" {
            "AllManifestsApplied"
        } else {
            "SomeManifestsAreNotApplied"
        };
        let said = hub.until_work(&name, "Applied", overall).await;
        assert_eq!(
            manifest_reason(&said, 0, "Applied"),
            reason,
            "{when} over {there}"
        );
        let live = member
            .get(&format!("{}/{name}", config_maps("default")))
            .await?
            .unwrap();
        let wanted = if reason == "Applied" { "1" } else { there };
        assert_eq!(live["data"]["a"], wanted, "{when} over {there}");
        assert_eq!(
            live["metadata"]["ownerReferences"].is_array(),
            reason == "Applied"
        );
        if reason == "FailedToTakeOver" {
            let diff = &said["status"]["manifestConditions"][0]["diffDetails"]["observedDiffs"][0];
            assert_eq!(
                *diff,
                json!({"path": "/data/a", "valueInMember": "2", "valueInHub": "1"})
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_object_of_one_placement_is_not_taken_by_another() -> Result<()> {
    let world = World::shared().await?;
    let hub = world.hub()?;
    let (first, second) = (unique("first"), unique("second"));
    let manifest = config_map("default", &first, &json!({"a": "1"}));
    hub.create(WORKS, &work(&first, &[manifest], &json!(null)))
        .await?;
    hub.until_work(&first, "Applied", "AllManifestsApplied")
        .await;
    let manifest = config_map("default", &first, &json!({"a": "2"}));
    hub.create(
        WORKS,
        &work(&second, &[manifest], &json!({"allowCoOwnership": true})),
    )
    .await?;
    let said = hub
        .until_work(&second, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "FailedToTakeOver");
    // The object is free once the first placement is gone.
    hub.delete(&format!("{WORKS}/{first}")).await?;
    hub.until_work(&second, "Applied", "AllManifestsApplied")
        .await;
    Ok(())
}

#[tokio::test]
async fn drift_is_reported_and_left_where_the_strategy_says_so() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("drifted");
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    let strategy = json!({"whenToApply": "IfNotDrifted"});
    hub.create(WORKS, &work(&name, &[manifest], &strategy))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    member.patch(&path, &json!({"data": {"a": "2"}})).await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "FoundDrifts");
    let drift = &said["status"]["manifestConditions"][0]["driftDetails"]["observedDrifts"][0];
    assert_eq!(
        *drift,
        json!({"path": "/data/a", "valueInMember": "2", "valueInHub": "1"})
    );
    member.patch(&path, &json!({"data": {"a": "1"}})).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    Ok(())
}

#[tokio::test]
async fn differences_are_reported_and_nothing_is_written() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("diff");
    let there = config_map("default", &name, &json!({"a": "2"}));
    member.create(&config_maps("default"), &there).await?;
    let manifests = [
        config_map("default", &name, &json!({"a": "1"})),
        config_map("default", &format!("{name}-missing"), &json!({})),
    ];
    hub.create(
        WORKS,
        &work(&name, &manifests, &json!({"type": "ReportDiff"})),
    )
    .await?;
    let said = hub
        .until_work(&name, "DiffReported", "AllManifestsDiffReported")
        .await;
    assert_eq!(manifest_reason(&said, 0, "DiffReported"), "FoundDiff");
    let details = |index: usize| &said["status"]["manifestConditions"][index]["diffDetails"];
    // A ConfigMap has no generation, and what is missing has none to be observed.
    assert_eq!(details(0)["observedInMemberClusterGeneration"], 0);
    assert_eq!(details(1).get("observedInMemberClusterGeneration"), None);
    assert_eq!(
        details(1)["observedDiffs"],
        json!([{"path": "/", "valueInHub": "(the whole object)"}])
    );
    let path = format!("{}/{name}", config_maps("default"));
    let live = member.get(&path).await?.unwrap();
    assert_eq!(live["data"]["a"], "2");
    assert!(live["metadata"]["ownerReferences"].is_null());
    assert_eq!(member.get(&format!("{path}-missing")).await?, None);
    member.patch(&path, &json!({"data": {"a": "1"}})).await?;
    hub.until(&format!("{WORKS}/{name}"), |work| {
        manifest_reason(work, 0, "DiffReported") == "NoDiffFound"
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn server_side_apply_tells_of_fields_of_others() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("ssa");
    let foreign = config_map("default", &name, &json!({"a": "2"}));
    member.create(&config_maps("default"), &foreign).await?;
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    let strategy = json!({"type": "ServerSideApply"});
    hub.create(WORKS, &work(&name, &[manifest], &strategy))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "ManifestApplyFailed");
    let force = json!({"spec": {"applyStrategy": {"serverSideApplyConfig": {"force": true}}}});
    hub.patch(&format!("{WORKS}/{name}"), &force).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member
        .get(&format!("{}/{name}", config_maps("default")))
        .await?
        .unwrap();
    assert_eq!(live["data"]["a"], "1");
    Ok(())
}

#[tokio::test]
async fn reporting_and_applying_take_turns_and_say_only_what_is_of_them() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("turns");
    let mut there = config_map("default", &name, &json!({"a": "2"}));
    there["immutable"] = true.into();
    member.create(&config_maps("default"), &there).await?;
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    let report = json!({"type": "ReportDiff"});
    hub.create(WORKS, &work(&name, &[manifest], &report))
        .await?;
    // What the member would refuse is compared field by field, and counts as reported.
    let said = hub
        .until_work(&name, "DiffReported", "AllManifestsDiffReported")
        .await;
    assert_eq!(
        manifest_reason(&said, 0, "DiffReported"),
        "FoundDiffInDegradedMode"
    );
    let at = format!("{WORKS}/{name}");
    let apply = json!({"spec": {"applyStrategy": {"type": "ClientSideApply"}}});
    hub.patch(&at, &apply).await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "ManifestApplyFailed");
    assert_eq!(manifest_reason(&said, 0, "DiffReported"), "");
    assert!(condition(&said["status"], "DiffReported").is_null());
    let details = &said["status"]["manifestConditions"][0]["diffDetails"];
    assert!(details.is_null(), "{details}");
    hub.patch(&at, &json!({"spec": {"applyStrategy": report}}))
        .await?;
    let said = hub
        .until_work(&name, "DiffReported", "AllManifestsDiffReported")
        .await;
    assert!(condition(&said["status"], "Applied").is_null());
    assert_eq!(manifest_reason(&said, 0, "Applied"), "");
    // Nothing of it is taken back when the Work goes: it was never applied.
    hub.delete(&at).await?;
    hub.until_gone(&at).await;
    let path = format!("{}/{name}", config_maps("default"));
    assert_eq!(member.get(&path).await?.unwrap()["data"]["a"], "2");
    Ok(())
}

#[tokio::test]
async fn what_a_manifest_drops_goes_whoever_wrote_it() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("drops");
    let container = |name: &str, ports: Value| json!({"name": name, "image": "example.com/image", "ports": ports});
    let port = |port: u16| json!({"containerPort": port});
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": containers},
            }},
        })
    };
    let all = json!([
        container("web", json!([port(80), port(81)])),
        container("old", json!([]))
    ]);
    // As KubeFleet writes it: by an update under the same name, with the manifest in an annotation.
    let mut theirs = deployment(all.clone());
    theirs["metadata"]["annotations"] = json!({
        "kubernetes-fleet.io/last-applied-configuration": deployment(all).to_string(),
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let by = "fieldManager=work-api-agent";
    member
        .create(&format!("{deployments}?{by}"), &theirs)
        .await?;
    let foreign = config_map("default", &name, &json!({"a": "1", "b": "1", "own": "1"}));
    member.create(&config_maps("default"), &foreign).await?;

    let fewer = deployment(json!([container("web", json!([port(80)]))]));
    let map = config_map("default", &name, &json!({"a": "1", "b": "1"}));
    hub.create(WORKS, &work(&name, &[fewer.clone(), map], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member.get(&format!("{deployments}/{name}")).await?;
    let live = live.unwrap_or_default();
    let containers = live["spec"]["template"]["spec"]["containers"].as_array();
    assert_eq!(containers.unwrap().len(), 1, "{live:#}");
    let ports = containers.unwrap()[0]["ports"].as_array();
    assert_eq!(ports.unwrap().len(), 1, "{live:#}");

    // What the manifest does not name any more goes; what it never named stays.
    let map = config_map("default", &name, &json!({"b": "1"}));
    let manifests = json!({"spec": {"workload": {"manifests": [fewer, map]}}});
    hub.patch(&format!("{WORKS}/{name}"), &manifests).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member
        .get(&format!("{}/{name}", config_maps("default")))
        .await?
        .unwrap();
    assert_eq!(live["data"], json!({"b": "1", "own": "1"}));

    // A report is about what the manifest names, and not about what it drops.
    let mut map = config_map("default", &name, &json!({}));
    map["metadata"]["labels"] = json!({"l": "1"});
    let report = json!({"spec": {
        "workload": {"manifests": [map]}, "applyStrategy": {"type": "ReportDiff"},
    }});
    hub.patch(&format!("{WORKS}/{name}"), &report).await?;
    let said = hub
        .until_work(&name, "DiffReported", "AllManifestsDiffReported")
        .await;
    let details = &said["status"]["manifestConditions"][0]["diffDetails"]["observedDiffs"];
    let label = json!({"path": "/metadata/labels", "valueInHub": r#"{"l":"1"}"#});
    assert_eq!(*details, json!([label]));
    Ok(())
}

#[tokio::test]
async fn what_is_changed_beside_a_manifest_is_reported_by_a_full_comparison() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("full");
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    let strategy = json!({"comparisonOption": "FullComparison"});
    hub.create(WORKS, &work(&name, &[manifest], &strategy))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    member
        .patch(&path, &json!({"data": {"a": "2", "b": "2"}}))
        .await?;
    let drifted = hub
        .until(&format!("{WORKS}/{name}"), |work| {
            work["status"]["manifestConditions"][0]["driftDetails"].is_object()
        })
        .await;
    assert_eq!(manifest_reason(&drifted, 0, "Applied"), "Applied");
    let drifts = &drifted["status"]["manifestConditions"][0]["driftDetails"]["observedDrifts"];
    assert_eq!(*drifts, json!([{"path": "/data/b", "valueInMember": "2"}]));
    let live = member.get(&path).await?.unwrap();
    assert_eq!(live["data"], json!({"a": "1", "b": "2"}));
    Ok(())
}

#[tokio::test]
async fn the_status_of_objects_comes_back_if_it_is_asked_for() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("back");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let map = config_map("default", &name, &json!({}));
    let mut asked = work(&name, &[service, map], &json!(null));
    asked["spec"]["reportBackStrategy"] = json!({"type": "Mirror", "destination": "WorkAPI"});
    hub.create(WORKS, &asked).await?;
    hub.until_work(&name, "Available", "SomeManifestsAreNotAvailable")
        .await;
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}});
    let path = format!("/api/v1/namespaces/default/services/{name}");
    member
        .patch(&format!("{path}/status"), &json!({"status": ingress}))
        .await?;
    let said = hub
        .until_work(&name, "Available", "AllManifestsAvailable")
        .await;
    let manifests = &said["status"]["manifestConditions"];
    assert_eq!(
        manifests[0]["backReportedStatus"]["observedStatus"],
        json!({"apiVersion": "v1", "kind": "Service", "status": ingress})
    );
    assert!(manifests[1]["backReportedStatus"].is_null(), "{said:#}");
    // Nobody asks any more.
    let at = format!("{WORKS}/{name}");
    let none = json!({"spec": {"reportBackStrategy": {"type": "Disabled", "destination": null}}});
    hub.patch(&at, &none).await?;
    let said = hub
        .until_work(&name, "Available", "AllManifestsAvailable")
        .await;
    let manifests = &said["status"]["manifestConditions"];
    assert!(manifests[0]["backReportedStatus"].is_null(), "{said:#}");
    Ok(())
}

#[tokio::test]
async fn a_strategy_that_changes_finds_what_members_wrote_by_another_one() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("changed");
    let manifest = |data: Value, fits: bool| {
        let mut manifest = config_map("default", &name, &data);
        // What server-side apply refuses is merged.
        if !fits {
            manifest["newer"] = true.into();
        }
        manifest
    };
    let first = manifest(json!({"a": "1", "b": "1"}), false);
    hub.create(WORKS, &work(&name, &[first], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    member.patch(&path, &json!({"data": {"own": "1"}})).await?;
    let apply = async |type_: &str, manifest: Value| {
        let spec = json!({"spec": {
            "applyStrategy": {"type": type_}, "workload": {"manifests": [manifest]},
        }});
        hub.patch(&format!("{WORKS}/{name}"), &spec).await?;
        hub.until_work(&name, "Applied", "AllManifestsApplied")
            .await;
        member.get(&path).await?.context("the object")
    };
    // Members are in no conflict with themselves, and what they drop goes.
    let both = manifest(json!({"a": "2", "b": "1"}), true);
    let live = apply("ServerSideApply", both).await?;
    let data = json!({"a": "2", "b": "1", "own": "1"});
    assert_eq!(live["data"], data);
    let managers = live["metadata"]["managedFields"].as_array();
    let managers = managers.into_iter().flatten();
    let ours = managers.filter(|one| {
        let manager = one["manager"].as_str().unwrap_or_default();
        ["work-api-agent", "hawser-member"].contains(&manager)
    });
    let ours: Vec<&Value> = ours.map(|one| &one["operation"]).collect();
    assert_eq!(ours, ["Apply"], "{live:#}");
    let live = apply("ServerSideApply", manifest(json!({"a": "2"}), true)).await?;
    assert_eq!(live["data"], json!({"a": "2", "own": "1"}));
    // And the other way round, where no annotation says what the last manifest had.
    let live = apply("ClientSideApply", manifest(json!({"c": "1"}), false)).await?;
    assert_eq!(live["data"], json!({"c": "1", "own": "1"}));
    Ok(())
}

#[tokio::test]
async fn a_manifest_that_is_too_large_for_an_annotation_removes_what_it_drops() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("large");
    let large = "x".repeat(300 << 10);
    let manifest = |data: Value, fits: bool| {
        let mut manifest = config_map("default", &name, &data);
        manifest["data"]["large"] = large.as_str().into();
        if !fits {
            manifest["newer"] = true.into();
        }
        manifest
    };
    let first = manifest(json!({"a": "1", "b": "1", "c": "1"}), false);
    hub.create(WORKS, &work(&name, &[first], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    member.patch(&path, &json!({"data": {"own": "1"}})).await?;
    let apply = async |manifest: Value| {
        let spec = json!({"spec": {"workload": {"manifests": [manifest]}}});
        hub.patch(&format!("{WORKS}/{name}"), &spec).await?;
        hub.until_work(&name, "Applied", "AllManifestsApplied")
            .await;
        let live = member.get(&path).await?.context("the object")?;
        let data = live["data"].as_object().context("data")?;
        anyhow::Ok(data.keys().cloned().collect::<Vec<_>>())
    };
    // By a merge, and by an apply.
    let merged = apply(manifest(json!({"a": "1", "b": "1"}), false)).await?;
    assert_eq!(merged, ["a", "b", "large", "own"]);
    let applied = apply(manifest(json!({"a": "1"}), true)).await?;
    assert_eq!(applied, ["a", "large", "own"]);
    Ok(())
}
