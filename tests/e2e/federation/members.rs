//! Members that die, return, come and go, and a control plane that is killed.

use std::time::Duration;

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{Component, SOON, eventually};

use super::replicas;
use super::world::{SYSTEM, World, config_map, config_maps, core, everywhere, federated};
use crate::docs::check_metrics;

const NAMESPACE: &str = "members";

fn condition<'c>(cluster: &'c Value, kind: &str) -> Option<&'c Value> {
    let conditions = cluster["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn is_ready(cluster: &Value) -> bool {
    condition(cluster, "Ready").is_some_and(|ready| ready["status"] == "True")
}

#[tokio::test]
async fn a_member_that_dies_and_returns_loses_no_copy_and_no_pod_and_holds_up_nobody() -> Result<()>
{
    let mut world = World::of(3, Controllers::All).await?;
    world.enable_workloads().await?;
    world.start().await?;
    copies_outlive_their_member(&mut world).await?;
    replicas::outlive_their_member(&mut world).await
}

async fn copies_outlive_their_member(world: &mut World) -> Result<()> {
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let path = |name: &str| format!("{all}/{name}");
    let copy = |name: &str| format!("{}/{name}", config_maps(NAMESPACE));
    for name in ["stays", "goes"] {
        host.create(&all, &config_map(name, &everywhere())).await?;
        host.until_reason(&path(name), None).await;
    }
    let cluster = format!("{}/cluster2", core("kubefedclusters"));
    let found = host.until(&cluster, is_ready).await;
    ensure!(
        found["status"]["kubernetesVersion"].is_string(),
        "{found:#}"
    );
    let before = world.member(1).await?.until_there(&copy("stays")).await;

    world.servers(1)?.kill(Component::ApiServer).await?;
    let offline = |cluster: &Value| {
        condition(cluster, "Offline")
            .is_some_and(|offline| offline["reason"] == "ClusterNotReachable")
    };
    host.until(&cluster, offline).await;
    let told = host
        .until_reason(&path("stays"), Some("CheckClusters"))
        .await;
    let clusters = json!([{"name": "cluster1"}, {"name": "cluster2", "status": "ClusterNotReady"}]);
    assert_eq!(told["status"]["clusters"], clusters);
    // The other member is worked with, and what cannot be deleted waits.
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path("stays"), &changed).await?;
    let first = world.member(0).await?;
    first
        .until(&copy("stays"), |copy| copy["data"]["A"] == "changed")
        .await;
    host.delete(&path("goes")).await?;
    first.until_gone(&copy("goes")).await;
    host.until_event(NAMESPACE, "WaitForRemovalInCluster", "cluster2")
        .await;
    ensure!(
        host.get(&path("goes")).await?.is_some(),
        "it did not wait for the member"
    );

    world.servers(1)?.restart(Component::ApiServer).await?;
    host.until(&cluster, is_ready).await;
    host.until_gone(&path("goes")).await;
    let second = world.member(1).await?;
    ensure!(second.get(&copy("goes")).await?.is_none(), "a copy is left");
    let after = second
        .until(&copy("stays"), |copy| copy["data"]["A"] == "changed")
        .await;
    assert_eq!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "it was made anew"
    );
    host.until_reason(&path("stays"), None).await;
    Ok(())
}

