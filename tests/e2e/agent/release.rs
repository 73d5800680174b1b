//! `hawser release`: copies stay where they are, and everything else is as before.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::pause::annotations;
use super::stage::Stage;
use super::world::{PUBLISHED, World};

on_our_ground!(a_round_trip_changes_nothing_but_the_marks);

on_the_playground!(
    a_round_trip_changes_nothing_but_the_marks,
    what_the_agent_would_sync_keeps_its_marks,
    a_release_that_ends_after_any_write_is_finished_by_the_next,
    no_deletion_reaches_a_released_copy_whose_object_kept_its_finalizer,
);

const FAR: &str = "2999-01-01T00:00:00Z";
const MARK: &str = "syncagent.kcp.io/";

/// What `hawser release` says, and whether it succeeds.
async fn release(world: &World, args: &[&str]) -> Result<(bool, Value)> {
    let args = [&["release", "--output=json"], args].concat();
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    let answer = serde_json::from_str(&stdout).with_context(|| stderr)?;
    Ok((succeeds, answer))
}

/// The problem of the only object of an answer.
fn problem(answer: &Value) -> &str {
    answer["objects"][0]["problem"].as_str().unwrap_or_default()
}

/// An object without the fields that every write changes.
fn essence(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["resourceVersion", "managedFields", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// A gadget that takes a Secret along, and brings one back.
fn secrets_both_ways() -> Value {
    let entry = |identifier: &str, origin: &str, path: &str| {
        json!({"identifier": identifier, "origin": origin, "kind": "Secret",
            "object": {"reference": {"path": path}}})
    };
    json!({
        "naming": {"name": "{{ .Object.metadata.name }}"},
        "related": [entry("up", "kcp", "spec.up"), entry("down", "service", "spec.down")],
    })
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"k": name}})
}

fn secrets_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

