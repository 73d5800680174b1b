//! The mode `Plan` of a `PublishedResource`: nothing but its status is written, and its plan is what then happens.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::LoggedRequest;
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::gadgets;
use super::plan::{at, changed, made, plan, planned};
use super::stage::Stage;
use super::world::{Counted as _, PUBLISHED, Team, World, shown};

on_the_playground!(
    what_is_planned_is_written_once_the_mode_is_sync_and_nothing_before,
    a_new_resource_that_only_plans_has_neither_schema_nor_entry,
    a_flood_of_consumers_makes_no_plan_of_its_own_and_no_long_status,
    a_plan_says_which_deletions_would_be_held,
);

on_our_ground!(a_switch_to_plan_stops_writes_and_a_switch_back_makes_them);

/// The most bytes of a plan.
const MOST: usize = 32 << 10;

/// Sets fields of the spec.
async fn set(world: &World, published: &str, spec: Value) -> Result<()> {
    let at = format!("{PUBLISHED}/{published}");
    world.service.merge(&at, json!({ "spec": spec })).await?;
    Ok(())
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|one| one["type"] == kind);
    found.unwrap_or(&Value::Null)
}

/// Waits for a plan of the current generation that was not made at this time; the published resource.
async fn await_plan(world: &World, published: &str, before: &Value) -> Value {
    eventually(SOON, "there is a plan", async || {
        let found = world
            .service
            .get(&format!("{PUBLISHED}/{published}"))
            .await?;
        let (status, generation) = (&found["status"], &found["metadata"]["generation"]);
        let ready = condition(&found, "Ready");
        let planned = condition(&found, "Planned");
        ensure!(
            status["plan"]["observedGeneration"] == *generation
                && status["plan"]["time"] != *before
                && planned["observedGeneration"] == *generation
                && ready["reason"] == "Planning"
                && ready["status"] == "False",
            "{status:#}"
        );
        ensure!(status["plan"].to_string().len() < MOST, "{status:#}");
        anyhow::Ok(found)
    })
    .await
}

/// Another agent makes another plan, with what has happened meanwhile.
async fn plan_of_another_agent(stage: &mut Stage<'_>, before: &Value) -> Result<Value> {
    let world = stage.world;
    stage.agent.kill().await?;
    // The time of a plan is in seconds.
    eventually(SOON, "a second is over", async || {
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        ensure!(*before != now, "{now}");
        Ok(())
    })
    .await;
    stage.agent = world.start_agent()?;
    Ok(await_plan(world, &stage.published, before).await)
}

/// Writes that are no dry runs, beside those to the status of published resources.
fn writes(requests: Vec<LoggedRequest>) -> Vec<String> {
    let is_plan = |request: &LoggedRequest| {
        request.resource == "publishedresources" && request.subresource == "status"
    };
    let writes = requests.iter().filter(|request| {
        request.is_write() && !request.query.contains("dryRun=All") && !is_plan(request)
    });
    writes.map(shown).collect()
}

/// The plan of the agent has the numbers of `hawser plan`.
fn check_plan(of_agent: &Value, answer: &Value, example: &str) -> Result<()> {
    ensure!(
        of_agent["total"] == answer["total"],
        "{of_agent:#} {answer:#}"
    );
    ensure!(of_agent["total"]["changed"] == 5, "{of_agent:#}");
    let rows = of_agent["workspaces"].as_array().context("no workspaces")?;
    ensure!(
        rows.len() == 2 && of_agent["moreWorkspaces"] == 0,
        "{of_agent:#}"
    );
    for row in rows {
        let of_command = answer["workspaces"].as_array().into_iter().flatten();
        let mut of_command = of_command.filter(|one| one["cluster"] == row["cluster"]);
        let of_command = of_command.next().context("no such workspace")?;
        for count in ["made", "changed", "deleted", "held", "refused"] {
            ensure!(
                row["writes"][count] == of_command[count],
                "{row} {of_command}"
            );
        }
    }
    let reasons = of_agent["reasons"].as_array().context("no reasons")?;
    ensure!(reasons[0]["reason"] == "Delete", "{of_agent:#}");
    ensure!(reasons[0]["examples"] == json!([example]), "{of_agent:#}");
    Ok(())
}

