//! The mirror between two real clusters, as its users meet it: the built binary, the example's files and
//! rights, kubectl; and killed whenever it suits least.

mod canary;
mod chaos;
mod deletions;
mod explain;
mod killed;
mod links;
mod storms;
mod tells;
mod types;
mod ways;
mod world;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::{Access, Launch, Process, SOON, ServiceCluster, eventually};

/// A cloud and a robot with the example's definition and rights in them.
struct Clusters {
    cloud: ServiceCluster,
    robot: ServiceCluster,
    in_cloud: Access,
    on_robot: Access,
}

impl Clusters {
    async fn start() -> Result<Self> {
        let (cloud, robot) = tokio::try_join!(ServiceCluster::start(), ServiceCluster::start())?;
        let example = repository().join("examples/robots");
        for (cluster, rights) in [(&cloud, "cloud-rights.yaml"), (&robot, "robot-rights.yaml")] {
            apply(cluster.admin(), &example.join("crd.yaml")).await?;
            apply(cluster.admin(), &example.join(rights)).await?;
            let crd = "crd/missions.fleet.example.com";
            let wait = ["wait", "--for=condition=Established", crd];
            cluster.admin().kubectl(&wait).await?;
            let all = missions(cluster.admin().client()?);
            // It is served a moment later.
            eventually(SOON, "missions are served", async || {
                all.list(&ListParams::default().limit(1)).await
            })
            .await;
        }
        Ok(Self {
            in_cloud: cloud.user("robot-r1", &[])?,
            on_robot: robot.user("hawser-mirror", &[])?,
            cloud,
            robot,
        })
    }

    /// The mirror with no more rights than the example gives it.
    fn mirror(&self, number: usize, logs: &Path) -> Result<Process> {
        let file = |access: &Access| access.kubeconfig_file().as_os_str().to_owned();
        Launch::new(format!("mirror {number}"), env!("CARGO_BIN_EXE_hawser"))
            .args(["mirror", "-robot-name=r1", "-listen-address", "127.0.0.1:0"])
            .arg("--remote-kubeconfig")
            .arg(file(&self.in_cloud))
            .arg("--kubeconfig")
            .arg(file(&self.on_robot))
            .log(logs.join(format!("mirror-{number}.log")))
            .spawn()
    }
}

async fn apply(access: &Access, file: &Path) -> Result<String> {
    let file = file.to_str().context("a path in Unicode")?;
    access.kubectl(&["apply", "-f", file]).await
}

fn missions(client: Client) -> Api<DynamicObject> {
    missions_in(client, "default")
}

fn missions_in(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("fleet.example.com", "v1", "Mission");
    let resource = ApiResource::from_gvk_with_plural(&kind, "missions");
    Api::namespaced_with(client, namespace, &resource)
}

