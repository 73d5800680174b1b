//! What the process tells: by its exit, in its log, on its pages.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::SOON;
use testbed::entry::What;

use super::world::{LABEL, MAPS, MISSIONS, Type, VERSION, World};
use crate::docs::check_metrics;

/// Ends by itself with this code, and says this.
#[track_caller]
fn check(args: &[&str], code: i32, said: &str) {
    let home = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("mirror")
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(text.contains(said), "{args:?}: {text}");
}

#[test]
fn what_cannot_be_begun_ends_with_a_code_and_a_reason() {
    check(&["-help"], 0, "-robot-name");
    check(&["-h"], 0, "-robot-name");
    check(&[], 1, "--remote-server or --remote-kubeconfig");
    check(&["-no-such-flag"], 2, "--no-such-flag");
    check(&["-timeout=soon"], 2, "--timeout");
    check(&["-use-robot-jwt=perhaps"], 2, "neither true nor false");
    check(&["-remote-server=a/b"], 1, "not a host");
    let server = "-remote-server=cloud.example.com";
    check(&[server, "-unclear-filter=maybe"], 1, "refuse, ignore");
    check(&[server, "-deletion-brake=2"], 1, "50%");
    // Neither a kubeconfig nor a Pod.
    check(&[server], 1, "set --kubeconfig");
    check(&[server, "-kubeconfig=/none"], 1, "/none");
    let authority = ["-remote-ca-file=/none", "-kubeconfig=/none"];
    check(&[&[server][..], &authority].concat(), 1, "/none");
}

