//! `hawser explain mirror`, by the built binary between two playgrounds.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::Playground;
use kcp_playground::server::{Action, Fault, Matcher, When};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};
use testbed::{Launch, Port, Process, SOON, eventually};

use super::world::MISSIONS;
use super::{has, merge, merge_status, mission, missions, missions_in};

/// A cloud and a robot in this process.
struct Pair {
    cloud: Playground,
    robot: Playground,
    in_cloud: Api<DynamicObject>,
    on_robot: Api<DynamicObject>,
    page: Port,
    directory: tempfile::TempDir,
}

impl Pair {
    /// With the definition of missions in both, whose objects are filtered by the name of the robot.
    async fn start() -> Result<Self> {
        let (cloud, robot) = tokio::try_join!(Playground::start(), Playground::start())?;
        let directory = tempfile::tempdir()?;
        let (mut kept, sides) = (Vec::new(), [("cloud", &cloud), ("robot", &robot)]);
        for (name, playground) in sides {
            let kubeconfig = playground.service_kubeconfig();
            std::fs::write(directory.path().join(name), kubeconfig.to_string())?;
            let kubeconfig = serde_json::from_value(kubeconfig)?;
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            let client = Client::try_from(config)?;
            let kind = "CustomResourceDefinition";
            let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", kind);
            let crds: Api<DynamicObject> =
                Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
            let definition = serde_json::from_value(MISSIONS.definition())?;
            crds.create(&PostParams::default(), &definition).await?;
            let all = missions(client);
            eventually(SOON, "missions are served", async || {
                all.list(&ListParams::default()).await
            })
            .await;
            kept.push(all);
        }
        let on_robot = kept.pop().context("two sides")?;
        let in_cloud = kept.pop().context("two sides")?;
        let page = Port::reserve()?;
        Ok(Self {
            cloud,
            robot,
            in_cloud,
            on_robot,
            page,
            directory,
        })
    }

    /// The flags of the mirror, as in a Deployment.
    fn flags(&self) -> Vec<String> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        vec![
            "-robot-name=r1".to_owned(),
            "-namespaces=default,fleet".to_owned(),
            "-listen-address".to_owned(),
            "127.0.0.1:0".to_owned(),
            format!("-remote-kubeconfig={}", file("cloud")),
            format!("--kubeconfig={}", file("robot")),
        ]
    }

    fn mirror(&self) -> Result<Process> {
        Launch::new("mirror", env!("CARGO_BIN_EXE_hawser"))
            .arg("mirror")
            .args(self.flags())
            .arg(format!("-page-address={}", self.address()))
            .log(self.directory.path().join(testbed::unique("log")))
            .spawn()
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.page.number())
    }

    async fn run(&self, args: &[&str], flags: &[String]) -> Result<String> {
        let output = Launch::new("hawser", env!("CARGO_BIN_EXE_hawser"))
            .args(args.iter().copied())
            .args(flags.iter().cloned())
            .arg(format!("--page={}", self.address()))
            .run(self.directory.path(), SOON)
            .await?;
        ensure!(output.exit.success(), "{args:?}: {}", output.stderr);
        Ok(output.stdout)
    }

    async fn explain(&self, args: &[&str]) -> Result<String> {
        let args = [&["explain", "mirror"], args].concat();
        self.run(&args, &self.flags()).await
    }
}

