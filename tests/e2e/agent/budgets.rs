//! What each thing that happens costs in requests, counted by the playground on both sides.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use futures::stream;
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher};
use serde_json::json;
use testbed::eventually;
use tokio::time::Instant;

use super::SOON;
use super::plane::Kind;
use super::stage::Stage;
use super::world::{Counted as _, World, shown};

on_the_playground!(
    a_new_object_costs_three_requests,
    a_changed_spec_costs_two,
    a_changed_status_costs_one,
    an_object_in_step_costs_none,
    a_deleted_object_costs_three,
    deletions_of_a_moment_share_one_look_at_the_bindings,
    a_restart_with_a_thousand_objects_in_step_lists_and_watches_only,
    a_new_resource_costs_a_handful,
    a_hundred_resources_cost_a_handful_each,
);

const OBJECTS: usize = 8;

fn is_look_at_bindings(request: &LoggedRequest) -> bool {
    request.verb == "list" && request.resource == "apibindings" && request.cluster != "*"
}

impl Stage<'_> {
    /// What the agent asked for since a mark; not what comes on its own: events and watches.
    fn spent(&self, mark: u64) -> Vec<LoggedRequest> {
        let mut spent = self.world.agents_requests(mark);
        spent.retain(|request| request.resource != "events" && request.verb != "watch");
        // What deletions share is counted apart.
        spent.retain(|request| !is_look_at_bindings(request));
        spent
    }

    /// How often bindings were looked at before something was taken back.
    fn looks_at_bindings(&self, mark: u64) -> usize {
        let all = self.world.agents_requests(mark);
        all.iter()
            .filter(|request| is_look_at_bindings(request))
            .count()
    }

    /// Waits until as much is spent, and makes sure that it stays at that: a new object afterwards
    /// adds no more than its own three.
    pub(super) async fn costs(&self, mark: u64, wanted: usize) -> Result<()> {
        let what = format!("{wanted} requests are sent");
        let reaches = async |wanted: usize| {
            eventually(SOON, &what, async || {
                let spent = self.spent(mark).len();
                ensure!(spent >= wanted, "{spent} are");
                Ok(())
            })
            .await;
        };
        reaches(wanted).await;
        self.marker(&format!("marker-{mark}")).await;
        reaches(wanted + 3).await;
        let spent = self.spent(mark);
        let shown = || spent.iter().map(shown).collect::<Vec<_>>().join("\n");
        ensure!(
            spent.len() == wanted + 3,
            "{} instead of {wanted} + 3:\n{}",
            spent.len(),
            shown()
        );
        Ok(())
    }

    async fn some(&self) -> Result<()> {
        for number in 0..OBJECTS {
            self.made(&format!("lamp{number}"), json!({"size": 1}))
                .await;
        }
        // Conditions come two seconds after the last change, and are not what is counted.
        self.world.await_conditions(&self.published).await;
        self.marker("first-marker").await;
        Ok(())
    }

    async fn each(&self, what: impl AsyncFn(String) -> Result<()>) -> Result<()> {
        for number in 0..OBJECTS {
            what(format!("lamp{number}")).await?;
        }
        Ok(())
    }
}

async fn a_new_object_costs_three_requests(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("first").await;
    world.await_conditions(&stage.published).await;
    let mark = world.requests().mark();
    stage
        .each(async |name| {
            stage.made(&name, json!({"size": 1})).await;
            Ok(())
        })
        .await?;
    stage.costs(mark, 3 * OBJECTS).await
}

async fn a_changed_spec_costs_two(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.some().await?;
    let mark = world.requests().mark();
    stage
        .each(async |name| {
            stage
                .team
                .patch(&stage.kind, &name, json!({"spec": {"size": 2}}))
                .await?;
            stage.await_in_copy(&name, "/spec/size", json!(2)).await;
            Ok(())
        })
        .await?;
    stage.costs(mark, 2 * OBJECTS).await
}