/// Of nobody: how it is to be kept in step is not said well.
fn unclear(plural: &'static str, kind: &'static str, owner: &'static str, filtered: bool) -> Type {
    Type {
        plural,
        kind,
        filtered,
        owner,
        ..MISSIONS
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_followed_is_told_once_with_its_reason_and_nothing_happens_to_it() -> Result<()>
{
    let nobodys = unclear("reports", "Report", "nobody", true);
    let robots = unclear("notes", "Note", "robot", false);
    let types = [MISSIONS, MAPS, nobodys, robots];
    let world = World::with(&types).await?;
    let filter = "cr-syncer.cloudrobotics.com/filter-by-robot-name=yes";
    world.annotate(&MAPS, filter).await?;
    let kept = [MAPS, nobodys, robots];
    for one in kept {
        world.objects(one)?.robot.create("own", json!({})).await?;
        world.objects(one)?.cloud.create("a", json!({})).await?;
    }
    let mirror = world.mirror(&["-enable-robot-spec-source"])?;
    let on = world.objects(MISSIONS)?;
    on.cloud.create("a", json!({})).await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    let message = "skipping custom resource";
    testbed::eventually(SOON, "all of them are told", async || {
        ensure!(
            mirror.lines(message).len() == 3,
            "{:?}",
            mirror.lines(message)
        );
        anyhow::Ok(())
    })
    .await;
    for (one, why) in kept.iter().zip([
        "neither true nor false",
        "unknown spec source \"nobody\"",
        "by robot name",
    ]) {
        let lines = mirror.lines(message);
        let line = lines.iter().find(|line| line["Resource"] == one.name());
        let line = line.with_context(|| format!("{lines:?}"))?;
        ensure!(line["severity"] == "ERROR", "{line}");
        let said = line["Error"].as_str().context("an error")?;
        ensure!(said.contains(why), "{line}");
        let on = world.objects(*one)?;
        ensure!(on.robot.get("own").await?.is_some() && on.robot.get("a").await?.is_none());
        ensure!(on.cloud.get("own").await?.is_none() && on.cloud.get("a").await?.is_some());
    }
    world.check(&[MISSIONS])?;

    // Every line is one document of the same form.
    for line in mirror.log().lines() {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        for key in ["timestamp", "severity", "message"] {
            ensure!(line[key].is_string(), "{key} of {line}");
        }
        let source = &line["source"];
        ensure!(
            source["function"].is_string() && source["file"].is_string() && source["line"].is_u64(),
            "{line}"
        );
    }
    let of = |name: &str| -> Vec<_> {
        let lines = mirror.lines(name).into_iter();
        lines.map(|line| line["CRD"].clone()).collect()
    };
    ensure!(of("Starting syncer") == [json!(MISSIONS.name())]);
    mirror.stop().await?;

    // The old way takes an unclear filter for none, and says that.
    let mirror = world.mirror(&["-unclear-filter=ignore"])?;
    let maps = world.objects(MAPS)?;
    maps.robot.has("a", "/spec/goal", json!("a")).await;
    maps.robot.gone("own").await;
    mirror.says("ignoring the filter").await?;
    mirror.stop().await
}

/// The value of a sample whose line has all of these.
fn sample(page: &str, parts: &[&str]) -> Result<f64> {
    let line = page
        .lines()
        .find(|line| !line.starts_with('#') && parts.iter().all(|part| line.contains(part)));
    let line = line.with_context(|| format!("no {parts:?} in {page}"))?;
    let (_, value) = line.rsplit_once(' ').context("a value")?;
    Ok(value.parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_log_tell_what_the_original_told() -> Result<()> {
    let types = [MISSIONS];
    let world = World::with(&types).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    on.cloud.create("a", json!({})).await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    on.robot.status("a", json!({"phase": "done"})).await?;
    on.cloud.has("a", "/status/phase", json!("done")).await;
    for (path, code) in [
        ("/health", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/debug", 200),
        ("/", 404),
        ("/else", 404),
    ] {
        let (found, text) = mirror.page(path).await?;
        ensure!(found == code, "{path} is {found}: {text}");
    }
    let (_, page) = mirror.page("/metrics").await?;
    let rare = [
        "cr_syncer_cloudrobotics_com_sync_errors_total",
        "hawser_mirror_contested_writes_total",
        "hawser_out_of_sync_objects",
    ];
    check_metrics(&page, "mirror.md", &rare)?;
    let resource = format!("resource=\"{}\"", MISSIONS.name());
    for source in ["event_source=\"upstream\"", "event_source=\"downstream\""] {
        let parts = [
            "cr_syncer_cloudrobotics_com_syncs_total{",
            source,
            &resource,
        ];
        ensure!(sample(&page, &parts)? >= 1.0);
    }
    for histogram in [
        "http_client_request_duration_seconds_count{",
        "http_client_request_body_size_bytes_count{",
    ] {
        for (location, method, code) in [("remote", "PUT", "200"), ("local", "POST", "201")] {
            let labels = [
                ("location", location),
                ("error_type", ""),
                ("http_request_method", method),
                ("http_response_status_code", code),
                ("network_protocol_name", "http"),
                ("network_protocol_version", "1.1"),
                ("server_address", "127.0.0.1"),
                ("url_scheme", "https"),
            ];
            let labels = labels.map(|(name, value)| format!("{name}=\"{value}\""));
            let mut parts = vec![
                histogram,
                "server_port=\"",
                "otel_scope_name=\"",
                "otel_scope_version=\"",
            ];
            parts.extend(labels.iter().map(String::as_str));
            ensure!(sample(&page, &parts)? >= 1.0);
        }
    }
    ensure!((sample(&page, &["target_info{", "service_name=\"cr-syncer\""])? - 1.0).abs() < 0.1);
    ensure!(
        sample(
            &page,
            &["hawser_mirror_objects{", "side=\"robot\"", &resource]
        )? >= 1.0
    );
    ensure!(sample(&page, &["process_start_time_seconds"])? > 1e9);

    // What cannot be written is counted, and told with what it is about.
    let refused = r#"{"kind": "Status", "code": 422, "status": "Failure", "reason": "Invalid", "message": "no"}"#;
    world
        .entry
        .fault(What::Answer(422, refused.into()), Some(1), |r| {
            r.method == "PUT"
        });
    on.robot.status("a", json!({"phase": "again"})).await?;
    on.cloud.has("a", "/status/phase", json!("again")).await;
    let lines = mirror.lines("Syncing key from queue failed");
    let line = lines.first().context("it is told")?;
    ensure!(
        line["severity"] == "WARN" && line["Key"] == "default/a" && line["Queue"] == "downstream",
        "{line}"
    );
    let said = line["Error"].as_str().context("an error")?;
    ensure!(said.starts_with("Mission default/a @ "), "{said}");
    let (_, page) = mirror.page("/metrics").await?;
    let parts = [
        "cr_syncer_cloudrobotics_com_sync_errors_total{",
        "event_source=\"downstream\"",
        &resource,
    ];
    ensure!(sample(&page, &parts)? >= 1.0);

    // Credentials that are not taken.
    let unknown = r#"{"kind": "Status", "code": 401, "status": "Failure"}"#;
    world
        .entry
        .fault(What::Answer(401, unknown.into()), None, |r| {
            r.path.ends_with("/robottypes")
        });
    ensure!(mirror.page("/health").await? == (500, "unhealthy".to_owned()));
    world.entry.clear_faults();
    ensure!(mirror.page("/health").await? == (200, String::new()));
    for request in world.entry.record() {
        ensure!(request.headers.contains_key("authorization"), "{request:?}");
    }
    world.check(&types)?;
    let log = mirror.log();
    ensure!(log.contains("Copied status to upstream") && log.contains("Syncing cache for CRDs"));
    for event in mirror.lines("Got Event") {
        for key in ["Event", "Direction", "Kind", "Name", "Version"] {
            ensure!(event[key].is_string(), "{key} of {event}");
        }
    }
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizers_of_old_versions_hold_nothing_up_though_the_cloud_does_not_let_them_go()
-> Result<()> {
    let world = World::with(&[MISSIONS]).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    let old = json!({"metadata": {"finalizers": ["robot-r1.synced.cr-syncer.cloudrobotics.com"]}});
    on.cloud.create("a", old.clone()).await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    on.robot.status("a", json!({"phase": "done"})).await?;
    on.cloud.has("a", "/status/phase", json!("done")).await;
    // On the robot it goes.
    on.robot.patch("a", old).await?;
    on.robot.has("a", "/metadata/finalizers", Value::Null).await;
    let held = on.cloud.get("a").await?.context("it is there")?;
    ensure!(held["metadata"]["finalizers"].is_array(), "{held}");
    mirror.says("cannot remove the finalizer").await?;
    on.cloud.delete("a").await?;
    on.robot.gone("a").await;
    on.cloud
        .patch("a", json!({"metadata": {"finalizers": null}}))
        .await?;
    on.cloud.gone("a").await;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_robot_by_another_name_leaves_the_copies_of_the_old_one_alone() -> Result<()> {
    let world = World::with(&[MISSIONS]).await?;
    let mirror = world.mirror(&[])?;
    let on = world.objects(MISSIONS)?;
    on.cloud.create("a", json!({})).await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    mirror.stop().await?;
    let mirror = world.mirror(&["-robot-name=r2"])?;
    let other = json!({"metadata": {"labels": {LABEL: "r2"}}});
    on.cloud.create("b", other).await?;
    on.robot.has("b", "/spec/goal", json!("a")).await;
    // Nothing in the cloud waits for the robot that is no more.
    on.cloud.delete("a").await?;
    on.cloud.gone("a").await;
    on.robot.status("b", json!({"phase": "done"})).await?;
    let owner = on.cloud.has("b", "/status/phase", json!("done")).await;
    ensure!(
        owner["metadata"]["annotations"].get(VERSION).is_none(),
        "{owner}"
    );
    ensure!(on.robot.get("a").await?.is_some(), "it is nobody's");
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_goes_on_in_the_requests_about_its_object() -> Result<()> {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::with(&[MISSIONS]).await?;
    let mirror = world.mirror(&["-trace-context"])?;
    let on = world.objects(MISSIONS)?;
    let traced = json!({"metadata": {"annotations": {"traceparent": TRACE}}});
    on.cloud.create("traced", traced).await?;
    on.cloud.create("other", json!({})).await?;
    on.robot
        .has("traced", "/metadata/annotations/traceparent", json!(TRACE))
        .await;
    for name in ["traced", "other"] {
        on.robot.has(name, "/spec/goal", json!("a")).await;
        on.robot.status(name, json!({"phase": "done"})).await?;
        on.cloud.has(name, "/status/phase", json!("done")).await;
    }
    for request in world.entry.record() {
        let is_about = request.path.contains("/traced");
        let found = request.headers.get("traceparent").map(String::as_str);
        ensure!(found == is_about.then_some(TRACE), "{request:?}");
    }
    mirror.stop().await
}
