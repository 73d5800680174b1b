//! What goes with an object and what stays: workspaces that unbind or are deleted, deletions in masses,
//! objects outside of the filter, and originals that merely vanish.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::process::{Reason, Signal};
use testbed::{Launch, eventually, unique};

use super::super::SOON;
use super::super::pause::{annotations, await_told, size_of_copy, soon};
use super::super::plane::Kind;
use super::super::stage::Stage;
use super::super::world::{EXPORT, PUBLISHED, Team, World, has};
use super::{FINALIZER, await_held, await_released, entry, finalizers, held, put, secrets};

on_the_playground!(
    copies_of_a_workspace_that_unbinds_are_kept_however_late_that_is_heard_of,
    copies_of_a_workspace_that_unbinds_go_where_the_owner_says_so_and_no_others,
    an_object_is_not_taken_back_while_nobody_can_say_whether_its_workspace_is_bound,
    a_workspace_that_is_deleted_comes_to_its_end_and_copies_are_kept_where_it_hides_why,
    deletions_that_are_held_keep_what_travels_with_their_objects,
    a_pause_that_is_renewed_holds_the_deletion_of_an_original_for_a_while_only,
    what_leaves_the_filter_lets_go_of_originals_that_are_deleted,
    an_entry_that_is_removed_is_cleaned_up_for_what_left_the_filter_too,
    originals_that_merely_vanish_keep_their_copies_and_are_let_go_when_they_show_again,
    what_workspaces_leave_behind_is_told_listed_and_removed_at_a_word,
    a_workspace_that_binds_again_while_orphans_are_removed_keeps_its_own,
    an_adopted_object_that_is_to_be_released_is_no_orphan,
    orphans_that_change_or_whose_workspace_binds_again_are_not_removed,
);

const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
const APPROVAL: &str = "hawser.dev/approve-deletions";

/// Secrets that consumers bring along.
fn up() -> Value {
    json!([entry(
        "up",
        "kcp",
        json!({"reference": {"path": "spec.up"}})
    )])
}

fn watches_of_bindings() -> Matcher {
    Matcher {
        verb: Some("watch".to_owned()),
        resource: Some("apibindings".to_owned()),
        ..Matcher::default()
    }
}

async fn uid(world: &World, at: &str) -> Result<Value> {
    let found = world.service.get(at).await?;
    has(&found, "/metadata/deletionTimestamp", &Value::Null)?;
    Ok(found["metadata"]["uid"].clone())
}

/// A lamp with a Secret of its consumer; where the copies of both are.
async fn lit(stage: &Stage<'_>, name: &str) -> Result<[String; 2]> {
    lit_by(stage, &stage.team, name).await
}

/// The same of any workspace.
async fn lit_by(stage: &Stage<'_>, team: &Team, name: &str) -> Result<[String; 2]> {
    let (world, home) = (stage.world, &team.cluster);
    put(&team.plane, "default", name, "1").await?;
    team.make(&stage.kind, name, json!({"up": name})).await;
    let copy = world.await_copy(&stage.kind, team.of(name)).await;
    await_held(&world.service, home, name, Some("1")).await;
    Ok([stage.place(&copy), secrets().at(home, name)])
}

async fn await_unbound(team: &Team) {
    eventually(SOON, "the binding is gone", async || {
        let left = team.plane.list(BINDINGS).await?;
        let mut names = left.iter().map(|one| &one["metadata"]["name"]);
        ensure!(names.all(|name| name != EXPORT), "it is there");
        Ok(())
    })
    .await;
}

async fn copies_of_a_workspace_that_unbinds_are_kept_however_late_that_is_heard_of(
    world: &World,
) -> Result<()> {
    let late = Action::DelayWatch(Duration::from_secs(1));
    let fault = Fault::new(watches_of_bindings(), late);
    world.playground.faults().add(fault);
    let stage = world.related(json!({"related": up()})).await?;
    let places = lit(&stage, "lamp").await?;
    let before = [uid(world, &places[0]).await?, uid(world, &places[1]).await?];
    world.unbind(&stage.team).await?;
    await_unbound(&stage.team).await;
    let after = [uid(world, &places[0]).await?, uid(world, &places[1]).await?];
    ensure!(before == after, "{before:?} became {after:?}");
    // Out of sight or not, the original does not hang once the workspace is bound again.
    world.bind(&stage.team).await?;
    let original = secrets().at("default", "lamp");
    stage.team.plane.delete(&original).await?;
    await_held(&stage.team.plane, "default", "lamp", None).await;
    let after = [uid(world, &places[0]).await?, uid(world, &places[1]).await?];
    ensure!(before == after, "{before:?} became {after:?}");
    Ok(())
}

