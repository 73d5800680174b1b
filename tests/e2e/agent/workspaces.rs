//! Workspaces that bind, late or again, and that unbind; many of them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use testbed::eventually;

use super::SOON;
use super::world::{EXPORT, Team, World, has};

on_both_grounds!(
    a_workspace_that_binds_later_is_served_too,
    copies_of_a_workspace_that_unbinds_are_kept,
    a_second_binding_that_kcp_refused_does_not_cost_an_unbinding_workspace_its_copies,
    a_workspace_that_unbound_while_no_agent_ran_comes_to_its_end_and_keeps_its_copies,
    a_workspace_that_binds_again_goes_on_with_its_copies,
    a_namespace_of_a_workspace_is_emptied_with_its_copies,
);

on_the_playground!(a_hundred_workspaces_are_served_by_one_watch_a_kind);

on_three_shards!(
    a_workspace_that_binds_later_is_served_too,
    copies_of_a_workspace_that_unbinds_are_kept,
    a_workspace_that_unbound_while_no_agent_ran_comes_to_its_end_and_keeps_its_copies,
    a_workspace_that_binds_again_goes_on_with_its_copies,
    a_shard_comes_with_its_first_binding_and_leaves_with_its_last,
);

async fn a_shard_comes_with_its_first_binding_and_leaves_with_its_last(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let endpoints = async || -> Result<BTreeSet<String>> {
        let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
        let slice = world.org.get(&format!("{slices}/{EXPORT}")).await?;
        let endpoints = slice["status"]["endpoints"].as_array();
        let urls = endpoints.into_iter().flatten().map(|one| &one["url"]);
        Ok(urls
            .filter_map(|url| Some(url.as_str()?.to_owned()))
            .collect())
    };
    // The endpoint that came with each workspace, if one did.
    let mut known = endpoints().await?;
    ensure!(known.len() == 1, "{known:?}");
    let mut teams = vec![(stage.team.clone(), true)];
    while known.len() < 3 {
        let team = world.team(&format!("team{}", teams.len())).await?;
        team.make(&stage.kind, "lamp", json!({"size": 1})).await;
        let copy = world.await_copy(&stage.kind, team.of("lamp")).await;
        has(&copy, "/spec/size", &json!(1))?;
        let now = endpoints().await?;
        teams.push((team, now != known));
        known = now;
    }
    let (last, is_new) = teams.last().expect("there are several");
    ensure!(is_new);
    let copy = world.await_copy(&stage.kind, last.of("lamp")).await;
    world.unbind(last).await?;
    eventually(SOON, "the shard leaves the slice", async || {
        let now = endpoints().await?;
        ensure!(now.len() == 2, "{now:?}");
        Ok(())
    })
    .await;
    // The other shards are served as before.
    for (team, _) in &teams[1..teams.len() - 1] {
        team.patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
            .await?;
        world
            .await_in_copy(&stage.kind, team.of("lamp"), "/spec/size", json!(2))
            .await;
    }
    let after = world.service.get(&stage.place(&copy)).await?;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    has(&after, "/metadata/deletionTimestamp", &json!(null))?;
    world.bind(last).await?;
    if last
        .plane
        .find(&stage.kind.at("default", "lamp"))
        .await?
        .is_none()
    {
        last.make(&stage.kind, "lamp", json!({"size": 1})).await;
    }
    last.patch(&stage.kind, "lamp", json!({"spec": {"size": 3}}))
        .await?;
    world
        .await_in_copy(&stage.kind, last.of("lamp"), "/spec/size", json!(3))
        .await;
    Ok(())
}

async fn a_workspace_that_binds_later_is_served_too(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let late = world.workspace("late").await?;
    world.bind(&late).await?;
    late.make(&stage.kind, "lamp", json!({"size": 1})).await;
    let copy = world.await_copy(&stage.kind, late.of("lamp")).await;
    has(&copy, "/spec/size", &json!(1))
}

async fn copies_of_a_workspace_that_unbinds_are_kept(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    other.make(&stage.kind, "marker", json!({})).await;
    world.await_copy(&stage.kind, other.of("marker")).await;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    world.unbind(&stage.team).await?;
    world.await_still(&stage.kind, &other).await;
    let after = world.service.get(&stage.place(&copy)).await?;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    has(&after, "/metadata/deletionTimestamp", &json!(null))
}