async fn disable(stage: &Stage<'_>) -> Result<()> {
    let at = format!("{PUBLISHED}/{}", stage.published);
    let disabled = json!({"spec": {"synchronization": {"enabled": false}}});
    stage.world.service.merge(&at, disabled).await?;
    eventually(SOON, "the agent has stopped", async || -> Result<()> {
        let found = stage.world.service.get(&at).await?;
        let conditions = found["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_it = |one: &Value| one["reason"] == "SynchronizationDisabled";
        ensure!(conditions.any(is_it), "{}", found["status"]);
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_round_trip_changes_nothing_but_the_marks(world: &World) -> Result<()> {
    let stage = world.related(secrets_both_ways()).await?;
    let (team, kind, home) = (&stage.team, &stage.kind, &stage.team.cluster);
    // One copy is adopted.
    world.service.namespace(home, json!({})).await?;
    let mut met = kind.object("met", json!({"size": 1}));
    met["metadata"]["labels"] = json!({"colour": "red"});
    let met = world.service.create(&kind.within(home), &met).await?;
    let up = secret("up");
    let up = team.plane.create(&secrets_in("default"), &up).await?;
    let down = secret("down");
    let down = world.service.create(&secrets_in(home), &down).await?;
    let spec = json!({"up": "up", "down": "down"});
    let (lamp, _) = stage.made("lamp", spec).await;
    let (of_met, _) = stage.made("met", json!({"size": 1})).await;
    let up_copy = format!("{}/up", secrets_in(home));
    let down_copy = format!("{}/down", secrets_in("default"));
    let await_there = async |plane: &super::plane::Plane, path: &str| {
        eventually(SOON, path, async || plane.get(path).await).await
    };
    let up_copied = await_there(&world.service, &up_copy).await;
    let down_copied = await_there(&team.plane, &down_copy).await;
    eventually(SOON, "the object tells of its Secret", async || {
        let told = team.get(kind, "lamp").await?["metadata"]["annotations"].to_string();
        ensure!(told.contains("related-resources."), "{told}");
        Ok(())
    })
    .await;
    disable(&stage).await?;
    let copy = stage.copy("lamp").await;
    let state = world.secret_at(kind, stage.of("lamp"));
    ensure!(copy.to_string().contains(MARK));

    let all = format!("--published-resource={}", stage.published);
    let (succeeds, planned) = release(world, &[&all, "--dry-run"]).await?;
    ensure!(succeeds && planned["dryRun"] == true, "{planned:#}");
    ensure!(stage.copy("lamp").await == copy, "{planned:#}");
    world.service.get(&state).await?;

    let (succeeds, done) = release(world, &[&all]).await?;
    ensure!(succeeds, "{done:#}");
    ensure!(done["objects"] == planned["objects"], "{done:#}{planned:#}");
    let after = async |plane: &super::plane::Plane, path: &str| -> Result<Value> {
        Ok(essence(plane.get(path).await?))
    };
    let copy_after = after(&world.service, &stage.place(&copy)).await?;
    ensure!(copy_after["metadata"]["uid"] == copy["metadata"]["uid"]);
    ensure!(copy_after["spec"] == copy["spec"], "{copy_after:#}");
    ensure!(!copy_after.to_string().contains(MARK), "{copy_after:#}");
    for (now, before) in [
        (after(&world.service, &kind.at(home, "met")).await?, met),
        (after(&team.plane, &kind.at("default", "lamp")).await?, lamp),
        (
            after(&team.plane, &kind.at("default", "met")).await?,
            of_met,
        ),
        (
            after(&team.plane, &format!("{}/up", secrets_in("default"))).await?,
            up,
        ),
        (
            after(&world.service, &format!("{}/down", secrets_in(home))).await?,
            down,
        ),
        (after(&world.service, &up_copy).await?, up_copied),
        (after(&team.plane, &down_copy).await?, down_copied),
    ] {
        let before = essence(before);
        ensure!(now == before, "before: {before:#}\nafter: {now:#}");
    }
    ensure!(world.service.find(&state).await?.is_none());

    let (succeeds, said, _) = world.command(&["release", &all]).await?;
    ensure!(succeeds && said.starts_with("nothing to do"), "{said}");
    // No deletion reaches the copy.
    team.delete(kind, "lamp").await?;
    team.await_gone(kind, "lamp").await;
    ensure!(after(&world.service, &stage.place(&copy)).await? == copy_after);
    Ok(())
}

async fn what_the_agent_would_sync_keeps_its_marks(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    let one = ["gadget", "lamp"];
    let refused = async |what: &str| -> Result<()> {
        let (succeeds, answer) = release(world, &one).await?;
        let is_refused = !succeeds && problem(&answer).contains("the agent syncs it");
        ensure!(is_refused, "{what}: {answer:#}");
        let labels = &stage.copy("lamp").await["metadata"]["labels"];
        ensure!(*labels == copy["metadata"]["labels"], "{what}: {labels}");
        Ok(())
    };
    refused("it is active").await?;
    // The pause of a copy ends with its labels.
    stage.patch_copy(&copy, annotations(FAR.into())).await?;
    refused("its copy is paused").await?;
    let mut pause = annotations(super::pause::soon(3_600).into());
    pause["metadata"]["annotations"]["syncagent.kcp.io/pause-direction"] = "spec".into();
    team.patch(kind, "lamp", pause.clone()).await?;
    refused("one direction is paused").await?;
    pause["metadata"]["annotations"]["syncagent.kcp.io/pause-direction"] = Value::Null;
    team.patch(kind, "lamp", pause).await?;
    stage.marker("paused").await;
    let (succeeds, answer) = release(world, &one).await?;
    ensure!(succeeds && problem(&answer).is_empty(), "{answer:#}");
    stage.marker("released").await;
    ensure!(world.copy(kind, stage.of("lamp")).await?.is_none());
    let found = team.get(kind, "lamp").await?;
    ensure!(found["metadata"]["finalizers"].is_null(), "{found:#}");
    // The agent adopts the copy when the pause ends.
    let no_pause = json!({"metadata": {"annotations": {"syncagent.kcp.io/pause-until": null}}});
    team.patch(kind, "lamp", no_pause).await?;
    stage
        .patch_copy(
            &copy,
            json!({"metadata": {"annotations": {"syncagent.kcp.io/pause-until": null}}}),
        )
        .await?;
    let adopted = stage.copy("lamp").await;
    ensure!(
        adopted["metadata"]["uid"] == copy["metadata"]["uid"],
        "{adopted:#}"
    );
    Ok(())
}

/// Gadgets with the label `sync: yes` are synchronized, along with their Secret.
async fn only_labelled(world: &World) -> Result<Stage<'_>> {
    let mut spec = secrets_both_ways();
    spec["filter"] = json!({"resource": {"matchExpressions": [
        {"key": "sync", "operator": "NotIn", "values": ["no"]}]}});
    world.related(spec).await
}

/// A gadget that is synchronized, and then left out; its copy.
async fn left_out(stage: &Stage<'_>, name: &str) -> Result<Value> {
    let team = &stage.team;
    team.plane
        .create(&secrets_in("default"), &secret(name))
        .await?;
    let (_, copy) = stage.made(name, json!({"up": name})).await;
    let up = format!("{}/{name}", secrets_in(&team.cluster));
    eventually(SOON, &up, async || stage.world.service.get(&up).await).await;
    stage.marker(&format!("{name}-made")).await;
    let label = json!({"metadata": {"labels": {"sync": "no"}}});
    team.patch(&stage.kind, name, label).await?;
    stage.marker(&format!("{name}-out")).await;
    Ok(copy)
}

/// Answers the next write of this kind with an error.
fn refuse(stage: &Stage<'_>, is_kcp: bool, verb: &str, resource: &str, code: u16) {
    let cluster = if is_kcp {
        stage.team.cluster.clone()
    } else {
        String::new()
    };
    let matcher = Matcher {
        cluster: Some(cluster),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        ..Matcher::default()
    };
    let when = When::Before;
    let fault = Fault::new(matcher, Action::Status { code, when });
    stage.world.playground.faults().add(Fault {
        times: Some(1),
        ..fault
    });
}

async fn a_release_that_ends_after_any_write_is_finished_by_the_next(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let plural = kind.plural.clone();
    for (writes, is_kcp, verb, resource, code) in [
        (0, true, "patch", "secrets", 403),
        (1, false, "delete", "secrets", 403),
        (2, false, "patch", &*plural, 403),
        (3, true, "patch", &*plural, 403),
        // After a conflict, the command reads again by itself.
        (4, false, "patch", &*plural, 409),
    ] {
        let name = format!("lamp-{writes}");
        let copy = left_out(&stage, &name).await?;
        refuse(&stage, is_kcp, verb, resource, code);
        let (succeeds, answer) = release(world, &["gadget", &name, "-n", "default"]).await?;
        let made = answer["objects"][0]["writes"].as_array().map(Vec::len);
        ensure!(made == Some(writes), "{writes}: {answer:#}");
        ensure!(succeeds == (writes == 4), "{writes}: {answer:#}");
        let (succeeds, answer) = release(world, &["gadget", &name, "-n", "default"]).await?;
        ensure!(succeeds, "{writes}: {answer:#}");
        let left = answer["objects"][0]["writes"].as_array().map(Vec::len);
        ensure!(left == Some(4 - writes), "{writes}: {answer:#}");
        for (plane, path) in [
            (&team.plane, kind.at("default", &name)),
            (&team.plane, format!("{}/{name}", secrets_in("default"))),
            (&world.service, stage.place(&copy)),
        ] {
            let found = plane.get(&path).await?;
            ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
        }
        let state = world.secret_at(kind, stage.of(&name));
        ensure!(world.service.find(&state).await?.is_none());
        team.delete(kind, &name).await?;
        team.await_gone(kind, &name).await;
        stage.marker(&format!("{name}-gone")).await;
        let found = world.service.get(&stage.place(&copy)).await?;
        ensure!(
            found["metadata"]["uid"] == copy["metadata"]["uid"],
            "{found:#}"
        );
    }
    Ok(())
}

async fn no_deletion_reaches_a_released_copy_whose_object_kept_its_finalizer(
    world: &World,
) -> Result<()> {
    let stage = only_labelled(world).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let copy = left_out(&stage, "lamp").await?;
    refuse(&stage, true, "patch", &kind.plural, 403);
    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(!succeeds, "{answer:#}");
    stage.marker("halfway").await;
    team.delete(kind, "lamp").await?;
    team.await_gone(kind, "lamp").await;
    stage.marker("after").await;
    for path in [
        stage.place(&copy),
        format!("{}/lamp", secrets_in(&team.cluster)),
    ] {
        let found = world.service.get(&path).await?;
        ensure!(
            found["metadata"]["deletionTimestamp"].is_null(),
            "{found:#}"
        );
    }
    Ok(())
}
