//! The playground as the README starts it: everything in one process, and commands to try on it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{Launch, Process, SOON, Signal, binaries, eventually};

const OBJECT: &str = "/apis/databases.example.org/v1alpha1/namespaces/default/databases";
const COPIES: &str = "/apis/db.internal.example.com/v1/postgresclusters";

/// The command at work.
struct Demo {
    process: Process,
    scratch: tempfile::TempDir,
}

impl Demo {
    fn start(args: &[&str]) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let process = Launch::new("demo", env!("CARGO_BIN_EXE_hawser"))
            .arg("playground")
            .args(args)
            .dir(scratch.path())
            .log(scratch.path().join("errors"))
            .stdout(scratch.path().join("said"))
            .spawn()?;
        Ok(Self { process, scratch })
    }

    /// What it has said so far.
    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.scratch.path().join("said"))?)
    }

    async fn says(&self, wanted: &str) -> Result<String> {
        eventually(SOON, wanted, async || {
            let said = self.said()?;
            ensure!(
                said.lines().any(|line| line.starts_with(wanted)),
                "{said}{}",
                fs::read_to_string(self.scratch.path().join("errors"))?
            );
            Ok(())
        })
        .await;
        self.said()
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    async fn end(&self) -> Result<()> {
        let exit = self.process.stop(SOON).await?;
        ensure!(exit.success(), "it ended with {exit:?}");
        let errors = fs::read_to_string(self.scratch.path().join("errors"))?;
        ensure!(errors.is_empty(), "{errors}");
        Ok(())
    }
}

/// A client by a kubeconfig of the directory; with another token, where one is given.
async fn client(dir: &Path, name: &str, token: Option<&str>) -> Result<Client> {
    let text = fs::read_to_string(dir.join(name))?;
    let mut kubeconfig: Value = serde_saphyr::from_str(&text)?;
    if let Some(token) = token {
        kubeconfig["users"][0]["user"]["token"] = token.into();
    }
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
    let current = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &current).await?;
    Ok(Client::try_from(config)?)
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

/// The only copy there is.
async fn copy(service: &Client) -> Result<Value> {
    let copies = get(service, COPIES).await?;
    let items = copies["items"].as_array().context("no list")?;
    ensure!(items.len() == 1, "{copies}");
    Ok(items[0].clone())
}

/// The commands that are shown, each with what stands before all of them.
fn commands(said: &str) -> Vec<String> {
    let mut shown = said
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| !line.starts_with('#'));
    let enter = shown.next().unwrap_or_default();
    shown.map(|line| format!("{enter}\n{line}\n")).collect()
}

/// The commands of a part of a page, but for those that build and start what is running already.
fn of_page(page: &str, from: &str, to: &str) -> Result<String> {
    let text = fs::read_to_string(binaries::repository().join(page))?;
    let (_, part) = text.split_once(from).context("no beginning")?;
    let (part, _) = part.split_once(to).context("no end")?;
    let starts = |line: &&str| {
        let starting = ["cargo ", "target/release/hawser ", "hawser ", "ready: "];
        starting.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = part
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| !starts(line))
        .collect();
    ensure!(!lines.is_empty(), "{page} shows nothing");
    Ok(lines.join("\n"))
}