async fn what_is_planned_is_written_once_the_mode_is_sync_and_nothing_before(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let kind = stage.kind.clone();
    let other = world.team("other").await?;
    let everywhere = [stage.team.clone(), other.clone()];
    for team in &everywhere {
        for name in ["one", "two", "three"] {
            team.make(&kind, name, json!({"size": 1, "note": "n"}))
                .await;
            world.await_copy(&kind, team.of(name)).await;
        }
    }
    world.await_conditions(&stage.published).await;

    let mark = world.requests().mark();
    set(world, &stage.published, json!({"mode": "Plan"})).await?;
    let first = await_plan(world, &stage.published, &Value::Null).await;
    let total = &first["status"]["plan"]["total"];
    let nothing = json!({"made": 0, "changed": 0, "deleted": 0, "held": 0, "refused": 0});
    ensure!(*total == nothing, "{first:#}");
    ensure!(first["status"]["plan"]["objects"] == 6, "{first:#}");

    // What consumers do meanwhile is planned, too.
    let edit = json!({"spec": {"note": "edited"}});
    stage.team.patch(&kind, "one", edit).await?;
    stage.team.delete(&kind, "two").await?;
    other.make(&kind, "new", json!({"size": 7})).await;
    let spec = json!({"mutation": {"spec": [{"cel":
        {"path": "spec.size", "expression": "int(value) + 1"}}]}});
    set(world, &stage.published, spec.clone()).await?;
    let found = await_plan(world, &stage.published, &Value::Null).await;
    let status = found["status"].clone();
    let wrote = writes(world.agents_requests(mark));
    ensure!(wrote.is_empty(), "{wrote:#?}");
    ensure!(
        condition(&found, "Planned")["status"] == "True",
        "{found:#}"
    );

    let document = changed(&stage, &spec).await?;
    let (code, answer) = plan(world, std::slice::from_ref(&document)).await?;
    ensure!(code == 2, "{answer:#}");
    let example = format!("default/two in {}", stage.team.cluster);
    check_plan(&status["plan"], &answer, &example)?;

    let mark = world.requests().mark();
    set(world, &stage.published, json!({"mode": "Sync"})).await?;
    let wanted = planned(&answer, &kind);
    eventually(SOON, "what was planned is done", async || {
        let made = made(&world.agents_requests(mark), &kind);
        ensure!(made == wanted, "planned: {wanted:#?}\nmade: {made:#?}");
        Ok(())
    })
    .await;
    eventually(SOON, "the plan is removed", async || {
        let found = world.service.get(&at(&stage)).await?;
        ensure!(found["status"]["plan"].is_null(), "{found:#}");
        ensure!(condition(&found, "Planned").is_null(), "{found:#}");
        ensure!(
            condition(&found, "Ready")["reason"] == "Synchronizing",
            "{found:#}"
        );
        Ok(())
    })
    .await;
    eventually(SOON, "nothing is left to plan", async || {
        let (code, answer) = plan(world, &[]).await?;
        ensure!(code == 0, "{code}: {answer:#}");
        Ok(())
    })
    .await;
    stage.agent.kill().await?;
    let made = made(&world.agents_requests(mark), &kind);
    let made: Vec<_> = made.into_iter().collect();
    ensure!(made == wanted.into_iter().collect::<Vec<_>>(), "{made:#?}");
    Ok(())
}

async fn a_new_resource_that_only_plans_has_neither_schema_nor_entry(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    world.await_conditions(&stage.published).await;
    let crd = super::definition(&world.group, "ropes", "Rope");
    let ropes = world.install(&crd).await?;
    let before = world.export().await?;
    let mark = world.requests().mark();
    let related = json!([{"identifier": "key", "origin": "kcp", "kind": "Secret",
        "object": {"reference": {"path": "spec.key"}}}]);
    let published = world
        .publish(&ropes, json!({"mode": "Plan", "related": related}))
        .await?;
    let found = await_plan(world, &published, &Value::Null).await;
    let plan = &found["status"]["plan"];
    let schema = plan["schema"].as_str().context("no schema")?;
    ensure!(
        schema.contains("ropes") && plan["schemaBefore"] == "",
        "{plan:#}"
    );
    ensure!(
        plan["export"]["addedSchemas"] == json!([schema]),
        "{plan:#}"
    );
    ensure!(
        plan["export"]["addedClaims"]
            .to_string()
            .contains("secrets"),
        "{plan:#}"
    );
    ensure!(found["status"]["resourceSchemaName"].is_null(), "{found:#}");
    // Nobody else's work waits for it.
    stage.marker("marker").await;
    let kind = &stage.kind;
    let wrote = writes(world.agents_requests(mark));
    let of_others = |line: &&String| {
        let resources = [&*kind.plural, "/secrets ", "/namespaces ", "/events "];
        resources.iter().any(|resource| line.contains(resource))
    };
    let of_its_own: Vec<_> = wrote.iter().filter(|line| !of_others(line)).collect();
    ensure!(of_its_own.is_empty(), "{of_its_own:#?}");
    ensure!(world.export().await?["spec"] == before["spec"]);

    set(world, &published, json!({"mode": null})).await?;
    ensure!(world.await_published(&published).await == *schema);
    Ok(())
}

