//! The requests that the life of one federated object costs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::world::{World, config_map, config_maps, federated, on};

/// How often each kind of request was sent.
type RequestCounts = BTreeMap<String, usize>;

/// The requests of the control plane about a namespace since then, on one server. Its lists and watches are of all.
fn counts(world: &World, server: usize, mark: u64, namespace: &str) -> Result<RequestCounts> {
    let mut counts = RequestCounts::new();
    for request in world.playgrounds()?[server].requests().since(mark) {
        let is_of_control_plane = request.user_agent.starts_with("hawser/");
        if request.namespace == namespace && is_of_control_plane {
            let kind = [request.verb, request.resource, request.subresource].join(" ");
            *counts.entry(kind.trim_end().to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

#[tokio::test]
async fn the_life_of_a_federated_object_costs_only_the_requests_that_it_has_to() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    let namespace = unique("requests");
    world.namespace(&namespace).await?;
    let host = world.host().await?;
    let around = federated(&namespace, "federatednamespaces");
    host.until_reason(&format!("{around}/{namespace}"), None)
        .await;
    let stored =
        format!("/apis/core.kubefed.io/v1alpha1/namespaces/{namespace}/propagatedversions");
    let is_recorded = |stored: &Value| stored["status"]["clusterVersions"].is_array();
    host.until(&format!("{stored}/namespace-{namespace}"), is_recorded)
        .await;
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let has_events = |count: usize| {
        move |found: &Value| {
            found["items"]
                .as_array()
                .is_some_and(|all| all.len() == count)
        }
    };
    host.until(&events, has_events(2)).await;
    let playgrounds = world.playgrounds()?;
    let marks: Vec<u64> = (playgrounds.iter().map(|one| one.requests().mark())).collect();

    let all = federated(&namespace, "federatedconfigmaps");
    let path = format!("{all}/m");
    let copy = format!("{}/m", config_maps(&namespace));
    let versions = format!("{stored}/configmap-m");
    let is_version_of = |copy: Value| {
        let version = copy["metadata"]["resourceVersion"].as_str();
        let version = format!("rv:{}", version.unwrap_or_default());
        move |stored: &Value| stored["status"]["clusterVersions"][0]["version"] == version.as_str()
    };
    host.create(&all, &config_map("m", &on(&["cluster1", "cluster2"])))
        .await?;
    host.until_reason(&path, None).await;
    let member = world.member(0).await?;
    let made = member.until_there(&copy).await;
    host.until(&versions, is_version_of(made)).await;

    let change = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &change).await?;
    let is_changed = |copy: &Value| copy["data"]["A"] == "changed";
    let changed = member.until(&copy, is_changed).await;
    host.until(&versions, is_version_of(changed)).await;
    host.until_reason(&path, None).await;

    let drift = json!({"data": {"A": "drifted"}});
    member.patch(&copy, &drift).await?;
    let reverted = member.until(&copy, is_changed).await;
    host.until(&versions, is_version_of(reverted)).await;

    host.delete(&path).await?;
    host.until_gone(&path).await;

    let wanted = |kinds: &[(&str, usize)]| -> RequestCounts {
        let kinds = kinds.iter();
        kinds.map(|(kind, n)| ((*kind).to_owned(), *n)).collect()
    };
    let per_server = [
        wanted(&[
            // The finalizer, added and removed.
            ("patch federatedconfigmaps", 2),
            ("update federatedconfigmaps status", 2),
            ("create propagatedversions", 1),
            ("update propagatedversions status", 3),
            // Two creations, two updates, a drift like the update before, two deletions.
            ("create events", 6),
        ]),
        wanted(&[
            ("create configmaps", 1),
            ("update configmaps", 2),
            ("delete configmaps", 1),
            // The last look, before the federated object goes.
            ("get configmaps", 1),
        ]),
        wanted(&[
            ("create configmaps", 1),
            ("update configmaps", 1),
            ("delete configmaps", 1),
            // The last look, before the federated object goes.
            ("get configmaps", 1),
        ]),
    ];
    for (server, wanted) in per_server.iter().enumerate() {
        let mark = *marks.get(server).context("a mark")?;
        // Events are sent aside.
        eventually(SOON, "all requests were sent", async || {
            let found = counts(&world, server, mark, &namespace)?;
            anyhow::ensure!(found == *wanted, "server {server}: {found:#?}");
            Ok(())
        })
        .await;
    }
    Ok(())
}
