//! Members that die, return, come and go, and a control plane that is killed.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::Component;
use testbed::cluster::Controllers;

use super::replicas;
use super::world::{World, config_map, config_maps, core, everywhere, federated};
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
async fn the_page_on_the_federation_has_the_metrics_of_a_control_plane_at_work() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let host = world.host().await?;
    host.create(&all, &config_map("m", &everywhere())).await?;
    host.until_reason(&format!("{all}/m"), None).await;
    let exported = world.metrics().await?;
    // Those of replicas appear with a workload that has preferences.
    let rare = ["replica_scheduling_duration_seconds"];
    check_metrics(&exported, "federation.md", &rare)?;
    let contract = [
        "kubefedcluster_total{state=\"ready\",cluster=\"cluster1\"} 1",
        "kubefedcluster_total{state=\"offline\",cluster=\"cluster1\"} 0",
        "cluster_health_status_duration_seconds_bucket{le=\"12.5\"}",
        "dispatch_operation_duration_seconds_count{action=\"create\"}",
        "controller_runtime_reconcile_total{controller=\"federated\",result=\"success\"}",
    ];
    for line in contract {
        ensure!(exported.contains(line), "{line} is not in {exported}");
    }
    Ok(())
}
