//! The samples of KubeFleet's documentation, literally.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::world::{PLACEMENT, World, crp, is_available, reasons};

const SAMPLE: &str = r#"
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata:
  name: crp-1
spec:
  policy:
    placementType: PickN
    numberOfClusters: 2
    topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: "env"
        whenUnsatisfiable: DoNotSchedule
  resourceSelectors:
    - group: ""
      kind: Namespace
      name: test
      version: v1
  revisionHistoryLimit: 100
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
      unavailablePeriodSeconds: 5
    type: RollingUpdate
"#;

const PICK_ALL: &str = r#"
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata:
  name: crp-2
spec:
  policy:
    placementType: PickAll
  resourceSelectors:
    - group: ""
      kind: Namespace
      name: application-1
      version: v1
  revisionHistoryLimit: 10
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
      unavailablePeriodSeconds: 2
    type: RollingUpdate
"#;

/// The messages of conditions.
fn messages(conditions: &Value) -> Vec<&str> {
    let all = conditions.as_array().into_iter().flatten();
    all.filter_map(|one| one["message"].as_str()).collect()
}

async fn apply(world: &World, manifest: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), manifest)?;
    let path = file.path().to_str().context("a path in Unicode")?;
    let admin = world.hub.admin();
    admin.kubectl(&["apply", "-f", path]).await?;
    Ok(())
}

#[tokio::test]
async fn the_samples_of_the_seed_are_what_the_hub_shows() -> Result<()> {
    let world = World::start().await?;
    let way = world.way()?;
    world.join(&["aks-member-1"], json!({"env": "a"})).await?;
    world.join(&["aks-member-2"], json!({"env": "b"})).await?;
    world.application("test", "test-1").await?;
    apply(&world, SAMPLE).await?;
    world.until_available("crp-1").await?;
    // The sample of the policy snapshot is of a policy without constraints.
    let plain = json!({"spec": {"policy": {"topologySpreadConstraints": null}}});
    let patched = way.patch(&crp("crp-1"), &plain).await?;
    let at = format!("{PLACEMENT}/clusterschedulingpolicysnapshots/crp-1-1");
    let policy = way
        .until(&at, |policy| {
            policy["status"]["conditions"][0]["status"] == "True"
        })
        .await;
    let generation = &patched["metadata"]["generation"];
    assert_eq!(
        policy["metadata"]["annotations"],
        json!({
            "kubernetes-fleet.io/CRP-generation": generation.to_string(),
            "kubernetes-fleet.io/number-of-clusters": "2",
        })
    );
    assert_eq!(
        policy["metadata"]["labels"],
        json!({
            "kubernetes-fleet.io/is-latest-snapshot": "true",
            "kubernetes-fleet.io/parent-CRP": "crp-1",
            "kubernetes-fleet.io/policy-index": "1",
        })
    );
    assert_eq!(
        policy["spec"],
        json!({
            "policy": {"placementType": "PickN"},
            "policyHash": "NDc5ZjQwNWViNzgwOGNmYzU4MzY2YjI2NDg2ODBhM2E4MTVlZjkxNGZlNjc1NmFlOGRmMGQ2Zjc0ODg1NDE2YQ==",
        })
    );
    let status = &policy["status"];
    assert_eq!(status["observedCRPGeneration"], *generation);
    assert_eq!(
        reasons(&status["conditions"]),
        ["Scheduled True SchedulingPolicyFulfilled"]
    );
    for (place, name) in ["aks-member-1", "aks-member-2"].into_iter().enumerate() {
        let decision = &status["targetClusters"][place];
        assert_eq!(decision["clusterName"], name);
        assert_eq!(decision["selected"], true);
        let score = &decision["clusterScore"];
        assert!(score["affinityScore"].is_i64() && score["priorityScore"].is_i64());
    }

    // The sample of the resource snapshot has the index 4.
    let map = "/api/v1/namespaces/test/configmaps/test-1";
    for (index, value) in ["2", "3", "4", "value1"].into_iter().enumerate() {
        way.patch(map, &json!({"data": {"key1": value}})).await?;
        let index = index + 1;
        let at = format!("{PLACEMENT}/clusterresourcesnapshots/crp-1-{index}-snapshot");
        way.until_there(&at).await;
    }
    let at = format!("{PLACEMENT}/clusterresourcesnapshots/crp-1-4-snapshot");
    let snapshot = way.until_there(&at).await;
    assert_eq!(
        snapshot["metadata"]["annotations"],
        json!({
            "kubernetes-fleet.io/number-of-enveloped-object": "0",
            "kubernetes-fleet.io/number-of-resource-snapshots": "1",
            "kubernetes-fleet.io/resource-hash": "e0927e7d75c7f52542a6d4299855995018f4a6de46edf0f814cfaa6e806543f3",
        })
    );
    assert_eq!(
        snapshot["metadata"]["labels"],
        json!({
            "kubernetes-fleet.io/is-latest-snapshot": "true",
            "kubernetes-fleet.io/parent-CRP": "crp-1",
            "kubernetes-fleet.io/resource-index": "4",
        })
    );
    assert_eq!(
        snapshot["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "blockOwnerDeletion": true, "controller": true,
            "kind": "ClusterResourcePlacement", "name": "crp-1", "uid": patched["metadata"]["uid"],
        }])
    );
    assert_eq!(
        snapshot["spec"]["selectedResources"],
        json!([
            {"apiVersion": "v1", "kind": "Namespace",
             "metadata": {"labels": {"kubernetes.io/metadata.name": "test"}, "name": "test"},
             "spec": {"finalizers": ["kubernetes"]}},
            {"apiVersion": "v1", "data": {"key1": "value1", "key2": "value2", "key3": "value3"},
             "kind": "ConfigMap", "metadata": {"name": "test-1", "namespace": "test"}},
        ])
    );
    Ok(())
}

