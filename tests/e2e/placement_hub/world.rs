//! A real hub cluster, the hub as a process, and members that are played.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hawser_runtime::cluster::connection::{Call, Connection, Limits};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::ports::Port;
use testbed::{Launch, Process, SOON, ServiceCluster, Shared, eventually};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::canary::{LoggedUse, Logging, assert_logs_untold};
use crate::federation::world::Way;

pub(super) const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub(super) const CLUSTER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";

/// See the module.
pub(super) struct World {
    pub(super) hub: ServiceCluster,
    pub(super) process: Option<Process>,
    metrics: Port,
    /// Flags of the hub besides those of every test.
    flags: Vec<String>,
    logs: tempfile::TempDir,
    started: usize,
    /// Members that say nothing about new Works.
    mute: Arc<Mutex<BTreeSet<String>>>,
    _members: DropGuard,
}

/// The path of a placement of the cluster scope.
pub(super) fn crp(name: &str) -> String {
    format!("{PLACEMENT}/clusterresourceplacements/{name}")
}

pub(super) fn works(member: &str) -> String {
    format!("{PLACEMENT}/namespaces/fleet-member-{member}/works")
}

/// A selector of a namespace with everything in it.
pub(super) fn namespace_selector(name: &str) -> Value {
    json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}])
}

impl World {
    /// The world of all tests that disturb nobody.
    pub(super) async fn shared() -> Result<LoggedUse<Self>> {
        static SHARED: Shared<World> = Shared::new();
        SHARED.get(Self::start).await.map(LoggedUse::new)
    }

    /// With the definitions, and the hub at work.
    pub(super) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with more flags, which win.
    pub(super) async fn start_with(flags: &[String]) -> Result<Self> {
        let hub = ServiceCluster::start().await?;
        let file = repository().join("crds/kubernetes-fleet.io.yaml");
        let file = file.to_str().context("a path in Unicode")?;
        hub.admin().kubectl(&["apply", "-f", file]).await?;
        let wait = ["wait", "--for=condition=Established", "crd", "--all"];
        hub.admin().kubectl(&wait).await?;
        let mute = Arc::<Mutex<BTreeSet<String>>>::default();
        let members = members_at(hub.admin().config()?, &mute)?;
        let mut world = Self {
            hub,
            process: None,
            metrics: Port::reserve()?,
            flags: flags.to_vec(),
            logs: tempfile::tempdir()?,
            started: 0,
            mute,
            _members: members,
        };
        world.launch()?;
        Ok(world)
    }

    /// Starts the hub, as after a crash.
    pub(super) fn launch(&mut self) -> Result<()> {
        self.process = Some(self.spawn(self.metrics.number())?);
        Ok(())
    }

    /// One more hub, with its metrics at a port.
    pub(super) fn spawn(&mut self, metrics: u16) -> Result<Process> {
        self.started += 1;
        let log = self.logs.path().join(format!("hub-{}.log", self.started));
        hub(&self.hub, metrics, &log, &self.flags)
    }

    pub(super) fn way(&self) -> Result<Way> {
        Way::to(&self.hub)
    }

    /// The metrics of the hub.
    pub(super) async fn metrics(&self) -> Result<String> {
        let url = format!("http://127.0.0.1:{}", self.metrics.number());
        let page = Connection::new(kube::Config::new(url.parse()?), Limits::default())?;
        let reply = page.call(Call::get("/metrics")).await?;
        Ok(String::from_utf8(reply.body.to_vec())?)
    }

    pub(super) fn mute(&self, member: &str, is_mute: bool) {
        let mut mute = self.mute.lock();
        if is_mute {
            mute.insert(format!("fleet-member-{member}"));
        } else {
            mute.remove(&format!("fleet-member-{member}"));
        }
    }

    /// Joins members, and waits until the hub knows that they have.
    pub(super) async fn join(&self, names: &[&str], labels: Value) -> Result<()> {
        let way = self.way()?;
        for name in names {
            let member = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": name, "labels": labels},
                "spec": {"identity": {"kind": "User", "name": format!("agent-of-{name}")}},
            });
            way.create(&format!("{CLUSTER}/memberclusters"), &member)
                .await?;
        }
        for name in names {
            let internal =
                format!("{CLUSTER}/namespaces/fleet-member-{name}/internalmemberclusters/{name}");
            let mut internal = way.until_there(&internal).await;
            ensure!(internal["spec"]["state"] == "Join", "{internal:#}");
            report_member(&way, &mut internal, "True").await?;
            let member = format!("{CLUSTER}/memberclusters/{name}");
            way.until(&member, |member| {
                let conditions = member["status"]["conditions"].as_array();
                conditions.is_some_and(|all| {
                    all.iter()
                        .any(|one| one["type"] == "Joined" && one["status"] == "True")
                })
            })
            .await;
        }
        Ok(())
    }

    /// A namespace with a ConfigMap.
    pub(super) async fn application(&self, namespace: &str, name: &str) -> Result<()> {
        let way = self.way()?;
        way.create(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        )
        .await?;
        let map = json!({
            "metadata": {"name": name},
            "data": {"key1": "value1", "key2": "value2", "key3": "value3"},
        });
        way.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map)
            .await?;
        Ok(())
    }

    pub(super) async fn place(&self, name: &str, spec: Value) -> Result<Value> {
        let object = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name}, "spec": spec,
        });
        let all = format!("{PLACEMENT}/clusterresourceplacements");
        self.way()?.create(&all, &object).await
    }

    /// Waits until a placement is available with its latest resources.
    pub(super) async fn until_available(&self, name: &str) -> Result<Value> {
        Ok(self.way()?.until(&crp(name), is_available).await)
    }
}

