//! The agent as a process: flags, exit codes, probes, metrics, leases, the end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::PlaygroundOptions;
use kcp_playground::server::{Action, Fault, Matcher};
use serde_json::json;
use testbed::process::Reason;
use testbed::{Launch, Port, Process, eventually, unique};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::SOON;
use super::fairness::by_another_user;
use super::plane::Kind;
use super::world::{Counted as _, EXPORT, PUBLISHED, World, has};
use crate::docs::check_metrics;

on_both_grounds!(
    a_standby_takes_over_when_the_leader_is_told_to_end,
    rights_that_the_contract_does_not_give_are_not_asked_for,
);

on_the_playground!(
    a_standby_has_listed_everything_before_it_takes_over,
    an_agent_is_not_ready_before_it_has_listed_everything,
    metrics_and_probes_say_how_it_stands,
    it_ends_in_time_in_the_middle_of_its_work,
    it_ends_in_time_also_while_kcp_does_not_answer,
    disabled_controllers_do_nothing,
    credentials_are_read_again_when_their_file_changes,
    the_slice_may_live_in_another_workspace,
    a_slice_that_is_not_there_yet_is_waited_for,
    the_host_of_the_service_cluster_can_be_overridden,
    the_export_of_the_slice_may_be_named_the_obsolete_way,
);

/// It takes five seconds at most; a machine that is slow and busy adds to that. Requests that are under
/// way would take half a minute longer.
const ENDED: Duration = Duration::from_secs(20);

const FLAGS: [&str; 15] = [
    "--kubeconfig",
    "--kcp-kubeconfig",
    "--namespace",
    "--apiexportendpointslice-ref",
    "--agent-name",
    "--published-resource-selector",
    "--enable-leader-election",
    "--kubeconfig-host-override",
    "--kubeconfig-ca-file-override",
    "--metrics-address",
    "--health-address",
    "--disabled-controllers",
    "--log-debug",
    "--log-format",
    "--help",
];

/// Runs a program to its end; its exit code, and all that it said.
async fn said(program: &Path, args: &[&str]) -> Result<(Reason, String)> {
    let scratch = tempfile::tempdir()?;
    let output = Launch::new("hawser", program)
        .args(args)
        .without_env("KUBECONFIG")
        .env("HOME", scratch.path())
        .run(scratch.path(), SOON)
        .await?;
    Ok((
        output.exit.reason,
        format!("{}{}", output.stdout, output.stderr),
    ))
}

fn hawser() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hawser"))
}

#[tokio::test]
async fn help_names_every_flag_and_is_no_failure() -> Result<()> {
    let (reason, text) = said(hawser(), &["agent", "--help"]).await?;
    ensure!(reason == Reason::Code(0), "{reason:?}: {text}");
    for flag in FLAGS {
        ensure!(text.contains(flag), "{flag} is missing in {text}");
    }
    Ok(())
}

#[tokio::test]
async fn flags_that_cannot_be_parsed_end_it_with_two() -> Result<()> {
    for args in [
        &["agent", "--nonsense"][..],
        &["agent", "--log-format=xml"],
        &["agent", "--enable-leader-election=maybe"],
        &["agent", "--namespace"],
    ] {
        let (reason, text) = said(hawser(), args).await?;
        ensure!(reason == Reason::Code(2), "{args:?}: {reason:?}: {text}");
        ensure!(!text.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn all_that_is_wrong_with_the_flags_is_said_at_once() -> Result<()> {
    let args = [
        "agent",
        "--agent-name=9.lives",
        "--published-resource-selector=a in (",
        "--disabled-controllers=sync,nonsense",
        "--log-format",
        "console",
    ];
    let (reason, text) = said(hawser(), &args).await?;
    ensure!(reason == Reason::Code(1), "{reason:?}: {text}");
    for part in [
        "namespace",
        "9.lives",
        "apiexportendpointslice-ref",
        "kcp-kubeconfig",
        "published-resource-selector",
        "nonsense",
    ] {
        ensure!(text.contains(part), "{part} is missing in {text}");
    }
    Ok(())
}

#[tokio::test]
async fn by_the_originals_name_or_with_a_flag_first_it_is_the_agent() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let link = directory.path().join("api-syncagent");
    std::os::unix::fs::symlink(hawser(), &link)?;
    for (program, args) in [(link.as_path(), &[][..]), (hawser(), &["--namespace=x"])] {
        let (reason, text) = said(program, args).await?;
        ensure!(reason == Reason::Code(1), "{reason:?}: {text}");
        ensure!(text.contains("kcp-kubeconfig"), "{text}");
    }
    let (reason, text) = said(&link, &["--help"]).await?;
    ensure!(reason == Reason::Code(0), "{reason:?}: {text}");
    ensure!(text.contains("--apiexportendpointslice-ref"), "{text}");
    Ok(())
}

#[tokio::test]
async fn kubeconfigs_that_are_no_good_end_it_with_one() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    fs::write(&file, kubeconfig.to_string())?;
    let good = file.display().to_string();
    for (kcp, service, wanted) in [
        (good.as_str(), good.as_str(), "/clusters/"),
        ("/nowhere/kcp", good.as_str(), "/nowhere/kcp"),
        (good.as_str(), "/nowhere/service", "/nowhere/service"),
    ] {
        let args = [
            "agent",
            "--namespace=x",
            "--apiexportendpointslice-ref=x",
            "--metrics-address=0",
            &format!("--kcp-kubeconfig={kcp}"),
            &format!("--kubeconfig={service}"),
        ];
        let (reason, text) = said(hawser(), &args).await?;
        ensure!(reason == Reason::Code(1), "{reason:?}: {text}");
        ensure!(text.contains(wanted), "{wanted} is missing in {text}");
    }
    Ok(())
}

/// Asks for a page; its status and its text.
pub(super) async fn page(port: &Port, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port.number())).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split_whitespace().nth(1).context("no answer")?;
    Ok((code.parse()?, answer))
}

