//! `hawser hub` on a real kube-apiserver, with members that are played.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::{SOON, eventually};

mod canary;
mod guards;
mod inputs;
mod killed;
mod reported;
mod runs;
mod seed;
mod world;

use world::{
    CLUSTER, PLACEMENT, World, crp, is_available, namespace_selector, reasons, report_member,
    until_count, works,
};

fn affinity(labels: &Value) -> Value {
    json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}}})
}

fn snapshots(name: &str) -> String {
    format!(
        "{PLACEMENT}/clusterresourcesnapshots?labelSelector=kubernetes-fleet.io%2Fparent-CRP%3D{name}"
    )
}

fn bindings(name: &str) -> String {
    format!(
        "{PLACEMENT}/clusterresourcebindings?labelSelector=kubernetes-fleet.io%2Fparent-CRP%3D{name}"
    )
}

fn names(status: &Value) -> Vec<&str> {
    let all = status["placementStatuses"].as_array().into_iter().flatten();
    all.filter_map(|one| one["clusterName"].as_str()).collect()
}

#[tokio::test]
async fn the_definitions_refuse_what_contradicts_itself() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let definitions = way
        .get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .await?
        .context("definitions")?;
    let definitions = definitions["items"].as_array().context("a list")?;
    let fleet = definitions.iter().filter(|one| {
        let group = one["spec"]["group"].as_str().unwrap_or_default();
        group.ends_with("kubernetes-fleet.io")
    });
    assert_eq!(fleet.count(), 27);
    let selectors = namespace_selector("none");
    let wrong = [
        (
            json!({"resourceSelectors": selectors, "policy": {"placementType": "PickFixed",
                   "clusterNames": ["a"], "numberOfClusters": 1}}),
            "PickFixed",
        ),
        (
            json!({"resourceSelectors": selectors, "policy": {"placementType": "PickN"}}),
            "PickN",
        ),
        (
            json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "a",
                   "labelSelector": {"matchLabels": {"a": "b"}}}]}),
            "mutually exclusive",
        ),
        (json!({"resourceSelectors": []}), "resourceSelectors"),
        (
            json!({"resourceSelectors": selectors, "statusReportingScope": "NamespaceAccessible",
                   "strategy": {"rollingUpdate": {"maxSurge": "101%"}}}),
            "maxSurge",
        ),
    ];
    for (spec, said) in wrong {
        let refused = world.place("wrong", spec).await;
        let problem = format!("{:#}", refused.expect_err("it is wrong"));
        assert!(problem.contains(said), "{problem}");
    }
    world
        .place(
            "immutable",
            json!({"resourceSelectors": selectors,
                   "policy": {"placementType": "PickFixed", "clusterNames": ["nobody"]}}),
        )
        .await?;
    for (patch, said) in [
        (
            json!({"spec": {"policy": {"placementType": "PickAll", "clusterNames": null}}}),
            "immutable",
        ),
        (
            json!({"spec": {"policy": null}}),
            "policy cannot be removed once set",
        ),
    ] {
        let refused = way.patch(&crp("immutable"), &patch).await;
        let problem = format!("{:#}", refused.expect_err("it may not change"));
        assert!(problem.contains(said), "{problem}");
    }
    let member = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "m".repeat(64)},
        "spec": {"identity": {"kind": "User", "name": "u"}},
    });
    let refused = way
        .create(&format!("{CLUSTER}/memberclusters"), &member)
        .await;
    assert!(format!("{:#}", refused.expect_err("too long")).contains("max length is 63"));
    Ok(())
}