async fn copies_of_a_workspace_that_unbinds_go_where_the_owner_says_so_and_no_others(
    world: &World,
) -> Result<()> {
    let spec = json!({"related": up(), "safety": {"onUnbind": "Delete"}});
    let stage = world.related(spec).await?;
    let other = world.team("other").await?;
    let stays = lit_by(&stage, &other, "lamp").await?;
    let before = [uid(world, &stays[0]).await?, uid(world, &stays[1]).await?];
    let goes = lit(&stage, "lamp").await?;
    world.unbind(&stage.team).await?;
    await_unbound(&stage.team).await;
    for place in &goes {
        ensure!(world.service.find(place).await?.is_none(), "{place}");
    }
    world.await_still(&stage.kind, &other).await;
    let after = [uid(world, &stays[0]).await?, uid(world, &stays[1]).await?];
    ensure!(before == after, "{before:?} became {after:?}");
    ensure!(finalizers(&other.plane, "lamp").await? == json!([FINALIZER]));
    Ok(())
}

async fn an_object_is_not_taken_back_while_nobody_can_say_whether_its_workspace_is_bound(
    world: &World,
) -> Result<()> {
    let stage = world.related(json!({"related": up()})).await?;
    let places = lit(&stage, "lamp").await?;
    let fault = Fault::new(
        Matcher {
            verb: Some("list".to_owned()),
            resource: Some("apibindings".to_owned()),
            agent: Some("hawser".to_owned()),
            ..Matcher::default()
        },
        Action::Status {
            code: 503,
            when: When::Before,
        },
    );
    world.playground.faults().add(fault);
    stage.team.delete(&stage.kind, "lamp").await?;
    eventually(SOON, "it is asked more than once", async || {
        let struck: u64 = world.playground.faults().struck().iter().sum();
        ensure!(struck > 1, "it is asked {struck} times");
        Ok(())
    })
    .await;
    for place in &places {
        uid(world, place).await?;
    }
    ensure!(finalizers(&stage.team.plane, "lamp").await? == json!([FINALIZER]));
    world.playground.faults().clear();
    stage.team.await_gone(&stage.kind, "lamp").await;
    for place in &places {
        ensure!(world.service.find(place).await?.is_none(), "{place}");
    }
    Ok(())
}

async fn a_workspace_that_is_deleted_comes_to_its_end_and_copies_are_kept_where_it_hides_why(
    world: &World,
) -> Result<()> {
    let stage = world
        .related(json!({"related": up(), "enableWorkspacePaths": true}))
        .await?;
    let places = lit(&stage, "lamp").await?;
    let secret = secrets().at("default", "lamp");
    let free = json!({"metadata": {"finalizers": null}});
    let workspace = "/apis/tenancy.kcp.io/v1alpha1/workspaces/team";
    world.org.delete(workspace).await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    // What of a workspace is claimed no longer nobody but its owner can let go.
    if let Ok(Some(_)) = stage.team.plane.find(&secret).await {
        stage.team.plane.merge(&secret, free).await?;
    }
    eventually(SOON, "the workspace is gone", async || {
        let found = world.org.find(workspace).await?;
        ensure!(found.is_none(), "it is there");
        Ok(())
    })
    .await;
    for place in &places {
        uid(world, place).await?;
    }
    Ok(())
}

const OBJECTS: usize = 64;

