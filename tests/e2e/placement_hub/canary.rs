//! What placed objects contain is told to nobody: not by the log at its most verbose, not by events, or the status of any
//! object of the fleet. Every value that the test writes has one word in it, which is looked for afterwards.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{SOON, eventually};

use super::killed::PlayedHub;
use super::world::{PLACEMENT, crp, is_available, namespace_selector, works};
use crate::canary::{CANARY, WHOLE_ENCODED, assert_untold, strict};
use crate::federation::world::Way;

const NAMESPACE: &str = "canary";
const GROUP: &str = "hub-vaults.example.com";

fn placement(member: &str, namespace: &str) -> Value {
    json!({
        "policy": {"placementType": "PickFixed", "clusterNames": [member]},
        "resourceSelectors": namespace_selector(namespace),
        "strategy": {"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}},
    })
}

/// A namespace with objects of several kinds, which have the word wherever they can.
async fn application(way: &Way, namespace: &str) -> Result<()> {
    way.create_planted(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": namespace}}),
    )
    .await?;
    let metadata = json!({
        "name": "c", "labels": {"example.com/label": CANARY},
        "annotations": {"example.com/note": format!("{CANARY} and\nmore")},
    });
    let map = json!({"metadata": metadata, "data": {CANARY: CANARY, "k": CANARY}});
    way.create_planted(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map)
        .await?;
    let secret = json!({"metadata": metadata, "data": {CANARY: WHOLE_ENCODED}});
    way.create_planted(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret)
        .await?;
    let vault = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Vault", "metadata": metadata,
        "spec": {"note": CANARY, "list": ["1"], "map": {CANARY: {"inner": [CANARY]}}, CANARY: CANARY},
    });
    way.create_planted(
        &format!("/apis/{GROUP}/v1/namespaces/{namespace}/vaults"),
        &vault,
    )
    .await?;
    Ok(())
}

fn override_of(name: &str, step: &Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
            "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [step]}]},
        },
    })
}

/// Whether the status of a placement has this text anywhere.
fn says(placement: &Value, text: &str) -> bool {
    placement["status"].to_string().contains(text)
}

/// The hub is played: it quotes values in the words of a kube-apiserver.
#[tokio::test]
async fn nothing_that_objects_contain_is_told_by_log_event_or_status() -> Result<()> {
    let hub = PlayedHub::start().await?;
    let way = &hub.way;
    way.define(&strict(GROUP, "Vault", "vaults")).await?;
    application(way, NAMESPACE).await?;
    place(way, NAMESPACE, placement("a", NAMESPACE)).await?;
    // A kind that was defined a moment ago is selected once it is discovered.
    let work = format!("{}/{NAMESPACE}-work", works("a"));
    way.until(&work, |work| {
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        manifests.is_some_and(|all| all.iter().any(|one| one["kind"] == "Vault"))
    })
    .await;
    way.until(&crp(NAMESPACE), is_available).await;

    overrides(way).await?;
    envelopes(way).await?;
    status_that_is_refused(&hub, &work).await?;
    too_large(way).await?;

    for path in [
        "/api/v1/events",
        &*format!("{PLACEMENT}/clusterresourceplacements"),
        &*format!("{PLACEMENT}/clusterresourcebindings"),
    ] {
        let found = way.get(path).await?.with_context(|| path.to_owned())?;
        let items = found["items"].as_array().cloned().unwrap_or_default();
        ensure!(!items.is_empty(), "there is nothing in {path}");
        for mut item in items {
            // What a test has made has the word among its annotations.
            item["metadata"]["annotations"] = Value::Null;
            assert_untold(path, &item.to_string());
        }
    }
    // The log is looked through with the hub.
    Ok(())
}

async fn place(way: &Way, name: &str, spec: Value) -> Result<()> {
    let object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name}, "spec": spec,
    });
    let all = format!("{PLACEMENT}/clusterresourceplacements");
    way.create_planted(&all, &object).await?;
    Ok(())
}

/// The status of an object comes back from its member, and the hub does not take it.
async fn status_that_is_refused(hub: &PlayedHub, path: &str) -> Result<()> {
    let message = "cannot write a status that came back";
    eventually(SOON, message, async || -> Result<()> {
        let mut work = hub.way.until_there(path).await;
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        let mut kinds = manifests.into_iter().flatten().map(|one| &one["kind"]);
        let ordinal = kinds.position(|kind| kind == "Vault");
        work["status"]["manifestConditions"] = json!([{
            "identifier": {"ordinal": ordinal, "group": GROUP, "version": "v1", "kind": "Vault",
                "resource": "vaults", "namespace": NAMESPACE, "name": "c"},
            "conditions": [],
            "backReportedStatus": {"observationTime": "2026-01-01T00:00:00Z", "observedStatus": {
                "apiVersion": format!("{GROUP}/v1"), "kind": "Vault", "status": {"phase": CANARY}}},
        }]);
        hub.way.replace(&format!("{path}/status"), &work).await?;
        ensure!(hub.log()?.contains(message), "it is not in the log");
        Ok(())
    })
    .await;
    Ok(())
}

/// Overrides that cannot be applied, and one that is invalid.
async fn overrides(way: &Way) -> Result<()> {
    let overrides = format!("{PLACEMENT}/namespaces/{NAMESPACE}/resourceoverrides");
    let invalid = json!({"op": "replace", "path": "/kind", "value": CANARY});
    way.create_planted(&overrides, &override_of("invalid", &invalid))
        .await?;
    way.until_event(NAMESPACE, "InvalidOverride", "last valid version")
        .await;
    way.delete(&format!("{overrides}/invalid")).await?;
    let nowhere = json!({"op": "replace", "path": "/data/none/none", "value": CANARY});
    way.create_planted(&overrides, &override_of("nowhere", &nowhere))
        .await?;
    way.until(&crp(NAMESPACE), |placement| {
        says(placement, "OverriddenFailed")
    })
    .await;
    way.delete(&format!("{overrides}/nowhere")).await?;
    way.until(&crp(NAMESPACE), is_available).await;
    Ok(())
}

/// Envelopes that cannot be read.
async fn envelopes(way: &Way) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    for manifest in [
        format!("kind: [{CANARY}"),
        format!("kind: *{CANARY}"),
        format!("{CANARY}: 1\n{CANARY}: 2\n"),
        CANARY.to_owned(),
    ] {
        let envelope = json!({
            "metadata": {"name": "wrapped", "annotations": {"kubernetes-fleet.io/envelope-configmap": "true"}},
            "data": {"object": manifest},
        });
        way.create_planted(&path, &envelope).await?;
        way.until(&crp(NAMESPACE), |placement| {
            says(placement, "entry \\\"object\\\"")
        })
        .await;
        way.delete(&format!("{path}/wrapped")).await?;
        way.until(&crp(NAMESPACE), |placement| {
            is_available(placement) && !says(placement, "entry \\\"object\\\"")
        })
        .await;
    }
    way.until(&crp(NAMESPACE), is_available).await;
    Ok(())
}

/// An object that no snapshot has room for.
async fn too_large(way: &Way) -> Result<()> {
    let namespace = "canary-large";
    application(way, namespace).await?;
    let large = json!({"metadata": {"name": "large"}, "data": {"k": format!("{CANARY}{}", "<".repeat(300 * 1024))}});
    way.create_planted(
        &format!("/api/v1/namespaces/{namespace}/configmaps"),
        &large,
    )
    .await?;
    place(way, namespace, placement("b", namespace)).await?;
    way.until(&crp(namespace), |placement| {
        says(placement, "InvalidResourceSelectors")
    })
    .await;
    Ok(())
}