async fn await_ready(port: &Port) {
    eventually(SOON, "it is ready", async || {
        let (code, text) = page(port, "/readyz").await?;
        ensure!(code == 200, "{text}");
        Ok(())
    })
    .await;
}

async fn metrics_and_probes_say_how_it_stands(world: &World) -> Result<()> {
    let (metrics, health) = (Port::reserve()?, Port::reserve()?);
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let missing = Kind::new(&world.group, "v1", "widgets", "Widget");
    let broken = world.publish(&missing, json!({})).await?;
    let _agent = world
        .launch()?
        .arg(format!("--metrics-address=127.0.0.1:{}", metrics.number()))
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    await_ready(&health).await;
    ensure!(page(&health, "/healthz").await?.0 == 200);
    world.await_published(&published).await;
    let number = async |wanted: u32| {
        let line = format!("sync_agent_published_resource {wanted}");
        eventually(SOON, &line, async || {
            let (_, text) = page(&metrics, "/metrics").await?;
            let found = text
                .lines()
                .find(|found| found.starts_with("sync_agent_published_resource "));
            ensure!(found == Some(line.as_str()), "{found:?}");
            Ok(())
        })
        .await;
    };
    // The one without a schema counts as well.
    number(2).await;
    world
        .service
        .delete(&format!("{PUBLISHED}/{broken}"))
        .await?;
    number(1).await;
    let team = world.team("team").await?;
    world.await_marker(&kind, &team).await;
    // The marker may come with a first list, which has no latency.
    team.make(&kind, "lamp", json!({})).await;
    world.await_copy(&kind, team.of("lamp")).await;
    eventually(SOON, "every metric is there", async || {
        let (_, text) = page(&metrics, "/metrics").await?;
        check_metrics(
            &text,
            "agent.md",
            // Without problems, copies that are held or left, leader election and shards, these have no series.
            &[
                "hawser_held_deletions",
                "hawser_out_of_sync_objects",
                "hawser_orphaned_copies",
                "hawser_drifted_fields_total",
                "leader_election_master_status",
                "hawser_shards_held",
            ],
        )
    })
    .await;
    let (_, text) = page(&metrics, "/metrics").await?;
    ensure!(text.contains("process_resident_memory_bytes"), "{text}");
    // No consumer's name is in any label.
    ensure!(!text.contains(&team.cluster), "{text}");
    ensure!(!text.contains("marker"), "{text}");
    Ok(())
}

/// How long a process takes to end, once told; and how it ends.
async fn ending(agent: &Process) -> Result<(Duration, Reason)> {
    let begin = Instant::now();
    let exit = agent.stop(SOON).await?;
    Ok((begin.elapsed(), exit.reason))
}

async fn it_ends_in_time_in_the_middle_of_its_work(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    for number in 0..50 {
        stage
            .team
            .make(&stage.kind, &format!("lamp{number}"), json!({}))
            .await;
    }
    let (took, reason) = ending(&stage.agent).await?;
    ensure!(reason == Reason::Code(0), "{reason:?}");
    ensure!(took < ENDED, "{took:?}");
    Ok(())
}