#[tokio::test]
async fn a_control_plane_that_is_killed_writes_nothing_again_that_was_written() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let names: Vec<String> = (0..10).map(|number| format!("m{number}")).collect();
    for name in &names {
        host.create(&all, &config_map(name, &everywhere())).await?;
    }
    for name in &names {
        host.until_reason(&format!("{all}/{name}"), None).await;
    }
    let mut versions = Vec::new();
    for name in &names {
        let copy = format!("{}/{name}", config_maps(NAMESPACE));
        for member in [world.member(0).await?, world.member(1).await?] {
            let copy = member.until_there(&copy).await;
            versions.push(copy["metadata"]["resourceVersion"].clone());
        }
    }
    world.kill().await?;
    // What changed meanwhile is found.
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&format!("{all}/m0"), &changed).await?;
    world.start().await?;
    for member in [world.member(0).await?, world.member(1).await?] {
        let copy = format!("{}/m0", config_maps(NAMESPACE));
        member
            .until(&copy, |copy| copy["data"]["A"] == "changed")
            .await;
    }
    // One that is made after the start is worked on after all others.
    host.create(&all, &config_map("last", &everywhere()))
        .await?;
    host.until_reason(&format!("{all}/last"), None).await;
    let mut after = Vec::new();
    for name in &names {
        let copy = format!("{}/{name}", config_maps(NAMESPACE));
        for member in [world.member(0).await?, world.member(1).await?] {
            let copy = member.until_there(&copy).await;
            after.push(copy["metadata"]["resourceVersion"].clone());
        }
    }
    assert_eq!(versions[2..], after[2..]);
    Ok(())
}

#[tokio::test]
async fn members_come_and_go_and_a_new_token_is_taken() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let path = format!("{all}/m");
    let copy = format!("{}/m", config_maps(NAMESPACE));
    host.create(&all, &config_map("m", &everywhere())).await?;
    host.until_reason(&path, None).await;
    let cluster = format!("{}/cluster2", core("kubefedclusters"));
    let found = host.until_there(&cluster).await;

    // A member that leaves keeps its copies.
    host.delete(&cluster).await?;
    let only = json!([{"name": "cluster1"}]);
    host.until(&path, |found| found["status"]["clusters"] == only)
        .await;
    let second = world.member(1).await?;
    ensure!(
        second.get(&copy).await?.is_some(),
        "the copy went with the member"
    );

    // A Secret without a token, and then with one.
    let secret = "/api/v1/namespaces/kube-federation-system/secrets/cluster2-token";
    host.patch(secret, &json!({"data": {"token": ""}})).await?;
    let again = json!({
        "apiVersion": found["apiVersion"], "kind": found["kind"],
        "metadata": {"name": "cluster2", "labels": found["metadata"]["labels"]}, "spec": found["spec"],
    });
    host.create(&core("kubefedclusters"), &again).await?;
    let malformed = |cluster: &Value| condition(cluster, "ConfigMalformed").is_some();
    host.until(&cluster, malformed).await;
    host.patch(secret, &json!({"stringData": {"token": "wrong"}}))
        .await?;
    let offline = |cluster: &Value| condition(cluster, "Offline").is_some();
    host.until(&cluster, offline).await;
    let token = world.token(1).await?;
    host.patch(secret, &json!({"stringData": {"token": token}}))
        .await?;
    host.until(&cluster, is_ready).await;
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &changed).await?;
    second
        .until(&copy, |copy| copy["data"]["A"] == "changed")
        .await;
    host.until_reason(&path, None).await;
    Ok(())
}

#[tokio::test]
async fn a_member_whose_secret_could_not_be_read_once_is_used_again() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let secrets = format!("/api/v1/namespaces/{SYSTEM}/secrets");
    let mut secret = host.until_there(&format!("{secrets}/cluster1-token")).await;
    secret["metadata"] = json!({"name": "renewed"});
    host.create(&secrets, &secret).await?;
    let read = Matcher {
        verb: Some("get".into()),
        name: Some("renewed".into()),
        ..Matcher::default()
    };
    let faults = world.playgrounds()?[0].faults();
    let code = 503;
    let when = When::Before;
    faults.add(Fault::new(read, Action::Status { code, when }).once());
    let cluster = format!("{}/cluster1", core("kubefedclusters"));
    let change = json!({"spec": {"secretRef": {"name": "renewed"}}});
    host.patch(&cluster, &change).await?;
    eventually(SOON, "the secret could not be read", async || {
        ensure!(faults.struck() == [1], "{:?}", faults.struck());
        anyhow::Ok(())
    })
    .await;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    host.create(&all, &config_map("late", &everywhere()))
        .await?;
    let copy = format!("{}/late", config_maps(NAMESPACE));
    world.member(0).await?.until_there(&copy).await;
    Ok(())
}