fn mission(name: &str, goal: &str) -> DynamicObject {
    let object = json!({
        "apiVersion": "fleet.example.com/v1", "kind": "Mission",
        "metadata": {"name": name, "labels": {"cloudrobotics.com/robot-name": "r1"}},
        "spec": {"goal": goal},
    });
    serde_json::from_value(object).expect("a valid object")
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

async fn merge_status(api: &Api<DynamicObject>, name: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Waits until an object has a value somewhere.
async fn has(api: &Api<DynamicObject>, name: &str, pointer: &str, value: Value) {
    eventually(
        SOON,
        &format!("{name} has {value} at {pointer}"),
        async || {
            let object = serde_json::to_value(api.get(name).await?)?;
            let found = object.pointer(pointer).cloned().unwrap_or_default();
            ensure!(found == value, "it has {found}");
            anyhow::Ok(())
        },
    )
    .await;
}

async fn gone(api: &Api<DynamicObject>, name: &str) {
    eventually(SOON, &format!("{name} goes"), async || {
        ensure!(api.get_opt(name).await?.is_none(), "it is there");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_works_with_its_rights_between_two_real_clusters() -> Result<()> {
    let clusters = Clusters::start().await?;
    let logs = tempfile::tempdir()?;
    let mirror = clusters.mirror(0, logs.path())?;
    apply(
        clusters.cloud.admin(),
        &repository().join("examples/robots/mission.yaml"),
    )
    .await?;
    let cloud = missions(clusters.cloud.admin().client()?);
    let robot = missions(clusters.robot.admin().client()?);
    let name = "inspect-shelf-4";
    has(&robot, name, "/spec/goal", json!("shelf-4")).await;
    merge_status(
        &robot,
        name,
        json!({"phase": "done", "observedGeneration": 1}),
    )
    .await?;
    has(&cloud, name, "/status/phase", json!("done")).await;
    merge(&cloud, name, json!({"spec": {"goal": "shelf-5"}})).await?;
    has(&robot, name, "/spec/goal", json!("shelf-5")).await;
    has(&robot, name, "/metadata/generation", json!(2)).await;
    merge_status(&robot, name, json!({"observedGeneration": 2})).await?;
    has(&cloud, name, "/status/observedGeneration", json!(2)).await;

    // Drift, a lost label, a deletion on the wrong side.
    merge(&robot, name, json!({"spec": {"goal": "elsewhere"}})).await?;
    has(&robot, name, "/spec/goal", json!("shelf-5")).await;
    let label = "cloudrobotics.com/robot-name";
    merge(&robot, name, json!({"metadata": {"labels": {label: null}}})).await?;
    has(&robot, name, "/metadata/labels", json!({label: "r1"})).await;
    let before = robot.get(name).await?.metadata.uid;
    robot
        .delete(name, &kube::api::DeleteParams::default())
        .await?;
    eventually(SOON, "it is made again", async || {
        let again = robot.get(name).await?.metadata.uid;
        ensure!(again != before, "it is the same");
        anyhow::Ok(())
    })
    .await;
    has(&cloud, name, "/status/phase", json!("done")).await;

    // Held by the cloud, it goes on the robot at once.
    merge(
        &cloud,
        name,
        json!({"metadata": {"finalizers": ["example.com/held"]}}),
    )
    .await?;
    cloud
        .delete(name, &kube::api::DeleteParams::default())
        .await?;
    gone(&robot, name).await;
    ensure!(cloud.get_opt(name).await?.is_some(), "the cloud holds it");
    merge(&cloud, name, json!({"metadata": {"finalizers": null}})).await?;
    gone(&cloud, name).await;
    let log = mirror.log();
    ensure!(!log.contains("cannot remove the finalizer"), "{log}");
    ensure!(mirror.stop(SOON).await?.success(), "{}", mirror.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_whenever_it_suits_least_it_brings_everything_in_step() -> Result<()> {
    const ROUNDS: usize = 12;
    let clusters = Clusters::start().await?;
    let logs = tempfile::tempdir()?;
    let cloud = missions(clusters.cloud.admin().client()?);
    let robot = missions(clusters.robot.admin().client()?);
    let post = PostParams::default();
    let delete = kube::api::DeleteParams::default();
    let mut mirror = clusters.mirror(0, logs.path())?;
    for round in 0..ROUNDS {
        let name = |n: usize| format!("m{n}");
        cloud.create(&post, &mission(&name(round), "first")).await?;
        if round > 0 {
            let before = name(round - 1);
            merge(
                &cloud,
                &before,
                json!({"spec": {"goal": format!("round {round}")}}),
            )
            .await?;
            // It may not be there yet.
            let _ = merge_status(&robot, &before, json!({"phase": "halfway"})).await;
        }
        if round > 1 && round % 3 == 2 {
            cloud.delete(&name(round - 2), &delete).await?;
        }
        mirror.kill().await?;
        mirror = clusters.mirror(round + 1, logs.path())?;
        if round % 2 == 1 {
            has(&robot, &name(round), "/spec/goal", json!("first")).await;
        }
    }
    eventually(SOON, "both sides have the same", async || {
        let of = async |api: &Api<DynamicObject>| -> Result<Vec<(String, Value)>> {
            let all = api.list(&kube::api::ListParams::default()).await?;
            let each = all.items.into_iter();
            Ok(each
                .map(|m| (m.metadata.name.unwrap_or_default(), m.data["spec"].clone()))
                .collect())
        };
        let (in_cloud, on_robot) = (of(&cloud).await?, of(&robot).await?);
        ensure!(in_cloud.len() == ROUNDS - ROUNDS / 3, "{in_cloud:?}");
        ensure!(in_cloud == on_robot, "{in_cloud:?} is not {on_robot:?}");
        anyhow::Ok(())
    })
    .await;
    for item in cloud.list(&kube::api::ListParams::default()).await?.items {
        let name = item.metadata.name.unwrap_or_default();
        merge_status(&robot, &name, json!({"phase": "done"})).await?;
        has(&cloud, &name, "/status/phase", json!("done")).await;
    }
    mirror.stop(SOON).await?;
    Ok(())
}

/// The commands of the example's page, but for those for playgrounds.
fn commands(page: &str) -> String {
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_the_example_works_word_by_word() -> Result<()> {
    let (cloud, robot) = tokio::try_join!(ServiceCluster::start(), ServiceCluster::start())?;
    let directory = tempfile::tempdir()?;
    let example = repository().join("examples/robots");
    for entry in std::fs::read_dir(&example)? {
        let entry = entry?;
        std::fs::copy(entry.path(), directory.path().join(entry.file_name()))?;
    }
    for (cluster, name) in [(&cloud, "cloud.kubeconfig"), (&robot, "robot.kubeconfig")] {
        std::fs::copy(
            cluster.admin().kubeconfig_file(),
            directory.path().join(name),
        )?;
    }
    let page = std::fs::read_to_string(example.join("README.md"))?;
    let binaries = |file: &Path| file.parent().map(|dir| dir.display().to_string());
    let path = [
        binaries(Path::new(env!("CARGO_BIN_EXE_hawser"))).context("a directory")?,
        binaries(&testbed::binaries::find("kubectl")?).context("a directory")?,
        std::env::var("PATH")?,
    ];
    let script = format!("set -e\ntrap 'kill $(jobs -p)' EXIT\n{}", commands(&page));
    ensure!(script.contains("hawser mirror"), "{script}");
    let done = Launch::new("the page", "/bin/bash")
        .args(["-c", &*script])
        .env("PATH", path.join(":"))
        .env("HOME", directory.path())
        .dir(directory.path())
        .run(directory.path(), SOON * 3)
        .await?;
    ensure!(done.exit.success(), "{}{}", done.stdout, done.stderr);
    for cluster in [&cloud, &robot] {
        let left = missions(cluster.admin().client()?)
            .get_opt("inspect-shelf-4")
            .await?;
        ensure!(left.is_none(), "{left:?}");
    }
    Ok(())
}

/// The words of a text that are flags.
fn flags(text: &str) -> std::collections::BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.starts_with("--") && !word.ends_with('-'))
        .collect()
}

#[test]
fn the_page_on_the_mirror_has_its_flags_and_no_others() -> Result<()> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["mirror", "--help"])
        .output()?;
    let help = String::from_utf8(output.stdout)?;
    let mut known = flags(&help);
    known.remove("--help");
    let text = std::fs::read_to_string(repository().join("docs/mirror.md"))?;
    let (_, table) = text.split_once("\n## Flags\n").context("no flags")?;
    let (table, _) = table.split_once("\n## ").context("no end")?;
    let cells: String = table
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .collect();
    assert_eq!(flags(&cells), known);
    let of_kubectl_and_cargo = ["--overwrite", "--profile", "--bench"];
    for flag in flags(&text) {
        let is_known = known.contains(flag) || of_kubectl_and_cargo.contains(&flag);
        ensure!(is_known, "{flag}");
    }
    Ok(())
}
