//! The agent's page, `hawser top`, and what they and `hawser explain` know of objects that are out of sync.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{Port, SOON, eventually};

use super::process::page;
use super::world::World;

on_both_grounds!(the_page_tells_what_is_out_of_sync_and_why);

on_the_playground!(
    a_browser_shows_the_page,
    a_standby_has_a_page_too,
    an_address_that_is_taken_ends_the_agent_unless_it_is_the_default,
);

/// The JSON at a path of the page.
async fn read(world: &World, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&text(world, path).await?)?)
}

async fn text(world: &World, path: &str) -> Result<String> {
    let (status, answer) = page(&*world.page()?, path).await?;
    ensure!(status == 200, "{path}: {status}: {answer}");
    let (_, text) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok(text.to_owned())
}

/// Awaits an overview.
async fn until(world: &World, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(SOON, what, async || {
        let overview = read(world, "/overview.json").await?;
        ensure!(is_so(&overview), "{overview:#}");
        Ok(overview)
    })
    .await
}

async fn the_page_tells_what_is_out_of_sync_and_why(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({"mutation": {"spec": [{"cel": {"path": "spec.size", "expression": "int(value) + 1"}}]}}))
        .await?;
    stage.made("fine", json!({"size": 1})).await;
    stage
        .team
        .make(&stage.kind, "wrong", json!({"size": "x"}))
        .await;
    let is_refused = |overview: &Value| overview["reasons"][0]["code"] == "MutationFailed";
    let overview = until(world, "the refused object on the page", is_refused).await;
    ensure!(overview["name"] == world.agent && overview["role"] == "leading");
    let kind = &overview["kinds"][0];
    ensure!(
        kind["objects"] == 2 && kind["outOfSync"] == 1 && kind["kind"] == "Gadget",
        "{overview:#}"
    );
    ensure!(overview["tenants"][0]["outOfSync"] == 1, "{overview:#}");
    let wrong = &overview["reasons"][0]["objects"][0];
    ensure!(
        wrong["name"] == "wrong" && wrong["attempts"]["attempts"].as_u64() >= Some(1),
        "{overview:#}"
    );
    let carried = |minute: &Value| minute["spec"].as_u64().unwrap_or_default();
    let minutes = overview["recent"]["minutes"].as_array();
    let carried: u64 = minutes.into_iter().flatten().map(carried).sum();
    ensure!(carried >= 1, "{overview:#}");

    let shown = text(world, "/").await?;
    for part in ["MutationFailed", "default/wrong", "correct spec.mutation"] {
        ensure!(shown.contains(part), "{part} is not on the page: {shown}");
    }
    ensure!(
        text(world, "/reasons/MutationFailed")
            .await?
            .contains("default/wrong")
    );
    for nothing in ["/reasons/Nothing", "/objects/one", "/metrics"] {
        let (status, _) = page(&*world.page()?, nothing).await?;
        ensure!(status == 404, "{nothing}: {status}");
    }

    let place = format!("--page=127.0.0.1:{}", world.page()?.number());
    let (succeeds, stdout, stderr) = World::run_alone(&["top", "--once", &place]).await?;
    ensure!(succeeds, "{stderr}");
    ensure!(
        stdout.contains("out of sync 1") && stdout.contains("Gadget default/wrong"),
        "{stdout}"
    );
    let args = ["explain", "gadget", "wrong", &place];
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    ensure!(
        succeeds && stdout.contains("  attempts      "),
        "{stdout}{stderr}"
    );

    let counted =
        r#"hawser_out_of_sync_objects{kind="Gadget",class="refused",reason="MutationFailed"} 1"#;
    let metrics = world.metrics()?;
    eventually(SOON, "the metric of the refused object", async || {
        let (_, text) = page(&metrics, "/metrics").await?;
        ensure!(text.contains(counted), "{text}");
        Ok(())
    })
    .await;

    let better = json!({"spec": {"size": 5}});
    stage.team.patch(&stage.kind, "wrong", better).await?;
    let is_well = |overview: &Value| overview["reasons"] == json!([]);
    until(world, "a page without problems", is_well).await;
    stage.team.delete(&stage.kind, "wrong").await?;
    let is_gone = |overview: &Value| overview["kinds"][0]["objects"] == 1;
    until(world, "one object on the page", is_gone).await;
    eventually(SOON, "no metric of refused objects", async || {
        let (_, text) = page(&metrics, "/metrics").await?;
        ensure!(!text.contains("hawser_out_of_sync_objects{"), "{text}");
        Ok(())
    })
    .await;

    // Whoever asks somebody else is told.
    let nobody = Port::reserve()?;
    let nobody = format!("--page=127.0.0.1:{}", nobody.number());
    let (succeeds, _, stderr) = World::run_alone(&["top", "--once", &nobody]).await?;
    ensure!(!succeeds && stderr.contains("port-forward"), "{stderr}");
    let args = ["explain", "gadget", "fine", "--output=json", &nobody];
    let (succeeds, stdout, _) = world.command(&args).await?;
    // An object in sync has no attempts to ask for.
    let answer: Value = serde_json::from_str(&stdout)?;
    ensure!(succeeds && answer["pageProblem"].is_null(), "{answer:#}");
    Ok(())
}

