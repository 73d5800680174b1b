//! Servers that fail, lie and fall silent, on either side: the agent ends up in step, and does not
//! pay for it with storms of requests.

use std::time::Duration;

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::json;
use testbed::{Port, eventually};

use super::SOON;
use super::process::page;
use super::stage::Stage;
use super::world::{Counted as _, PUBLISHED, World};

on_the_playground!(
    conflicts_are_overcome,
    server_errors_are_overcome,
    a_refused_write_is_made_once_a_pass_and_the_log_tells_of_it,
    writes_whose_answers_are_lost_are_not_doubled,
    connections_that_are_cut_are_made_again,
    too_many_requests_are_waited_for,
    an_expired_watch_is_begun_anew,
    watches_that_end_lose_nothing,
    a_watch_that_falls_silent_is_replaced,
    stale_lists_take_nothing_away,
    the_owners_writes_are_tried_again,
    a_kind_that_cannot_be_watched_in_kcp_is_told_by_the_condition,
);

const OBJECTS: usize = 20;

/// Both sides as an agent reaches them: in kcp by the logical cluster, which nobody else uses here.
fn sides(stage: &Stage<'_>) -> [Matcher; 3] {
    let kcp = Matcher {
        cluster: Some(stage.team.cluster.clone()),
        ..Matcher::default()
    };
    let copies = Matcher {
        cluster: Some(String::new()),
        resource: Some(stage.kind.plural.clone()),
        ..Matcher::default()
    };
    let states = Matcher {
        cluster: Some(String::new()),
        resource: Some("secrets".to_owned()),
        ..Matcher::default()
    };
    [kcp, copies, states]
}

const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

/// Strikes a share of the writes of an agent on each side; each rule so many times at most.
fn strike_writes(stage: &Stage<'_>, action: &Action, rate: f64, times: u64) {
    for side in sides(stage) {
        for verb in WRITES {
            let matcher = Matcher {
                verb: Some(verb.to_owned()),
                ..side.clone()
            };
            let fault = Fault::new(matcher, action.clone());
            stage.world.playground.faults().add(Fault {
                rate,
                times: Some(times),
                ..fault
            });
        }
    }
}

fn struck(world: &World) -> u64 {
    world.playground.faults().struck().iter().sum()
}

/// The life of some objects: made, changed, their status written, half of them deleted.
async fn live(stage: &Stage<'_>) -> Result<()> {
    let (team, kind) = (&stage.team, &stage.kind);
    let before = stage.world.service.list(&kind.everywhere()).await?.len();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("lamp{number}")).collect();
    for name in &names {
        team.make(kind, name, json!({"size": 1, "drop": true}))
            .await;
    }
    for name in &names {
        stage.copy(name).await;
        team.patch(kind, name, json!({"spec": {"size": 2, "drop": null}}))
            .await?;
    }
    for name in &names {
        stage.await_in_copy(name, "/spec", json!({"size": 2})).await;
    }
    let (kept, deleted) = names.split_at(OBJECTS / 2);
    for name in deleted {
        team.delete(kind, name).await?;
    }
    for name in kept {
        // The test's own writes are struck as well: it is as patient as a provider's operator.
        let copy = stage.copy(name).await;
        let status = format!("{}/status", stage.place(&copy));
        eventually(SOON, "the status is written", async || {
            stage
                .world
                .service
                .merge(&status, json!({"status": {"of": name}}))
                .await
        })
        .await;
        team.await_in(kind, name, "/status/of", json!(name)).await;
    }
    for name in deleted {
        team.await_gone(kind, name).await;
    }
    let copies = stage.world.service.list(&kind.everywhere()).await?.len() - before;
    ensure!(copies == kept.len(), "{copies} copies of {}", kept.len());
    Ok(())
}

/// What a life costs without any fault: three to begin, two for the change, three or one at the end.
const COST: usize = OBJECTS * 5 + OBJECTS / 2 * 3 + OBJECTS / 2;

/// The writes of an agent since a mark; events aside.
fn writes(world: &World, mark: u64) -> usize {
    let requests = world.agents_requests(mark);
    let writes = requests.iter().filter(|request| request.is_write());
    writes
        .filter(|request| request.resource != "events")
        .count()
}

/// Lives through faults on writes; each of them may cost a few requests, and no more.
async fn lives_through(world: &World, action: Action, rate: f64) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("first").await;
    strike_writes(&stage, &action, rate, 15);
    let mark = world.requests().mark();
    live(&stage).await?;
    let (struck, writes) = (usize::try_from(struck(world))?, writes(world, mark));
    ensure!(struck > 10, "only {struck} were struck");
    // Conditions of the resource are among the writes.
    let most = COST + 3 * struck + 10;
    ensure!(
        writes <= most,
        "{writes} writes with {struck} struck, {COST} without"
    );
    Ok(())
}

