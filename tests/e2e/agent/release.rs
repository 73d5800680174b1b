//! `hawser release`: copies stay where they are, and everything else is as before.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::{Launch, eventually};

use super::SOON;
use super::pause::annotations;
use super::plane::Plane;
use super::real_kcp::{BINDINGS2, selecting};
use super::stage::Stage;
use super::world::{Counted as _, EXPORT, PUBLISHED, World, shown};

on_our_ground!(a_round_trip_changes_nothing_but_the_marks);

on_the_playground!(
    a_round_trip_changes_nothing_but_the_marks,
    what_the_agent_would_sync_keeps_its_marks,
    without_an_agent_everything_can_be_released,
    a_release_that_is_killed_at_any_write_is_finished_by_the_next,
    a_release_that_a_server_refuses_changes_nothing,
    what_is_not_served_is_not_taken_for_gone,
    conflicts_are_read_again_a_few_times,
    no_deletion_reaches_a_released_copy_whose_object_kept_its_finalizer,
    a_name_that_several_objects_have_is_refused,
    what_is_of_another_agent_or_has_its_states_elsewhere_stays,
    published_resources_that_are_not_active_are_refused,
    originals_that_the_workspace_hides_keep_the_state,
    a_shared_original_is_held_until_its_last_object_is_released,
    an_original_that_another_agent_may_sync_keeps_its_finalizer,
    an_original_that_is_synced_itself_keeps_its_finalizer_until_both_are_released,
    of_several_resources_of_one_kind_each_has_its_own_objects,
    what_a_deleted_resource_left_is_released_with_its_file,
);

const FAR: &str = "2999-01-01T00:00:00Z";
const MARK: &str = "syncagent.kcp.io/";
const RELEASING: &str = "syncagent.kcp.io/releasing";
/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: std::time::Duration = std::time::Duration::from_hours(1);

/// What `hawser release` says, and whether it succeeds.
async fn release(world: &World, args: &[&str]) -> Result<(bool, Value)> {
    let args = [&["release", "--output=json"], args].concat();
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    let answer = serde_json::from_str(&stdout).with_context(|| stderr)?;
    Ok((succeeds, answer))
}

/// The command fails as a whole, and writes nothing; what it says.
async fn refused(world: &World, args: &[&str]) -> Result<String> {
    let mark = world.requests().mark();
    let (succeeds, stdout, stderr) = world.command(&[&["release"], args].concat()).await?;
    ensure!(!succeeds && stdout.is_empty(), "{stdout}");
    let wrote = world.requests().since(mark).into_iter().filter(|request| {
        request.user_agent.starts_with("hawser/")
            && request.is_write()
            && !request.query.contains("dryRun")
            && request.group != "coordination.k8s.io"
            && ["secrets", "gadgets"].contains(&&*request.resource)
    });
    let wrote: Vec<_> = wrote.map(|request| shown(&request)).collect();
    ensure!(wrote.is_empty(), "{wrote:#?}");
    Ok(stderr)
}

/// The command with other flags for the place of the agent.
async fn release_elsewhere(world: &World, args: &[&str], other: &[&str]) -> Result<(bool, Value)> {
    let flag = |arg: &str| arg.split('=').next().map(str::to_owned);
    let mut place = world.place()?.to_vec();
    place.retain(|arg| other.iter().all(|one| flag(one) != flag(arg)));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"));
    command
        .args(["release", "--output=json"])
        .args(args)
        .args(place)
        .args(other);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).with_context(|| stderr)?;
    Ok((output.status.success(), answer))
}