async fn it_ends_in_time_also_while_kcp_does_not_answer(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let hangs = Matcher {
        resource: Some(stage.kind.plural.clone()),
        verb: Some("patch".to_owned()),
        cluster: Some(stage.team.cluster.clone()),
        ..Matcher::default()
    };
    let fault = Fault::new(hangs, Action::Latency(Duration::from_mins(5)));
    world.playground.faults().add(fault);
    let mark = world.requests().mark();
    stage.team.make(&stage.kind, "lamp", json!({})).await;
    eventually(SOON, "a request of the agent hangs", async || {
        let struck = world.playground.faults().struck();
        ensure!(struck[0] > 0, "none since {mark}");
        Ok(())
    })
    .await;
    let (took, reason) = ending(&stage.agent).await?;
    ensure!(reason == Reason::Code(0), "{reason:?}");
    ensure!(took < ENDED, "{took:?}");
    Ok(())
}

async fn a_standby_takes_over_when_the_leader_is_told_to_end(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let elected = || {
        world
            .launch()
            .map(|launch| launch.arg("--enable-leader-election"))
    };
    let first = elected()?.spawn()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    world.await_marker(&kind, &team).await;
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/syncagent.{}",
        world.namespace, world.agent
    );
    let before = world.service.get(&lease).await?["spec"]["holderIdentity"].clone();
    ensure!(
        before.as_str().is_some_and(|holder| holder.contains('_')),
        "{before}"
    );

    let health = Port::reserve()?;
    let second = elected()?
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    // It is warm once it is ready, and waits.
    await_ready(&health).await;
    world.await_marker(&kind, &team).await;
    let holder = world.service.get(&lease).await?["spec"]["holderIdentity"].clone();
    ensure!(holder == before, "{holder} leads instead of {before}");

    let begin = Instant::now();
    let stopping = first.stop(SOON);
    let taking_over = async {
        eventually(SOON, "the other one leads", async || {
            let lease = world.service.get(&lease).await?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            ensure!(!holder.is_empty() && before != holder, "{holder:?} leads");
            Ok(())
        })
        .await;
        begin.elapsed()
    };
    let (exit, took) = tokio::join!(stopping, taking_over);
    ensure!(exit?.reason == Reason::Code(0));
    // Long before the Lease would have run out.
    ensure!(took < Duration::from_secs(12), "{took:?}");
    world.await_marker(&kind, &team).await;
    second.kill().await?;
    Ok(())
}

async fn a_standby_has_listed_everything_before_it_takes_over(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let elected = || {
        world
            .launch()
            .map(|launch| launch.arg("--enable-leader-election"))
    };
    // Requests of the standby are told by its user.
    let first = by_another_user(world)?
        .arg("--enable-leader-election")
        .spawn()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    world.await_marker(&kind, &team).await;
    let health = Port::reserve()?;
    let _second = elected()?
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    let before = world.requests().mark();
    await_ready(&health).await;
    let lists = |mark| {
        let mut all = world.agents_requests(mark);
        all.retain(|one| {
            one.verb == "list" || one.verb == "watch" && one.query.contains("sendInitialEvents")
        });
        all
    };
    let listed: Vec<_> = lists(before).into_iter().map(|one| one.resource).collect();
    for resource in [&*kind.plural, "apibindings", "namespaces", "secrets"] {
        ensure!(listed.iter().any(|one| one == resource), "{listed:?}");
    }
    world.await_marker(&kind, &team).await;
    let mut written = world.agents_requests(before);
    written.retain(super::world::Counted::is_write);
    ensure!(written.is_empty(), "{written:#?}");
    let mark = world.requests().mark();
    first.stop(SOON).await?;
    world.await_marker(&kind, &team).await;
    // Before it works, it looks once for replicas that have shards.
    let (leases, others): (Vec<_>, Vec<_>) = lists(mark)
        .into_iter()
        .partition(|one| one.resource == "leases");
    ensure!(
        leases.len() == 1 && others.is_empty(),
        "{leases:#?} {others:#?}"
    );
    // What is published from now on is published by the other one.
    let widgets = world
        .install(&super::definition(&world.group, "widgets", "Widget"))
        .await?;
    let published = world.publish(&widgets, json!({})).await?;
    world.await_published(&published).await;
    world.await_marker(&widgets, &team).await;
    Ok(())
}

