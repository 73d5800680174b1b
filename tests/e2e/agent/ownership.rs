//! Whose a copy is: adoption, refusal, collisions, two agents.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{eventually, unique};

use super::SOON;
use super::world::{EXPORT, World, has};

on_both_grounds!(
    an_object_that_nobody_owns_is_adopted_and_keeps_its_content,
    an_object_of_another_agent_is_not_taken,
    the_copy_of_another_source_is_not_taken,
    two_workspaces_have_the_same_names_and_separate_copies,
    what_somebody_makes_with_the_labels_of_a_copy_is_left_alone,
    two_agents_of_different_names_share_a_service_cluster,
);

const PLAIN: &str = "{{ .Object.metadata.name }}";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn an_object_that_nobody_owns_is_adopted_and_keeps_its_content(world: &World) -> Result<()> {
    let namespace = unique("plain");
    world.service.namespace(&namespace, json!({})).await?;
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let mut existing = stage.kind.object("lamp", json!({"size": 1, "serial": "x"}));
    existing["metadata"]["labels"] = json!({"made": "by-hand"});
    let existing = world
        .service
        .create(&stage.kind.within(&namespace), &existing)
        .await?;
    let (_, copy) = stage.made("lamp", json!({"size": 2})).await;
    ensure!(copy["metadata"]["uid"] == existing["metadata"]["uid"]);
    // The next marker is made after everything about the lamp has been done.
    stage.marker("marker").await;
    let copy = stage.copy("lamp").await;
    has(&copy, "/spec", &json!({"size": 1, "serial": "x"}))?;
    has(&copy, "/metadata/labels/made", &json!("by-hand"))?;
    has(
        &copy,
        "/metadata/labels/syncagent.kcp.io~1agent-name",
        &json!(world.agent),
    )?;
    has(
        &copy,
        "/metadata/annotations/syncagent.kcp.io~1remote-object-name",
        &json!("lamp"),
    )?;
    // What the source changes from now on counts.
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 3}}))
        .await?;
    let copy = stage.await_in_copy("lamp", "/spec/size", json!(3)).await;
    has(&copy, "/spec/serial", &json!("x"))
}

async fn an_object_of_another_agent_is_not_taken(world: &World) -> Result<()> {
    let namespace = unique("plain");
    world.service.namespace(&namespace, json!({})).await?;
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let mut foreign = stage.kind.object("lamp", json!({"size": 1}));
    foreign["metadata"]["labels"] = json!({
        "syncagent.kcp.io/agent-name": "another",
        "syncagent.kcp.io/remote-object-cluster": "abc",
        "syncagent.kcp.io/remote-object-name-hash": super::sha1_hex("other"),
    });
    foreign["metadata"]["annotations"] = json!({"syncagent.kcp.io/remote-object-name": "other"});
    let foreign = world
        .service
        .create(&stage.kind.within(&namespace), &foreign)
        .await?;
    stage
        .team
        .make(&stage.kind, "lamp", json!({"size": 2}))
        .await;
    stage.marker("marker").await;
    stage.marker("marker2").await;
    let found = world
        .service
        .get(&stage.kind.at(&namespace, "lamp"))
        .await?;
    ensure!(
        found["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"],
        "{found}"
    );
    // The consumer can take back what was refused, and the other's object stays.
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    let found = world
        .service
        .get(&stage.kind.at(&namespace, "lamp"))
        .await?;
    ensure!(
        found["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"],
        "{found}"
    );
    Ok(())
}