async fn a_standby_has_a_page_too(world: &World) -> Result<()> {
    let _leader = world.start_agent_that_elects()?;
    let leads = |overview: &Value| overview["role"] == "leading";
    until(world, "a leader", leads).await;
    let _standby = world.start_agent_that_elects()?;
    let waits = |overview: &Value| overview["role"] == "standby";
    until(world, "a standby", waits).await;
    Ok(())
}

async fn an_address_that_is_taken_ends_the_agent_unless_it_is_the_default(
    world: &World,
) -> Result<()> {
    // Whoever else has it is as good.
    let _taken = TcpListener::bind("127.0.0.1:8090");
    let usual = world
        .launch()?
        .arg("--page-address=127.0.0.1:8090")
        .spawn()?;
    let (kind, team) = (world.gadgets().await?, world.team("team").await?);
    let published = world.publish(&kind, json!({})).await?;
    world.await_published(&published).await;
    world.await_marker(&kind, &team).await;
    ensure!(world.logged()?.contains("running without the page"));
    usual.kill().await?;

    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("--page-address={}", taken.local_addr()?);
    let ended = world.launch()?.arg(address).spawn()?.wait(SOON).await?;
    ensure!(!ended.success(), "{ended:?}");
    let said = world.logged()?;
    ensure!(said.contains("--page-address: cannot listen"), "{said}");
    Ok(())
}

/// The width and height of a screen, and the picture of the documentation.
const SCREENS: [(u32, u32, &str); 2] = [(1200, 1000, "page.png"), (400, 1000, "page-phone.png")];

/// Chromium without anything that would look for the network.
async fn chromium(args: &[&str]) -> Result<Vec<u8>> {
    let profile = tempfile::tempdir()?;
    let mut command = std::process::Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg("--hide-scrollbars");
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await?;
    let output = output.context("chromium does not start: install Debian's package chromium")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// The pictures in the documentation are made here, with `HAWSER_WRITE_GENERATED=1`.
async fn a_browser_shows_the_page(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({"mutation": {"spec": [{"cel": {"path": "spec.size", "expression": "int(value) + 1"}}]}}))
        .await?;
    for number in 0..12 {
        let spec = if number % 2 == 0 {
            json!({"size": 1})
        } else {
            json!({"size": "large"})
        };
        let name = format!("gadget-{number}");
        stage.team.make(&stage.kind, &name, spec).await;
    }
    let all_refused = |overview: &Value| overview["reasons"][0]["count"] == 6;
    until(world, "the refused objects on the page", all_refused).await;
    let url = format!("http://127.0.0.1:{}/", world.page()?.number());
    let document = String::from_utf8(chromium(&["--dump-dom", &url]).await?)?;
    for part in ["default/gadget-", "<svg", "1 more</a>"] {
        ensure!(
            document.contains(part),
            "{part} is not in the document: {document}"
        );
    }
    let pictures = tempfile::tempdir()?;
    for (width, height, name) in SCREENS {
        let file = pictures.path().join(name);
        let screenshot = format!("--screenshot={}", file.display());
        let size = format!("--window-size={width},{height}");
        chromium(&[&screenshot, &size, &url]).await?;
        let picture = std::fs::read(&file)?;
        // The header of a PNG has its size.
        let number = |at: usize| {
            let bytes = picture.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        ensure!(
            (number(16), number(20)) == (Some(width), Some(height)),
            "{name}"
        );
        if std::env::var_os("HAWSER_WRITE_GENERATED").is_some() {
            let docs = testbed::binaries::repository().join("docs");
            std::fs::copy(&file, docs.join(name))?;
        }
    }
    Ok(())
}
