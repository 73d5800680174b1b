//! What bad input gets: the condition and reason of the contract. Everything else goes on, and nothing leaves a cluster.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use crate::federation::world::Way;

use super::world::{
    CLUSTER, PLACEMENT, World, crp, is_available, namespace_selector, reasons, report_member_at,
    works,
};
use super::{bindings, names, snapshots, world::until_count};

fn fixed(members: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": members})
}

/// The condition of a placement, or of one of its clusters, that ends with these words.
fn says(conditions: &Value, words: &str) -> bool {
    reasons(conditions).iter().any(|one| one.ends_with(words))
}

fn cluster<'a>(placement: &'a Value, name: &str) -> &'a Value {
    let all = placement["status"]["placementStatuses"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|one| one["clusterName"] == name)
        .unwrap_or(&Value::Null)
}

fn message<'a>(conditions: &'a Value, type_: &str) -> &'a str {
    let all = conditions.as_array();
    let mut all = all.into_iter().flatten();
    let found = all.find(|one| one["type"].as_str().is_some_and(|one| one.ends_with(type_)));
    found
        .and_then(|one| one["message"].as_str())
        .unwrap_or_default()
}

fn override_of(name: &str, members: &str, step: &Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
            "policy": {"overrideRules": [{
                "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels":
                    {"kubernetes-fleet.io/member-name": members}}}]},
                "jsonPatchOverrides": [step]}]},
        },
    })
}

#[tokio::test]
async fn selectors_that_cannot_be_followed_change_nothing() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["badsel-1"], json!({})).await?;
    world.application("badsel", "c").await?;
    let spec =
        json!({"policy": fixed(&["badsel-1"]), "resourceSelectors": namespace_selector("badsel")});
    world.place("badsel", spec).await?;
    world.until_available("badsel").await?;
    let work = format!("{}/badsel-work", works("badsel-1"));
    let before = way.until_there(&work).await;
    let namespace = || namespace_selector("badsel")[0].take();
    let unknown = json!({"group": "none.example.com", "version": "v1", "kind": "Nothing"});
    let labelled = json!({"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchLabels": {"kubernetes.io/metadata.name": "badsel"}}});
    let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"});
    let reserved =
        json!({"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"});
    for (selectors, said) in [
        (json!([namespace(), unknown]), "does not serve"),
        (json!([namespace(), labelled]), "more than one selector"),
        (json!([namespace(), map]), "is namespaced"),
        (json!([namespace(), reserved]), "is not placed"),
    ] {
        let patch = json!({"spec": {"resourceSelectors": selectors}});
        way.patch(&crp("badsel"), &patch).await?;
        let refused = way
            .until(&crp("badsel"), |placement| {
                let conditions = &placement["status"]["conditions"];
                says(conditions, "Scheduled False InvalidResourceSelectors")
                    && message(conditions, "Scheduled").contains(said)
                    && conditions[0]["observedGeneration"] == placement["metadata"]["generation"]
            })
            .await;
        ensure!(
            reasons(&refused["status"]["conditions"]).len() == 1,
            "{refused:#}"
        );
    }
    // What Go writes of this is larger than an object may be.
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "<".repeat(300 * 1024)}});
    way.create("/api/v1/namespaces/badsel/configmaps", &large)
        .await?;
    let selectors = json!({"spec": {"resourceSelectors": namespace_selector("badsel")}});
    way.patch(&crp("badsel"), &selectors).await?;
    way.until(&crp("badsel"), |placement| {
        let conditions = &placement["status"]["conditions"];
        says(conditions, "Scheduled False InvalidResourceSelectors")
            && message(conditions, "Scheduled").contains("ConfigMap \"large\"")
    })
    .await;
    let after = way.until_there(&work).await;
    ensure!(before["metadata"]["uid"] == after["metadata"]["uid"]);
    ensure!(before["spec"] == after["spec"], "{after:#}");
    way.delete("/api/v1/namespaces/badsel/configmaps/large")
        .await?;
    world.until_available("badsel").await?;
    // A name that no label can hold is refused in the same way, and can be deleted.
    let long = "l".repeat(64);
    let spec =
        json!({"policy": fixed(&["badsel-1"]), "resourceSelectors": namespace_selector("badsel")});
    world.place(&long, spec).await?;
    way.until(&crp(&long), |placement| {
        let conditions = &placement["status"]["conditions"];
        message(conditions, "Scheduled").contains("length exceeding 63")
    })
    .await;
    way.delete(&crp(&long)).await?;
    way.until_gone(&crp(&long)).await;
    Ok(())
}