#[tokio::test]
async fn the_samples_of_the_documentation_have_its_names_and_hashes() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world
        .join(&["aks-member-1", "aks-member-2"], json!({"seed": "1"}))
        .await?;
    world.application("test", "test-1").await?;
    world
        .place(
            "crp-1",
            json!({
                "policy": {"placementType": "PickN", "numberOfClusters": 2, "affinity": affinity(&json!({"seed": "1"}))},
                "resourceSelectors": namespace_selector("test"),
                "revisionHistoryLimit": 100,
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%", "unavailablePeriodSeconds": 5},
                             "type": "RollingUpdate"},
            }),
        )
        .await?;
    let placement = world.until_available("crp-1").await?;
    assert_eq!(
        reasons(&placement["status"]["conditions"]),
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
        names(&placement["status"]),
        ["aks-member-1", "aks-member-2"]
    );
    assert_eq!(
        reasons(&placement["status"]["placementStatuses"][0]["conditions"]),
        [
            "Scheduled True Scheduled",
            "RolloutStarted True RolloutStarted",
            "Overridden True NoOverrideSpecified",
            "WorkSynchronized True AllWorkSynced",
            "Applied True AllWorkHaveBeenApplied",
            "Available True AllWorkAreAvailable",
        ]
    );
    assert_eq!(placement["status"]["observedResourceIndex"], "0");
    assert_eq!(
        placement["status"]["selectedResources"],
        json!([
            {"kind": "Namespace", "name": "test", "version": "v1"},
            {"kind": "ConfigMap", "name": "test-1", "namespace": "test", "version": "v1"},
        ])
    );
    let snapshot = way
        .get(&format!(
            "{PLACEMENT}/clusterresourcesnapshots/crp-1-0-snapshot"
        ))
        .await?
        .context("the snapshot")?;
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
            "kubernetes-fleet.io/resource-index": "0",
        })
    );
    assert_eq!(
        snapshot["metadata"]["ownerReferences"][0]["uid"],
        placement["metadata"]["uid"]
    );
    let policy = way
        .get(&format!(
            "{PLACEMENT}/clusterschedulingpolicysnapshots/crp-1-0"
        ))
        .await?
        .context("the policy")?;
    assert_eq!(
        policy["metadata"]["annotations"]["kubernetes-fleet.io/number-of-clusters"],
        "2"
    );
    assert_eq!(
        policy["status"]["targetClusters"][1]["clusterName"],
        "aks-member-2"
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
            "Work(s) have been created or updated successfully",
        ),
        (
            "PlacementApplied",
            "Resources have been applied to the selected cluster(s)",
        ),
        ("PlacementRolloutCompleted", "finished the rollout"),
    ] {
        way.until_event("default", reason, message).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_change_reaches_the_works_and_old_snapshots_go() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world
        .join(&["change-1", "change-2"], json!({"of": "change"}))
        .await?;
    world.application("change", "c").await?;
    world
        .place(
            "change",
            json!({
                "policy": {"placementType": "PickAll", "affinity": affinity(&json!({"of": "change"}))},
                "resourceSelectors": namespace_selector("change"), "revisionHistoryLimit": 2,
            }),
        )
        .await?;
    world.until_available("change").await?;
    for value in ["2", "3", "4"] {
        let patch = json!({"data": {"key1": value}});
        way.patch("/api/v1/namespaces/change/configmaps/c", &patch)
            .await?;
        for member in ["change-1", "change-2"] {
            way.until(&format!("{}/change-work", works(member)), |work| {
                work["spec"]["workload"]["manifests"][1]["data"]["key1"] == value
            })
            .await;
        }
        world.until_available("change").await?;
    }
    let kept = until_count(&way, &snapshots("change"), 2).await;
    let latest: Vec<&Value> = kept
        .iter()
        .map(|one| &one["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"])
        .collect();
    assert!(latest.contains(&&json!("true")) && latest.contains(&&json!("false")));
    Ok(())
}

