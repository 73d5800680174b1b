//! The agent is killed in the middle of its work, again and again: nothing is lost, doubled or orphaned.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};
use testbed::{Process, eventually};
use tokio::sync::Mutex;

use super::service::Ground;
use super::stage::Stage;
use super::world::{Team, World};

on_both_grounds!(
    killed_in_the_middle_of_creating_it_finishes_what_was_begun,
    killed_in_the_middle_of_changes_and_deletions_it_finishes_what_was_begun,
    what_happened_while_nobody_was_at_work_is_caught_up_with,
);

const OBJECTS: usize = 300;
/// A crash is hard work for everybody.
const DONE: std::time::Duration = std::time::Duration::from_mins(2);

/// The copies of this agent, by workspace and name of their sources.
pub(super) async fn copies(stage: &Stage<'_>) -> Result<BTreeMap<(String, String), Vec<Value>>> {
    let selector = format!("syncagent.kcp.io%2Fagent-name={}", stage.world.agent);
    let path = format!("{}?labelSelector={selector}", stage.kind.everywhere());
    let mut found: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for copy in stage.world.service.list(&path).await? {
        let meta = &copy["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cluster = text(&meta["labels"]["syncagent.kcp.io/remote-object-cluster"]);
        let name = text(&meta["annotations"]["syncagent.kcp.io/remote-object-name"]);
        found.entry((cluster, name)).or_default().push(copy);
    }
    Ok(found)
}

/// The names of the state Secrets.
pub(super) async fn states(world: &World) -> Result<Vec<String>> {
    let path = format!("/api/v1/namespaces/{}/secrets", world.namespace);
    let found = world.service.list(&path).await?;
    let names = found
        .iter()
        .filter_map(|secret| secret["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Waits until sources and copies and states are one to one, and alike.
async fn await_one_to_one(stage: &Stage<'_>, teams: &[Team]) {
    eventually(DONE, "everything is in step", async || {
        let copies = copies(stage).await?;
        let mut sources = 0;
        for team in teams {
            for source in team.plane.list(&stage.kind.everywhere()).await? {
                sources += 1;
                let name = source["metadata"]["name"].as_str().unwrap_or_default();
                let found = copies.get(&(team.cluster.clone(), name.to_owned()));
                let Some([copy]) = found.map(Vec::as_slice) else {
                    bail!("{} copies of {name}", found.map_or(0, Vec::len));
                };
                ensure!(copy["spec"] == source["spec"], "{name}: {}", copy["spec"]);
                ensure!(
                    source["metadata"]["finalizers"] == json!(["syncagent.kcp.io/cleanup"]),
                    "{name} is not held"
                );
            }
        }
        let copies = copies.len();
        ensure!(copies == sources, "{copies} copies of {sources} objects");
        let states = states(stage.world).await?.len();
        // With the original's rights the states of what is gone cannot be taken away.
        let wrong = match stage.world.ground {
            Ground::Original => states < sources,
            Ground::Ours | Ground::Apart | Ground::Bare | Ground::Playground => states != sources,
        };
        ensure!(!wrong, "{states} states of {sources} objects");
        Ok(())
    })
    .await;
}

/// Kills the agent and starts another.
async fn crash(world: &World, agent: &Mutex<Process>) -> Result<()> {
    let mut agent = agent.lock().await;
    agent.kill().await?;
    *agent = world.start_agent()?;
    Ok(())
}

async fn three_teams(stage: &Stage<'_>) -> Result<Vec<Team>> {
    let mut teams = vec![stage.team.clone()];
    for name in ["second", "third"] {
        teams.push(stage.world.team(name).await?);
    }
    Ok(teams)
}

/// Does something with each of the objects, ten at a time.
async fn with_each(teams: &[Team], what: impl AsyncFn(&Team, usize) -> Result<()>) -> Result<()> {
    let each = stream::iter(0..OBJECTS).map(|number| what(&teams[number % teams.len()], number));
    let mut done = std::pin::pin!(each.buffer_unordered(10));
    while let Some(result) = done.next().await {
        result?;
    }
    Ok(())
}

/// Kills the agent each time another share of the work is done.
async fn crash_at(
    stage: &Stage<'_>,
    agent: &Mutex<Process>,
    shares: &[usize],
    progress: impl AsyncFn() -> Result<usize>,
) -> Result<()> {
    for share in shares {
        let what = format!("{share} are done");
        eventually(DONE, &what, async || {
            let done = progress().await?;
            ensure!(done >= *share, "{done} are");
            Ok(())
        })
        .await;
        crash(stage.world, agent).await?;
    }
    Ok(())
}

async fn stage_in_three(world: &World) -> Result<(Stage<'_>, Vec<Team>, Mutex<Process>)> {
    let mut stage = world.stage(json!({})).await?;
    let teams = three_teams(&stage).await?;
    // The stage's own agent is the first to be killed.
    let agent = std::mem::replace(&mut stage.agent, idle()?);
    Ok((stage, teams, Mutex::new(agent)))
}

/// Something that runs in an agent's place.
pub(super) fn idle() -> Result<Process> {
    testbed::Launch::new("nobody", "/bin/sleep")
        .arg("1000")
        .spawn()
}

async fn killed_in_the_middle_of_creating_it_finishes_what_was_begun(world: &World) -> Result<()> {
    let (stage, teams, agent) = stage_in_three(world).await?;
    let creating = with_each(&teams, async |team, number| {
        let spec = json!({"number": number, "of": team.name});
        team.make(&stage.kind, &format!("lamp{number}"), spec).await;
        Ok(())
    });
    let shares = [1, OBJECTS / 4, OBJECTS / 2, OBJECTS * 3 / 4];
    let crashing = crash_at(&stage, &agent, &shares, async || {
        Ok(copies(&stage).await?.len())
    });
    tokio::try_join!(creating, crashing)?;
    await_one_to_one(&stage, &teams).await;
    let copies = copies(&stage).await?.len();
    ensure!(copies == OBJECTS, "{copies}");
    Ok(())
}

async fn killed_in_the_middle_of_changes_and_deletions_it_finishes_what_was_begun(
    world: &World,
) -> Result<()> {
    let (stage, teams, agent) = stage_in_three(world).await?;
    with_each(&teams, async |team, number| {
        let spec = json!({"number": number, "drop": true});
        team.make(&stage.kind, &format!("lamp{number}"), spec).await;
        Ok(())
    })
    .await?;
    await_one_to_one(&stage, &teams).await;
    // A third is changed, a third deleted, a third deleted and made again.
    let changing = with_each(&teams, async |team, number| {
        let name = format!("lamp{number}");
        let (kind, round) = (&stage.kind, number / teams.len());
        if round.is_multiple_of(3) {
            let patch = json!({"spec": {"drop": null, "changed": number}});
            team.patch(kind, &name, patch).await?;
            return Ok(());
        }
        team.delete(kind, &name).await?;
        if round % 3 == 1 {
            return Ok(());
        }
        team.await_gone(kind, &name).await;
        team.make(kind, &name, json!({"again": number})).await;
        Ok(())
    });
    let done = async || -> Result<usize> {
        let copies = copies(&stage).await?;
        let old = copies.values().flatten();
        Ok(OBJECTS - old.filter(|copy| copy["spec"]["drop"] == true).count())
    };
    let shares = [1, OBJECTS / 3, OBJECTS / 2];
    let crashing = crash_at(&stage, &agent, &shares, done);
    tokio::try_join!(changing, crashing)?;
    eventually(DONE, "what was deleted is gone", async || {
        for (number, team) in (0..OBJECTS).zip(teams.iter().cycle()) {
            if number / teams.len() % 3 == 1 {
                let at = stage.kind.at("default", &format!("lamp{number}"));
                let found = team.plane.find(&at).await.context("looking")?;
                ensure!(found.is_none(), "lamp{number} is there");
            }
        }
        Ok(())
    })
    .await;
    await_one_to_one(&stage, &teams).await;
    Ok(())
}

async fn what_happened_while_nobody_was_at_work_is_caught_up_with(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    for name in ["changed", "deleted", "said", "recreated", "copyless"] {
        stage.made(name, json!({"of": name, "drop": 1})).await;
    }
    let (said, lost) = (stage.copy("said").await, stage.copy("copyless").await);
    stage.agent.kill().await?;

    let (team, kind) = (&stage.team, &stage.kind);
    let change = json!({"spec": {"drop": null, "new": 2}, "metadata": {"labels": {"a": "b"}}});
    team.patch(kind, "changed", change).await?;
    team.delete(kind, "deleted").await?;
    let status = format!("{}/status", stage.place(&said));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    world.service.delete(&stage.place(&lost)).await?;
    team.make(kind, "made", json!({"of": "made"})).await;
    // A consumer that frees its object by force, and makes another of the same name.
    team.delete(kind, "recreated").await?;
    team.patch(kind, "recreated", json!({"metadata": {"finalizers": null}}))
        .await?;
    team.await_gone(kind, "recreated").await;
    team.make(kind, "recreated", json!({"of": "another"})).await;

    let _agent = world.start_agent()?;
    let wanted = json!({"of": "changed", "new": 2});
    let copy = stage.await_in_copy("changed", "/spec", wanted).await;
    ensure!(copy["metadata"]["labels"]["a"] == "b");
    team.await_gone(kind, "deleted").await;
    world.await_no_copy(kind, stage.of("deleted")).await;
    team.await_in(kind, "said", "/status", json!({"lit": true}))
        .await;
    stage.copy("copyless").await;
    stage.copy("made").await;
    stage
        .await_in_copy("recreated", "/spec/of", json!("another"))
        .await;
    Ok(())
}