async fn deletions_that_are_held_keep_what_travels_with_their_objects(world: &World) -> Result<()> {
    let stage = world.related(json!({"related": up()})).await?;
    let mut teams = vec![stage.team.clone()];
    for number in 2..=8 {
        teams.push(world.team(&format!("team{number}")).await?);
    }
    let lamps: Vec<(&Team, String)> = (0..OBJECTS)
        .map(|number| (&teams[number % teams.len()], format!("lamp{number}")))
        .collect();
    for (team, name) in &lamps {
        put(&team.plane, "default", name, "1").await?;
        team.make(&stage.kind, name, json!({"up": name})).await;
    }
    for (team, name) in &lamps {
        await_held(&world.service, &team.cluster, name, Some("1")).await;
    }
    for (team, name) in &lamps {
        team.delete(&stage.kind, name).await?;
    }
    let at = format!("{PUBLISHED}/{}", stage.published);
    let condition = eventually(SOON, "deletions are held", async || {
        let found = world.service.get(&at).await?;
        let condition = found["status"]["conditions"][0].clone();
        ensure!(condition["reason"] == "DeletionsHeld", "{condition}");
        Ok(condition)
    })
    .await;
    let mut left = 0;
    eventually(SOON, "no more of them go", async || {
        let before = std::mem::replace(&mut left, still(&stage, &lamps).await?.len());
        world.await_marker(&stage.kind, &stage.team).await;
        ensure!(left == before, "{before} became {left}");
        Ok(())
    })
    .await;
    ensure!(left >= OBJECTS / 4, "{left} are left");
    for (team, name) in still(&stage, &lamps).await? {
        let secret = held(&world.service, &team.cluster, name).await?;
        ensure!(secret.is_some(), "{name} is held without its Secret");
        let finalizers = finalizers(&team.plane, name).await?;
        ensure!(finalizers == json!([FINALIZER]), "{name} has {finalizers}");
    }
    let message = condition["message"].as_str().unwrap_or_default();
    let (_, id) = message
        .split_once(&format!("{APPROVAL}: "))
        .context("no id")?;
    let id = id.split([';', ' ']).next().unwrap_or_default();
    let approved = json!({"metadata": {"annotations": {APPROVAL: id}}});
    world.service.merge(&at, approved).await?;
    for (team, name) in &lamps {
        team.await_gone(&stage.kind, name).await;
        ensure!(held(&world.service, &team.cluster, name).await?.is_none());
        ensure!(finalizers(&team.plane, name).await?.is_null());
    }
    Ok(())
}

/// The lamps that still have a copy.
async fn still<'l>(
    stage: &Stage<'_>,
    lamps: &'l [(&'l Team, String)],
) -> Result<Vec<(&'l Team, &'l str)>> {
    let mut left = Vec::new();
    for (team, name) in lamps {
        if stage
            .world
            .copy(&stage.kind, team.of(name))
            .await?
            .is_some()
        {
            left.push((*team, name.as_str()));
        }
    }
    Ok(left)
}

fn filtered() -> Value {
    json!({"filter": {"resource": {"matchLabels": {"sync": "yes"}}}, "related": up()})
}

async fn make_labelled(team: &Team, kind: &Kind, name: &str) {
    let mut object = kind.object(name, json!({"up": name}));
    object["metadata"]["labels"] = json!({"sync": "yes"});
    team.make_at(&kind.within("default"), &object).await;
}

/// Lamps with a Secret each, of which none is wanted any more.
async fn left_the_filter(stage: &Stage<'_>, names: &[&str]) -> Result<()> {
    let (team, kind) = (&stage.team, &stage.kind);
    for name in names {
        put(&team.plane, "default", name, "1").await?;
        make_labelled(team, kind, name).await;
        await_held(&stage.world.service, stage.home(), name, Some("1")).await;
        let leaves = json!({"metadata": {"labels": {"sync": "no"}}, "spec": {"size": 2}});
        team.patch(kind, name, leaves).await?;
    }
    make_labelled(team, kind, "marker").await;
    stage.world.await_copy(kind, team.of("marker")).await;
    Ok(())
}

async fn what_leaves_the_filter_lets_go_of_originals_that_are_deleted(world: &World) -> Result<()> {
    let mut stage = world.related(filtered()).await?;
    left_the_filter(&stage, &["lamp", "lantern", "candle"]).await?;
    let team = stage.team.plane.clone();
    let home = stage.home().to_owned();
    team.delete(&secrets().at("default", "lamp")).await?;
    await_held(&team, "default", "lamp", None).await;
    await_held(&world.service, &home, "lamp", None).await;
    // It makes no difference whether anybody is at work then.
    stage.agent.kill().await?;
    team.delete(&secrets().at("default", "lantern")).await?;
    stage.agent = world.start_agent()?;
    await_held(&team, "default", "lantern", None).await;
    await_held(&world.service, &home, "lantern", None).await;
    // All else stays as it was.
    let copy = world.await_copy(&stage.kind, stage.of("lamp")).await;
    has(&copy, "/spec/size", &Value::Null)?;
    ensure!(held(&world.service, &home, "candle").await?.is_some());
    ensure!(finalizers(&team, "candle").await? == json!([FINALIZER]));
    Ok(())
}

