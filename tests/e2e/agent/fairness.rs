//! Who is slow or refused is alone with it, and what may be sent is decided when it is sent.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use serde_json::json;
use testbed::process::{Reason, Signal};
use testbed::{Launch, eventually};

use super::stage::Stage;
use super::world::{Counted as _, RENEWED_TOKEN, RENEWED_USER, Team, World};
use super::{SOON, definition};

on_the_playground!(
    a_workspace_that_is_refused_holds_up_nobody_else,
    workspaces_that_do_not_answer_hold_up_nobody_else,
    workspaces_whose_copies_hang_hold_up_nobody_else,
    eight_workspaces_that_hang_at_once_leave_workers_to_another,
    passes_that_hang_at_once_give_their_workers_back,
    what_waits_for_its_turn_is_not_sent_once_it_is_disabled,
    what_is_not_wanted_any_more_ends_whatever_its_schema_waits_for,
    what_is_deselected_while_its_schema_is_looked_for_is_not_published,
    a_leader_that_was_suspended_sends_nothing_when_it_wakes_up,
);

/// Objects of a workspace in trouble: more than may be worked on at once.
const MANY: usize = 40;
/// What the agent has on its way to a server at most.
const IN_FLIGHT: u64 = 32;
/// Passes that run at once.
const WORKERS: u64 = 64;
/// Published resources whose schemas are looked at at once.
const LOOKED_AFTER: u64 = 8;
/// Half the time that a request may take.
const IMPATIENT: Duration = Duration::from_secs(15);
/// Longer than any request is waited for.
const NEVER: Action = Action::Latency(Duration::from_mins(5));

/// The finalizers of one workspace's objects.
fn marks_of(stage: &Stage<'_>, team: &Team) -> Matcher {
    Matcher {
        verb: Some("patch".to_owned()),
        cluster: Some(team.cluster.clone()),
        resource: Some(stage.kind.plural.clone()),
        ..Matcher::default()
    }
}

/// The creation of copies, of one workspace's objects or of all.
fn copies_of(stage: &Stage<'_>, team: Option<&Team>) -> Matcher {
    Matcher {
        verb: Some("create".to_owned()),
        cluster: Some(String::new()),
        resource: Some(stage.kind.plural.clone()),
        namespace: team.map(|team| team.cluster.clone()),
        ..Matcher::default()
    }
}

async fn make_many(stage: &Stage<'_>, team: &Team) {
    for number in 0..MANY {
        let name = format!("lamp{number}");
        team.make(&stage.kind, &name, json!({"size": 1})).await;
    }
}

fn struck(world: &World) -> u64 {
    world.playground.faults().struck().iter().sum()
}

async fn await_struck(world: &World, least: u64) {
    eventually(SOON, "requests are struck", async || {
        let struck = struck(world);
        ensure!(struck >= least, "{struck} so far");
        Ok(())
    })
    .await;
}

/// A life in another workspace: objects, changes, status.
async fn lives(stage: &Stage<'_>, team: &Team) -> Result<()> {
    let world = stage.world;
    for name in ["table", "chair", "sofa"] {
        team.make(&stage.kind, name, json!({"size": 1})).await;
        let copy = world.await_copy(&stage.kind, team.of(name)).await;
        team.patch(&stage.kind, name, json!({"spec": {"size": 2}}))
            .await?;
        world
            .await_in_copy(&stage.kind, team.of(name), "/spec/size", json!(2))
            .await;
        let status = format!("{}/status", stage.place(&copy));
        let lit = json!({"status": {"lit": true}});
        world.service.merge(&status, lit).await?;
        team.await_in(&stage.kind, name, "/status/lit", json!(true))
            .await;
    }
    Ok(())
}

async fn a_workspace_that_is_refused_holds_up_nobody_else(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    world.await_marker(&stage.kind, &other).await;
    let refused = Action::Status {
        code: 429,
        when: When::Before,
    };
    let fault = Fault::new(marks_of(&stage, &stage.team), refused);
    world.playground.faults().add(fault);
    make_many(&stage, &stage.team).await;
    await_struck(world, 1).await;
    lives(&stage, &other).await?;
    ensure!(world.copy(&stage.kind, stage.of("lamp0")).await?.is_none());
    // Nothing of the other one was held back, not even to be tried again.
    let log = stage.agent.log();
    let mut held = log.lines().filter(|line| line.contains("not sent"));
    let held = held.find(|line| line.contains(&other.cluster));
    ensure!(held.is_none(), "{held:?}");
    world.playground.faults().clear();
    for number in 0..MANY {
        stage.copy(&format!("lamp{number}")).await;
    }
    Ok(())
}

