//! Pauses by annotation: of an object, of its copy, of all objects of a published resource.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::stage::Stage;
use super::world::{EXPORT, PUBLISHED, World};

on_both_grounds!(
    a_consumers_pause_holds_its_object_until_it_ends,
    a_pause_of_a_workspace_holds_all_of_its_objects_and_no_others,
    a_paused_copy_stays_as_it_is_and_its_status_goes_on,
    a_paused_resource_holds_all_objects_and_deletions_go_on,
    a_pause_that_the_owner_forbids_or_that_has_no_end_holds_nothing,
    a_consumers_pause_without_a_near_end_holds_nothing_and_the_consumer_is_told,
);

const FAR: &str = "2999-01-01T00:00:00Z";

pub(super) fn annotations(until: Value) -> Value {
    json!({"metadata": {"annotations": {
        "syncagent.kcp.io/pause-until": until,
        "syncagent.kcp.io/pause-by": "anna",
        "syncagent.kcp.io/pause-reason": "mission",
    }}})
}

fn removed() -> Value {
    let mut patch = annotations(Value::Null);
    let names = patch["metadata"]["annotations"].as_object_mut();
    names
        .into_iter()
        .flatten()
        .for_each(|(_, value)| *value = Value::Null);
    patch
}

pub(super) fn soon(seconds: i64) -> String {
    let now = jiff::Timestamp::now();
    (now + jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// What `hawser explain` says of an object.
async fn explained(world: &World, name: &str) -> Result<Value> {
    let args = ["explain", "--output=json", "gadget", name];
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    ensure!(succeeds, "{stderr}");
    let answer: Value = serde_json::from_str(&stdout)?;
    Ok(answer["objects"][0].clone())
}

pub(super) async fn size_of_copy(stage: &Stage<'_>, name: &str) -> Result<Value> {
    let copy = stage.world.copy(&stage.kind, stage.of(name)).await?;
    let copy = copy.context("no copy")?;
    Ok(copy["spec"]["size"].clone())
}

pub(super) async fn await_told(stage: &Stage<'_>, reason: &str) {
    let events = "/api/v1/namespaces/default/events";
    eventually(SOON, "the consumer is told", async || -> Result<()> {
        let told = stage.team.plane.list(events).await?;
        let is_it =
            |event: &Value| event["reason"] == reason && event["involvedObject"]["name"] == "lamp";
        ensure!(told.iter().any(is_it), "{told:#?}");
        Ok(())
    })
    .await;
}

/// The bindings of a workspace, as its consumer knows them.
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";

async fn a_pause_of_a_workspace_holds_all_of_its_objects_and_no_others(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let (team, kind) = (&stage.team, &stage.kind);
    let bindings = team.plane.list(BINDINGS).await?;
    let is_ours = |one: &&Value| one["spec"]["reference"]["export"]["name"] == EXPORT;
    let binding = bindings.iter().find(is_ours).context("no binding")?;
    let name = binding["metadata"]["name"].as_str().context("no name")?;
    let binding = format!("{BINDINGS}/{name}");
    team.plane
        .merge(&binding, annotations(soon(3_600).into()))
        .await?;
    // Nothing tells when the agent has seen it but what it does.
    eventually(SOON, "explain shows the pause", async || {
        let object = explained(world, "lamp").await?;
        let pauses = object["pauses"].as_array().context("no pauses")?;
        ensure!(
            pauses.len() == 1 && pauses[0].to_string().contains("by anna"),
            "{object:#}"
        );
        Ok(())
    })
    .await;
    let edit = json!({"spec": {"size": 2}});
    team.patch(kind, "lamp", edit).await?;
    team.make(kind, "new", json!({"size": 1})).await;
    await_told(&stage, "ObjectPaused").await;
    let other = world.team("other").await?;
    world.await_marker(kind, &other).await;
    ensure!(size_of_copy(&stage, "lamp").await? == 1);
    ensure!(world.copy(kind, stage.of("new")).await?.is_none());

    // A pause that is too long for a consumer is none.
    team.plane.merge(&binding, annotations(FAR.into())).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    world.await_copy(kind, stage.of("new")).await;

    team.plane
        .merge(&binding, annotations(soon(3_600).into()))
        .await?;
    eventually(SOON, "explain shows the pause again", async || {
        let object = explained(world, "lamp").await?;
        ensure!(
            object["pauses"]
                .as_array()
                .is_some_and(|all| all.len() == 1),
            "{object:#}"
        );
        Ok(())
    })
    .await;
    team.patch(kind, "lamp", json!({"spec": {"size": 3}}))
        .await?;
    world.await_marker(kind, &other).await;
    team.plane.merge(&binding, removed()).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(3)).await;
    Ok(())
}

async fn a_consumers_pause_holds_its_object_until_it_ends(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let (team, kind) = (&stage.team, &stage.kind);
    let mut edit = annotations(soon(3_600).into());
    edit["spec"] = json!({"size": 2});
    team.patch(kind, "lamp", edit).await?;
    // Another object is not concerned.
    stage.marker("after").await;
    ensure!(size_of_copy(&stage, "lamp").await? == 1);
    await_told(&stage, "ObjectPaused").await;
    let object = explained(world, "lamp").await?;
    ensure!(object["reason"]["code"] == "Paused", "{object:#}");
    let pause = object["pauses"][0].as_str().unwrap_or_default();
    let told = "by anna: mission; annotations of the object";
    ensure!(pause.ends_with(told), "{object:#}");
    let last = object["due"].as_array().and_then(|due| due.last());
    ensure!(
        last.is_some_and(|last| last["change"] == json!({"spec": {"size": 2}})),
        "{object:#}"
    );
    // It ends by itself.
    team.patch(kind, "lamp", annotations(soon(2).into()))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

async fn a_paused_copy_stays_as_it_is_and_its_status_goes_on(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let mut pause = annotations(FAR.into());
    pause["metadata"]["annotations"]["syncagent.kcp.io/pause-direction"] = "spec".into();
    let copy = stage.patch_copy(&copy, pause).await?;
    stage.marker("seen").await;
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    let at = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&at, json!({"status": {"phase": "Busy"}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/phase", json!("Busy"))
        .await;
    ensure!(size_of_copy(&stage, "lamp").await? == 1);
    stage.patch_copy(&copy, removed()).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

async fn a_paused_resource_holds_all_objects_and_deletions_go_on(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    for name in ["lamp", "gone"] {
        stage.made(name, json!({"size": 1})).await;
    }
    let at = format!("{PUBLISHED}/{}", stage.published);
    let log = world.logged()?.len();
    world.service.merge(&at, annotations(FAR.into())).await?;
    eventually(SOON, "the pause is followed", async || -> Result<()> {
        let told = &world.logged()?[log..];
        ensure!(told.contains("started syncing its objects"), "not yet");
        Ok(())
    })
    .await;
    let edit = json!({"spec": {"size": 2}});
    team.patch(kind, "lamp", edit).await?;
    team.make(kind, "new", json!({"size": 1})).await;
    // The deletion comes last, and is carried out.
    team.delete(kind, "gone").await?;
    world.await_no_copy(kind, stage.of("gone")).await;
    team.await_gone(kind, "gone").await;
    ensure!(size_of_copy(&stage, "lamp").await? == 1);
    ensure!(world.copy(kind, stage.of("new")).await?.is_none());
    let object = explained(world, "new").await?;
    ensure!(object["reason"]["code"] == "Paused", "{object:#}");
    world.service.merge(&at, removed()).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    stage.copy("new").await;
    Ok(())
}

async fn a_pause_that_the_owner_forbids_or_that_has_no_end_holds_nothing(
    world: &World,
) -> Result<()> {
    let forbids = json!({"safety": {"consumerPause": "Forbid"}});
    let has_safety = world.ground != super::service::Ground::Original;
    let stage = world
        .stage(if has_safety { forbids } else { json!({}) })
        .await?;
    stage.made("lamp", json!({"size": 1})).await;
    let until = if has_safety {
        soon(3_600).into()
    } else {
        Value::Null
    };
    let mut edit = annotations(until);
    edit["spec"] = json!({"size": 2});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

async fn a_consumers_pause_without_a_near_end_holds_nothing_and_the_consumer_is_told(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let mut edit = annotations(FAR.into());
    edit["spec"] = json!({"size": 2});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    await_told(&stage, "ObjectPauseIgnored").await;
    Ok(())
}
