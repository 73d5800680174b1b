//! Staged update runs: in stages, with approvals, back to an older snapshot, and with a hub that is killed.

#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{SOON, eventually};

use super::world::{
    CLUSTER, PLACEMENT, World, crp, namespace_selector, reasons, until_count, works,
};
use super::{affinity, bindings, is_available, snapshots};
use crate::federation::world::Way;

const RUNS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterstagedupdateruns";
const STRATEGIES: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterstagedupdatestrategies";
const APPROVALS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterapprovalrequests";

fn of(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
           "metadata": {"name": name}, "spec": spec})
}

fn run(name: &str, spec: Value) -> Value {
    of("ClusterStagedUpdateRun", name, spec)
}

/// A stage of the members with this label.
fn stage(name: &str, more: Value) -> Value {
    let mut stage = json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    if let (Value::Object(stage), Value::Object(more)) = (&mut stage, more) {
        stage.extend(more);
    }
    stage
}

fn external(of: &str) -> Value {
    json!({
        "policy": {"placementType": "PickAll", "affinity": affinity(&json!({"of": of}))},
        "resourceSelectors": namespace_selector(of),
        "strategy": {"type": "External"},
    })
}

/// Joins members, each with the label of its stage.
async fn join(world: &World, of: &str, members: &[(&str, &str)]) -> Result<()> {
    for (name, stage) in members {
        world
            .join(&[*name], json!({"of": of, "stage": stage}))
            .await?;
    }
    Ok(())
}

fn says(object: &Value, condition: &str) -> bool {
    reasons(&object["status"]["conditions"])
        .iter()
        .any(|one| one == condition)
}

async fn until_says(way: &Way, path: &str, condition: &str) -> Value {
    way.until(path, |object| says(object, condition)).await
}

async fn approve(way: &Way, request: &str) -> Result<()> {
    let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
    let approved = json!([{"type": "Approved", "status": "True", "reason": "LooksGood", "message": "",
                           "observedGeneration": 1, "lastTransitionTime": now}]);
    way.until_there(request).await;
    let patch = json!({"status": {"conditions": approved}});
    way.patch(&format!("{request}/status"), &patch).await?;
    Ok(())
}

const SUCCEEDED: &str = "Succeeded True UpdateRunSucceeded";