#[tokio::test]
async fn an_override_that_cannot_be_applied_stops_its_cluster_alone() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["badover-1", "badover-2"], json!({})).await?;
    world.application("badover", "c").await?;
    let overrides = format!("{PLACEMENT}/namespaces/badover/resourceoverrides");
    let value = |path: &str, value: &str| json!({"op": "replace", "path": path, "value": value});
    let bad_path = override_of("o", "badover-1", &value("/data/none", "x"));
    way.create(&overrides, &bad_path).await?;
    way.until_there(&format!(
        "{PLACEMENT}/namespaces/badover/resourceoverridesnapshots/o-0"
    ))
    .await;
    let spec = json!({
        "policy": fixed(&["badover-1", "badover-2"]), "resourceSelectors": namespace_selector("badover"),
        "strategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
    });
    world.place("badover", spec).await?;
    let failed = |said: &'static str| {
        move |placement: &Value| {
            let (one, two) = (
                &cluster(placement, "badover-1")["conditions"],
                &cluster(placement, "badover-2")["conditions"],
            );
            says(
                &placement["status"]["conditions"],
                "Overridden False OverriddenFailed",
            ) && says(one, "Overridden False OverriddenFailed")
                && message(one, "Overridden").contains(said)
                && says(two, "Available True AllWorkAreAvailable")
        }
    };
    way.until(&crp("badover"), failed("/data/none")).await;
    until_count(&way, &works("badover-1"), 0).await;
    // The hub does not know a label of this name. What was placed by then stays as it is.
    let good = json!([value("/data/key1", "${MEMBER-CLUSTER-NAME}")]);
    let rule = |steps: &Value| {
        let mut rule = bad_path["spec"]["policy"]["overrideRules"][0].clone();
        rule["jsonPatchOverrides"] = steps.clone();
        json!({"spec": {"policy": {"overrideRules": [rule]}}})
    };
    way.patch(&format!("{overrides}/o"), &rule(&good)).await?;
    let work = format!("{}/badover-work", works("badover-1"));
    way.until(&work, |work| {
        work["spec"]["workload"]["manifests"][1]["data"]["key1"] == "badover-1"
    })
    .await;
    world.until_available("badover").await?;
    let unknown = json!([value("/data/key1", "${MEMBER-CLUSTER-LABEL-KEY-none}")]);
    way.patch(&format!("{overrides}/o"), &rule(&unknown))
        .await?;
    way.until(&crp("badover"), failed("has no label none"))
        .await;
    let kept = way.until_there(&work).await;
    ensure!(
        kept["spec"]["workload"]["manifests"][1]["data"]["key1"] == "badover-1",
        "{kept:#}"
    );
    Ok(())
}