async fn the_copy_of_another_source_is_not_taken(world: &World) -> Result<()> {
    let namespace = unique("plain");
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let (_, first) = stage.made("lamp", json!({"of": "team"})).await;
    let other = world.team("other").await?;
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    other.make(&stage.kind, "marker", json!({})).await;
    world.await_copy(&stage.kind, other.of("marker")).await;
    let found = world.service.get(&stage.place(&first)).await?;
    has(&found, "/spec", &json!({"of": "team"}))?;
    has(
        &found,
        "/metadata/labels/syncagent.kcp.io~1remote-object-cluster",
        &json!(stage.team.cluster),
    )?;
    // The one that was refused leaves without taking the other's copy with it.
    other.delete(&stage.kind, "lamp").await?;
    other.await_gone(&stage.kind, "lamp").await;
    world.service.get(&stage.place(&first)).await?;
    // Where the place becomes free, the next one that tries gets it.
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    other
        .patch(&stage.kind, "lamp", json!({"spec": {"tries": "again"}}))
        .await?;
    let copy = eventually(SOON, "the other has its copy", async || {
        world
            .copy(&stage.kind, other.of("lamp"))
            .await?
            .context("it has none")
    })
    .await;
    has(&copy, "/spec/of", &json!("other"))
}

async fn two_workspaces_have_the_same_names_and_separate_copies(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    let (_, one) = stage.made("lamp", json!({"of": "team"})).await;
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    let two = world.await_copy(&stage.kind, other.of("lamp")).await;
    ensure!(one["metadata"]["name"] == two["metadata"]["name"]);
    ensure!(text(&two["metadata"]["namespace"]) == other.cluster);
    has(&two, "/spec", &json!({"of": "other"}))?;
    other.delete(&stage.kind, "lamp").await?;
    other.await_gone(&stage.kind, "lamp").await;
    let still = stage.copy("lamp").await;
    ensure!(still["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]);
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 1}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(1)).await;
    Ok(())
}

async fn what_somebody_makes_with_the_labels_of_a_copy_is_left_alone(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let mut clone = stage.kind.object("clone", json!({"size": 9}));
    for field in ["labels", "annotations"] {
        clone["metadata"][field] = copy["metadata"][field].clone();
    }
    let home = text(&copy["metadata"]["namespace"]).to_owned();
    let clone = world
        .service
        .create(&stage.kind.within(&home), &clone)
        .await?;
    let place = stage.kind.at(&home, "clone");
    world.service.delete(&stage.place(&copy)).await?;
    let again = stage.place(&copy);
    eventually(SOON, "the copy is made again", async || -> Result<()> {
        let found = world
            .service
            .find(&again)
            .await?
            .context("it is not there")?;
        ensure!(found["metadata"]["uid"] != copy["metadata"]["uid"]);
        Ok(())
    })
    .await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(world.service.find(&again).await?.is_none());
    let now = world.service.get(&place).await?;
    ensure!(
        now["metadata"]["resourceVersion"] == clone["metadata"]["resourceVersion"],
        "{now}"
    );
    Ok(())
}

async fn two_agents_of_different_names_share_a_service_cluster(world: &World) -> Result<()> {
    // Both work for the same export: each with the kinds that its selector gives it.
    let stage = world.stage(json!({})).await?;
    let widgets = world
        .install(&super::definition(&world.group, "widgets", "Widget"))
        .await?;
    let name = unique("pr");
    let mut second = world.published(&name, &widgets, json!({}));
    second["metadata"]["labels"]["agent"] = "second".into();
    world.create_published(&name, second).await?;
    let own = unique("agent");
    let _second = world
        .launch()?
        .arg(format!("--agent-name={own}"))
        .arg(format!(
            "--published-resource-selector=agent=second,agent!={EXPORT}"
        ))
        .spawn()?;
    world.await_published(&name).await;
    world.await_published(&stage.published).await;
    let (_, lamp) = stage.made("lamp", json!({})).await;
    stage.team.make(&widgets, "lamp", json!({})).await;
    let widget = world.await_copy(&widgets, stage.team.of("lamp")).await;
    let label = "/metadata/labels/syncagent.kcp.io~1agent-name";
    has(&lamp, label, &json!(world.agent))?;
    has(&widget, label, &json!(own))?;
    for kind in [&stage.kind, &widgets] {
        stage.team.delete(kind, "lamp").await?;
        stage.team.await_gone(kind, "lamp").await;
    }
    Ok(())
}