/// The condition of the second binding is a naming conflict with the first.
async fn a_second_binding_that_kcp_refused_does_not_cost_an_unbinding_workspace_its_copies(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let bindings = "/apis/apis.kcp.io/v1alpha1/apibindings";
    let team = &stage.team.plane;
    let first = team.get(&format!("{bindings}/{EXPORT}")).await?;
    let second = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": "second"},
        "spec": first["spec"],
    });
    team.create(bindings, &second).await?;
    let found = team.get(&format!("{bindings}/second")).await?;
    ensure!(found["status"]["phase"] == "Binding", "{found}");
    world.unbind(&stage.team).await?;
    // kcp goes by the second one now, and grants the agent nothing until that is gone.
    eventually(SOON, "the agent took the object up", async || {
        ensure!(world.logged()?.contains("Forbidden"), "it did not");
        Ok(())
    })
    .await;
    team.delete(&format!("{bindings}/second")).await?;
    await_unbound(&stage.team).await;
    let after = world.service.get(&stage.place(&copy)).await?;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    has(&after, "/metadata/deletionTimestamp", &json!(null))
}

async fn await_unbound(team: &Team) {
    eventually(SOON, "the binding is gone", async || {
        let left = team
            .plane
            .list("/apis/apis.kcp.io/v1alpha1/apibindings")
            .await?;
        ensure!(
            left.iter().all(|one| one["metadata"]["name"] != EXPORT),
            "it is there"
        );
        Ok(())
    })
    .await;
}

/// Its objects wait for an agent to release them, which then sees a binding in deletion only.
async fn a_workspace_that_unbound_while_no_agent_ran_comes_to_its_end_and_keeps_its_copies(
    world: &World,
) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.agent.kill().await?;
    world.unbind(&stage.team).await?;
    stage.agent = world.start_agent()?;
    await_unbound(&stage.team).await;
    let after = world.service.get(&stage.place(&copy)).await?;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    has(&after, "/metadata/deletionTimestamp", &json!(null))
}

async fn a_workspace_that_binds_again_goes_on_with_its_copies(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    world.unbind(&stage.team).await?;
    world.await_still(&stage.kind, &other).await;
    let binding = "/apis/apis.kcp.io/v1alpha1/apibindings";
    eventually(SOON, "the binding is gone", async || {
        let left = stage.team.plane.list(binding).await?;
        ensure!(
            left.iter()
                .all(|one| one["metadata"]["name"] != super::world::EXPORT),
            "it is there"
        );
        Ok(())
    })
    .await;
    world.bind(&stage.team).await?;
    // The workspace's own objects went with the binding, or stayed: either way the name is good again.
    let there = stage
        .team
        .plane
        .find(&stage.kind.at("default", "lamp"))
        .await?;
    if there.is_none() {
        stage
            .team
            .make(&stage.kind, "lamp", json!({"size": 1}))
            .await;
    }
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let after = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    ensure!(stage.place(&after) == stage.place(&copy));
    Ok(())
}

async fn a_namespace_of_a_workspace_is_emptied_with_its_copies(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.plane.namespace("shop", json!({})).await?;
    team.make_at(&kind.within("shop"), &kind.object("lamp", json!({})))
        .await;
    world.await_copy(kind, team.within("shop", "lamp")).await;
    team.plane.delete("/api/v1/namespaces/shop").await?;
    world.await_no_copy(kind, team.within("shop", "lamp")).await;
    eventually(SOON, "the namespace is gone", async || {
        let found = team.plane.find("/api/v1/namespaces/shop").await?;
        ensure!(found.is_none(), "it is there");
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_hundred_workspaces_are_served_by_one_watch_a_kind(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let names: Vec<String> = (0..100).map(|number| format!("team{number}")).collect();
    let teams: Vec<Team> = try_join_all(names.iter().map(|name| world.team(name))).await?;
    let making = teams.iter().map(async |team| {
        team.make(&stage.kind, "lamp", json!({"of": team.name}))
            .await;
        let copy = world.await_copy(&stage.kind, team.of("lamp")).await;
        has(&copy, "/spec/of", &json!(team.name))
    });
    try_join_all(making).await?;
    let watches: Vec<_> = world
        .agents_requests(0)
        .into_iter()
        .filter(|request| request.verb == "watch" && request.resource == stage.kind.plural)
        .collect();
    let in_kcp = watches.iter().filter(|request| !request.cluster.is_empty());
    ensure!(
        in_kcp.clone().all(|request| request.cluster == "*"),
        "{watches:#?}"
    );
    // The initial one, and its successors should the server have ended it.
    ensure!(in_kcp.count() <= 3, "{watches:#?}");
    Ok(())
}