#[tokio::test]
async fn copies_without_an_object_are_released_even_if_they_are_listed_first() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    host.create(&all, &config_map("left", &everywhere()))
        .await?;
    let copy = format!("{}/left", config_maps(NAMESPACE));
    let members = [world.member(0).await?, world.member(1).await?];
    for member in &members {
        member.until_there(&copy).await;
    }
    world.kill().await?;
    let path = format!("{all}/left");
    let free = json!({"metadata": {"finalizers": null}});
    host.patch(&path, &free).await?;
    host.delete(&path).await?;
    let listed = Matcher {
        resource: Some("federatedconfigmaps".into()),
        agent: Some("hawser/".into()),
        ..Matcher::default()
    };
    let late = Action::Latency(Duration::from_secs(3));
    let faults = world.playgrounds()?[0].faults();
    faults.add(Fault::new(listed, late).once());
    world.start().await?;
    for member in &members {
        let is_released = |copy: &Value| copy["metadata"]["labels"]["kubefed.io/managed"].is_null();
        member.until(&copy, is_released).await;
    }
    Ok(())
}

#[tokio::test]
async fn of_two_control_planes_one_works_and_the_other_takes_over() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    let scratch = tempfile::tempdir()?;
    let second = world.launch("second", &scratch.path().join("second.log"))?;
    second
        .await_log(SOON, "KubeFed will target all namespaces")
        .await?;
    world.namespace(NAMESPACE).await?;
    let (host, member) = (world.host().await?, world.member(0).await?);
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let (path, copy) = (format!("{all}/m"), format!("{}/m", config_maps(NAMESPACE)));
    host.create(&all, &config_map("m", &everywhere())).await?;
    host.until_reason(&path, None).await;
    let before = member.until_there(&copy).await;
    ensure!(!second.log().contains("promoted as leader"), "two lead");
    world.stop().await?;
    second.await_log(SOON, "promoted as leader").await?;
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &changed).await?;
    let after = member
        .until(&copy, |copy| copy["data"]["A"] == "changed")
        .await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    second.stop(SOON).await?;
    Ok(())
}

#[tokio::test]
async fn deletions_give_up_members_that_are_lost_for_too_long_where_that_is_wanted() -> Result<()> {
    let mut world = World::played().await?;
    world.flags.push("--give-up-deletions-after=1s");
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let (path, copy) = (format!("{all}/m"), format!("{}/m", config_maps(NAMESPACE)));
    host.create(&all, &config_map("m", &everywhere())).await?;
    host.until_reason(&path, None).await;
    let cluster = format!("{}/cluster2", core("kubefedclusters"));
    let nowhere = json!({"spec": {"apiEndpoint": "http://127.0.0.1:1"}});
    host.patch(&cluster, &nowhere).await?;
    host.until(&cluster, |cluster| condition(cluster, "Offline").is_some())
        .await;
    host.delete(&path).await?;
    host.until_gone(&path).await;
    host.until_event(NAMESPACE, "RemovalGivenUp", "cluster2")
        .await;
    let (first, second) = (world.member(0).await?, world.member(1).await?);
    ensure!(first.get(&copy).await?.is_none(), "a copy is left");
    // What is left belongs to nobody when the member returns.
    let back = json!({"spec": {"apiEndpoint": world.members[1].url()}});
    host.patch(&cluster, &back).await?;
    let is_free = |copy: &Value| copy["metadata"]["labels"]["kubefed.io/managed"].is_null();
    second.until(&copy, is_free).await;
    Ok(())
}