#[tokio::test]
async fn fixed_members_get_overridden_resources_and_envelopes_of_their_own() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world
        .join(&["fixed-1", "fixed-2"], json!({"of": "fixed"}))
        .await?;
    world.application("fixed", "c").await?;
    let envelope = json!({
        "metadata": {"name": "wrapped", "annotations": {"kubernetes-fleet.io/envelope-configmap": "true"}},
        "data": {"quota": "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: q\n  namespace: fixed\n"},
    });
    way.create("/api/v1/namespaces/fixed/configmaps", &envelope)
        .await?;
    let one = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": "o"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
            "policy": {"overrideRules": [
                {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels":
                    {"kubernetes-fleet.io/member-name": "fixed-2"}}}]},
                 "jsonPatchOverrides": [{"op": "replace", "path": "/data/key1", "value": "${MEMBER-CLUSTER-NAME}"}]}]},
        },
    });
    let all = format!("{PLACEMENT}/namespaces/fixed/resourceoverrides");
    way.create(&all, &one).await?;
    let snapshot = format!("{PLACEMENT}/namespaces/fixed/resourceoverridesnapshots/o-0");
    way.until_there(&snapshot).await;
    world
        .place(
            "fixed",
            json!({
                "policy": {"placementType": "PickFixed", "clusterNames": ["fixed-1", "fixed-2"]},
                "resourceSelectors": namespace_selector("fixed"),
            }),
        )
        .await?;
    let placement = world.until_available("fixed").await?;
    assert_eq!(
        reasons(&placement["status"]["conditions"])[2],
        "ClusterResourcePlacementOverridden True OverriddenSucceeded"
    );
    for (member, value) in [("fixed-1", "value1"), ("fixed-2", "fixed-2")] {
        let found = until_count(&way, &works(member), 2).await;
        let plain = found
            .iter()
            .find(|one| one["metadata"]["name"] == "fixed-work");
        let manifests = &plain.context("the plain Work")?["spec"]["workload"]["manifests"];
        assert_eq!(manifests[1]["data"]["key1"], value);
        assert!(manifests[2].is_null(), "the envelope stays on the hub");
        let wrapped = found
            .iter()
            .find(|one| one["metadata"]["name"] != "fixed-work");
        let wrapped = wrapped.context("the Work of the envelope")?;
        assert_eq!(
            wrapped["metadata"]["labels"]["kubernetes-fleet.io/envelope-name"],
            "wrapped"
        );
        assert_eq!(
            wrapped["spec"]["workload"]["manifests"][0]["kind"],
            "ResourceQuota"
        );
    }
    // A change of the override rolls out like one of the resources.
    let rule = json!([{"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}]);
    let patch = json!({"spec": {"policy": {"overrideRules": rule}}});
    way.patch(&format!("{all}/o"), &patch).await?;
    for member in ["fixed-1", "fixed-2"] {
        way.until(&format!("{}/fixed-work", works(member)), |work| {
            let manifests = work["spec"]["workload"]["manifests"].as_array();
            manifests.is_some_and(|all| all.len() == 1)
        })
        .await;
    }
    way.delete(&format!("{all}/o")).await?;
    way.until_gone(&snapshot).await;
    Ok(())
}

#[tokio::test]
async fn another_number_of_clusters_moves_resources() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world
        .join(
            &["number-1", "number-2", "number-3"],
            json!({"of": "number"}),
        )
        .await?;
    world.application("number", "c").await?;
    world
        .place(
            "number",
            json!({
                "policy": {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity(&json!({"of": "number"}))},
                "resourceSelectors": namespace_selector("number"),
            }),
        )
        .await?;
    let placement = world.until_available("number").await?;
    // Among equals the last name wins.
    assert_eq!(names(&placement["status"]), ["number-3"]);
    let number = |count: u32| json!({"spec": {"policy": {"numberOfClusters": count}}});
    way.patch(&crp("number"), &number(4)).await?;
    let unfulfilled = way
        .until(&crp("number"), |placement| {
            let first = &placement["status"]["conditions"][0];
            first["reason"] == "SchedulingPolicyUnfulfilled"
                && names(&placement["status"]).len() == 3
        })
        .await;
    let nameless = &unfulfilled["status"]["placementStatuses"][3];
    assert_eq!(nameless["conditions"][0]["reason"], "ScheduleFailed");
    way.patch(&crp("number"), &number(2)).await?;
    way.until(&crp("number"), |placement| {
        is_available(placement) && names(&placement["status"]).len() == 2
    })
    .await;
    until_count(&way, &bindings("number"), 2).await;
    until_count(&way, &works("number-1"), 0).await;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_defined_later_can_be_selected() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["later-1"], json!({"of": "later"})).await?;
    world
        .place(
            "later",
            json!({
                "policy": {"placementType": "PickFixed", "clusterNames": ["later-1"]},
                "resourceSelectors": [{"group": "later.example.com", "version": "v1", "kind": "Thing"}],
            }),
        )
        .await?;
    way.until(&crp("later"), |placement| {
        placement["status"]["conditions"][0]["reason"] == "InvalidResourceSelectors"
    })
    .await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.later.example.com"},
        "spec": {
            "group": "later.example.com", "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    world
        .hub
        .install_crd(&serde_json::from_value(definition)?)
        .await?;
    let thing = json!({"apiVersion": "later.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"a": 1}});
    way.create("/apis/later.example.com/v1/things", &thing)
        .await?;
    let work = way
        .until(&format!("{}/later-work", works("later-1")), |work| {
            work["spec"]["workload"]["manifests"][0]["kind"] == "Thing"
        })
        .await;
    assert_eq!(work["spec"]["workload"]["manifests"][0]["spec"]["a"], 1);
    world.until_available("later").await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_of_a_deleted_placement() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world
        .join(&["gone-1", "gone-2"], json!({"of": "gone"}))
        .await?;
    world.application("gone", "c").await?;
    world
        .place(
            "gone",
            json!({
                "policy": {"placementType": "PickFixed", "clusterNames": ["gone-1", "gone-2"]},
                "resourceSelectors": namespace_selector("gone"),
            }),
        )
        .await?;
    world.until_available("gone").await?;
    way.delete(&crp("gone")).await?;
    way.until_gone(&crp("gone")).await;
    for path in [
        works("gone-1"),
        works("gone-2"),
        bindings("gone"),
        snapshots("gone"),
    ] {
        until_count(&way, &path, 0).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespaced_placement_places_its_own_namespace() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["near-1"], json!({"of": "near"})).await?;
    world.application("near", "c").await?;
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
        "metadata": {"name": "p"},
        "spec": {
            "policy": {"placementType": "PickFixed", "clusterNames": ["near-1"]},
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
        },
    });
    let all = format!("{PLACEMENT}/namespaces/near/resourceplacements");
    way.create(&all, &placement).await?;
    let path = format!("{all}/p");
    let placed = way
        .until(&path, |placement| {
            placement["status"]["conditions"][5]["status"] == "True"
        })
        .await;
    assert_eq!(
        reasons(&placed["status"]["conditions"])[5],
        "ResourcePlacementAvailable True ResourceAvailable"
    );
    way.until_there(&format!("{}/near.p-work", works("near-1")))
        .await;
    way.delete(&path).await?;
    way.until_gone(&path).await;
    until_count(&way, &works("near-1"), 0).await;
    Ok(())
}

#[tokio::test]
async fn a_member_joins_with_what_it_needs_and_leaves_with_nothing_waiting() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["leaver"], json!({"of": "leaver"})).await?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-leaver";
    way.until_there(&format!("{rbac}/roles/fleet-role-leaver"))
        .await;
    let binding = way
        .until_there(&format!("{rbac}/rolebindings/fleet-rolebinding-leaver"))
        .await;
    assert_eq!(binding["subjects"][0]["name"], "agent-of-leaver");
    // The agent may do its work, and nothing elsewhere.
    let agent = world.hub.user("agent-of-leaver", &[])?;
    agent
        .kubectl(&["get", "works", "-n", "fleet-member-leaver"])
        .await?;
    assert!(agent.kubectl(&["get", "memberclusters"]).await.is_err());
    world.application("leaver", "c").await?;
    world
        .place(
            "leaver",
            json!({
                "policy": {"placementType": "PickFixed", "clusterNames": ["leaver"]},
                "resourceSelectors": namespace_selector("leaver"),
            }),
        )
        .await?;
    world.until_available("leaver").await?;
    world.mute("leaver", true);
    let member = format!("{CLUSTER}/memberclusters/leaver");
    way.delete(&member).await?;
    let internal =
        format!("{CLUSTER}/namespaces/fleet-member-leaver/internalmemberclusters/leaver");
    let mut asked = way
        .until(&internal, |internal| internal["spec"]["state"] == "Leave")
        .await;
    assert!(
        way.get(&member).await?.is_some(),
        "its agent has not answered"
    );
    report_member(&way, &mut asked, "False").await?;
    way.until_gone(&member).await;
    way.until(&crp("leaver"), |placement| {
        placement["status"]["conditions"][0]["reason"] == "SchedulingPolicyUnfulfilled"
            && names(&placement["status"]).is_empty()
    })
    .await;
    // The Works let go, although nobody answers for the member any more.
    until_count(&way, &works("leaver"), 0).await;
    until_count(&way, &bindings("leaver"), 0).await;
    Ok(())
}