async fn an_agent_is_not_ready_before_it_has_listed_everything(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let hangs = Matcher {
        resource: Some(stage.kind.plural.clone()),
        verb: Some("watch".to_owned()),
        cluster: Some("*".to_owned()),
        ..Matcher::default()
    };
    let fault = Fault::new(hangs, Action::Latency(Duration::from_mins(5)));
    world.playground.faults().add(fault);
    let health = Port::reserve()?;
    let _second = world
        .launch()?
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    eventually(SOON, "its list hangs", async || {
        ensure!(world.playground.faults().struck()[0] > 0, "not yet");
        Ok(())
    })
    .await;
    let (code, text) = page(&health, "/readyz").await?;
    ensure!(code == 503 && text.contains("caches"), "{code}: {text}");
    world.playground.faults().clear();
    await_ready(&health).await;
    Ok(())
}

async fn rights_that_the_contract_does_not_give_are_not_asked_for(world: &World) -> Result<()> {
    // Everything in a life once; what is forbidden stands in the log, and deleting states is tried
    // once where it is not allowed.
    let stage = world
        .stage(json!({"enableWorkspacePaths": true, "filter": {"namespace": {}}}))
        .await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.made("sofa", json!({"size": 1})).await;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/lit", json!(true))
        .await;
    for name in ["lamp", "sofa"] {
        stage.team.delete(&stage.kind, name).await?;
        stage.team.await_gone(&stage.kind, name).await;
    }
    stage.marker("marker").await;
    stage.agent.stop(SOON).await?;
    let log = stage.agent.log();
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("cannot ") && line.contains(" at the cluster scope"))
        .collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

async fn disabled_controllers_do_nothing(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let schemas_only = world
        .launch()?
        .arg("--disabled-controllers=sync,apiexport")
        .spawn()?;
    let at = format!("{PUBLISHED}/{published}");
    eventually(SOON, "the schema is made", async || {
        let found = world.service.get(&at).await?;
        ensure!(
            found["status"]["resourceSchemaName"].is_string(),
            "{}",
            found["status"]
        );
        Ok(())
    })
    .await;
    schemas_only.stop(SOON).await?;
    let export = world.export().await?;
    ensure!(
        export["spec"]["latestResourceSchemas"]
            .as_array()
            .is_none_or(Vec::is_empty),
        "{export}"
    );

    let export_too = world
        .launch()?
        .args(["--disabled-controllers", "sync"])
        .spawn()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    team.make(&kind, "lamp", json!({})).await;
    let widgets = world
        .install(&super::definition(&world.group, "widgets", "Widget"))
        .await?;
    let other = world.publish(&widgets, json!({})).await?;
    world.await_published(&other).await;
    ensure!(world.copy(&kind, team.of("lamp")).await?.is_none());
    export_too.stop(SOON).await?;

    let mark = world.requests().mark();
    let _sync_only = world
        .launch()?
        .args([
            "--disabled-controllers=apiexport",
            "--disabled-controllers=apiresourceschema",
        ])
        .spawn()?;
    world.await_copy(&kind, team.of("lamp")).await;
    let owners = ["apiexports", "apiresourceschemas"];
    let writes: Vec<_> = world
        .agents_requests(mark)
        .into_iter()
        .filter(|request| request.is_write() && owners.contains(&request.resource.as_str()))
        .collect();
    ensure!(writes.is_empty(), "{writes:#?}");
    Ok(())
}

async fn credentials_are_read_again_when_their_file_changes(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.marker("marker").await;
    let file = world.kcp_kubeconfig()?;
    let url = format!("{}/clusters/root:org", world.playground.kcp_url());
    let other = world
        .playground
        .kubeconfig_at(&url, "renewed", super::world::RENEWED_TOKEN);
    fs::write(&file, other.to_string())?;
    let mut number = 0;
    eventually(SOON, "requests come with the new credentials", async || {
        number += 1;
        let mark = world.requests().mark();
        stage.marker(&format!("marker{number}")).await;
        let requests = world.requests().since(mark);
        let renewed = requests
            .iter()
            .any(|request| request.user == super::world::RENEWED_USER && request.is_write());
        ensure!(renewed, "not yet");
        Ok(())
    })
    .await;
    Ok(())
}

