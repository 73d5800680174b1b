//! The playground beside kube-apiserver and etcd, measured by the same Go client, one after the other in
//! each round: `cargo bench --bench playground`. The client and the servers share the machine.
//!
//! Rounds: `HAWSER_BENCH_ROUNDS` (3).
#![allow(
    clippy::print_stdout,
    reason = "what a benchmark finds is for its terminal"
)]

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testbed::{Component, Launch, Process, ServiceCluster, binaries, eventually};

const MEASURES: [&str; 6] = [
    "creates_per_second",
    "list_seconds",
    "list_megabytes",
    "watch_p50_ms",
    "watch_p99_ms",
    "resident_megabytes",
];
const DEADLINE: Duration = Duration::from_mins(5);
const SOON: Duration = Duration::from_secs(30);

/// Starts the command, on two threads; where its service kubeconfig is.
async fn start(directory: &Path) -> Result<Process> {
    let said = directory.join("said");
    let process = Launch::new("playground", env!("CARGO_BIN_EXE_hawser"))
        .args(["playground", "--bare", "--dir"])
        .arg(directory)
        .env("TOKIO_WORKER_THREADS", "2")
        .log(directory.join("errors"))
        .stdout(&said)
        .spawn()?;
    eventually(SOON, "the playground", async || {
        ensure!(fs::read_to_string(&said)?.ends_with('\n'));
        Ok(())
    })
    .await;
    Ok(process)
}

async fn measure(kubeconfig: &Path, scratch: &Path) -> Result<Value> {
    let judges = Launch::new("judges", binaries::judges()?)
        .arg("-kubeconfig")
        .arg(kubeconfig)
        .arg("-bench")
        .run(scratch, DEADLINE)
        .await?;
    ensure!(judges.exit.success(), "{}", judges.stderr);
    serde_json::from_str(&judges.stdout).context("reading what was measured")
}

fn resident(process: &Process) -> Result<f64> {
    let kibibytes = process.memory()?.rss_bytes / 1024;
    Ok(f64::from(u32::try_from(kibibytes)?) / 1024.0)
}

#[tokio::main]
async fn main() -> Result<()> {
    let rounds: usize = match env::var("HAWSER_BENCH_ROUNDS") {
        Ok(text) => text.parse().context("HAWSER_BENCH_ROUNDS")?,
        Err(_) => 3,
    };
    println!("{:<28} {:>14} {:>18}", "", "playground", "apiserver + etcd");
    for round in 1..=rounds {
        let directory = tempfile::tempdir()?;
        let playground = start(directory.path()).await?;
        let kubeconfig = directory.path().join("service.kubeconfig");
        let mut ours = measure(&kubeconfig, directory.path()).await?;
        ours["resident_megabytes"] = resident(&playground)?.into();
        playground.stop(SOON).await?;

        let cluster = ServiceCluster::start().await?.single_use();
        let mut theirs = measure(cluster.admin().kubeconfig_file(), directory.path()).await?;
        let mut memory = 0.0;
        for component in [Component::ApiServer, Component::Etcd] {
            let process = cluster.process(component).context("a server is gone")?;
            memory += resident(process)?;
        }
        theirs["resident_megabytes"] = memory.into();
        println!("round {round}");
        for name in MEASURES {
            let number = |value: &Value| value[name].as_f64().unwrap_or(f64::NAN);
            println!(
                "  {name:<26} {:>14.2} {:>18.2}",
                number(&ours),
                number(&theirs)
            );
        }
    }
    Ok(())
}