/// The verbs of the writes of an answer's only object.
fn verbs(answer: &Value) -> Vec<&str> {
    let writes = answer["objects"][0]["writes"].as_array();
    let writes = writes.into_iter().flatten();
    writes.filter_map(|write| write["verb"].as_str()).collect()
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
    let await_there = async |plane: &Plane, path: &str| {
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
    let after =
        async |plane: &Plane, path: &str| -> Result<Value> { Ok(essence(plane.get(path).await?)) };
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
    let (succeeds, answer) =
        release_elsewhere(world, &one, &["--longest-consumer-pause=30m"]).await?;
    let is_refused = !succeeds && problem(&answer).contains("the agent syncs it");
    ensure!(
        is_refused,
        "the pause is too long for the agent: {answer:#}"
    );
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
    spec["naming"]["name"] = "copy-{{ .Object.metadata.name }}".into();
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

/// Which request a fault strikes. Each write is first tried as a dry run, which counts too.
fn fault(stage: &Stage<'_>, boundary: &Boundary, action: Action) -> Fault {
    let matcher = Matcher {
        cluster: Some(if boundary.is_kcp {
            stage.team.cluster.clone()
        } else {
            String::new()
        }),
        resource: Some(boundary.resource.clone()),
        verb: Some(boundary.verb.to_owned()),
        agent: Some("hawser/".to_owned()),
        ..Matcher::default()
    };
    Fault {
        skip: boundary.skip,
        times: Some(1),
        ..Fault::new(matcher, action)
    }
}

/// A write of a release, and the requests of its kind before it.
struct Boundary {
    is_kcp: bool,
    verb: &'static str,
    resource: String,
    skip: u64,
}

/// The writes of the release of a gadget with a Secret: the witness, the original, the state, the copy, the object.
fn boundaries(stage: &Stage<'_>) -> [Boundary; 5] {
    let boundary = |is_kcp, verb, resource: &str, skip| Boundary {
        is_kcp,
        verb,
        resource: resource.to_owned(),
        skip,
    };
    let plural = &stage.kind.plural;
    [
        boundary(true, "patch", plural, 2),
        boundary(true, "patch", "secrets", 1),
        boundary(false, "delete", "secrets", 1),
        boundary(false, "patch", plural, 1),
        boundary(true, "patch", plural, 3),
    ]
}

/// Nothing on either side has a mark, and the copy is the one that was.
async fn ensure_released(stage: &Stage<'_>, name: &str, copy: &Value) -> Result<()> {
    let (world, team, kind) = (stage.world, &stage.team, &stage.kind);
    for (plane, path) in [
        (&team.plane, kind.at("default", name)),
        (&team.plane, format!("{}/{name}", secrets_in("default"))),
        (&world.service, stage.place(copy)),
    ] {
        let found = plane.get(&path).await?;
        ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
    }
    let found = world.service.get(&stage.place(copy)).await?;
    ensure!(
        found["metadata"]["uid"] == copy["metadata"]["uid"],
        "{found:#}"
    );
    let state = world.secret_at(kind, stage.of(name));
    ensure!(world.service.find(&state).await?.is_none(), "{name}");
    Ok(())
}

async fn a_release_that_is_killed_at_any_write_is_finished_by_the_next(
    world: &World,
) -> Result<()> {
    let stage = only_labelled(world).await?;
    let boundaries = boundaries(&stage);
    let mut gadgets = Vec::new();
    for (number, boundary) in boundaries.iter().enumerate() {
        for when in [When::Before, When::After] {
            let name = format!("lamp-{number}-{when:?}").to_lowercase();
            let copy = left_out(&stage, &name).await?;
            gadgets.push((name, copy, boundary, when, number));
        }
    }
    let faults = world.playground.faults();
    for (name, copy, boundary, when, number) in &gadgets {
        let action = match when {
            When::Before => Action::Latency(NEVER),
            When::After => Action::Reset(When::After),
        };
        faults.add(fault(&stage, boundary, action));
        let killed = Launch::new("release", env!("CARGO_BIN_EXE_hawser"))
            .args(["release", "gadget", name, "-n", "default"])
            .args(world.place()?)
            .log(world.directory.path().join(format!("release-{name}.log")))
            .spawn()?;
        eventually(SOON, "the command comes to its write", async || {
            ensure!(faults.struck().contains(&1), "{}", killed.log());
            Ok(())
        })
        .await;
        killed.kill().await?;
        faults.clear();
        let copy_of = copy["metadata"]["name"].as_str().context("no name")?;
        let object = stage.team.get(&stage.kind, name).await?;
        ensure!(
            object["metadata"]["finalizers"].is_null() == (*number == 4 && *when == When::After)
        );
        // The last one is found by the name of its copy, which has no marks.
        let by = match number {
            4 if *when == When::Before => copy_of,
            _ => name,
        };
        let (succeeds, answer) = release(world, &["gadget", by]).await?;
        ensure!(succeeds, "{name}: {answer:#}");
        let made = number + usize::from(*when == When::After);
        ensure!(verbs(&answer).len() == 5 - made, "{name}: {answer:#}");
        ensure_released(&stage, name, copy).await?;
        stage.team.delete(&stage.kind, name).await?;
        stage.team.await_gone(&stage.kind, name).await;
    }
    stage.marker("gone").await;
    for (_, copy, ..) in &gadgets {
        world.service.get(&stage.place(copy)).await?;
    }
    Ok(())
}

async fn a_release_that_a_server_refuses_changes_nothing(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let copy = left_out(&stage, "lamp").await?;
    let state = world.secret_at(&stage.kind, stage.of("lamp"));
    for boundary in boundaries(&stage) {
        // The dry run of the write.
        let skip = boundary.skip.saturating_sub(2).min(1);
        let boundary = Boundary { skip, ..boundary };
        let refusal = Action::Status {
            code: 403,
            when: When::Before,
        };
        world
            .playground
            .faults()
            .add(fault(&stage, &boundary, refusal));
        let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
        ensure!(!succeeds && verbs(&answer).is_empty(), "{answer:#}");
        ensure!(problem(&answer).starts_with(boundary.verb), "{answer:#}");
        world.playground.faults().clear();
        world.service.get(&state).await?;
        ensure!(stage.copy("lamp").await["metadata"] == copy["metadata"]);
        let object = stage.team.get(&stage.kind, "lamp").await?;
        ensure!(
            object["metadata"]["annotations"][RELEASING].is_null(),
            "{object:#}"
        );
    }
    Ok(())
}

/// A server that does not serve the resource for a moment says nothing about the object.
async fn what_is_not_served_is_not_taken_for_gone(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let copy = left_out(&stage, "lamp").await?;
    let state = world.secret_at(&stage.kind, stage.of("lamp"));
    for is_kcp in [true, false] {
        let boundary = Boundary {
            is_kcp,
            verb: "get",
            resource: stage.kind.plural.clone(),
            skip: 0,
        };
        let missing = Action::Status {
            code: 404,
            when: When::Before,
        };
        let faults = world.playground.faults();
        faults.add(fault(&stage, &boundary, missing));
        let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
        ensure!(!succeeds && verbs(&answer).is_empty(), "{answer:#}");
        ensure!(problem(&answer).starts_with("reading"), "{answer:#}");
        faults.clear();
        world.service.get(&state).await?;
        ensure!(stage.copy("lamp").await["metadata"] == copy["metadata"]);
    }
    Ok(())
}

async fn conflicts_are_read_again_a_few_times(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let faults = world.playground.faults();
    for (name, times, succeeds) in [("few", 4, true), ("many", 5, false)] {
        let copy = left_out(&stage, name).await?;
        let conflict = Action::Status {
            code: 409,
            when: When::Before,
        };
        let [_, _, _, boundary, _] = boundaries(&stage);
        // The first dry run succeeds.
        faults.add(Fault {
            times: Some(times),
            ..fault(&stage, &boundary, conflict)
        });
        let (released, answer) = release(world, &["gadget", name]).await?;
        ensure!(released == succeeds, "{answer:#}");
        faults.clear();
        if !succeeds {
            ensure!(
                problem(&answer).contains("it changes all the time"),
                "{answer:#}"
            );
            let (released, answer) = release(world, &["gadget", name]).await?;
            ensure!(released, "{answer:#}");
        }
        ensure_released(&stage, name, &copy).await?;
    }
    Ok(())
}

async fn no_deletion_reaches_a_released_copy_whose_object_kept_its_finalizer(
    world: &World,
) -> Result<()> {
    let stage = only_labelled(world).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let copy = left_out(&stage, "lamp").await?;
    let [.., last] = boundaries(&stage);
    let refusal = Action::Status {
        code: 403,
        when: When::Before,
    };
    world.playground.faults().add(fault(&stage, &last, refusal));
    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(!succeeds && verbs(&answer).len() == 4, "{answer:#}");
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

async fn without_an_agent_everything_can_be_released(world: &World) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.agent.kill().await?;
    stage.agent = world.start_agent_that_elects()?;
    stage.marker("elected").await;
    let one = ["gadget", "lamp", "--agent-stopped"];
    let (succeeds, answer) = release(world, &one).await?;
    ensure!(
        !succeeds && problem(&answer).contains("leads"),
        "{answer:#}"
    );
    stage.agent.stop(SOON).await?;
    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(
        !succeeds && problem(&answer).contains("--agent-stopped"),
        "{answer:#}"
    );
    let (succeeds, answer) = release(world, &one).await?;
    ensure!(succeeds && verbs(&answer).len() == 4, "{answer:#}");
    let found = world.service.get(&stage.place(&copy)).await?;
    ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
    Ok(())
}

async fn a_name_that_several_objects_have_is_refused(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let second = world.team("second").await?;
    stage.made("lamp", json!({"size": 1})).await;
    second.make(&stage.kind, "lamp", json!({"size": 2})).await;
    world.await_copy(&stage.kind, second.of("lamp")).await;
    second.plane.namespace("attic", json!({})).await?;
    let lamp = stage.kind.object("lamp", json!({"size": 3}));
    second.make_at(&stage.kind.within("attic"), &lamp).await;
    world
        .await_copy(&stage.kind, second.within("attic", "lamp"))
        .await;
    disable(&stage).await?;
    let said = refused(world, &["gadget", "lamp"]).await?;
    for part in [
        "3 objects",
        "attic/lamp",
        &stage.team.cluster,
        &second.cluster,
        "--workspace",
        "-n",
        "KIND.GROUP",
    ] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    let workspace = format!("--workspace=root:org:{}", second.name);
    let said = refused(world, &["gadget", "lamp", &workspace]).await?;
    ensure!(said.contains("2 objects"), "{said}");
    let gadget = format!("gadgets.{}", stage.kind.group);
    let (succeeds, answer) = release(world, &[&gadget, "lamp", &workspace, "-n", "attic"]).await?;
    ensure!(succeeds && verbs(&answer).len() == 4, "{answer:#}");
    for (team, namespace, is_left) in [
        (&stage.team, "default", true),
        (&second, "default", true),
        (&second, "attic", false),
    ] {
        let copy = world
            .copy(&stage.kind, team.within(namespace, "lamp"))
            .await?;
        ensure!(copy.is_some() == is_left, "{namespace} of {}", team.name);
    }
    Ok(())
}

async fn what_is_of_another_agent_or_has_its_states_elsewhere_stays(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    disable(&stage).await?;
    let lamp = stage.team.get(&stage.kind, "lamp").await?;
    let one = ["gadget", "lamp"];
    let (succeeds, answer) = release_elsewhere(world, &one, &["--namespace=default"]).await?;
    ensure!(
        !succeeds && problem(&answer).contains("check --namespace"),
        "{answer:#}"
    );
    let (succeeds, answer) = release_elsewhere(world, &one, &["--agent-name=other"]).await?;
    ensure!(
        !succeeds && problem(&answer).contains("another agent"),
        "{answer:#}"
    );
    let other = ["--agent-name=other", "--namespace=default"];
    let (succeeds, answer) = release_elsewhere(world, &one, &other).await?;
    let kept = &answer["objects"][0]["kept"][0]["reason"];
    ensure!(succeeds && *kept == "another agent syncs it", "{answer:#}");
    ensure!(verbs(&answer).is_empty(), "{answer:#}");
    ensure!(stage.copy("lamp").await == copy);
    ensure!(stage.team.get(&stage.kind, "lamp").await? == lamp);
    // Without the copy, nothing says whose the finalizer is.
    world.service.delete(&stage.place(&copy)).await?;
    let (_, answer) = release_elsewhere(world, &one, &["--namespace=default"]).await?;
    let kept = &answer["objects"][0]["kept"][0]["reason"];
    ensure!(
        *kept == "this agent has neither a state nor a copy of it",
        "{answer:#}"
    );
    ensure!(stage.team.get(&stage.kind, "lamp").await? == lamp);
    Ok(())
}

async fn published_resources_that_are_not_active_are_refused(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    disable(&stage).await?;
    let by_name = |name: &str| format!("--published-resource={name}");
    let said = refused(world, &[&by_name("nobody")]).await?;
    ensure!(said.contains("does not exist"), "{said}");
    // Not of this agent.
    let mut foreign = world.published("foreign", &stage.kind, json!({}));
    foreign["metadata"]["labels"]["agent"] = "other".into();
    let foreign_name = testbed::unique("foreign");
    foreign["metadata"]["name"] = foreign_name.clone().into();
    world.create_published(&foreign_name, foreign).await?;
    let said = refused(world, &[&by_name(&foreign_name)]).await?;
    ensure!(said.contains("--published-resource-selector"), "{said}");
    // One that would sync the objects, and cannot be read from here because the other one is older.
    let projection = json!({"projection": {"kind": "Contraption", "plural": "contraptions"}});
    let later = world.publish(&stage.kind, projection).await?;
    let workspace = format!("--workspace={}", stage.team.cluster);
    for args in [
        &[&*by_name(&later)][..],
        &[&by_name(&stage.published)],
        &["gadget", "lamp"],
        &["contraption", "lamp"],
        &[&workspace],
    ] {
        let said = refused(world, args).await?;
        ensure!(said.contains("which is older"), "{args:?}: {said}");
    }
    let at = format!("{PUBLISHED}/{later}");
    world.service.delete(&at).await?;
    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(succeeds && verbs(&answer).len() == 4, "{answer:#}");
    Ok(())
}

async fn originals_that_the_workspace_hides_keep_the_state(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let copy = left_out(&stage, "lamp").await?;
    let gone = left_out(&stage, "gone").await?;
    let original = format!("{}/lamp", secrets_in("default"));
    let state = world.secret_at(&stage.kind, stage.of("lamp"));
    let claims = async |selector: Value| -> Result<()> {
        let claims = json!({"spec": {"permissionClaims": selecting(world, selector).await?}});
        let binding = format!("{BINDINGS2}/{EXPORT}");
        stage.team.plane.merge(&binding, claims).await?;
        Ok(())
    };
    claims(json!({"matchLabels": {"for": "others"}})).await?;
    stage.marker("hidden").await;
    for flags in [&["--dry-run"][..], &[]] {
        let args = [&["gadget", "lamp"], flags].concat();
        let (succeeds, answer) = release(world, &args).await?;
        ensure!(!succeeds && verbs(&answer).is_empty(), "{answer:#}");
        ensure!(problem(&answer).contains("may hide"), "{answer:#}");
        let unseen = answer["objects"][0]["unseen"].as_array().map(Vec::len);
        ensure!(unseen == Some(1), "{answer:#}");
        let secret = world.service.get(&state).await?;
        ensure!(secret["metadata"]["deletionTimestamp"].is_null());
    }
    claims(json!({"matchAll": true})).await?;
    // One that is really gone is not waited for.
    let no_finalizer = json!({"metadata": {"finalizers": null}});
    let at = format!("{}/gone", secrets_in("default"));
    stage.team.plane.merge(&at, no_finalizer).await?;
    stage.team.plane.delete(&at).await?;
    stage.marker("accepted").await;
    for (name, writes) in [("lamp", 5), ("gone", 4)] {
        let what = format!("{name} is released");
        eventually(SOON, &what, async || {
            let (succeeds, answer) = release(world, &["gadget", name, "--dry-run"]).await?;
            ensure!(succeeds && verbs(&answer).len() == writes, "{answer:#}");
            Ok(())
        })
        .await;
        let (succeeds, answer) = release(world, &["gadget", name]).await?;
        ensure!(
            succeeds && answer["objects"][0]["unseen"] == json!([]),
            "{answer:#}"
        );
    }
    ensure_released(&stage, "lamp", &copy).await?;
    let found = stage.team.plane.get(&original).await?;
    ensure!(found["metadata"]["finalizers"].is_null(), "{found:#}");
    world.service.get(&stage.place(&gone)).await?;
    Ok(())
}

/// The finalizers of a Secret of the team.
async fn finalizers(stage: &Stage<'_>, name: &str) -> Result<Value> {
    let at = format!("{}/{name}", secrets_in("default"));
    Ok(stage.team.plane.get(&at).await?["metadata"]["finalizers"].clone())
}

async fn a_shared_original_is_held_until_its_last_object_is_released(world: &World) -> Result<()> {
    let stage = world.related(secrets_both_ways()).await?;
    let team = &stage.team;
    team.plane
        .create(&secrets_in("default"), &secret("up"))
        .await?;
    for name in ["one", "two"] {
        stage.made(name, json!({"up": "up"})).await;
    }
    stage.marker("after").await;
    disable(&stage).await?;
    let held = json!(["syncagent.kcp.io/cleanup"]);
    ensure!(finalizers(&stage, "up").await? == held);
    let all = format!("--published-resource={}", stage.published);
    let (succeeds, planned) = release(world, &[&all, "--dry-run"]).await?;
    ensure!(succeeds, "{planned:#}");
    ensure!(finalizers(&stage, "up").await? == held);

    let (succeeds, first) = release(world, &["gadget", "one"]).await?;
    ensure!(
        succeeds && finalizers(&stage, "up").await? == held,
        "{first:#}"
    );
    let kept = &first["objects"][0]["kept"][0]["reason"];
    ensure!(*kept == "another object needs it", "{first:#}");
    let (succeeds, second) = release(world, &["gadget", "two"]).await?;
    ensure!(
        succeeds && finalizers(&stage, "up").await?.is_null(),
        "{second:#}"
    );
    for (number, done) in [(1, &first), (2, &second)] {
        let planned = &planned["objects"][number];
        ensure!(*planned == done["objects"][0], "{planned:#} {done:#}");
    }
    Ok(())
}

async fn an_original_that_another_agent_may_sync_keeps_its_finalizer(world: &World) -> Result<()> {
    let stage = only_labelled(world).await?;
    let copy = left_out(&stage, "lamp").await?;
    // Another agent publishes Secrets.
    let name = testbed::unique("foreign");
    let foreign = json!({
        "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
        "metadata": {"name": name, "labels": {"agent": "other"}},
        "spec": {"resource": {"apiGroup": "", "kind": "Secret"}},
    });
    world.create_published(&name, foreign).await?;
    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(succeeds && verbs(&answer).len() == 4, "{answer:#}");
    let kept = &answer["objects"][0]["kept"][0]["reason"];
    ensure!(*kept == "it is synced itself", "{answer:#}");
    let held = finalizers(&stage, "lamp").await?;
    ensure!(held == json!(["syncagent.kcp.io/cleanup"]), "{held}");
    let found = world.service.get(&stage.place(&copy)).await?;
    ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
    Ok(())
}

async fn an_original_that_is_synced_itself_keeps_its_finalizer_until_both_are_released(
    world: &World,
) -> Result<()> {
    let crd = super::definition(&world.group, "ropes", "Rope");
    let ropes = world.install(&crd).await?;
    let publishes_ropes = world.publish(&ropes, json!({})).await?;
    let identity = world.export().await?["status"]["identityHash"].clone();
    let entry = json!({"identifier": "rope", "origin": "kcp", "group": ropes.group, "version": "v1",
        "resource": "ropes", "identityHash": identity,
        "object": {"reference": {"path": "spec.rope"}}});
    let stage = world.stage(json!({"related": [entry]})).await?;
    world.await_published(&publishes_ropes).await;
    let (team, kind) = (&stage.team, &stage.kind);
    for (lamp, rope) in [("lamp", "hemp"), ("torch", "silk")] {
        team.make(&ropes, rope, json!({"length": 1})).await;
        world.await_copy(&ropes, team.of(rope)).await;
        stage.made(lamp, json!({"rope": rope})).await;
        let related = ropes.at(&team.cluster, rope);
        eventually(SOON, &related, async || world.service.get(&related).await).await;
    }
    stage.marker("after").await;
    disable(&stage).await?;
    let finalizers = async |rope: &str| -> Result<Value> {
        let found = team.get(&ropes, rope).await?;
        Ok(found["metadata"]["finalizers"].clone())
    };
    let held = json!(["syncagent.kcp.io/cleanup"]);
    let why = |answer: &Value| answer["objects"][0]["kept"][0]["reason"].clone();

    let (succeeds, answer) = release(world, &["gadget", "lamp"]).await?;
    ensure!(
        succeeds && why(&answer) == "it is synced itself",
        "{answer:#}"
    );
    ensure!(finalizers("hemp").await? == held);
    let disabled = json!({"spec": {"synchronization": {"enabled": false}}});
    let at = format!("{PUBLISHED}/{publishes_ropes}");
    world.service.merge(&at, disabled).await?;
    let (succeeds, answer) = release(world, &["rope", "hemp"]).await?;
    ensure!(
        succeeds && finalizers("hemp").await?.is_null(),
        "{answer:#}"
    );

    let (succeeds, answer) = release(world, &["rope", "silk"]).await?;
    ensure!(
        succeeds && why(&answer) == "another object needs it",
        "{answer:#}"
    );
    ensure!(finalizers("silk").await? == held);
    let (succeeds, answer) = release(world, &["gadget", "torch"]).await?;
    ensure!(
        succeeds && finalizers("silk").await?.is_null(),
        "{answer:#}"
    );
    for (kind, name) in [
        (kind, "lamp"),
        (kind, "torch"),
        (&ropes, "hemp"),
        (&ropes, "silk"),
    ] {
        let found = team.get(kind, name).await?;
        ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
    }
    Ok(())
}

async fn of_several_resources_of_one_kind_each_has_its_own_objects(world: &World) -> Result<()> {
    let only = |tier: &str| json!({"filter": {"resource": {"matchLabels": {"tier": tier}}}});
    let stage = world.stage(only("one")).await?;
    let second = world.publish(&stage.kind, only("two")).await?;
    world.await_published(&second).await;
    let mut copies = Vec::new();
    for tier in ["one", "two"] {
        let mut object = stage.kind.object(tier, json!({"size": 1}));
        object["metadata"]["labels"] = json!({"tier": tier});
        stage
            .team
            .make_at(&stage.kind.within("default"), &object)
            .await;
        copies.push(stage.copy(tier).await);
    }
    disable(&stage).await?;
    let (succeeds, answer) = release(world, &["gadget", "two"]).await?;
    ensure!(
        !succeeds && problem(&answer).contains(&second),
        "{answer:#}"
    );
    let (succeeds, answer) = release(
        world,
        &[&format!("--published-resource={}", stage.published)],
    )
    .await?;
    ensure!(succeeds, "{answer:#}");
    let objects = answer["objects"].as_array().map(Vec::len);
    ensure!(
        objects == Some(1) && answer["objects"][0]["object"]["name"] == "one",
        "{answer:#}"
    );
    ensure!(world.copy(&stage.kind, stage.of("one")).await?.is_none());
    ensure!(world.copy(&stage.kind, stage.of("two")).await?.is_some());
    Ok(())
}

async fn what_a_deleted_resource_left_is_released_with_its_file(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    let at = format!("{PUBLISHED}/{}", stage.published);
    let mut document = world.published(&stage.published, &stage.kind, json!({}));
    document["spec"]["synchronization"] = json!({"enabled": false});
    let file = world.directory.path().join("gone.yaml");
    std::fs::write(&file, document.to_string())?;
    let file = file.to_str().context("no path")?;
    let said = refused(world, &["gadget", "lamp", "-f", file]).await?;
    ensure!(said.contains("exists: leave out its file"), "{said}");
    world.service.delete(&at).await?;
    eventually(SOON, "the agent has stopped", async || {
        let log = world.logged()?;
        ensure!(log.contains("stopped syncing its objects"), "{log}");
        Ok(())
    })
    .await;
    let (succeeds, answer) = release(world, &["gadget", "lamp", "-f", file]).await?;
    ensure!(succeeds && verbs(&answer).len() == 4, "{answer:#}");
    let found = world.service.get(&stage.place(&copy)).await?;
    ensure!(!found["metadata"].to_string().contains(MARK), "{found:#}");
    Ok(())
}