async fn conflicts_are_overcome(world: &World) -> Result<()> {
    let conflict = Action::Status {
        code: 409,
        when: When::Before,
    };
    lives_through(world, conflict, 0.3).await
}

async fn server_errors_are_overcome(world: &World) -> Result<()> {
    let error = Action::Status {
        code: 500,
        when: When::Before,
    };
    lives_through(world, error, 0.3).await
}

async fn a_refused_write_is_made_once_a_pass_and_the_log_tells_of_it(world: &World) -> Result<()> {
    const TIMES: u64 = 5;
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 0})).await;
    stage.marker("marker").await;
    for (size, code) in [(1, 500), (2, 503), (3, 504), (4, 404)] {
        let matcher = Matcher {
            verb: Some("patch".to_owned()),
            ..sides(&stage)[1].clone()
        };
        let when = When::Before;
        let fault = Fault::new(matcher, Action::Status { code, when });
        world.playground.faults().add(Fault {
            times: Some(TIMES),
            ..fault
        });
        let told = |log: &str| log.matches("NoAnswer").count();
        let (mark, before) = (world.requests().mark(), told(&stage.agent.log()));
        let larger = json!({"spec": {"size": size}});
        stage.team.patch(&stage.kind, "lamp", larger).await?;
        stage.await_in_copy("lamp", "/spec/size", json!(size)).await;
        let sent = world.agents_requests(mark);
        let of_copy = sent
            .iter()
            .filter(|request| request.cluster.is_empty() && request.resource == stage.kind.plural);
        let verbs: Vec<_> = of_copy.map(|request| request.verb.as_str()).collect();
        let patches = verbs.iter().filter(|verb| **verb == "patch").count();
        ensure!(patches as u64 == TIMES + 1, "{code}: {verbs:?}");
        // What was announced is looked at before it is made by another pass.
        ensure!(verbs.len() <= 2 * patches, "{code}: {verbs:?}");
        let passes = told(&stage.agent.log()) - before;
        ensure!(passes as u64 == TIMES, "{code}: {passes} lines tell of it");
    }
    Ok(())
}

async fn writes_whose_answers_are_lost_are_not_doubled(world: &World) -> Result<()> {
    let late = Action::Status {
        code: 503,
        when: When::After,
    };
    lives_through(world, late, 0.3).await
}

async fn connections_that_are_cut_are_made_again(world: &World) -> Result<()> {
    lives_through(world, Action::Reset(When::After), 0.3).await
}

async fn too_many_requests_are_waited_for(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("first").await;
    let too_many = Action::Status {
        code: 429,
        when: When::Before,
    };
    strike_writes(&stage, &too_many, 1.0, 2);
    let mark = world.requests().mark();
    for number in 0..OBJECTS {
        stage
            .team
            .make(&stage.kind, &format!("lamp{number}"), json!({}))
            .await;
    }
    for number in 0..OBJECTS {
        stage.copy(&format!("lamp{number}")).await;
    }
    let struck = usize::try_from(struck(world))?;
    ensure!(struck > 0);
    let writes = writes(world, mark);
    ensure!(
        writes <= 3 * OBJECTS + struck + 10,
        "{writes} writes, {struck} struck"
    );
    Ok(())
}

/// Watches of gadgets and of states, on both sides.
fn watches(stage: &Stage<'_>) -> Vec<Matcher> {
    [stage.kind.plural.as_str(), "secrets"]
        .iter()
        .map(|resource| Matcher {
            resource: Some((*resource).to_owned()),
            ..Matcher::default()
        })
        .collect()
}

async fn a_kind_that_cannot_be_watched_in_kcp_is_told_by_the_condition(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("before").await;
    stage.agent.stop(SOON).await?;
    let faults = world.playground.faults();
    for verb in ["list", "watch"] {
        // In all workspaces at once, where copies are in none.
        let matcher = Matcher {
            cluster: Some("*".to_owned()),
            verb: Some(verb.to_owned()),
            resource: Some(stage.kind.plural.clone()),
            ..Matcher::default()
        };
        let (code, when) = (500, When::Before);
        faults.add(Fault::new(matcher, Action::Status { code, when }));
    }
    let health = Port::reserve()?;
    let _agent = world
        .launch()?
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    let at = format!("{PUBLISHED}/{}", stage.published);
    eventually(SOON, "the owner is told", async || {
        let found = world.service.get(&at).await?;
        let ready = &found["status"]["conditions"][0];
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(
            ready["status"] == "False"
                && ready["reason"] == "NotWatched"
                && message.contains("Gadget in kcp"),
            "{ready}"
        );
        Ok(())
    })
    .await;
    // It is as ready as it can be.
    eventually(SOON, "it is ready", async || {
        let (code, text) = page(&health, "/readyz").await?;
        ensure!(code == 200, "{code}: {text}");
        Ok(())
    })
    .await;
    faults.clear();
    stage.marker("after").await;
    world.await_conditions(&stage.published).await;
    Ok(())
}

