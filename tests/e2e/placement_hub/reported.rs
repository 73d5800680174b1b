//! What the hub tells beside the status of a placement: a copy of it, and the status of objects in a member.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{PLACEMENT, World, crp, namespace_selector, reasons, works};

#[tokio::test]
async fn the_status_is_copied_into_the_namespace_and_stays_there() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["copied-1"], json!({})).await?;
    world.application("copied", "c").await?;
    world.application("other", "c").await?;
    let spec = json!({
        "policy": {"placementType": "PickFixed", "clusterNames": ["copied-1"]},
        "resourceSelectors": namespace_selector("copied"), "statusReportingScope": "NamespaceAccessible",
    });
    world.place("copied", spec).await?;
    let synced = |placement: &Value| {
        let all = reasons(&placement["status"]["conditions"]);
        all.last().is_some_and(|last| {
            all.len() == 7
                && last == "ClusterResourcePlacementStatusSynced True StatusSyncSucceeded"
        })
    };
    let placement = way.until(&crp("copied"), synced).await;
    let at = format!("{PLACEMENT}/namespaces/copied/clusterresourceplacementstatuses/copied");
    let copy = way.until_there(&at).await;
    let mut status = placement["status"].clone();
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.pop();
    }
    ensure!(copy["sourceStatus"] == status, "{copy:#}");
    ensure!(copy["lastUpdatedTime"].is_string(), "{copy:#}");
    let owner = &copy["metadata"]["ownerReferences"][0];
    ensure!(owner["uid"] == placement["metadata"]["uid"], "{copy:#}");
    way.delete(&at).await?;
    let again = way.until_there(&at).await;
    ensure!(again["sourceStatus"] == status, "{again:#}");
    let other = json!({"spec": {"resourceSelectors": namespace_selector("other")}});
    way.patch(&crp("copied"), &other).await?;
    way.until(&crp("copied"), |placement| {
        let conditions = &placement["status"]["conditions"];
        reasons(conditions)[0] == "ClusterResourcePlacementScheduled False InvalidResourceSelectors"
    })
    .await;
    way.until(&at, |copy| {
        copy["sourceStatus"]["conditions"][0]["reason"] == "InvalidResourceSelectors"
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_status_of_an_object_comes_back_from_the_only_member() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["mirror-1"], json!({})).await?;
    world.application("mirror", "c").await?;
    let service = json!({"metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    way.create("/api/v1/namespaces/mirror/services", &service)
        .await?;
    world.mute("mirror-1", true);
    let spec = json!({
        "policy": {"placementType": "PickFixed", "clusterNames": ["mirror-1"]},
        "resourceSelectors": namespace_selector("mirror"),
        "strategy": {"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}},
    });
    world.place("mirror", spec).await?;
    let path = format!("{}/mirror-work", works("mirror-1"));
    let mut work = way.until_there(&path).await;
    ensure!(
        work["spec"]["reportBackStrategy"]["type"] == "Mirror",
        "{work:#}"
    );
    let generation = work["metadata"]["generation"].clone();
    let applied = json!({"type": "Applied", "status": "True", "reason": "AllManifestsApplied", "message": "",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    work["status"] = json!({
        "conditions": [applied],
        "manifestConditions": [{
            "identifier": {"ordinal": 2, "group": "", "version": "v1", "kind": "Service", "resource": "services",
                           "namespace": "mirror", "name": "web"},
            "conditions": [],
            "backReportedStatus": {"observationTime": "2026-01-01T00:00:00Z", "observedStatus": {
                "apiVersion": "v1", "kind": "Service",
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}}},
        }],
    });
    way.replace(&format!("{path}/status"), &work).await?;
    let services = "/api/v1/namespaces/mirror/services/web";
    way.until(services, |service| {
        service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
    })
    .await;
    // A status is no change of the resource.
    way.until(&crp("mirror"), |placed| {
        placed["status"]["observedResourceIndex"] == "0"
    })
    .await;
    Ok(())
}