#[tokio::test]
async fn a_manifest_that_a_member_refuses_is_named() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["refuse-1", "refuse-2"], json!({})).await?;
    world.application("refuse", "c").await?;
    world.mute("refuse-1", true);
    let spec = json!({
        "policy": fixed(&["refuse-1", "refuse-2"]), "resourceSelectors": namespace_selector("refuse"),
    });
    world.place("refuse", spec).await?;
    let path = format!("{}/refuse-work", works("refuse-1"));
    let mut work = way.until_there(&path).await;
    let generation = work["metadata"]["generation"].clone();
    let is = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let manifest = |ordinal: u32, kind: &str, namespace: &str, name: &str, condition: Value| {
        json!({"identifier": {"ordinal": ordinal, "group": "", "version": "v1", "kind": kind,
                              "resource": format!("{}s", kind.to_lowercase()), "namespace": namespace, "name": name},
               "conditions": [condition]})
    };
    work["status"] = json!({
        "conditions": [is("Applied", "False", "SomeManifestsAreNotApplied", "")],
        "manifestConditions": [
            manifest(0, "Namespace", "", "refuse", is("Applied", "True", "Applied", "")),
            manifest(1, "ConfigMap", "refuse", "c", is("Applied", "False", "ManifestApplyFailed", "quota exceeded")),
        ],
    });
    way.replace(&format!("{path}/status"), &work).await?;
    let placed = way
        .until(&crp("refuse"), |placement| {
            says(
                &placement["status"]["conditions"],
                "Applied False ApplyFailed",
            ) && says(
                &cluster(placement, "refuse-1")["conditions"],
                "Applied False NotAllWorkHaveBeenApplied",
            ) && says(
                &cluster(placement, "refuse-2")["conditions"],
                "Available True AllWorkAreAvailable",
            )
        })
        .await;
    let failed = &cluster(&placed, "refuse-1")["failedPlacements"];
    ensure!(
        failed.as_array().is_some_and(|all| all.len() == 1),
        "{placed:#}"
    );
    ensure!(
        failed[0]["name"] == "c" && failed[0]["namespace"] == "refuse",
        "{failed:#}"
    );
    ensure!(
        failed[0]["condition"]["message"] == "quota exceeded",
        "{failed:#}"
    );
    Ok(())
}