impl Logging for World {
    fn logs(&self) -> &Path {
        self.logs.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.logs());
        }
    }
}

pub(super) fn is_available(placement: &Value) -> bool {
    let conditions = placement["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter().any(|one| {
            one["type"] == "ClusterResourcePlacementAvailable"
                && one["status"] == "True"
                && one["observedGeneration"] == placement["metadata"]["generation"]
        })
    })
}

/// The types and reasons of conditions, in their order.
pub(super) fn reasons(conditions: &Value) -> Vec<String> {
    let all = conditions.as_array().into_iter().flatten();
    all.map(|one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("type"), text("status"), text("reason"))
    })
    .collect()
}

fn hub(cluster: &ServiceCluster, metrics: u16, log: &Path, flags: &[String]) -> Result<Process> {
    Launch::new("hub", env!("CARGO_BIN_EXE_hawser"))
        .args([
            "hub",
            "--log-format=Console",
            "-v=5",
            "--leader-elect=false",
        ])
        .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
        .arg("--health-probe-bind-address=127.0.0.1:0")
        .args(["--enable-webhook=false", "--force-delete-wait-time=1h"])
        .args(flags)
        .arg("--kubeconfig")
        .arg(cluster.admin().kubeconfig_file())
        .log(log)
        .spawn()
}

/// Writes what the agent of a member reports of itself.
pub(super) async fn report_member(way: &Way, internal: &mut Value, joined: &str) -> Result<()> {
    let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
    report_member_at(way, internal, joined, &now).await
}

/// The same with the time of the last heartbeat.
pub(super) async fn report_member_at(
    way: &Way,
    internal: &mut Value,
    joined: &str,
    now: &str,
) -> Result<()> {
    let is = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Played", "message": "", "lastTransitionTime": now});
    internal["status"] = json!({"agentStatus": [{
        "type": "MemberAgent", "lastReceivedHeartbeat": now,
        "conditions": [is("Joined", joined), is("Healthy", "True")],
    }]});
    let metadata = &internal["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let path = format!(
        "{CLUSTER}/namespaces/{}/internalmemberclusters/{}/status",
        text("namespace"),
        text("name")
    );
    way.replace(&path, internal).await?;
    Ok(())
}

/// Plays members for as long as the guard lives; not on the runtime of the test that happens to be the first.
pub(super) fn members_at(
    config: kube::Config,
    mute: &Arc<Mutex<BTreeSet<String>>>,
) -> Result<DropGuard> {
    let stop = CancellationToken::new();
    let (token, mute) = (stop.clone(), Arc::clone(mute));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let way = Way::by(config).expect("a configuration of the testbed is valid");
            token.run_until_cancelled(play(way, mute)).await
        })
    });
    Ok(stop.drop_guard())
}

/// Plays the agents of all members: they apply every Work, and let go what is deleted.
async fn play(way: Way, mute: Arc<Mutex<BTreeSet<String>>>) {
    let mut turns = tokio::time::interval(Duration::from_millis(25));
    loop {
        turns.tick().await;
        let Ok(Some(list)) = way.get(&format!("{PLACEMENT}/works")).await else {
            continue;
        };
        for work in list["items"].as_array().into_iter().flatten() {
            let namespace = work["metadata"]["namespace"].as_str().unwrap_or_default();
            if !mute.lock().contains(namespace) {
                // What changed in between is there again in the next turn.
                let _ = play_work(&way, work.clone()).await;
            }
        }
    }
}

async fn play_work(way: &Way, mut work: Value) -> Result<()> {
    let text = |field: &str| work["metadata"][field].as_str().unwrap_or_default();
    let path = format!(
        "{PLACEMENT}/namespaces/{}/works/{}",
        text("namespace"),
        text("name")
    );
    if work["metadata"]["deletionTimestamp"].is_string() {
        way.patch(&path, &json!({"metadata": {"finalizers": null}}))
            .await?;
        return Ok(());
    }
    let generation = work["metadata"]["generation"].clone();
    if work["status"]["conditions"][0]["observedGeneration"] == generation {
        return Ok(());
    }
    let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
    let is = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "",
               "observedGeneration": generation, "lastTransitionTime": now})
    };
    work["status"] = json!({"conditions": [
        is("Applied", "AllManifestsApplied"), is("Available", "AllManifestsAvailable")]});
    way.replace(&format!("{path}/status"), &work).await?;
    Ok(())
}

/// Waits until a list has this many items; returns them.
pub(super) async fn until_count(way: &Way, path: &str, count: usize) -> Vec<Value> {
    eventually(SOON, path, async || -> Result<Vec<Value>> {
        let list = way.get(path).await?.context("it is not served")?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        ensure!(items.len() == count, "there are {}", items.len());
        Ok(items)
    })
    .await
}