#[tokio::test]
async fn the_status_of_the_seed_s_placement_has_its_words_in_its_order() -> Result<()> {
    // As in the sample, events come from the controller of that time.
    let source = "cluster-resource-placement-controller";
    let world = World::start_with(&[format!("--placement-event-source={source}")]).await?;
    let way = world.way()?;
    let members = ["kind-cluster-1", "kind-cluster-2", "kind-cluster-3"];
    world.join(&members, json!({})).await?;
    world.application("application-1", "app-config-1").await?;
    apply(&world, PICK_ALL).await?;
    // As the sample does, this reads the version v1.
    let at = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements/crp-2";
    let placement = way.until(at, is_available).await;
    let status = &placement["status"];
    assert_eq!(
        reasons(&status["conditions"]),
        [
            "ClusterResourcePlacementScheduled True SchedulingPolicyFulfilled",
            "ClusterResourcePlacementRolloutStarted True RolloutStarted",
            "ClusterResourcePlacementOverridden True NoOverrideSpecified",
            "ClusterResourcePlacementWorkSynchronized True WorkSynchronized",
            "ClusterResourcePlacementApplied True ApplySucceeded",
            "ClusterResourcePlacementAvailable True ResourceAvailable",
        ]
    );
    assert_eq!(
        messages(&status["conditions"])[1..],
        [
            "All 3 cluster(s) start rolling out the latest resource",
            "No override rules are configured for the selected resources",
            "Works(s) are succcesfully created or updated in the 3 target clusters' namespaces",
            "The selected resources are successfully applied to 3 clusters",
            "The selected resources in 3 cluster are available now",
        ]
    );
    assert_eq!(status["observedResourceIndex"], "0");
    let all = status["placementStatuses"].as_array().context("statuses")?;
    assert_eq!(all.len(), 3);
    for (of, name) in all.iter().zip(members) {
        assert_eq!(of["clusterName"], name);
        assert_eq!(
            reasons(&of["conditions"]),
            [
                "Scheduled True Scheduled",
                "RolloutStarted True RolloutStarted",
                "Overridden True NoOverrideSpecified",
                "WorkSynchronized True AllWorkSynced",
                "Applied True AllWorkHaveBeenApplied",
                "Available True AllWorkAreAvailable",
            ]
        );
        let scheduled = format!(
            "Successfully scheduled resources for placement in {name} (affinity score: 0, topology spread score: 0): \
             picked by scheduling policy"
        );
        assert_eq!(
            messages(&of["conditions"])[..5],
            [
                &*scheduled,
                "Detected the new changes on the resources and started the rollout process",
                "No override rules are configured for the selected resources",
                "All of the works are synchronized to the latest",
                "All corresponding work objects are applied",
            ]
        );
    }
    assert_eq!(
        status["selectedResources"],
        json!([
            {"kind": "Namespace", "name": "application-1", "version": "v1"},
            {"kind": "ConfigMap", "name": "app-config-1", "namespace": "application-1", "version": "v1"},
        ])
    );
    let columns = ["get", "crp", "crp-2"];
    let table = world.hub.admin().kubectl(&columns).await?;
    let first = table.lines().next().unwrap_or_default();
    let columns: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(
        columns,
        [
            "NAME",
            "GEN",
            "SCHEDULED",
            "SCHEDULED-GEN",
            "AVAILABLE",
            "AVAILABLE-GEN",
            "AGE"
        ]
    );
    for (reason, message) in [
        (
            "PlacementRolloutStarted",
            "Started rolling out the latest resources",
        ),
        (
            "PlacementOverriddenSucceeded",
            "Placement has been successfully overridden",
        ),
        (
            "PlacementWorkSynchronized",
            "Work(s) have been created or updated successfully for the selected cluster(s)",
        ),
        (
            "PlacementApplied",
            "Resources have been applied to the selected cluster(s)",
        ),
        ("PlacementRolloutCompleted", "finished the rollout process"),
    ] {
        way.until_event("default", reason, message).await;
    }
    way.until("/api/v1/namespaces/default/events", |events| {
        let all = events["items"].as_array();
        all.is_some_and(|all| all.iter().any(|one| one["source"]["component"] == source))
    })
    .await;
    Ok(())
}