#[tokio::test]
async fn a_run_takes_resources_from_stage_to_stage_when_somebody_approves() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let members = [
        ("staged-1", "canary"),
        ("staged-2", "rest"),
        ("staged-3", "rest"),
    ];
    join(&world, "staged", &members).await?;
    world.application("staged", "c").await?;
    let approval = || json!([{"type": "Approval"}]);
    let stages = json!([
        stage(
            "canary",
            json!({"afterStageTasks": [
            {"type": "TimedWait", "waitTime": "1s"}, {"type": "Approval"}]})
        ),
        stage(
            "rest",
            json!({"beforeStageTasks": approval(), "maxConcurrency": "100%"})
        ),
    ]);
    // In one go, as a script creates them.
    world.place("staged", external("staged")).await?;
    let strategy = of(
        "ClusterStagedUpdateStrategy",
        "staged",
        json!({"stages": stages}),
    );
    way.create(STRATEGIES, &strategy).await?;
    let spec = |state: &str| json!({"placementName": "staged", "stagedRolloutStrategyName": "staged", "state": state});
    way.create(RUNS, &run("staged-1", spec("Initialize")))
        .await?;
    let path = format!("{RUNS}/staged-1");
    let ready = until_says(
        &way,
        &path,
        "Initialized True UpdateRunInitializedSuccessfully",
    )
    .await;
    assert_eq!(ready["status"]["policyObservedClusterCount"], 3);
    assert_eq!(ready["status"]["resourceSnapshotIndexUsed"], "0");
    assert_eq!(
        ready["status"]["stagesStatus"][1]["clusters"],
        json!([{"clusterName": "staged-2"}, {"clusterName": "staged-3"}])
    );
    until_count(&way, &works("staged-1"), 0).await;
    until_says(
        &way,
        &crp("staged"),
        "ClusterResourcePlacementRolloutStarted Unknown RolloutControlledByExternalController",
    )
    .await;

    way.patch(&path, &json!({"spec": {"state": "Run"}})).await?;
    let request = format!("{APPROVALS}/staged-1-after-canary");
    approve(&way, &request).await?;
    let accepted = until_says(
        &way,
        &request,
        "ApprovalAccepted True ApprovalRequestApprovalAccepted",
    )
    .await;
    assert_eq!(
        accepted["spec"],
        json!({"parentStageRollout": "staged-1", "targetStage": "canary"})
    );
    until_count(&way, &works("staged-1"), 1).await;
    let before = format!("{APPROVALS}/staged-1-before-rest");
    way.until_there(&before).await;
    let waiting = until_says(&way, &path, "Progressing False UpdateRunWaiting").await;
    ensure!(!says(&waiting, SUCCEEDED), "{waiting:#}");
    until_count(&way, &works("staged-2"), 0).await;
    approve(&way, &before).await?;
    let over = until_says(&way, &path, SUCCEEDED).await;
    assert_eq!(
        reasons(&over["status"]["conditions"]),
        [
            "Initialized True UpdateRunInitializedSuccessfully",
            "Progressing False UpdateRunSucceeded",
            SUCCEEDED
        ]
    );
    let placed = way
        .until(&crp("staged"), |placement| {
            is_available(placement) && placement["status"]["observedResourceIndex"] == "0"
        })
        .await;
    ensure!(
        placed["status"]["selectedResources"]
            .as_array()
            .map(Vec::len)
            == Some(2),
        "{placed:#}"
    );
    eventually(SOON, "the metrics", async || -> Result<()> {
        let text = world.metrics().await?;
        let series = "fleet_workload_update_run_status_last_timestamp_seconds{namespace=\"\",name=\"staged-1\",\
             state=\"Run\",condition=\"Succeeded\",status=\"True\",reason=\"UpdateRunSucceeded\",failureType=\"none\"}";
        ensure!(
            text.contains(series)
                && text.contains("update_run_approval_request_latency_seconds_count{taskType=\"afterStage\"}")
                && text.contains("update_run_stage_cluster_updating_duration_seconds_count"),
            "{text}"
        );
        Ok(())
    })
    .await;

    // A change waits for a run, and an older snapshot is a run away.
    let patch = json!({"data": {"key1": "2"}});
    way.patch("/api/v1/namespaces/staged/configmaps/c", &patch)
        .await?;
    let all = json!({"stages": [{"name": "all", "labelSelector": {}, "maxConcurrency": 3}]});
    way.create(
        STRATEGIES,
        &of("ClusterStagedUpdateStrategy", "at-once", all),
    )
    .await?;
    for (name, index, value) in [("staged-2", "", "2"), ("staged-3", "0", "value1")] {
        let mut spec = spec("Run");
        spec["stagedRolloutStrategyName"] = "at-once".into();
        if !index.is_empty() {
            spec["resourceSnapshotIndex"] = index.into();
        }
        way.create(RUNS, &run(name, spec)).await?;
        until_says(&way, &format!("{RUNS}/{name}"), SUCCEEDED).await;
        for (member, _) in members {
            let work = way
                .get(&format!("{}/staged-work", works(member)))
                .await?
                .context("the Work")?;
            assert_eq!(
                work["spec"]["workload"]["manifests"][1]["data"]["key1"],
                value
            );
        }
    }
    until_count(&way, &snapshots("staged"), 2).await;
    way.delete(&path).await?;
    way.until_gone(&path).await;
    way.until_gone(&request).await;
    way.until_gone(&before).await;
    Ok(())
}

#[tokio::test]
async fn a_run_of_a_namespace_rolls_its_placement_out() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    join(&world, "inner", &[("inner-1", "one"), ("inner-2", "two")]).await?;
    world.application("inner", "c").await?;
    let near = |plural: &str| format!("{PLACEMENT}/namespaces/inner/{plural}");
    let placement = json!({
        "policy": {"placementType": "PickFixed", "clusterNames": ["inner-1", "inner-2"]},
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
        "strategy": {"type": "External"},
    });
    let all = near("resourceplacements");
    way.create(&all, &of("ResourcePlacement", "p", placement))
        .await?;
    let stages = json!({"stages": [stage("one", json!({"afterStageTasks": [{"type": "Approval"}]})),
                                   stage("two", json!({}))]});
    let strategy = of("StagedUpdateStrategy", "s", stages);
    way.create(&near("stagedupdatestrategies"), &strategy)
        .await?;
    let spec = json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"});
    way.create(&near("stagedupdateruns"), &of("StagedUpdateRun", "r", spec))
        .await?;
    let request = format!("{}/r-after-one", near("approvalrequests"));
    way.until_there(&request).await;
    way.until_there(&format!("{}/inner.p-work", works("inner-1")))
        .await;
    until_count(&way, &works("inner-2"), 0).await;
    approve(&way, &request).await?;
    let path = format!("{}/r", near("stagedupdateruns"));
    until_says(&way, &path, SUCCEEDED).await;
    until_says(
        &way,
        &format!("{all}/p"),
        "ResourcePlacementAvailable True ResourceAvailable",
    )
    .await;
    Ok(())
}