async fn a_changed_status_costs_one(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.some().await?;
    let mark = world.requests().mark();
    stage
        .each(async |name| {
            let copy = stage.copy(&name).await;
            let status = format!("{}/status", stage.place(&copy));
            world
                .service
                .merge(&status, json!({"status": {"lit": true}}))
                .await?;
            stage
                .team
                .await_in(&stage.kind, &name, "/status/lit", json!(true))
                .await;
            Ok(())
        })
        .await?;
    stage.costs(mark, OBJECTS).await
}

async fn an_object_in_step_costs_none(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.some().await?;
    let mark = world.requests().mark();
    stage
        .each(async |name| {
            // Neither of these is anybody else's business.
            let own = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": name}}});
            stage.team.patch(&stage.kind, &name, own).await?;
            let copy = stage.copy(&name).await;
            stage.patch_copy(&copy, json!({"metadata": {"labels": {"ops": "x"}}, "spec": {"serial": "y"}})).await?;
            Ok(())
        })
        .await?;
    stage.costs(mark, 0).await
}

async fn a_deleted_object_costs_three(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.some().await?;
    let mark = world.requests().mark();
    stage
        .each(async |name| {
            stage.team.delete(&stage.kind, &name).await?;
            stage.team.await_gone(&stage.kind, &name).await;
            Ok(())
        })
        .await?;
    stage.costs(mark, 3 * OBJECTS).await?;
    let looks = stage.looks_at_bindings(mark);
    ensure!(looks <= OBJECTS, "{looks} looks at the bindings");
    Ok(())
}

async fn deletions_of_a_moment_share_one_look_at_the_bindings(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.some().await?;
    let slow = Matcher {
        verb: Some("list".to_owned()),
        resource: Some("apibindings".to_owned()),
        ..Matcher::default()
    };
    let slow = Fault::new(slow, Action::Latency(Duration::from_secs(1)));
    world.playground.faults().add(slow);
    let mark = world.requests().mark();
    let deleting = (0..OBJECTS).map(|number| format!("lamp{number}"));
    let deleting: Vec<String> = deleting.collect();
    let all = deleting
        .iter()
        .map(|name| stage.team.delete(&stage.kind, name));
    futures::future::try_join_all(all).await?;
    for name in &deleting {
        stage.team.await_gone(&stage.kind, name).await;
    }
    stage.costs(mark, 3 * OBJECTS).await?;
    let looks = stage.looks_at_bindings(mark);
    ensure!(looks < OBJECTS / 2, "{looks} looks at the bindings");
    Ok(())
}

async fn a_restart_with_a_thousand_objects_in_step_lists_and_watches_only(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let names: Vec<String> = (0..1000).map(|number| format!("lamp{number}")).collect();
    let making = names
        .iter()
        .map(|name| stage.team.make(&stage.kind, name, json!({"of": name})));
    let mut made = std::pin::pin!(stream::iter(making).buffer_unordered(20));
    while made.next().await.is_some() {}
    eventually(SOON * 2, "all have copies", async || {
        let copies = world.service.list(&stage.kind.everywhere()).await?.len();
        ensure!(copies == names.len(), "{copies} have");
        Ok(())
    })
    .await;
    stage.marker("first-marker").await;
    world.await_conditions(&stage.published).await;
    stage.agent.stop(SOON).await?;

    let mark = world.requests().mark();
    let _agent = world.start_agent()?;
    stage.marker("second-marker").await;
    let requests = world.agents_requests(mark);
    let objects = [stage.kind.plural.as_str(), "secrets", "namespaces"];
    let about_objects = requests
        .iter()
        .filter(|request| objects.contains(&request.resource.as_str()));
    let (reads, others): (Vec<_>, Vec<_>) =
        about_objects.partition(|request| ["list", "watch"].contains(&request.verb.as_str()));
    // The marker's own three are the rest, and the last of them may not be answered yet.
    let shown =
        |requests: &[&LoggedRequest]| requests.iter().map(|one| shown(one)).collect::<Vec<_>>();
    ensure!(others.len() <= 3, "{:#?}", shown(&others));
    ensure!(
        others.iter().all(|request| request.is_write()),
        "{:#?}",
        shown(&others)
    );
    ensure!(reads.len() <= 20, "{:#?}", shown(&reads));
    let bookkeeping: Vec<_> = requests
        .iter()
        .filter(|request| request.is_write() && !objects.contains(&request.resource.as_str()))
        .filter(|request| request.resource != "events")
        .collect();
    ensure!(bookkeeping.is_empty(), "{:#?}", shown(&bookkeeping));
    Ok(())
}