async fn shell(dir: &Path, script: &str) -> Result<String> {
    let scratch = tempfile::tempdir()?;
    let kubectl = binaries::find("kubectl")?;
    let tools = kubectl.parent().context("no directory")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Launch::new("shell", "/bin/sh")
        .args(["-ec", script])
        .env("PATH", format!("{}:{path}", tools.display()))
        .dir(dir)
        .run(scratch.path(), SOON)
        .await?;
    ensure!(
        output.exit.success(),
        "{script}{}{}",
        output.stdout,
        output.stderr
    );
    Ok(output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_is_played_through_and_everything_that_is_shown_works() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let tokens = scratch.path().join("tokens.csv");
    fs::write(&tokens, "topsecret,anna,1111,\"developers\"\n")?;
    let tokens = tokens.display().to_string();
    let demo = Demo::start(&["--dir", "my place", "--token-file", &tokens])?;
    let said = demo.says("ready: kcp at https://127.0.0.1:").await?;
    ensure!(said.lines().last().is_some_and(|l| l.starts_with("ready:")));
    let dir = demo.dir("my place");

    // What it says has happened.
    let consumer = client(&dir, "consumer.kubeconfig", None).await?;
    let service = client(&dir, "service.kubeconfig", None).await?;
    let orders = get(&consumer, &format!("{OBJECT}/orders")).await?;
    let made = copy(&service).await?;
    let name = made["metadata"]["name"].as_str().context("no name")?;
    assert_eq!(
        orders["status"],
        json!({
            "phase": "Ready", "port": 5432,
            "url": format!("postgres://{name}.databases.example.org:5432"),
        })
    );
    assert_eq!(made["spec"]["storageGiB"], 10);
    assert_eq!(made["status"]["phase"], "Ready");
    ensure!(said.contains(name), "{said}");
    let anna = client(&dir, "kcp.kubeconfig", Some("topsecret")).await?;
    let spaces = get(&anna, "/apis/tenancy.kcp.io/v1alpha1/workspaces").await?;
    let names: Vec<_> = spaces["items"].as_array().into_iter().flatten().collect();
    ensure!(names.len() == 2, "{spaces}");

    // What is shown to try.
    let shown = commands(&said);
    ensure!(shown.len() > 6, "{said}");
    for command in &shown {
        let output = shell(demo.scratch.path(), command).await?;
        if command.contains("describe") {
            ensure!(output.contains("ObjectPlaced"), "{command}{output}");
        }
        if command.contains("explain") {
            ensure!(output.contains("in sync       yes"), "{command}{output}");
        }
        if command.contains("patch") {
            eventually(SOON, "the copy follows", async || {
                let storage = &copy(&service).await?["spec"]["storageGiB"];
                ensure!(storage == 50, "{storage}");
                Ok(())
            })
            .await;
        }
    }
    let left = get(&consumer, OBJECT).await?;
    let left: Vec<_> = left["items"]
        .as_array()
        .context("no list")?
        .iter()
        .collect();
    ensure!(left.len() == 1 && left[0]["metadata"]["name"] == "invoices");
    let made = copy(&service).await?;
    ensure!(made["metadata"]["annotations"]["syncagent.kcp.io/remote-object-name"] == "invoices");

    // Nothing stays behind.
    let doors: Vec<SocketAddr> = said
        .lines()
        .last()
        .into_iter()
        .flat_map(|ready| ready.split("https://").skip(1))
        .filter_map(|rest| rest.split(' ').next()?.parse().ok())
        .collect();
    ensure!(doors.len() == 2, "{said}");
    for door in &doors {
        TcpStream::connect(door)?;
    }
    demo.end().await?;
    for door in &doors {
        ensure!(TcpStream::connect(door).is_err(), "{door} is still open");
    }
    let log = fs::read_to_string(dir.join("agent.log"))?;
    let (worked, _) = log.split_once("stopping").context("no end")?;
    ensure!(
        worked.contains("running\t") && !worked.contains("ERROR"),
        "{log}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_federation_is_played_through_and_everything_that_is_shown_works() -> Result<()> {
    let demo = Demo::start(&["--federation"])?;
    let said = demo.says("ready: host by ").await?;
    let counts = said.lines().filter_map(|line| {
        let counts = line.strip_prefix("host: replicas are ready: ")?;
        let counts = counts
            .split(", ")
            .filter_map(|of| of.split(' ').next()?.parse().ok());
        Some(counts.collect())
    });
    let counts: Vec<Vec<i64>> = counts.collect();
    let even = [3, 3, 3];
    ensure!(counts.len() == 4, "{said}");
    assert_eq!((&*counts[0], &*counts[2]), (&even[..], &even[..]));
    assert_eq!(counts[1], [4, 4, 1]);
    assert_eq!(counts[3][0] + counts[3][2], 9, "{said}");
    ensure!(said.contains("2 of them stay as probes"), "{said}");
    let shown = commands(&said);
    ensure!(shown.len() == 5, "{said}");
    for command in &shown {
        let output = shell(demo.scratch.path(), command).await?;
        if command.contains("describe") {
            ensure!(output.contains("ReplicasScheduled"), "{command}{output}");
        }
    }
    demo.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_played_through_and_everything_that_is_shown_works() -> Result<()> {
    let demo = Demo::start(&["--placement"])?;
    let said = demo.says("ready: hub by ").await?;
    let told = |start: &str| -> Vec<&str> {
        let lines = said.lines();
        lines.filter_map(|line| line.strip_prefix(start)).collect()
    };
    assert_eq!(
        told("hub: shop is available: "),
        ["cluster1, cluster3", "cluster1, cluster2, cluster3"],
        "{said}"
    );
    let refused = told("hub: not picked: ");
    ensure!(
        refused.len() == 1 && refused[0].starts_with("cluster2: "),
        "{said}"
    );
    assert_eq!(
        told("hub: the placement now needs 3 members; placed objects stay: "),
        ["cluster1, cluster3"]
    );
    ensure!(
        told("hub: no third member can be picked: ")
            .iter()
            .any(|why| why.contains("taint maintenance")),
        "{said}"
    );
    assert_eq!(
        told("hub: versions of web: "),
        [
            "1.0 in cluster1, 2.0 in cluster2, 1.0 in cluster3",
            "2.0 in cluster1, 2.0 in cluster2, 2.0 in cluster3",
        ]
    );
    let shown = commands(&said);
    ensure!(shown.len() == 7, "{said}");
    for command in &shown {
        let output = shell(demo.scratch.path(), command).await?;
        if command.contains("get memberclusters") {
            ensure!(output.matches("True").count() == 3, "{command}{output}");
        }
        if command.contains("describe") {
            ensure!(
                output.contains("PlacementRolloutCompleted"),
                "{command}{output}"
            );
        }
        if command.contains("explain") {
            ensure!(output.contains("picked      cluster2"), "{command}{output}");
        }
    }
    demo.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pages_say_of_it_works() -> Result<()> {
    let demo = Demo::start(&[])?;
    demo.says("ready:").await?;
    for (page, from, to, shown) in [
        ("README.md", "## Try it", "## Install", "ObjectStatusSynced"),
        (
            "docs/getting-started.md",
            "## On one machine",
            "## Step by step",
            "team=red",
        ),
        (
            "docs/playground.md",
            "## Flags",
            "## From a test",
            "/clusters/",
        ),
    ] {
        let script = of_page(page, from, to).with_context(|| page.to_owned())?;
        let output = shell(demo.scratch.path(), &script).await?;
        ensure!(output.contains(shown), "{page}: {output}");
    }
    demo.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_on_placement_says_works() -> Result<()> {
    let demo = Demo::start(&["--placement"])?;
    demo.says("ready:").await?;
    let page = |from: &str, to: &str| of_page("docs/placement.md", from, to);
    let script = page("## Try it", "## Examples")?;
    let output = shell(demo.scratch.path(), &script).await?;
    // The size in the first member, then the end of the last command.
    ensure!(output.contains("\n1clusterresourceplacement"), "{output}");
    ensure!(
        output
            .trim_end()
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("settings"))
    );
    let place = "cd hawser-playground\nexport KUBECONFIG=hub.kubeconfig\n";
    let examples = binaries::repository().join("examples");
    symlink(examples, demo.scratch.path().join("examples"))?;
    let script = page("## Examples", "## Install")?;
    for example in fs::read_dir(demo.dir("examples/placement"))? {
        let name = example?.file_name().display().to_string();
        let is_shown =
            script.contains(&name) || ["README.md", "application.yaml"].contains(&&*name);
        ensure!(is_shown, "{name} is not used");
    }
    let output = shell(demo.scratch.path(), &format!("{place}{script}")).await?;
    ensure!(output.contains("Namespace"), "no difference: {output}");
    let script = page("### Staged update runs", "### Webhook")?;
    let output = shell(demo.scratch.path(), &format!("{place}{script}")).await?;
    // The second stage has placed the namespace too.
    let run = "clusterstagedupdaterun.placement.kubernetes-fleet.io/first condition met\nNAME";
    ensure!(output.contains(run), "{output}");
    demo.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_run_beside_each_other_and_end_wherever_they_are() -> Result<()> {
    let begun = Demo::start(&[])?;
    let played = Demo::start(&["--dir", "elsewhere"])?;
    begun.says("service cluster:").await?;
    begun.process.signal(Signal::Interrupt)?;
    let exit = begun.process.wait(SOON).await?;
    ensure!(exit.success(), "it ended with {exit:?}");
    played.says("ready:").await?;
    ensure!(played.dir("elsewhere/service.kubeconfig").exists());
    played.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_through_what_goes_wrong_on_demand() -> Result<()> {
    let faults = [
        "--fault=resource=workspaces times=2 status=503",
        "--fault=resource=apibindings times=2 status=503",
        "--fault=resource=databases times=4 status=503",
        "--fault=resource=postgresclusters times=4 status=503",
        "--fault=verb=create resource=publishedresources times=1 when=after status=500",
    ];
    let demo = Demo::start(&faults)?;
    demo.says("ready:").await?;
    demo.end().await
}