#[tokio::test]
async fn a_member_that_stops_to_beat_keeps_what_it_has_and_gets_nothing_new() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let label = json!({"of": "beat"});
    world.join(&["beat-1", "beat-2"], label.clone()).await?;
    world.application("beat", "c").await?;
    let spec = json!({"policy": fixed(&["beat-1", "beat-2"]), "resourceSelectors": namespace_selector("beat")});
    world.place("beat", spec).await?;
    world.until_available("beat").await?;
    let path = format!("{CLUSTER}/namespaces/fleet-member-beat-2/internalmemberclusters/beat-2");
    let mut internal = way.until_there(&path).await;
    let long_ago = "2026-01-01T00:00:00Z";
    report_member_at(&way, &mut internal, "True", long_ago).await?;
    let member = format!("{CLUSTER}/memberclusters/beat-2");
    way.until(&member, |member| {
        member["status"]["agentStatus"][0]["lastReceivedHeartbeat"] == long_ago
    })
    .await;
    // A placement that comes now goes elsewhere, and says why.
    let two = json!({"policy": {"placementType": "PickN", "numberOfClusters": 2, "affinity": super::affinity(&label)},
                     "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "beat",
                                            "selectionScope": "NamespaceOnly"}]});
    world.place("beat-new", two).await?;
    let placed = way
        .until(&crp("beat-new"), |placement| {
            names(&placement["status"]) == ["beat-1"]
                && says(
                    &placement["status"]["conditions"],
                    "Scheduled False SchedulingPolicyUnfulfilled",
                )
        })
        .await;
    let missing = &placed["status"]["placementStatuses"][1]["conditions"];
    ensure!(
        says(missing, "Scheduled False ScheduleFailed"),
        "{placed:#}"
    );
    // The one that it has stays, and changes go on to reach it.
    let map = "/api/v1/namespaces/beat/configmaps/c";
    way.patch(map, &json!({"data": {"key1": "2"}})).await?;
    let work = format!("{}/beat-work", works("beat-2"));
    way.until(&work, |work| {
        work["spec"]["workload"]["manifests"][1]["data"]["key1"] == "2"
    })
    .await;
    until_count(&way, &bindings("beat"), 2).await;
    // It is picked once it beats again.
    let mut internal = way.until_there(&path).await;
    super::world::report_member(&way, &mut internal, "True").await?;
    way.until(&crp("beat-new"), |placement| {
        names(&placement["status"]).len() == 2 && is_available(placement)
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn snapshots_that_are_lost_are_made_again_and_works_that_are_doubled_are_told_of()
-> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["lost-1"], json!({})).await?;
    world.application("lost", "c").await?;
    let envelope = json!({
        "metadata": {"name": "wrapped", "annotations": {"kubernetes-fleet.io/envelope-configmap": "true"}},
        "data": {"quota": "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: q\n  namespace: lost\n"},
    });
    way.create("/api/v1/namespaces/lost/configmaps", &envelope)
        .await?;
    let spec =
        json!({"policy": fixed(&["lost-1"]), "resourceSelectors": namespace_selector("lost")});
    world.place("lost", spec).await?;
    // The snapshot of a hub that has not heard of all ConfigMaps yet is followed by another one.
    let path = crp("lost");
    let placed = way.until(&path, |placement| {
        let selected = placement["status"]["selectedResources"].as_array();
        selected.is_some_and(|all| all.len() == 3) && is_available(placement)
    });
    let placed = placed.await;
    let index = placed["status"]["observedResourceIndex"].as_str();
    let index = index.context("the index of the snapshot")?;
    let snapshot = format!("{PLACEMENT}/clusterresourcesnapshots/lost-{index}-snapshot");
    let before = way.until_there(&snapshot).await;
    way.delete(&snapshot).await?;
    way.until(&snapshot, |found| {
        found["metadata"]["uid"] != before["metadata"]["uid"]
    })
    .await;
    // No other one was made.
    let count = index.parse::<usize>()? + 1;
    until_count(&way, &snapshots("lost"), count).await;
    world.until_available("lost").await?;
    let all = until_count(&way, &works("lost-1"), 2).await;
    let is_wrapped = |work: &&Value| {
        let labels = &work["metadata"]["labels"];
        labels["kubernetes-fleet.io/envelope-name"] == "wrapped"
    };
    let wrapped = all
        .iter()
        .find(is_wrapped)
        .context("the Work of the envelope")?;
    let second = json!({
        "apiVersion": wrapped["apiVersion"], "kind": "Work", "spec": wrapped["spec"],
        "metadata": {"name": "second", "labels": wrapped["metadata"]["labels"],
                     "annotations": wrapped["metadata"]["annotations"]},
    });
    way.create(&works("lost-1"), &second).await?;
    way.until(&crp("lost"), |placement| {
        let conditions = &cluster(placement, "lost-1")["conditions"];
        says(conditions, "WorkSynchronized False SyncWorkFailed")
    })
    .await;
    way.until_event("default", "DuplicateEnvelopeWorks", "second")
        .await;
    until_count(&way, &works("lost-1"), 3).await;
    way.delete(&format!("{}/second", works("lost-1"))).await?;
    world.until_available("lost").await?;
    Ok(())
}

/// Refuses a kind of request about the Works of a member; returns the path of what puts the refusal into force.
async fn refuse_works(way: &Way, member: &str, operation: &str) -> Result<String> {
    let of_member = format!("fleet-member-{member}");
    let of_member = json!({"matchLabels": {"kubernetes.io/metadata.name": of_member}});
    let rule = json!({
        "apiGroups": ["placement.kubernetes-fleet.io"], "apiVersions": ["*"],
        "operations": [operation], "resources": ["works"],
    });
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "metadata": {"name": member},
        "spec": {
            "matchConstraints": {"namespaceSelector": of_member, "resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "it takes no Work"}],
        },
    });
    way.create(policies, &policy).await?;
    let binding = json!({
        "metadata": {"name": member},
        "spec": {"policyName": member, "validationActions": ["Deny"]},
    });
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    way.create(bindings, &binding).await?;
    let all = works(member);
    let work = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": "tried"}, "spec": {"workload": {"manifests": []}},
    });
    if operation == "UPDATE" {
        way.create(&all, &work).await?;
    }
    eventually(SOON, "the policy is in force", async || {
        let tried = match operation {
            "UPDATE" => {
                let patch = json!({"metadata": {"labels": {"tried": unique("t")}}});
                way.patch(&format!("{all}/tried?dryRun=All"), &patch).await
            }
            _ => way.create(&format!("{all}?dryRun=All"), &work).await,
        };
        let why = format!("{:#}", tried.err().context("it is not refused yet")?);
        ensure!(why.contains("it takes no Work"), "{why}");
        Ok(())
    })
    .await;
    Ok(format!("{bindings}/{member}"))
}