/// What one resource costs: what is asked about it, from its CRD to its status.
fn about_publication(requests: &[LoggedRequest]) -> Vec<&LoggedRequest> {
    let resources = [
        "customresourcedefinitions",
        "apiresourceschemas",
        "publishedresources",
        "apiexports",
    ];
    requests
        .iter()
        .filter(|request| resources.contains(&request.resource.as_str()))
        .filter(|request| !["list", "watch"].contains(&request.verb.as_str()))
        .collect()
}

/// How often a slow machine has the agent say in between how far it is: every second after the first three.
pub(super) fn waits(took: Duration) -> usize {
    let late = took.saturating_sub(Duration::from_secs(3));
    usize::try_from(late.as_secs()).unwrap_or(usize::MAX)
}

async fn a_new_resource_costs_a_handful(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    world.await_conditions(&stage.published).await;
    let widgets = super::definition(&world.group, "widgets", "Widget");
    let kind = world.install(&widgets).await?;
    let mark = world.requests().mark();
    let begin = Instant::now();
    let published = world.publish(&kind, json!({})).await?;
    world.await_published(&published).await;
    let waits = waits(begin.elapsed());
    world.await_conditions(&published).await;
    let requests = world.agents_requests(mark);
    let spent = about_publication(&requests);
    // CRD, schema looked for and made, status, conditions; the export read and written.
    let shown: Vec<_> = spent.iter().map(|one| shown(one)).collect();
    ensure!(spent.len() <= 7 + waits, "{shown:#?}");
    Ok(())
}

async fn a_hundred_resources_cost_a_handful_each(world: &World) -> Result<()> {
    const RESOURCES: usize = 100;
    let mut published = Vec::new();
    for number in 0..RESOURCES {
        let (plural, name) = (format!("ware{number}s"), format!("Ware{number}"));
        world
            .install(&super::definition(&world.group, &plural, &name))
            .await?;
        let kind = Kind::new(&world.group, "v1", &plural, &name);
        published.push(world.publish(&kind, json!({})).await?);
    }
    let mark = world.requests().mark();
    let begin = Instant::now();
    let _agent = world.start_agent()?;
    for name in &published {
        world.await_published(name).await;
    }
    let took = begin.elapsed();
    let waits = waits(took);
    for name in &published {
        world.await_conditions(name).await;
    }
    let requests = world.agents_requests(mark);
    let spent = about_publication(&requests).len();
    // Conditions that say how far it is are put off by two seconds each time.
    ensure!(
        spent <= (7 + waits / 2) * RESOURCES,
        "{spent} requests within {took:?}"
    );
    let writes = requests
        .iter()
        .filter(|request| request.resource == "apiexports" && request.is_write())
        .count();
    // Schemas that are not made within three seconds are waited for a second a write.
    ensure!(
        writes <= 3 + waits,
        "the export was written {writes} times within {took:?}"
    );
    // One list and one watch a kind and side, and what they are begun with.
    let all = requests
        .iter()
        .filter(|request| request.resource != "events")
        .count();
    ensure!(
        all <= (15 + waits / 2) * RESOURCES,
        "{all} requests in all within {took:?}"
    );
    Ok(())
}