#[tokio::test]
async fn the_page_on_the_federation_has_the_metrics_of_a_control_plane_at_work() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let host = world.host().await?;
    host.create(&all, &config_map("m", &everywhere())).await?;
    host.until_reason(&format!("{all}/m"), None).await;
    let path = format!("{all}/m");
    host.until_reason(&path, None).await;
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &changed).await?;
    host.until_reason(&path, None).await;
    host.delete(&path).await?;
    host.until_gone(&path).await;
    // How many workers there are is told by each beat.
    eventually(SOON, "all metrics are exported", async || -> Result<()> {
        let exported = world.metrics().await?;
        // Those of replicas appear with a workload that has preferences.
        let rare = ["replica_scheduling_duration_seconds"];
        check_metrics(&exported, "federation.md", &rare)?;
        check_contract(&exported)
    })
    .await;
    Ok(())
}

/// The series that dashboards of the original ask for, each with all of its labels and buckets.
fn check_contract(exported: &str) -> Result<()> {
    let mut wanted =
        vec!["leader_election_master_status{name=\"kubefed-controller-manager\"}".to_owned()];
    for (number, state) in ["ready", "notready", "offline"].iter().enumerate() {
        let is = usize::from(number == 0);
        wanted.push(format!(
            "kubefedcluster_total{{state=\"{state}\",cluster=\"cluster1\"}} {is}"
        ));
    }
    let own =
        "0.01 0.05 0.1 0.5 1 2.5 5 7.5 10 12.5 15 17.5 20 22.5 25 27.5 30 50 75 100 1000 +Inf";
    let runtime = "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 \
                   3.5 4 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60 +Inf";
    let controllers = [
        "federatednamespace",
        "federatedconfigmap",
        "federatedtypeconfig",
        "replicaschedulingpreference",
    ];
    let mut histograms = vec![
        ("cluster_health_status_duration_seconds", String::new(), own),
        (
            "cluster_client_connection_duration_seconds",
            String::new(),
            own,
        ),
        (
            "reconcile_federated_resources_duration_seconds",
            String::new(),
            own,
        ),
    ];
    for action in ["create", "update", "delete"] {
        let label = format!("action=\"{action}\"");
        histograms.push(("dispatch_operation_duration_seconds", label, own));
    }
    for controller in controllers {
        let label = format!("controller=\"{controller}\"");
        for result in ["success", "error", "needs_recheck", "not_synced"] {
            wanted.push(format!(
                "controller_runtime_reconcile_total{{{label},result=\"{result}\"}}"
            ));
        }
        for name in [
            "reconcile_errors_total",
            "max_concurrent_reconciles",
            "active_workers",
        ] {
            wanted.push(format!("controller_runtime_{name}{{{label}}}"));
        }
        let summary = "controller_runtime_reconcile_quantile_seconds";
        wanted.extend(["sum", "count"].map(|end| format!("{summary}_{end}{{{label}}}")));
        let deprecated = "controller_runtime_reconcile_duration_seconds";
        histograms.push((deprecated, label.clone(), own));
        histograms.push(("controller_runtime_reconcile_time_seconds", label, runtime));
    }
    wanted.push("joined_cluster_total 0".to_owned());
    for name in ["join", "unjoin"] {
        wanted.push(format!("{name}_cluster_duration_seconds_count 0"));
    }
    for (name, label, bounds) in histograms {
        let comma = if label.is_empty() { "" } else { "," };
        for bound in bounds.split(' ') {
            wanted.push(format!("{name}_bucket{{{label}{comma}le=\"{bound}\"}}"));
        }
        let labels = if label.is_empty() {
            label
        } else {
            format!("{{{label}}}")
        };
        wanted.extend(["sum", "count"].map(|end| format!("{name}_{end}{labels}")));
    }
    for series in wanted {
        let is_there = |line: &str| line.starts_with(&format!("{series} ")) || line == series;
        ensure!(
            exported.lines().any(is_there),
            "{series} is not in {exported}"
        );
    }
    for controller in controllers {
        let done = format!(
            "controller_runtime_reconcile_total{{controller=\"{controller}\",result=\"success\"}} 0"
        );
        let is_idle = exported.lines().any(|line| line == done);
        ensure!(
            !is_idle || controller == "replicaschedulingpreference",
            "{done}"
        );
    }
    Ok(())
}