/// Faults of watches are there before the watches are.
async fn with_watches_that(world: &World, action: Action, times: u64) -> Result<Stage<'_>> {
    let stage = world.stage(json!({})).await?;
    stage.marker("first").await;
    stage.agent.stop(SOON).await?;
    for matcher in watches(&stage) {
        let fault = Fault::new(matcher, action.clone());
        world.playground.faults().add(Fault {
            times: Some(times),
            ..fault
        });
    }
    let agent = world.start_agent()?;
    Ok(Stage { agent, ..stage })
}

async fn watches_that_end_lose_nothing(world: &World) -> Result<()> {
    let cut = Action::CutWatch(Duration::from_millis(300));
    let stage = with_watches_that(world, cut, 20).await?;
    let mark = world.requests().mark();
    live(&stage).await?;
    ensure!(struck(world) > 2, "{} were cut", struck(world));
    let writes = writes(world, mark);
    ensure!(writes <= COST * 2, "{writes} writes, {COST} without faults");
    Ok(())
}

async fn an_expired_watch_is_begun_anew(world: &World) -> Result<()> {
    let stage = with_watches_that(world, Action::CutWatch(Duration::from_millis(200)), 4).await?;
    for matcher in watches(&stage) {
        let watch = Matcher {
            verb: Some("watch".to_owned()),
            ..matcher
        };
        let gone = Action::Status {
            code: 410,
            when: When::Before,
        };
        let fault = Fault::new(watch, gone);
        world.playground.faults().add(Fault {
            times: Some(2),
            ..fault
        });
    }
    live(&stage).await?;
    ensure!(struck(world) > 2, "{} were struck", struck(world));
    Ok(())
}

async fn a_watch_that_falls_silent_is_replaced(world: &World) -> Result<()> {
    let silent = Action::StallWatch(Duration::from_millis(100));
    let stage = with_watches_that(world, silent, 1).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.make(kind, "lamp", json!({"size": 1})).await;
    // Silence is noticed by its length.
    let long = SOON * 4;
    eventually(long, "it has a copy", async || {
        let copy = world.copy(kind, stage.of("lamp")).await?;
        ensure!(copy.is_some(), "it has none");
        Ok(())
    })
    .await;
    ensure!(struck(world) > 0);
    Ok(())
}

async fn stale_lists_take_nothing_away(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    for number in 0..OBJECTS {
        team.make(kind, &format!("lamp{number}"), json!({"size": 1}))
            .await;
    }
    let mut uids = Vec::new();
    for number in 0..OBJECTS {
        uids.push(stage.copy(&format!("lamp{number}")).await["metadata"]["uid"].clone());
    }
    stage.agent.kill().await?;
    for matcher in watches(&stage) {
        let fault = Fault::new(matcher, Action::StaleList(30));
        world.playground.faults().add(Fault {
            times: Some(4),
            ..fault
        });
    }
    let _agent = world.start_agent()?;
    team.patch(kind, "lamp0", json!({"spec": {"size": 2}}))
        .await?;
    stage.await_in_copy("lamp0", "/spec/size", json!(2)).await;
    stage.marker("marker").await;
    for (number, uid) in uids.iter().enumerate() {
        let copy = stage.copy(&format!("lamp{number}")).await;
        ensure!(
            copy["metadata"]["uid"] == *uid,
            "lamp{number} was made again"
        );
    }
    Ok(())
}

async fn the_owners_writes_are_tried_again(world: &World) -> Result<()> {
    for (resource, verb) in [
        ("apiresourceschemas", "create"),
        ("apiresourceschemas", "get"),
        ("customresourcedefinitions", "get"),
    ] {
        let matcher = Matcher {
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            ..Matcher::default()
        };
        let error = Action::Status {
            code: 500,
            when: When::Before,
        };
        let fault = Fault::new(matcher, error);
        world.playground.faults().add(Fault {
            times: Some(2),
            ..fault
        });
    }
    let exports = Matcher {
        resource: Some("apiexports".to_owned()),
        verb: Some("update".to_owned()),
        ..Matcher::default()
    };
    let conflict = Action::Status {
        code: 409,
        when: When::Before,
    };
    let fault = Fault::new(exports, conflict);
    world.playground.faults().add(Fault {
        times: Some(2),
        ..fault
    });
    let statuses = Matcher {
        resource: Some("publishedresources".to_owned()),
        subresource: Some("status".to_owned()),
        ..Matcher::default()
    };
    let fault = Fault::new(statuses, Action::Reset(When::Before));
    world.playground.faults().add(Fault {
        times: Some(1),
        ..fault
    });
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({})).await;
    Ok(())
}