#[track_caller]
fn check(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_tells_why_objects_of_a_robot_are_in_sync_or_not() -> Result<()> {
    let pair = Pair::start().await?;
    let mirror = pair.mirror()?;
    let post = PostParams::default();
    pair.in_cloud.create(&post, &mission("a", "first")).await?;
    has(&pair.on_robot, "a", "/spec/goal", json!("first")).await;
    check(
        &pair.explain(&["mission", "a", "-n", "default"]).await?,
        &[
            "Mission default/a of robot r1\n  in sync       yes\n",
            "  CRD           missions.fleet.example.com\n",
            "cr-syncer.cloudrobotics.com/filter-by-robot-name: true\n",
            "  owner         cloud Mission default/a\n",
            "  copy          robot Mission default/a\n",
            "  filter        passed\n",
        ],
    );

    // The cloud refuses the status, until it does not any more.
    let refusal = Action::Status {
        code: 403,
        when: When::Before,
    };
    let writes = Matcher {
        verb: Some("update".to_owned()),
        agent: Some("cr-syncer/".to_owned()),
        ..Matcher::default()
    };
    pair.cloud.faults().add(Fault::new(writes, refusal));
    merge_status(&pair.on_robot, "a", json!({"phase": "done"})).await?;
    let advice = "grant the right that the message names";
    eventually(
        SOON,
        "the refusal is on the page, with advice",
        async || {
            let overview = pair.run(&["top", "--output=json"], &[]).await?;
            let overview: Value = serde_json::from_str(&overview)?;
            let reason = &overview["reasons"][0];
            ensure!(reason["code"] == "Forbidden", "{overview:#}");
            let told = reason["advice"].as_str().unwrap_or_default();
            ensure!(told.starts_with(advice), "{overview:#}");
            Ok(())
        },
    )
    .await;
    check(
        &pair.explain(&["missions", "a"]).await?,
        &[
            "  in sync       no\n  reason        Forbidden: ",
            &format!("  what to do    {advice}"),
            "  attempts      ",
            "    1. update status cloud Mission default/a\n       refused: ",
            r#"status: (none) -> {"phase":"done"}"#,
        ],
    );
    let list = pair.explain(&[]).await?;
    ensure!(list.starts_with("Forbidden: "), "{list}");
    check(
        &list,
        &[
            advice,
            "  Mission default/a: ",
            "1 of 1 objects are out of sync",
        ],
    );
    pair.cloud.faults().clear();
    has(&pair.in_cloud, "a", "/status/phase", json!("done")).await;
    ensure!(mirror.stop(SOON).await?.success(), "{}", mirror.log());

    // What is due is shown while no mirror runs, and stays due.
    merge(&pair.in_cloud, "a", json!({"spec": {"goal": "second"}})).await?;
    let marks = [&pair.cloud, &pair.robot].map(|side| side.requests().mark());
    let text = pair.explain(&["mission", "a"]).await?;
    let diff =
        "    1. update robot Mission default/a\n         spec.goal: \"first\" -> \"second\"\n";
    check(
        &text,
        &[
            diff,
            "attempts and back-off are unknown: no page at ",
            "set --page",
        ],
    );
    let answer = pair.explain(&["mission", "a", "-o", "json"]).await?;
    let answer: Value = serde_json::from_str(&answer)?;
    let object = &answer["objects"][0];
    ensure!(
        object["due"][0]["change"] == json!({"spec": {"goal": "second"}})
            && object["inStep"] == false
            && object["attempts"].is_null()
            && answer["pageProblem"].is_string(),
        "{answer:#}"
    );
    let mut dry_runs = 0;
    for (side, mark) in [&pair.cloud, &pair.robot].into_iter().zip(marks) {
        let sent = side.requests().since(mark).into_iter();
        let sent = sent.filter(|request| request.user_agent.starts_with("cr-syncer/"));
        let sent: Vec<_> = sent.collect();
        ensure!(!sent.is_empty(), "a cluster was not asked");
        for request in sent {
            let reads = ["get", "list", "watch"].contains(&&*request.verb);
            let is_dry_run = request.query.contains("dryRun=All");
            ensure!(reads || is_dry_run, "{request:?}");
            dry_runs += usize::from(is_dry_run);
        }
    }
    ensure!(dry_runs > 0, "no request to either cluster was a dry run");
    has(&pair.on_robot, "a", "/spec/goal", json!("first")).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_advice_for_a_missing_namespace_creates_it() -> Result<()> {
    let pair = Pair::start().await?;
    let namespace = async |api: &Api<DynamicObject>| -> Result<Api<DynamicObject>> {
        let client = api.clone().into_client();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
        let fleet = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}});
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let fleet = serde_json::from_value(fleet)?;
        all.create(&PostParams::default(), &fleet).await?;
        Ok(missions_in(client, "fleet"))
    };
    let in_fleet = namespace(&pair.in_cloud).await?;
    let mirror = pair.mirror()?;
    in_fleet
        .create(&PostParams::default(), &mission("a", "first"))
        .await?;
    let advice =
        "  what to do    create the namespace in the cluster of the copy, or remove it from";
    eventually(SOON, "explain gives the advice", async || {
        let text = pair.explain(&["mission", "a", "-n", "fleet"]).await?;
        let reason = "  in sync       no\n  reason        NamespaceMissing: ";
        ensure!(text.contains(reason) && text.contains(advice), "{text}");
        Ok(())
    })
    .await;
    let list = pair.explain(&[]).await?;
    ensure!(list.starts_with("NamespaceMissing: "), "{list}");
    let on_robot = namespace(&pair.on_robot).await?;
    has(&on_robot, "a", "/spec/goal", json!("first")).await;
    check(
        &pair.explain(&["mission", "a", "-n", "fleet"]).await?,
        &["  in sync       yes\n"],
    );
    ensure!(mirror.stop(SOON).await?.success(), "{}", mirror.log());
    Ok(())
}