/// The status of a placement waits for the answers of members, but not for ever.
#[tokio::test]
async fn a_member_that_takes_no_work_is_told_of_while_another_one_does_not_answer() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let members = ["takes-none", "is-mute"];
    world.join(&members, json!({})).await?;
    world.mute("is-mute", true);
    refuse_works(&way, "takes-none", "CREATE").await?;
    world.application("refused", "c").await?;
    let spec =
        json!({"policy": fixed(&members), "resourceSelectors": namespace_selector("refused")});
    world.place("refused", spec).await?;
    way.until(&crp("refused"), |placement| {
        let conditions = &cluster(placement, "takes-none")["conditions"];
        says(conditions, "WorkSynchronized False SyncWorkFailed")
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn nothing_leaves_a_member_whose_works_cannot_be_updated() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["keeps-all"], json!({})).await?;
    world.application("kept", "c").await?;
    let envelopes = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/kept/resourceenvelopes";
    let inner = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inner", "namespace": "kept"}});
    let envelope = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "e"}, "data": {"inner": inner},
    });
    way.create(envelopes, &envelope).await?;
    let spec =
        json!({"policy": fixed(&["keeps-all"]), "resourceSelectors": namespace_selector("kept")});
    world.place("kept", spec).await?;
    world.until_available("kept").await?;
    let count = async || -> Result<usize> {
        let all = way.get(&works("keeps-all")).await?.context("a list")?;
        let items = all["items"].as_array().context("items")?.iter();
        Ok(items
            .filter(|work| work["metadata"]["name"] != "tried")
            .count())
    };
    ensure!(count().await? == 2, "one Work is for the envelope");
    let refusal = refuse_works(&way, "keeps-all", "UPDATE").await?;
    // What was in the envelope is an object of its own now.
    way.create("/api/v1/namespaces/kept/configmaps", &inner)
        .await?;
    way.delete(&format!("{envelopes}/e")).await?;
    way.until(&crp("kept"), |placement| {
        let conditions = &cluster(placement, "keeps-all")["conditions"];
        says(conditions, "WorkSynchronized False SyncWorkFailed")
    })
    .await;
    ensure!(count().await? == 2, "nothing is deleted before");
    way.delete(&refusal).await?;
    eventually(SOON, "the Work of the envelope goes", async || {
        let left = count().await?;
        ensure!(left == 1, "{left} Works");
        Ok(())
    })
    .await;
    world.until_available("kept").await?;
    Ok(())
}

#[tokio::test]
async fn a_hub_without_some_features_needs_no_kinds_of_theirs() -> Result<()> {
    let flags = [
        "--enable-eviction-apis=false",
        "--enable-staged-update-run-apis=false",
        "--enable-resource-placement=false",
    ];
    let mut world = World::start_with(&flags.map(str::to_owned)).await?;
    let hub = world.process.take().context("the hub")?;
    hub.kill().await?;
    let way = world.way()?;
    let kinds = [
        "clusterresourceplacementevictions",
        "clusterstagedupdateruns",
        "stagedupdateruns",
        "clusterapprovalrequests",
        "approvalrequests",
        "resourceplacements",
        "resourcebindings",
        "resourcesnapshots",
        "schedulingpolicysnapshots",
    ];
    for kind in kinds {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let at = format!("{definitions}/{kind}.placement.kubernetes-fleet.io");
        way.delete(&at).await?;
        way.until_gone(&at).await;
    }
    world.launch()?;
    world.join(&["m"], json!({})).await?;
    world.application("app", "c").await?;
    let spec = json!({"resourceSelectors": namespace_selector("app")});
    world.place("app", spec).await?;
    world.until_available("app").await?;
    Ok(())
}