#[tokio::test]
async fn the_definitions_of_runs_refuse_what_contradicts_itself() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let spec = |more: Value| {
        let mut spec = json!({"placementName": "nothing", "stagedRolloutStrategyName": "nothing"});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        spec
    };
    let refused = |answer: Result<Value>, said: &str| -> Result<()> {
        let problem = format!("{:#}", answer.err().context("it was accepted")?);
        ensure!(problem.contains(said), "{problem}, not {said}");
        Ok(())
    };
    let long = "a".repeat(64);
    let answer = way.create(RUNS, &run(&long, spec(json!({})))).await;
    refused(answer, "metadata.name max length is 63")?;
    way.create(RUNS, &run("refused", spec(json!({})))).await?;
    let path = format!("{RUNS}/refused");
    let failed = until_says(&way, &path, "Initialized False UpdateRunInitializedFailed").await;
    let message = failed["status"]["conditions"][0]["message"].as_str();
    assert!(message.is_some_and(|text| text.contains("placement nothing does not exist")));
    for (patch, said) in [
        (
            json!({"placementName": "other"}),
            "placementName is immutable",
        ),
        (
            json!({"resourceSnapshotIndex": "1"}),
            "resourceSnapshotIndex is immutable",
        ),
        (
            json!({"stagedRolloutStrategyName": "other"}),
            "stagedRolloutStrategyName is immutable",
        ),
        (
            json!({"state": "Stop"}),
            "cannot transition from Initialize to Stop",
        ),
    ] {
        refused(way.patch(&path, &json!({"spec": patch})).await, said)?;
    }
    let old = RUNS.replace("v1beta1", "v1alpha1");
    let mut first = run("first", spec(json!({})));
    first["apiVersion"] = "placement.kubernetes-fleet.io/v1alpha1".into();
    refused(way.create(&old, &first).await, "resourceSnapshotIndex")?;
    for (tasks, said) in [
        (
            json!({"afterStageTasks": [{"type": "TimedWait"}]}),
            "waitTime is required",
        ),
        (
            json!({"afterStageTasks": [{"type": "Approval", "waitTime": "1s"}]}),
            "waitTime is not allowed",
        ),
        (
            json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1s"}]}),
            "BeforeStageTaskType cannot be TimedWait",
        ),
        (
            json!({"maxConcurrency": 0}),
            "maxConcurrency must be at least 1",
        ),
        (json!({"maxConcurrency": "0%"}), "maxConcurrency"),
    ] {
        let strategy = json!({"stages": [stage("one", tasks)]});
        let strategy = of("ClusterStagedUpdateStrategy", "refused", strategy);
        refused(way.create(STRATEGIES, &strategy).await, said)?;
    }
    let request = of(
        "ClusterApprovalRequest",
        "refused",
        json!({"parentStageRollout": "refused", "targetStage": "one"}),
    );
    way.create(APPROVALS, &request).await?;
    let patch = json!({"spec": {"targetStage": "two"}});
    let answer = way.patch(&format!("{APPROVALS}/refused"), &patch).await;
    refused(answer, "The spec field is immutable")?;
    Ok(())
}