async fn a_flood_of_consumers_makes_no_plan_of_its_own_and_no_long_status(
    world: &World,
) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    let kind = stage.kind.clone();
    stage.made("lamp", json!({"size": 1})).await;
    set(world, &stage.published, json!({"mode": "Plan"})).await?;
    let first = await_plan(world, &stage.published, &Value::Null).await;
    let time = first["status"]["plan"]["time"].clone();

    let mark = world.requests().mark();
    let long = "n".repeat(200);
    for number in 0..60 {
        let name = format!("{long}-{number}");
        stage
            .team
            .make(&kind, &name, json!({"note": "n".repeat(1000)}))
            .await;
    }
    let other = world.team("other").await?;
    other.make(&kind, "single", json!({})).await;
    let found = plan_of_another_agent(&mut stage, &time).await?;
    let plan = &found["status"]["plan"];
    ensure!(
        plan["objects"] == 62 && plan["total"]["refused"] == 0,
        "{plan:#}"
    );
    ensure!(
        plan["workspaces"][0]["cluster"] == *stage.team.cluster,
        "{plan:#}"
    );
    for reason in plan["reasons"].as_array().context("no reasons")? {
        let examples = reason["examples"].as_array().context("no examples")?;
        ensure!(examples.len() <= 3, "{reason:#}");
        for example in examples.iter().filter_map(Value::as_str) {
            ensure!(example.len() < 300, "{example}");
        }
    }
    let requests = world.agents_requests(mark);
    let tried = requests.iter().filter(|request| {
        request.query.contains("dryRun=All")
            && request.verb == "create"
            && request.resource == kind.plural
    });
    // Once for each object, and not once for each event.
    ensure!(tried.count() <= 61);
    let wrote = writes(requests);
    ensure!(wrote.is_empty(), "{wrote:#?}");
    Ok(())
}

const LAMPS: usize = 80;

fn lamps(teams: &[Team]) -> impl Iterator<Item = (&Team, String)> {
    (0..LAMPS).map(|number| (&teams[number % teams.len()], format!("lamp{number}")))
}

async fn a_plan_says_which_deletions_would_be_held(world: &World) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    let mut teams = vec![stage.team.clone()];
    for number in 2..=8 {
        teams.push(world.team(&format!("team{number}")).await?);
    }
    for (team, name) in lamps(&teams) {
        team.make(&stage.kind, &name, json!({})).await;
    }
    for (team, name) in lamps(&teams) {
        world.await_copy(&stage.kind, team.of(&name)).await;
    }
    set(world, &stage.published, json!({"mode": "Plan"})).await?;
    let first = await_plan(world, &stage.published, &Value::Null).await;
    let time = first["status"]["plan"]["time"].clone();
    for (team, name) in lamps(&teams) {
        team.delete(&stage.kind, &name).await?;
    }
    let found = plan_of_another_agent(&mut stage, &time).await?;
    let plan = &found["status"]["plan"];
    let count = |name: &str| -> Result<usize> {
        let count = plan["total"][name].as_u64().context("no count")?;
        Ok(usize::try_from(count)?)
    };
    let (deleted, held) = (count("deleted")?, count("held")?);
    ensure!(deleted + held == LAMPS && held >= LAMPS * 2 / 5, "{plan:#}");
    ensure!(plan["reasons"][0]["reason"] == "Held", "{plan:#}");

    set(world, &stage.published, json!({"mode": "Sync"})).await?;
    eventually(SOON, "as many are held, more or less", async || {
        let found = world.service.get(&at(&stage)).await?;
        let ready = condition(&found, "Ready");
        ensure!(ready["reason"] == "DeletionsHeld", "{ready}");
        let message = ready["message"].as_str().unwrap_or_default();
        let of_agent: usize = message.split(' ').next().unwrap_or_default().parse()?;
        let left = world.service.list(&stage.kind.everywhere()).await?.len();
        ensure!(left == of_agent, "{left} are left: {message}");
        // Which of them go first decides about a few.
        ensure!(
            of_agent.abs_diff(held) <= LAMPS / 10,
            "{message} instead of {held}"
        );
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_switch_to_plan_stops_writes_and_a_switch_back_makes_them(world: &World) -> Result<()> {
    let mut stage = world.stage_with(&gadgets(&world.group), json!({})).await?;
    let kind = stage.kind.clone();
    stage.made("lamp", json!({"size": 1})).await;
    stage.made("gone", json!({"size": 1})).await;
    let schema = world.await_published(&stage.published).await;
    set(world, &stage.published, json!({"mode": "Plan"})).await?;
    let first = await_plan(world, &stage.published, &Value::Null).await;
    let time = first["status"]["plan"]["time"].clone();

    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&kind, "lamp", edit).await?;
    stage.team.delete(&kind, "gone").await?;
    stage.team.make(&kind, "new", json!({"size": 3})).await;
    let found = plan_of_another_agent(&mut stage, &time).await?;
    let total = &found["status"]["plan"]["total"];
    ensure!(
        total["made"] == 1 && total["changed"] == 1 && total["deleted"] == 1,
        "{found:#}"
    );
    ensure!(world.copy(&kind, stage.of("new")).await?.is_none());
    ensure!(stage.copy("lamp").await["spec"]["size"] == 1);
    stage.copy("gone").await;
    // What was published stays.
    ensure!(world.await_published(&stage.published).await == schema);

    set(world, &stage.published, json!({"mode": "Sync"})).await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    stage.copy("new").await;
    world.await_no_copy(&kind, stage.of("gone")).await;
    stage.team.await_gone(&kind, "gone").await;
    Ok(())
}