async fn an_entry_that_is_removed_is_cleaned_up_for_what_left_the_filter_too(
    world: &World,
) -> Result<()> {
    let stage = world.related(filtered()).await?;
    left_the_filter(&stage, &["lamp"]).await?;
    let at = format!("{PUBLISHED}/{}", stage.published);
    let removed = json!({"spec": {"related": []}});
    world.service.merge(&at, removed).await?;
    await_released(&stage.team.plane, "lamp").await;
    await_held(&world.service, stage.home(), "lamp", None).await;
    world.await_copy(&stage.kind, stage.of("lamp")).await;
    Ok(())
}

/// What a workspace says to the claim on its Secrets.
async fn claim(team: &Team, state: &str) -> Result<()> {
    let at = format!("{BINDINGS}/{EXPORT}");
    let binding = team.plane.get(&at).await?;
    let mut claims = binding["spec"]["permissionClaims"].clone();
    for claim in claims.as_array_mut().context("no claims")? {
        if claim["resource"] == "secrets" {
            claim["state"] = state.into();
        }
    }
    let patch = json!({"spec": {"permissionClaims": claims}});
    team.plane.merge(&at, patch).await?;
    Ok(())
}

async fn originals_that_merely_vanish_keep_their_copies_and_are_let_go_when_they_show_again(
    world: &World,
) -> Result<()> {
    let mut stage = world.related(json!({"related": up()})).await?;
    let team = stage.team.clone();
    for name in ["lamp", "lantern", "candle"] {
        lit(&stage, name).await?;
    }
    claim(&team, "Rejected").await?;
    world.await_still(&stage.kind, &team).await;
    for name in ["lamp", "lantern", "candle"] {
        let copy = held(&world.service, stage.home(), name).await?;
        ensure!(copy.is_some(), "{name} went");
        ensure!(finalizers(&team.plane, name).await? == json!([FINALIZER]));
    }
    // With its object it goes, and that an original is still held is remembered.
    team.delete(&stage.kind, "lamp").await?;
    team.await_gone(&stage.kind, "lamp").await;
    ensure!(held(&world.service, stage.home(), "lamp").await?.is_none());
    // One that its owner ends meanwhile is not there once everything is shown again.
    team.delete(&stage.kind, "candle").await?;
    team.await_gone(&stage.kind, "candle").await;
    let at = secrets().at("default", "candle");
    let released = json!({"metadata": {"finalizers": null}});
    team.plane.merge(&at, released).await?;
    team.plane.delete(&at).await?;
    claim(&team, "Accepted").await?;
    await_released(&team.plane, "lamp").await;
    // What was there all the time goes on as if nothing had been.
    let changed = json!({"stringData": {"k": "2"}});
    let at = secrets().at("default", "lantern");
    team.plane.merge(&at, changed).await?;
    await_held(&world.service, stage.home(), "lantern", Some("2")).await;
    // The same over a restart.
    claim(&team, "Rejected").await?;
    world.await_still(&stage.kind, &team).await;
    team.delete(&stage.kind, "lantern").await?;
    team.await_gone(&stage.kind, "lantern").await;
    stage.agent.kill().await?;
    claim(&team, "Accepted").await?;
    stage.agent = world.start_agent()?;
    await_released(&team.plane, "lantern").await;
    let states = format!("/api/v1/namespaces/{}/secrets", world.namespace);
    eventually(SOON, "nothing of them is remembered", async || {
        let all = world.service.list(&states).await?;
        let names = all
            .iter()
            .filter_map(|one| one["metadata"]["name"].as_str());
        let left = names.filter(|name| name.starts_with("obj-state-")).count();
        // Markers have states of their own.
        let markers = world.service.list(&stage.kind.everywhere()).await?.len();
        ensure!(left == markers, "{left} states for {markers} objects");
        Ok(())
    })
    .await;
    Ok(())
}

/// What `hawser orphans` says, and whether it succeeds.
async fn orphans(world: &World, action: &[&str]) -> Result<(bool, String)> {
    let args = [&["orphans"], action].concat();
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    Ok((succeeds, stdout + &stderr))
}

