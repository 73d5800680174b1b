//! Which objects travel: filters by labels of objects and of their namespaces.

use anyhow::{Result, ensure};
use serde_json::json;

use super::plane::Kind;
use super::world::{Team, World, has};

on_both_grounds!(
    objects_are_chosen_by_their_labels,
    objects_are_chosen_by_the_labels_of_their_namespace,
    both_filters_have_to_match,
    what_no_longer_matches_is_left_alone_and_can_still_be_deleted,
    expressions_of_filters_count_too,
);

async fn make_labelled(
    team: &Team,
    kind: &Kind,
    namespace: &str,
    name: &str,
    labels: serde_json::Value,
) {
    let mut object = kind.object(name, json!({"size": 1}));
    object["metadata"]["labels"] = labels;
    team.make_at(&kind.within(namespace), &object).await;
}

async fn objects_are_chosen_by_their_labels(world: &World) -> Result<()> {
    let filter = json!({"filter": {"resource": {"matchLabels": {"sync": "yes"}}}});
    let stage = world.stage(filter).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    make_labelled(team, kind, "default", "out", json!({"sync": "no"})).await;
    make_labelled(team, kind, "default", "in", json!({"sync": "yes"})).await;
    world.await_copy(kind, team.of("in")).await;
    ensure!(world.copy(kind, team.of("out")).await?.is_none());
    // It is not even touched.
    has(
        &team.get(kind, "out").await?,
        "/metadata/finalizers",
        &json!(null),
    )?;
    team.patch(
        kind,
        "out",
        json!({"metadata": {"labels": {"sync": "yes"}}}),
    )
    .await?;
    world.await_copy(kind, team.of("out")).await;
    Ok(())
}

async fn objects_are_chosen_by_the_labels_of_their_namespace(world: &World) -> Result<()> {
    let filter = json!({"filter": {"namespace": {"matchLabels": {"sync": "yes"}}}});
    let stage = world.stage(filter).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.plane.namespace("in", json!({"sync": "yes"})).await?;
    team.plane.namespace("late", json!({})).await?;
    make_labelled(team, kind, "late", "lamp", json!({})).await;
    make_labelled(team, kind, "in", "lamp", json!({})).await;
    world.await_copy(kind, team.within("in", "lamp")).await;
    ensure!(
        world
            .copy(kind, team.within("late", "lamp"))
            .await?
            .is_none()
    );
    // A namespace that is labelled later brings what is in it along.
    let label = json!({"metadata": {"labels": {"sync": "yes"}}});
    team.plane.merge("/api/v1/namespaces/late", label).await?;
    world.await_copy(kind, team.within("late", "lamp")).await;
    Ok(())
}

async fn both_filters_have_to_match(world: &World) -> Result<()> {
    let filter = json!({"filter": {
        "resource": {"matchLabels": {"sync": "yes"}},
        "namespace": {"matchLabels": {"sync": "yes"}},
    }});
    let stage = world.stage(filter).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.plane.namespace("in", json!({"sync": "yes"})).await?;
    team.plane.namespace("out", json!({"sync": "no"})).await?;
    let (yes, no) = (json!({"sync": "yes"}), json!({"sync": "no"}));
    make_labelled(team, kind, "out", "one", yes.clone()).await;
    make_labelled(team, kind, "out", "none", no.clone()).await;
    make_labelled(team, kind, "in", "other", no).await;
    make_labelled(team, kind, "in", "both", yes).await;
    world.await_copy(kind, team.within("in", "both")).await;
    for (namespace, name) in [("out", "one"), ("out", "none"), ("in", "other")] {
        let found = world.copy(kind, team.within(namespace, name)).await?;
        ensure!(found.is_none(), "{namespace}/{name} has a copy");
    }
    Ok(())
}

async fn what_no_longer_matches_is_left_alone_and_can_still_be_deleted(
    world: &World,
) -> Result<()> {
    let filter = json!({"filter": {"resource": {"matchLabels": {"sync": "yes"}}}});
    let stage = world.stage(filter).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    make_labelled(team, kind, "default", "lamp", json!({"sync": "yes"})).await;
    world.await_copy(kind, team.of("lamp")).await;
    let change = json!({"metadata": {"labels": {"sync": "no"}}, "spec": {"size": 2}});
    team.patch(kind, "lamp", change).await?;
    make_labelled(team, kind, "default", "marker", json!({"sync": "yes"})).await;
    world.await_copy(kind, team.of("marker")).await;
    let copy = world.await_copy(kind, team.of("lamp")).await;
    has(&copy, "/spec/size", &json!(1))?;
    team.delete(kind, "lamp").await?;
    team.await_gone(kind, "lamp").await;
    world.await_no_copy(kind, team.of("lamp")).await;
    Ok(())
}

async fn expressions_of_filters_count_too(world: &World) -> Result<()> {
    let filter = json!({"filter": {"resource": {"matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["free"]},
        {"key": "ready", "operator": "Exists"},
    ]}}});
    let stage = world.stage(filter).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    make_labelled(
        team,
        kind,
        "default",
        "free",
        json!({"tier": "free", "ready": ""}),
    )
    .await;
    make_labelled(team, kind, "default", "raw", json!({"tier": "gold"})).await;
    make_labelled(
        team,
        kind,
        "default",
        "gold",
        json!({"tier": "gold", "ready": ""}),
    )
    .await;
    make_labelled(team, kind, "default", "bare", json!({"ready": "now"})).await;
    for name in ["gold", "bare"] {
        world.await_copy(kind, team.of(name)).await;
    }
    for name in ["free", "raw"] {
        ensure!(
            world.copy(kind, team.of(name)).await?.is_none(),
            "{name} has a copy"
        );
    }
    Ok(())
}