/// What happens to a hub that is killed, and a rollout that stops, in a world of its own.
#[tokio::test]
async fn a_rollout_stops_at_a_mute_member_and_survives_kills_of_the_hub() -> Result<()> {
    let mut world = World::start().await?;
    let way = world.way()?;
    let members = ["a", "b", "c"];
    world.join(&members, json!({})).await?;
    world.application("app", "c").await?;
    world
        .place(
            "roll",
            json!({
                "resourceSelectors": namespace_selector("app"),
                "strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
            }),
        )
        .await?;
    // Killed while it places, at several moments.
    for _ in 0..3 {
        way.until_there(&crp("roll")).await;
        world.process.take().context("the hub")?.kill().await?;
        world.launch()?;
    }
    world.until_available("roll").await?;
    until_count(&way, &bindings("roll"), 3).await;
    until_count(&way, &snapshots("roll"), 1).await;
    for member in members {
        world.mute(member, true);
    }
    let patch = json!({"data": {"key1": "2"}});
    way.patch("/api/v1/namespaces/app/configmaps/c", &patch)
        .await?;
    let held = way
        .until(&crp("roll"), |placement| {
            placement["status"]["observedResourceIndex"] == "1"
                && reasons(&placement["status"]["conditions"]).contains(
                    &"ClusterResourcePlacementRolloutStarted False RolloutNotStartedYet".to_owned(),
                )
        })
        .await;
    let updated = held["status"]["placementStatuses"]
        .as_array()
        .context("statuses")?;
    let updated = updated
        .iter()
        .filter(|one| one["observedResourceIndex"] == "1");
    assert_eq!(updated.count(), 1, "{held:#}");
    world.process.take().context("the hub")?.kill().await?;
    for member in members {
        world.mute(member, false);
    }
    world.launch()?;
    let moved = |placement: &Value| {
        let all = placement["status"]["placementStatuses"].as_array();
        is_available(placement)
            && all.is_some_and(|all| all.iter().all(|one| one["observedResourceIndex"] == "1"))
    };
    way.until(&crp("roll"), moved).await;
    eventually(SOON, "the metrics", async || -> Result<()> {
        let text = world.metrics().await?;
        anyhow::ensure!(
            text.contains("fleet_workload_placement_status_last_timestamp_seconds{")
                && text.contains("conditionType=\"Completed\"")
                && text.contains("scheduling_cycle_duration_milliseconds_count"),
            "{text}"
        );
        Ok(())
    })
    .await;
    Ok(())
}