async fn the_slice_may_live_in_another_workspace(world: &World) -> Result<()> {
    let slices = world.workspace("slices").await?;
    let name = unique("slice");
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": name},
        "spec": {"export": {"path": "root:org", "name": EXPORT}},
    });
    let path = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
    slices.plane.create(path, &slice).await?;
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let launch = world.launch()?;
    let url = format!("{}/clusters/root:org:slices", world.playground.kcp_url());
    let own = world
        .playground
        .kubeconfig_at(&url, super::world::KCP_USER, "kcp-token");
    let file = world.directory.path().join("slices.kubeconfig");
    fs::write(&file, own.to_string())?;
    let _agent = launch
        .arg(format!("--kcp-kubeconfig={}", file.display()))
        .arg(format!("--apiexportendpointslice-ref={name}"))
        .spawn()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    team.make(&kind, "lamp", json!({"size": 1})).await;
    has(
        &world.await_copy(&kind, team.of("lamp")).await,
        "/spec/size",
        &json!(1),
    )
}

async fn a_slice_that_is_not_there_yet_is_waited_for(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let health = Port::reserve()?;
    let name = unique("slice");
    let agent = world
        .launch()?
        .arg(format!("--apiexportendpointslice-ref={name}"))
        .arg(format!("--health-address=127.0.0.1:{}", health.number()))
        .spawn()?;
    agent.await_log(SOON, &name).await?;
    let mark = world.requests().mark();
    eventually(SOON, "it has asked again", async || {
        let asked = world.agents_requests(mark);
        let asked = asked
            .iter()
            .filter(|request| request.resource == "apiexportendpointslices");
        ensure!(asked.count() > 1, "not yet");
        Ok(())
    })
    .await;
    ensure!(page(&health, "/readyz").await?.0 == 503);
    ensure!(page(&health, "/healthz").await?.0 == 200);
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": name},
        "spec": {"export": {"path": "root:org", "name": EXPORT}},
    });
    let path = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
    world.org.create(path, &slice).await?;
    world.await_published(&published).await;
    await_ready(&health).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kcp_that_is_not_there_yet_is_waited_for() {
    let port = Port::reserve().expect("a port");
    let scratch = tempfile::tempdir().expect("a directory");
    let service = super::service::Ground::Playground;
    // The way to a kcp that nobody has started.
    let file = scratch.path().join("kcp.kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {
            "server": format!("https://127.0.0.1:{}/clusters/root:org", port.number()), "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "x", "user": {"token": "kcp-token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    fs::write(&file, kubeconfig.to_string()).expect("a file");
    super::world::run(service, async |world: &World| {
        let kind = world.gadgets().await?;
        let published = world.publish(&kind, json!({})).await?;
        let agent = world
            .launch()?
            .arg(format!("--kcp-kubeconfig={}", file.display()))
            .spawn()?;
        agent.await_log(SOON, &port.number().to_string()).await?;
        let late = World::start_with(
            service,
            PlaygroundOptions {
                port: port.number(),
                ..PlaygroundOptions::default()
            },
        )
        .await?;
        eventually(
            SOON,
            "its schema is in the kcp that came late",
            async || {
                let export = late.export().await?;
                let schemas = &export["spec"]["latestResourceSchemas"];
                ensure!(
                    schemas.as_array().is_some_and(|all| all.len() == 1),
                    "{schemas}"
                );
                Ok(())
            },
        )
        .await;
        ensure!(agent.exit().is_none(), "it has ended");
        let found = world
            .service
            .get(&format!("{PUBLISHED}/{published}"))
            .await?;
        ensure!(found["status"]["resourceSchemaName"].is_string());
        Ok(())
    })
    .await;
}

async fn the_host_of_the_service_cluster_can_be_overridden(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let text = fs::read_to_string(world.service_kubeconfig())?;
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&text)?;
    let right = kubeconfig["clusters"][0]["cluster"]["server"].take();
    let authority = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].take();
    kubeconfig["clusters"][0]["cluster"] = json!({"server": "https://127.0.0.1:1"});
    let file = world.directory.path().join("wrong.kubeconfig");
    fs::write(&file, kubeconfig.to_string())?;
    let authority_file = world.directory.path().join("ca.crt");
    let authority = authority.as_str().context("no authority")?;
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority)?;
    fs::write(&authority_file, pem)?;
    let right = right.as_str().context("no server")?;
    let _agent = world
        .launch()?
        .arg(format!("--kubeconfig={}", file.display()))
        .arg(format!("--kubeconfig-host-override={right}"))
        .arg(format!(
            "--kubeconfig-ca-file-override={}",
            authority_file.display()
        ))
        .spawn()?;
    world.await_published(&published).await;
    Ok(())
}

async fn the_export_of_the_slice_may_be_named_the_obsolete_way(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world
        .launch()?
        .arg("--apiexportendpointslice-ref=")
        .arg(format!("--apiexport-ref={EXPORT}"))
        .spawn()?;
    world.await_published(&published).await;
    Ok(())
}