/// Two workspaces whose requests hang leave the agent enough to work for a third one.
async fn two_hang(world: &World, what: fn(&Stage<'_>, &Team) -> Matcher) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (second, third) = (world.team("second").await?, world.team("third").await?);
    world.await_marker(&stage.kind, &third).await;
    world.await_marker(&stage.kind, &second).await;
    stage.marker("marker").await;
    for team in [&stage.team, &second] {
        let fault = Fault::new(what(&stage, team), NEVER);
        world.playground.faults().add(fault);
    }
    for team in [&stage.team, &second] {
        make_many(&stage, team).await;
    }
    await_struck(world, 2).await;
    lives(&stage, &third).await?;
    let struck = struck(world);
    ensure!(struck < IN_FLIGHT, "{struck} requests hang");
    Ok(())
}

async fn workspaces_that_do_not_answer_hold_up_nobody_else(world: &World) -> Result<()> {
    two_hang(world, marks_of).await
}

async fn workspaces_whose_copies_hang_hold_up_nobody_else(world: &World) -> Result<()> {
    two_hang(world, |stage, team| copies_of(stage, Some(team))).await
}

async fn eight_workspaces_that_hang_at_once_leave_workers_to_another(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let mut hanging = vec![stage.team.clone()];
    for number in 1..8 {
        hanging.push(world.team(&format!("hanging{number}")).await?);
    }
    let other = world.team("other").await?;
    for team in hanging.iter().chain([&other]) {
        world.await_marker(&stage.kind, team).await;
    }
    for team in &hanging {
        let fault = Fault::new(marks_of(&stage, team), NEVER);
        world.playground.faults().add(fault);
    }
    let made = hanging.iter().map(|team| make_many(&stage, team));
    futures::future::join_all(made).await;
    // All but a few requests that may be under way are.
    await_struck(world, IN_FLIGHT * 3 / 4).await;
    lives(&stage, &other).await?;
    // Those that wait behind them give their workers back.
    let told = "not sent: too many requests";
    stage.agent.await_log(SOON, told).await?;
    Ok(())
}

/// As many workspaces as passes run at once begin to hang at once. More requests may be under way, so that only workers
/// are short.
async fn passes_that_hang_at_once_give_their_workers_back(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    world.await_marker(&stage.kind, &other).await;
    stage.agent.stop(SOON).await?;
    let names: Vec<String> = (0..WORKERS).map(|n| format!("hanging{n}")).collect();
    let teams = names.iter().map(|name| world.team(name));
    let hanging = futures::future::try_join_all(teams).await?;
    for team in &hanging {
        let fault = Fault::new(marks_of(&stage, team), NEVER);
        world.playground.faults().add(fault);
    }
    let made = hanging
        .iter()
        .map(|team| team.make(&stage.kind, "lamp", json!({"size": 1})));
    futures::future::join_all(made).await;
    // It finds all of them in its first list.
    let agent = world
        .launch()?
        .arg(format!("--max-in-flight-kcp={}", 4 * WORKERS))
        .spawn()?;
    await_struck(world, WORKERS).await;
    world.await_marker(&stage.kind, &other).await;
    let told = "given up because other objects wait for the worker";
    agent.await_log(SOON, told).await?;
    Ok(())
}

async fn what_waits_for_its_turn_is_not_sent_once_it_is_disabled(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (second, quiet) = (world.team("second").await?, world.team("quiet").await?);
    let crd = definition(&world.group, "widgets", "Widget");
    let widgets = world.install(&crd).await?;
    let published = world.publish(&widgets, json!({})).await?;
    world.await_published(&published).await;
    world.await_marker(&widgets, &quiet).await;
    // What waits for a turn gets it before it is given up.
    let slow = Action::Latency(Duration::from_secs(7));
    let fault = Fault::new(copies_of(&stage, None), slow);
    world.playground.faults().add(fault);
    let mark = world.requests().mark();
    for team in [&stage.team, &second] {
        make_many(&stage, team).await;
    }
    await_struck(world, 16).await;
    let at = format!("{}/{}", super::world::PUBLISHED, stage.published);
    let off = json!({"spec": {"synchronization": {"enabled": false}}});
    world.service.merge(&at, off).await?;
    let stopped = "stopped syncing its objects";
    stage.agent.await_log(SOON, stopped).await?;
    let sent = struck(world);
    ensure!(sent < 2 * MANY as u64, "all {sent} were sent already");
    eventually(SOON, "what was sent is answered", async || {
        let requests = world.agents_requests(mark);
        let creates = requests
            .iter()
            .filter(|one| one.verb == "create" && one.resource == stage.kind.plural);
        let answered = creates.count() as u64;
        let sent = struck(world);
        ensure!(answered == sent, "{answered} of {sent}");
        Ok(())
    })
    .await;
    world.await_still(&widgets, &quiet).await;
    // What had left the agent may have come in after this was counted.
    let more = struck(world) - sent;
    ensure!(more < 4, "{more} came in after {sent}");
    Ok(())
}

/// The switch does not wait for the requests about the schema of the same resource, nor for those of as many others as
/// are looked after at once.
async fn what_is_not_wanted_any_more_ends_whatever_its_schema_waits_for(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let quiet = definition(&world.group, "quiets", "Quiet");
    let quiet = world.install(&quiet).await?;
    let published = world.publish(&quiet, json!({})).await?;
    world.await_published(&published).await;
    world.await_marker(&quiet, &stage.team).await;
    let mut others = Vec::new();
    for number in 0..LOOKED_AFTER {
        let (plural, name) = (format!("things{number}"), format!("Thing{number}"));
        let other = definition(&world.group, &plural, &name);
        let other = world.install(&other).await?;
        others.push(world.publish(&other, json!({})).await?);
    }
    for other in &others {
        world.await_published(other).await;
    }
    let asked = Matcher {
        verb: Some("get".to_owned()),
        resource: Some("apiresourceschemas".to_owned()),
        ..Matcher::default()
    };
    world.playground.faults().add(Fault::new(asked, NEVER));
    let at = |name: &str| format!("{}/{name}", super::world::PUBLISHED);
    // What is asked of the type is another thing now.
    let projected = json!({"spec": {"projection": {"shortNames": ["x"]}}});
    for name in others.iter().chain([&stage.published]) {
        world.service.merge(&at(name), projected.clone()).await?;
    }
    await_struck(world, LOOKED_AFTER).await;
    let stopped = "stopped syncing its objects";
    let off = json!({"spec": {"synchronization": {"enabled": false}}});
    for name in others.iter().chain([&stage.published]) {
        world.service.merge(&at(name), off.clone()).await?;
        // Its schema is waited for twice as long.
        eventually(IMPATIENT, "it is stopped", async || {
            let log = stage.agent.log();
            let mut lines = log.lines().filter(|line| line.contains(stopped));
            ensure!(lines.any(|line| line.contains(name.as_str())), "{name}");
            Ok(())
        })
        .await;
    }
    let mark = world.requests().mark();
    let spec = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", spec).await?;
    world.await_still(&quiet, &stage.team).await;
    let requests = world.agents_requests(mark);
    let mut writes = requests.iter().filter(|one| one.is_write());
    let written = writes.find(|one| one.resource == stage.kind.plural);
    ensure!(written.is_none(), "{written:?}");
    Ok(())
}

/// Neither schema nor export nor status are written for what is deselected while a request about it is under way.
async fn what_is_deselected_while_its_schema_is_looked_for_is_not_published(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let crd = definition(&world.group, "widgets", "Widget");
    let widgets = world.install(&crd).await?;
    let asked = Matcher {
        verb: Some("get".to_owned()),
        resource: Some("apiresourceschemas".to_owned()),
        ..Matcher::default()
    };
    let slow = Action::Latency(Duration::from_secs(5));
    let fault = Fault::new(asked, slow);
    world.playground.faults().add(fault.once());
    let name = world.publish(&widgets, json!({})).await?;
    await_struck(world, 1).await;
    let at = format!("{}/{name}", super::world::PUBLISHED);
    let deselected = json!({"metadata": {"labels": {"agent": null}}});
    world.service.merge(&at, deselected).await?;
    stage
        .agent
        .await_log(SOON, "no longer published by this agent")
        .await?;
    // What is published after it comes after it.
    world.await_noticed(&stage.kind, &stage.team).await?;
    let schemas = world.org.list(super::world::SCHEMAS).await?;
    let mut names = schemas.iter().map(|schema| &schema["metadata"]["name"]);
    let made = names.find(|name| name.to_string().contains("widgets"));
    ensure!(made.is_none(), "{made:?}");
    let export = world.export().await?;
    let listed = export["spec"]["latestResourceSchemas"].to_string();
    ensure!(!listed.contains("widgets"), "{listed}");
    let found = world.service.get(&at).await?;
    ensure!(found["status"].is_null(), "{}", found["status"]);
    Ok(())
}

/// An agent that the request log tells from others by its user.
pub(super) fn by_another_user(world: &World) -> Result<Launch> {
    let write = |name: &str, url: &str| -> Result<PathBuf> {
        let kubeconfig = world
            .playground
            .kubeconfig_at(url, RENEWED_USER, RENEWED_TOKEN);
        let file = world.directory.path().join(name);
        fs::write(&file, kubeconfig.to_string())?;
        Ok(file)
    };
    let kcp = format!("{}/clusters/root:org", world.playground.kcp_url());
    let kcp = write("other.kcp.kubeconfig", &kcp)?;
    let service = write("other.service.kubeconfig", world.playground.service_url())?;
    Ok(world
        .launch()?
        .arg(format!("--kcp-kubeconfig={}", kcp.display()))
        .arg(format!("--kubeconfig={}", service.display())))
}

async fn a_leader_that_was_suspended_sends_nothing_when_it_wakes_up(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let first = by_another_user(world)?
        .arg("--enable-leader-election")
        .spawn()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    let second = world.team("second").await?;
    world.await_marker(&kind, &team).await;
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/syncagent.{}",
        world.namespace, world.agent
    );
    let holder = async || -> Result<String> {
        let lease = world.service.get(&lease).await?;
        let holder = lease["spec"]["holderIdentity"].as_str();
        Ok(holder.unwrap_or_default().to_owned())
    };
    let before = holder().await?;
    let standby = world.launch()?.arg("--enable-leader-election").spawn()?;
    standby.await_log(SOON, "standing by").await?;
    let stage = Stage {
        world,
        kind,
        published,
        team,
        agent: standby,
    };
    let slow = Action::Latency(Duration::from_secs(5));
    let fault = Fault::new(copies_of(&stage, None), slow);
    world.playground.faults().add(fault);
    let mark = world.requests().mark();
    // When the states of all are there, only the held requests are on their way. Another one that is being written when the
    // process stops would end when it wakes up.
    let half = IN_FLIGHT / 2;
    for team in [&stage.team, &second] {
        for number in 0..half {
            let name = format!("lamp{number}");
            team.make(&stage.kind, &name, json!({"size": 1})).await;
        }
    }
    let of_first = |mark| -> Vec<LoggedRequest> {
        let mut all = world.requests().since(mark);
        all.retain(|one| one.user == RENEWED_USER && one.is_write());
        all
    };
    eventually(SOON, "copies wait to be made", async || {
        let states = of_first(mark)
            .iter()
            .filter(|one| one.verb == "create" && one.resource == "secrets")
            .count() as u64;
        ensure!(states >= IN_FLIGHT, "{states} objects are so far");
        Ok(())
    })
    .await;
    first.signal(Signal::Stop)?;
    world.playground.faults().clear();
    eventually(SOON, "the other one leads", async || {
        let holder = holder().await?;
        ensure!(
            !holder.is_empty() && holder != before,
            "{holder} still leads"
        );
        Ok(())
    })
    .await;
    world.await_marker(&stage.kind, &stage.team).await;
    let mark = world.requests().mark();
    first.signal(Signal::Continue)?;
    let exit = first.wait(SOON).await?;
    ensure!(exit.reason == Reason::Code(1), "{:?}", exit.reason);
    let mut sent = of_first(mark);
    // It asks for the Lease once more, and says that it no longer leads.
    sent.retain(|one| one.resource != "leases");
    sent.retain(|one| one.resource != "events" || one.namespace != world.namespace);
    ensure!(sent.is_empty(), "{sent:#?}");
    for number in 0..half {
        stage.copy(&format!("lamp{number}")).await;
    }
    Ok(())
}
