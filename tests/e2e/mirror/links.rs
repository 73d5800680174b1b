//! Links that break on either side, and clusters that are away for a while.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testbed::Component;
use testbed::entry::What;
use testbed::link::{Way, Weather};

use super::world::{MAPS, MISSIONS, Sides, World, writes};

/// Objects on both sides, each with a status.
async fn some(on: &Sides, names: &[&str]) -> Result<()> {
    for name in names {
        on.cloud.create(name, json!({})).await?;
    }
    for name in names {
        on.robot.has(name, "/spec/goal", json!("a")).await;
        on.robot.status(name, json!({"step": 0})).await?;
    }
    for name in names {
        on.cloud.has(name, "/status/step", json!(0)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_while_the_cloud_is_away_is_told_once_and_deletions_first() -> Result<()> {
    let types = [MISSIONS];
    let world = World::with(&types).await?;
    let on = world.objects(MISSIONS)?;

    // It begins without the cloud: nothing goes that nobody deleted.
    world.entry.link().away().await?;
    on.robot.create("orphan", json!({})).await?;
    on.cloud.create("early", json!({})).await?;
    let mirror = world.mirror(&[])?;
    mirror.says("cannot watch objects").await?;
    ensure!(on.robot.get("orphan").await?.is_some(), "nobody knows");
    world.entry.link().set(Weather::Clear).await?;
    on.robot.gone("orphan").await;
    on.robot.has("early", "/spec/goal", json!("a")).await;
    let names = ["a", "b", "c", "d"];
    some(&on, &names).await?;

    world.entry.link().away().await?;
    for step in 1..8 {
        for name in &names[..3] {
            on.robot.status(name, json!({"step": step})).await?;
        }
    }
    on.cloud.delete("d").await?;
    on.cloud.patch("c", json!({"spec": {"goal": "b"}})).await?;
    on.cloud.patch("c", json!({"spec": {"goal": "c"}})).await?;
    on.cloud.create("e", json!({})).await?;
    let mark = world.entry.mark();
    world.entry.link().set(Weather::Clear).await?;
    for name in &names[..3] {
        on.cloud.has(name, "/status/step", json!(7)).await;
    }
    on.robot.gone("d").await;
    on.robot.has("c", "/spec/goal", json!("c")).await;
    on.robot.has("e", "/spec/goal", json!("a")).await;
    // Something that happens now shows that everything before has been told.
    on.robot.status("e", json!({"step": 1})).await?;
    on.cloud.has("e", "/status/step", json!(1)).await;
    let mut written = writes(&world.entry.since(mark));
    written.retain(|line| line.ends_with("200"));
    written.sort();
    let each = ["a", "b", "c", "e"].map(|name| format!("PUT missions/{name}/status 200"));
    ensure!(written == each, "{written:?}");
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_are_deaf_slow_or_cut_on_either_side_delay_and_lose_nothing() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let (missions, maps) = (world.objects(MISSIONS)?, world.objects(MAPS)?);
    some(&missions, &["a", "b"]).await?;
    some(&maps, &["a", "b"]).await?;
    let weathers = [
        Weather::Deaf(Way::Back),
        Weather::Deaf(Way::There),
        Weather::Slow(Duration::from_millis(300)),
        Weather::Refusing,
    ];
    let mut step = 0;
    for (of_cloud, of_robot) in [(true, false), (false, true), (true, true)] {
        for weather in weathers {
            step += 1;
            let links = [(world.entry.link(), of_cloud), (&world.near, of_robot)];
            let links: Vec<_> = links.iter().filter(|(_, bad)| *bad).collect();
            for (link, _) in &links {
                link.set(weather).await?;
                if weather == Weather::Refusing {
                    link.cut();
                }
            }
            for on in [&missions, &maps] {
                on.cloud.patch("a", json!({"spec": {"goal": step}})).await?;
                on.robot.status("b", json!({"step": step})).await?;
                if step % 4 == 1 {
                    on.robot.delete("a").await?;
                }
            }
            for (link, _) in &links {
                link.set(Weather::Clear).await?;
            }
            for on in [&missions, &maps] {
                on.robot.has("a", "/spec/goal", json!(step)).await;
                on.cloud.has("b", "/status/step", json!(step)).await;
            }
        }
    }
    mirror.lives()?;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_servers_may_restart_and_lose_what_they_had_in_mind() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let mut world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let (missions, maps) = (world.objects(MISSIONS)?, world.objects(MAPS)?);
    some(&missions, &["a", "b", "c"]).await?;
    some(&maps, &["a", "b", "c"]).await?;

    // The cloud's: what the robot does meanwhile is told afterwards.
    world.cloud.kill(Component::ApiServer).await?;
    for on in [&missions, &maps] {
        on.robot.status("a", json!({"step": 1})).await?;
        on.robot.delete("b").await?;
    }
    world.cloud.restart(Component::ApiServer).await?;
    for on in [&missions, &maps] {
        on.cloud.has("a", "/status/step", json!(1)).await;
        on.robot.has("b", "/spec/goal", json!("a")).await;
        on.cloud.delete("c").await?;
        on.robot.gone("c").await;
    }

    // The robot's.
    world.robot.kill(Component::ApiServer).await?;
    for on in [&missions, &maps] {
        on.cloud.patch("a", json!({"spec": {"goal": "b"}})).await?;
        on.cloud.delete("b").await?;
    }
    world.robot.restart(Component::ApiServer).await?;
    for on in [&missions, &maps] {
        on.robot.has("a", "/spec/goal", json!("b")).await;
        on.robot.gone("b").await;
        on.robot.status("a", json!({"step": 2})).await?;
        on.cloud.has("a", "/status/step", json!(2)).await;
    }
    mirror.lives()?;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_is_set_back_to_a_backup_is_followed_without_a_restart() -> Result<()> {
    let types = [MISSIONS];
    let mut world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    some(&on, &["kept", "deleted"]).await?;
    let backup = world.cloud.back_up().await?;
    // What the cloud does not know afterwards.
    on.cloud
        .patch("kept", json!({"spec": {"goal": "b"}}))
        .await?;
    on.robot.has("kept", "/spec/goal", json!("b")).await;
    on.cloud.create("new", json!({})).await?;
    on.robot.has("new", "/spec/goal", json!("a")).await;
    on.cloud.delete("deleted").await?;
    on.robot.gone("deleted").await;

    world.cloud.restore(&backup).await?;
    on.robot.has("kept", "/spec/goal", json!("a")).await;
    on.robot.has("deleted", "/spec/goal", json!("a")).await;
    on.robot.gone("new").await;
    // Its versions are lower than those of before for a long time.
    on.cloud
        .patch("kept", json!({"spec": {"goal": "c"}}))
        .await?;
    on.robot.has("kept", "/spec/goal", json!("c")).await;
    on.robot.status("kept", json!({"step": 1})).await?;
    on.cloud.has("kept", "/status/step", json!(1)).await;
    mirror.lives()?;
    world.check(&types)?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_answers_anything_is_asked_again_and_deletes_nothing_by_it() -> Result<()> {
    let types = [MISSIONS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    let names = ["a", "b", "c", "d", "e", "f"];
    some(&on, &names).await?;
    // Lists and watches, apart from questions for the version.
    let watches = |r: &testbed::entry::Recorded| r.method == "GET" && !r.query.ends_with("limit=1");
    let put = |r: &testbed::entry::Recorded| r.method == "PUT";
    let status =
        |code: u16| format!(r#"{{"kind": "Status", "code": {code}, "status": "Failure"}}"#);

    // To writes: pauses, errors, a lost answer, nonsense.
    let mut step = 0;
    let lost = What::Lost(504);
    for what in [429, 500, 502, 503, 401, 403, 404, 409, 422]
        .map(|code| What::Answer(code, status(code)))
        .into_iter()
        .chain([lost, What::Answer(200, "<html>welcome</html>".into())])
    {
        step += 1;
        world.entry.fault(what, Some(1), put);
        on.robot.status("a", json!({"step": step})).await?;
        on.cloud.has("a", "/status/step", json!(step)).await;
        world.entry.clear_faults();
    }
    // To watches: the same, and lies.
    let empty = r#"{"kind": "MissionList", "apiVersion": "fleet.example.com/v1", "metadata": {"resourceVersion": "999999999"}, "items": []}"#;
    let ends = |version: &str| {
        let bookmark = json!({"type": "BOOKMARK", "object": {
            "kind": "Mission", "apiVersion": "fleet.example.com/v1",
            "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}},
        }});
        What::Lines(vec![bookmark.to_string()])
    };
    let lies = [
        What::Answer(404, status(404)),
        What::Answer(200, empty.into()),
        What::Answer(200, String::new()),
        What::Answer(410, status(410)),
        What::Answer(503, status(503)),
        What::Answer(200, "{".into()),
        What::Lines(vec![r#"{"type": "ERROR", "object": {"code": 410}}"#.into()]),
        ends("1"),
    ];
    for lie in lies {
        step += 1;
        world.entry.fault(lie.clone(), Some(2), watches);
        let mark = world.entry.mark();
        world.entry.link().cut();
        testbed::eventually(testbed::SOON, &format!("{lie:?} is told"), async || {
            let told = world
                .entry
                .since(mark)
                .iter()
                .filter(|r| r.method == "GET")
                .count();
            ensure!(told > 0, "not yet");
            anyhow::Ok(())
        })
        .await;
        on.robot.status("b", json!({"step": step})).await?;
        on.cloud.has("b", "/status/step", json!(step)).await;
        world.entry.clear_faults();
        world.entry.link().cut();
        on.cloud.patch("c", json!({"spec": {"goal": step}})).await?;
        on.robot.has("c", "/spec/goal", json!(step)).await;
        let left = on.robot.all().await?.len();
        ensure!(left == names.len(), "{left} are left after {lie:?}");
    }
    // A list that is empty, and looks well: nothing goes by it until somebody says so.
    let version =
        on.cloud.get("c").await?.context("it is there")?["metadata"]["resourceVersion"].clone();
    world
        .entry
        .fault(What::Answer(410, status(410)), Some(1), watches);
    world.entry.fault(
        ends(version.as_str().context("a version")?),
        Some(1),
        watches,
    );
    world.entry.link().cut();
    mirror.says("holding deletions on the robot").await?;
    ensure!(on.robot.all().await?.len() == names.len(), "they stay");
    world.entry.link().cut();
    for name in names {
        on.cloud
            .patch(name, json!({"spec": {"goal": "back"}}))
            .await?;
        on.robot.has(name, "/spec/goal", json!("back")).await;
    }
    mirror.lives()?;
    world.check(&types)?;
    let log = mirror.log();
    mirror.stop().await.with_context(|| log)
}