async fn what_workspaces_leave_behind_is_told_listed_and_removed_at_a_word(
    world: &World,
) -> Result<()> {
    let stage = world.related(json!({"related": up()})).await?;
    let other = world.team("other").await?;
    put(&other.plane, "default", "stays", "1").await?;
    other
        .make(&stage.kind, "stays", json!({"up": "stays"}))
        .await;
    await_held(&world.service, &other.cluster, "stays", Some("1")).await;
    let places = lit(&stage, "lamp").await?;
    let (fine, said) = orphans(world, &["list"]).await?;
    ensure!(fine && said.contains("0 orphans"), "{said}");
    world.unbind(&stage.team).await?;
    await_unbound(&stage.team).await;
    let at = format!("{PUBLISHED}/{}", stage.published);
    eventually(SOON, "the owner is told", async || {
        let found = world.service.get(&at).await?;
        let message = found["status"]["conditions"][0]["message"].as_str();
        let message = message.context("no message")?;
        let told = message.contains(stage.home()) && message.contains("hawser orphans");
        ensure!(told, "{message}");
        Ok(())
    })
    .await;
    let (fine, said) = orphans(world, &["list"]).await?;
    ensure!(
        fine && said.contains("3 orphans of 1 workspace; 1 workspace binds"),
        "{said}"
    );
    let (_, json) = orphans(world, &["list", "--output=json"]).await?;
    let json: Value = serde_json::from_str(&json)?;
    let sorts: Vec<_> = json["orphans"].as_array().into_iter().flatten().collect();
    ensure!(sorts.len() == 3 && json["boundWorkspaces"] == 1, "{json:#}");
    ensure!(
        sorts.iter().all(|one| one["cluster"] == *stage.home()),
        "{json:#}"
    );
    for name in [&places[0], &places[1]] {
        let name = name.rsplit('/').next().unwrap_or_default();
        ensure!(said.contains(name), "{name} is not in {said}");
    }
    for (confirm, succeeds) in [(None, true), (Some("--confirm=2"), false)] {
        let action: Vec<&str> = ["remove"].into_iter().chain(confirm).collect();
        let (fine, said) = orphans(world, &action).await?;
        ensure!(fine == succeeds, "{said}");
        for place in &places {
            uid(world, place).await?;
        }
    }
    // One that is nested too deeply to be parsed is an orphan as well.
    let (open, close) = ("[".repeat(300), "]".repeat(300));
    let deep = format!(r#"{{"status":{{"deep":{open}{close}}}}}"#);
    let place = format!("{}/status", places[0]);
    world.service.send("PATCH", &place, deep).await?;
    let (fine, said) = orphans(world, &["list"]).await?;
    ensure!(fine && said.contains("3 orphans"), "{said}");
    let (fine, said) = orphans(world, &["remove", "--confirm=3"]).await?;
    ensure!(fine, "{said}");
    for place in &places {
        ensure!(
            world.service.find(place).await?.is_none(),
            "{place}: {said}"
        );
    }
    let (_, said) = orphans(world, &["list"]).await?;
    ensure!(
        said.contains("0 orphans") && !said.contains("no state Secret"),
        "{said}"
    );
    // Nothing of others is gone.
    ensure!(
        held(&world.service, &other.cluster, "stays")
            .await?
            .is_some()
    );
    // What carries the labels of a copy of which no state tells is told, and stays.
    let copy = world.await_copy(&stage.kind, other.of("stays")).await;
    let mut clone = copy.clone();
    clone["metadata"] = json!({"name": "clone", "labels": copy["metadata"]["labels"],
        "annotations": copy["metadata"]["annotations"]});
    let namespace = copy["metadata"]["namespace"]
        .as_str()
        .context("no namespace")?;
    world
        .service
        .create(&stage.kind.within(namespace), &clone)
        .await?;
    let (_, said) = orphans(world, &["list"]).await?;
    ensure!(
        !said.contains("no state Secret"),
        "the state tells of both: {said}"
    );
    other.delete(&stage.kind, "stays").await?;
    other.await_gone(&stage.kind, "stays").await;
    let (_, said) = orphans(world, &["list"]).await?;
    ensure!(
        said.contains("clone")
            && said.contains("1 copies of these workspaces have no state Secret"),
        "{said}"
    );
    let (fine, said) = orphans(world, &["remove", "--confirm=0"]).await?;
    ensure!(fine, "{said}");
    ensure!(
        world
            .service
            .find(&stage.kind.at(namespace, "clone"))
            .await?
            .is_some(),
        "{said}"
    );
    Ok(())
}

/// The option that removes all orphans of these workspaces.
fn confirmation(list: &str, workspaces: &str) -> Result<String> {
    let end = format!(" of {workspaces};");
    let before = list.lines().find_map(|line| line.split_once(&*end));
    let (orphans, _) = before.with_context(|| list.to_owned())?;
    let number = orphans.split(' ').next().unwrap_or_default();
    Ok(format!("--confirm={number}"))
}

async fn a_workspace_that_binds_again_while_orphans_are_removed_keeps_its_own(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    // Without any binding the slice has no endpoint.
    world.team("stays").await?;
    let mut teams = [stage.team.clone(), world.team("other").await?];
    for team in &teams {
        team.make(&stage.kind, "lamp", json!({"size": 1})).await;
        world.await_copy(&stage.kind, team.of("lamp")).await;
    }
    for team in &teams {
        world.unbind(team).await?;
        await_unbound(team).await;
    }
    // An agent would take back what a workspace that binds again has no object for.
    stage.agent.stop(SOON).await?;
    let (_, said) = orphans(world, &["list"]).await?;
    let confirm = confirmation(&said, "2 workspaces")?;
    // They are removed in the order of their clusters.
    teams.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let first = Matcher {
        verb: Some("delete".to_owned()),
        namespace: Some(teams[0].cluster.clone()),
        ..Matcher::default()
    };
    // Longer than an answer about the bindings holds.
    let slow = Action::Latency(Duration::from_secs(5));
    let faults = world.playground.faults();
    faults.add(Fault::new(first, slow).once());
    let removal = Launch::new("orphans remove", env!("CARGO_BIN_EXE_hawser"))
        .args(["orphans", "remove", &confirm])
        .args(world.place()?)
        .log(world.directory.path().join("orphans.log"))
        .spawn()?;
    eventually(SOON, "the first one is being removed", async || {
        let struck: u64 = faults.struck().iter().sum();
        ensure!(struck > 0, "not yet");
        Ok(())
    })
    .await;
    removal.signal(Signal::Stop)?;
    world.bind(&teams[1]).await?;
    removal.signal(Signal::Continue)?;
    let exit = removal.wait(SOON).await?;
    ensure!(exit.reason == Reason::Code(1), "{:?}", exit.reason);
    let said = removal.log();
    ensure!(said.contains("orphans were not removed"), "{said}");
    let mut left = Vec::new();
    for team in &teams {
        left.push(world.copy(&stage.kind, team.of("lamp")).await?.is_some());
    }
    ensure!(left == [false, true], "{left:?}");
    Ok(())
}

async fn an_adopted_object_that_is_to_be_released_is_no_orphan(world: &World) -> Result<()> {
    let naming = json!({"namespace": "default", "name": "{{ .Object.metadata.name }}"});
    let more = json!({"naming": naming, "safety": {"adoptedOnDelete": "Release"}});
    let stage = world.stage(more).await?;
    // Without any binding the slice has no endpoint.
    world.team("stays").await?;
    let (theirs, ours) = (unique("theirs"), unique("ours"));
    let provided = stage.kind.object(&theirs, json!({"size": 1}));
    let at = stage.kind.within("default");
    world.service.create(&at, &provided).await?;
    for name in [&theirs, &ours] {
        stage.made(name, json!({"size": 1})).await;
    }
    world.unbind(&stage.team).await?;
    await_unbound(&stage.team).await;
    let (_, said) = orphans(world, &["list"]).await?;
    let told = "1 adopted objects are not removed, because of spec.safety.adoptedOnDelete";
    ensure!(said.contains(told), "{said}");
    let confirm = confirmation(&said, "1 workspace")?;
    let (fine, said) = orphans(world, &["remove", &confirm]).await?;
    ensure!(fine, "{said}");
    let found = async |name: &str| -> Result<bool> {
        let at = stage.kind.at("default", name);
        Ok(world.service.find(&at).await?.is_some())
    };
    ensure!(found(&theirs).await? && !found(&ours).await?, "{said}");
    Ok(())
}

async fn orphans_that_change_or_whose_workspace_binds_again_are_not_removed(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let mut teams = Vec::new();
    for name in ["one", "two", "three"] {
        teams.push(world.team(name).await?);
    }
    // They are removed in this order.
    teams.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let mut places = Vec::new();
    for team in &teams {
        team.make(&stage.kind, "lamp", json!({})).await;
        let copy = world.await_copy(&stage.kind, team.of("lamp")).await;
        places.push(stage.place(&copy));
        world.unbind(team).await?;
        await_unbound(team).await;
    }
    stage.agent.stop(SOON).await?;
    let (_, said) = orphans(world, &["list"]).await?;
    let confirm = confirmation(&said, "3 workspaces")?;
    let is_there =
        async |place: &str| -> Result<bool> { Ok(world.service.find(place).await?.is_some()) };
    // Nobody can say who binds the API.
    let bindings = Matcher {
        verb: Some("list".to_owned()),
        resource: Some("apibindings".to_owned()),
        ..Matcher::default()
    };
    let silent = Action::Status {
        code: 503,
        when: When::Before,
    };
    world.playground.faults().add(Fault::new(bindings, silent));
    let (fine, said) = orphans(world, &["remove", &confirm]).await?;
    ensure!(!fine, "{said}");
    for place in &places {
        ensure!(is_there(place).await?, "{place} is gone: {said}");
    }
    world.playground.faults().clear();

    // While the first one is being removed, the second changes, and the third workspace binds the API.
    let deletions = Matcher {
        verb: Some("delete".to_owned()),
        resource: Some(stage.kind.plural.clone()),
        ..Matcher::default()
    };
    let slow = Action::Latency(Duration::from_secs(4));
    world
        .playground
        .faults()
        .add(Fault::new(deletions, slow).once());
    let meddling = async {
        eventually(SOON, "the first one is being removed", async || {
            let struck = world.playground.faults().struck();
            ensure!(struck == [1], "{struck:?}");
            Ok(())
        })
        .await;
        let label = json!({"metadata": {"labels": {"example.com/kept": "yes"}}});
        world.service.merge(&places[1], label).await?;
        world.bind(&teams[2]).await
    };
    let action = ["remove", &*confirm];
    let (removed, meddled) = tokio::join!(orphans(world, &action), meddling);
    let (fine, said) = removed?;
    meddled?;
    ensure!(!fine, "{said}");
    for (place, stays) in places.iter().zip([false, true, true]) {
        ensure!(is_there(place).await? == stays, "{place}: {said}");
    }
    let (_, said) = orphans(world, &["list"]).await?;
    ensure!(said.contains(" of 1 workspace"), "{said}");
    Ok(())
}

async fn a_pause_that_is_renewed_holds_the_deletion_of_an_original_for_a_while_only(
    world: &World,
) -> Result<()> {
    let mut stage = world.related(json!({"related": up()})).await?;
    stage.agent.stop(SOON).await?;
    let longest = "--longest-consumer-pause=6s";
    stage.agent = world.launch()?.arg(longest).spawn()?;
    let (team, kind) = (&stage.team, &stage.kind);
    put(&team.plane, "default", "lamp", "1").await?;
    stage.made("lamp", json!({"size": 1, "up": "lamp"})).await;
    await_held(&world.service, stage.home(), "lamp", Some("1")).await;
    let pause = async || {
        let until = annotations(soon(5).into());
        team.patch(kind, "lamp", until).await
    };
    pause().await?;
    let edit = json!({"spec": {"size": 2}});
    team.patch(kind, "lamp", edit).await?;
    await_told(&stage, "ObjectPaused").await;
    let original = secrets().at("default", "lamp");
    team.plane.delete(&original).await?;
    // It never ends by itself.
    eventually(SOON, "the original is let go", async || -> Result<()> {
        pause().await?;
        let found = team.plane.find(&original).await?;
        ensure!(found.is_none(), "it is there");
        Ok(())
    })
    .await;
    let copy = held(&world.service, stage.home(), "lamp").await?;
    ensure!(copy.is_none(), "{copy:?}");
    // What else waits goes on waiting.
    ensure!(size_of_copy(&stage, "lamp").await? == 1);
    Ok(())
}