/// In a world of its own, because it kills its hub.
#[tokio::test]
async fn a_run_stops_at_a_mute_member_and_survives_kills_of_the_hub() -> Result<()> {
    let mut world = World::start().await?;
    let way = world.way()?;
    let members = [("a", "one"), ("b", "two"), ("c", "two"), ("d", "two")];
    join(&world, "app", &members).await?;
    world.application("app", "c").await?;
    world.place("app", external("app")).await?;
    let stages = json!({"stages": [stage("one", json!({"afterStageTasks": [{"type": "Approval"}]})),
                                   stage("two", json!({"maxConcurrency": 2}))]});
    way.create(STRATEGIES, &of("ClusterStagedUpdateStrategy", "s", stages))
        .await?;
    world.mute("b", true);
    let spec = json!({"placementName": "app", "stagedRolloutStrategyName": "s", "state": "Run"});
    way.create(RUNS, &run("r", spec)).await?;
    let path = format!("{RUNS}/r");
    let request = format!("{APPROVALS}/r-after-one");
    // Killed at several moments: while it begins, when it asks, when it is answered.
    for moment in [&path, &format!("{}/app-work", works("a")), &request] {
        way.until_there(moment).await;
        world.process.take().context("the hub")?.kill().await?;
        world.launch()?;
    }
    approve(&way, &request).await?;
    world.process.take().context("the hub")?.kill().await?;
    world.launch()?;
    // The stage goes on beside its mute member, and does not end.
    for member in ["b", "c", "d"] {
        way.until_there(&format!("{}/app-work", works(member)))
            .await;
    }
    let done = |run: &Value, name: &str| {
        let clusters = run["status"]["stagesStatus"][1]["clusters"].as_array();
        clusters.into_iter().flatten().any(|one| {
            one["clusterName"] == name
                && reasons(&one["conditions"])
                    .contains(&"Succeeded True ClusterUpdatingSucceeded".to_owned())
        })
    };
    let held = way
        .until(&path, |run| done(run, "c") && done(run, "d"))
        .await;
    ensure!(!done(&held, "b") && !says(&held, SUCCEEDED), "{held:#}");
    way.patch(&path, &json!({"spec": {"state": "Stop"}}))
        .await?;
    until_says(&way, &path, "Progressing Unknown UpdateRunStopping").await;
    world.process.take().context("the hub")?.kill().await?;
    world.mute("b", false);
    world.launch()?;
    until_says(&way, &path, "Progressing False UpdateRunStopped").await;
    way.patch(&path, &json!({"spec": {"state": "Run"}})).await?;
    until_says(&way, &path, SUCCEEDED).await;
    way.until(&crp("app"), is_available).await;
    until_count(&way, &bindings("app"), 4).await;
    until_count(&way, &snapshots("app"), 1).await;
    let over = way.get(&path).await?.context("the run")?;
    assert_eq!(
        reasons(&over["status"]["deletionStageStatus"]["conditions"])[1],
        "Succeeded True StageUpdatingSucceeded"
    );

    // A cluster that is no longer picked keeps its resources until the next run, whose last stage takes them.
    let patch =
        json!({"spec": {"policy": {"affinity": affinity(&json!({"of": "app", "stage": "two"}))}}});
    way.patch(&crp("app"), &patch).await?;
    let spec = json!({"placementName": "app", "stagedRolloutStrategyName": "s", "state": "Run"});
    way.create(RUNS, &run("without-a", spec)).await?;
    let over = until_says(&way, &format!("{RUNS}/without-a"), SUCCEEDED).await;
    assert_eq!(
        over["status"]["deletionStageStatus"]["clusters"][0]["clusterName"],
        "a"
    );
    assert_eq!(
        reasons(&over["status"]["stagesStatus"][0]["conditions"])[1],
        "Succeeded True StageUpdatingSkippedNoClusters"
    );
    until_count(&way, &works("a"), 0).await;
    until_count(&way, &bindings("app"), 3).await;

    // A cluster that joins changes what a run is about.
    world.mute("b", true);
    way.patch(
        "/api/v1/namespaces/app/configmaps/c",
        &json!({"data": {"key1": "2"}}),
    )
    .await?;
    let spec = json!({"placementName": "app", "stagedRolloutStrategyName": "s", "state": "Run"});
    way.create(RUNS, &run("overtaken", spec)).await?;
    let path = format!("{RUNS}/overtaken");
    until_says(&way, &path, "Progressing True UpdateRunProgressing").await;
    way.patch(
        &format!("{CLUSTER}/memberclusters/a"),
        &json!({"metadata": {"labels": {"stage": "two"}}}),
    )
    .await?;
    until_says(&way, &path, "Succeeded False UpdateRunFailed").await;
    Ok(())
}
