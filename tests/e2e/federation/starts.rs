//! The control plane killed at each kind of write of its start, before and after the write takes effect. It replaces
//! the configuration for another scope, makes certificates of the webhook, takes the lock, and takes types and members
//! into work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::{Launch, Process, SOON, eventually};

use super::place::Place;
use super::world::{SYSTEM, Way, World, config_maps, core};

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);
/// Of each kind of write, this many are met. Later ones renew the lock and the status of members.
const MET: u64 = 2;
const TYPES: [&str; 2] = ["namespaces", "configmaps"];
const MEMBERS: [&str; 2] = ["cluster1", "cluster2"];
const WEBHOOKS: [(&str, &str); 2] = [
    ("mutatingwebhookconfigurations", "mutation.core.kubefed.io"),
    (
        "validatingwebhookconfigurations",
        "validations.core.kubefed.io",
    ),
];

/// A write by its verb, resource and subresource, and its number among those.
type StartWrite = ([String; 3], u64);

struct Starts {
    world: World,
    host: Way,
    logs: tempfile::TempDir,
    config: Value,
    started: usize,
}

fn webhook((plural, name): (&str, &str)) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}")
}

impl Starts {
    async fn new() -> Result<Self> {
        let world = World::played().await?;
        let host = world.host().await?;
        let found = host.until_there(&core("kubefedconfigs/kubefed")).await;
        let mut config = json!({
            "apiVersion": found["apiVersion"], "kind": found["kind"], "spec": found["spec"],
            "metadata": {"name": "kubefed", "labels": {"of": "a-test"}},
        });
        config["spec"]["scope"] = "Namespaced".into();
        Ok(Self {
            world,
            host,
            logs: tempfile::tempdir()?,
            config,
            started: 0,
        })
    }

    fn launch(&mut self) -> Result<Process> {
        self.started += 1;
        let log = self
            .logs
            .path()
            .join(format!("federate-{}.log", self.started));
        (self.world.launching("federate", &log))
            .args([
                "--webhook-addr=127.0.0.1:0",
                "--webhook-url=https://127.0.0.1:1",
            ])
            .env("DEFAULT_KUBEFED_SCOPE", "Cluster")
            .spawn()
    }

    async fn remove(&self, path: &str) -> Result<()> {
        if self.host.get(path).await?.is_some() {
            self.host.delete(path).await?;
        }
        Ok(())
    }

    /// All is as before the first start.
    async fn reset(&self) -> Result<()> {
        let host = &self.host;
        for name in TYPES {
            let path = core(&format!("federatedtypeconfigs/{name}"));
            let finalizers = json!({"metadata": {"finalizers": null}});
            host.patch(&path, &finalizers).await?;
            host.patch(&format!("{path}/status"), &json!({"status": null}))
                .await?;
        }
        for name in MEMBERS {
            let path = core(&format!("kubefedclusters/{name}/status"));
            host.patch(&path, &json!({"status": null})).await?;
        }
        for of in WEBHOOKS {
            self.remove(&webhook(of)).await?;
        }
        let secrets = format!("/api/v1/namespaces/{SYSTEM}/secrets");
        self.remove(&format!("{secrets}/kubefed-webhook-certificate"))
            .await?;
        self.unlock().await?;
        let keeper = format!("{}/kubefed-config-replacement", config_maps(SYSTEM));
        self.remove(&keeper).await?;
        self.remove(&core("kubefedconfigs/kubefed")).await?;
        host.create(&core("kubefedconfigs"), &self.config).await?;
        Ok(())
    }

    /// The next process does not wait for the lock of one that was killed.
    async fn unlock(&self) -> Result<()> {
        let lock = format!("{}/kubefed-controller-manager", config_maps(SYSTEM));
        self.remove(&lock).await
    }

    async fn is_started(&self) -> Result<()> {
        let get = async |path: &str| -> Result<Value> {
            let found = self.host.get(path).await?;
            found.with_context(|| format!("{path} is not there"))
        };
        let config = get(&core("kubefedconfigs/kubefed")).await?;
        let mut wanted = self.config["spec"].clone();
        wanted["scope"] = "Cluster".into();
        ensure!(config["spec"] == wanted, "{config:#}");
        ensure!(config["metadata"]["labels"] == json!({"of": "a-test"}));
        let keeper = format!("{}/kubefed-config-replacement", config_maps(SYSTEM));
        let keeper = get(&keeper).await?;
        ensure!(
            keeper["data"]
                .as_object()
                .is_none_or(serde_json::Map::is_empty),
            "{keeper:#}"
        );
        for name in TYPES {
            let found = get(&core(&format!("federatedtypeconfigs/{name}"))).await?;
            let finalizers = &found["metadata"]["finalizers"];
            let running = &found["status"]["propagationController"];
            ensure!(
                running == "Running"
                    && *finalizers == json!(["core.kubefed.io/federated-type-config"]),
                "{found:#}"
            );
        }
        for name in MEMBERS {
            let found = get(&core(&format!("kubefedclusters/{name}"))).await?;
            let condition = &found["status"]["conditions"][0];
            ensure!(condition["reason"] == "ClusterReady", "{found:#}");
        }
        for of in WEBHOOKS {
            let found = get(&webhook(of)).await?;
            let bundle = &found["webhooks"][0]["clientConfig"]["caBundle"];
            ensure!(bundle.is_string(), "{found:#}");
        }
        Ok(())
    }

    async fn until_started(&self) {
        eventually(SOON, "the control plane works", async || {
            self.is_started().await
        })
        .await;
    }

    /// The writes of a start that nobody disturbs.
    async fn writes(&mut self) -> Result<Vec<StartWrite>> {
        self.reset().await?;
        let mark = self.world.host.playground()?.requests().mark();
        let process = self.launch()?;
        self.until_started().await;
        process.kill().await?;
        let mut numbers = BTreeMap::<[String; 3], u64>::new();
        for request in self.world.host.playground()?.requests().since(mark) {
            let is_write = !["get", "list", "watch"].contains(&&*request.verb);
            let is_own = request.user_agent.starts_with("hawser/");
            if is_write && is_own && request.resource != "events" {
                let kind = [request.verb, request.resource, request.subresource];
                *numbers.entry(kind).or_default() += 1;
            }
        }
        let each = numbers.into_iter();
        let each = each.flat_map(|(kind, n)| (0..n.min(MET)).map(move |skip| (kind.clone(), skip)));
        Ok(each.collect())
    }

    /// A start that is killed at a write, and another one after it. Whether it came to that write.
    async fn kill_at(&mut self, (kind, skip): &StartWrite, when: When) -> Result<bool> {
        self.reset().await?;
        let [verb, resource, subresource] = kind.clone().map(Some);
        let matcher = Matcher {
            verb,
            resource,
            subresource,
            agent: Some("hawser/".to_owned()),
            ..Matcher::default()
        };
        let action = match when {
            When::Before => Action::Latency(NEVER),
            When::After => Action::Reset(When::After),
        };
        let fault = Fault {
            skip: *skip,
            ..Fault::new(matcher, action).once()
        };
        let is_struck = |starts: &Self| -> Result<bool> {
            let struck = starts.world.host.playground()?.faults().struck();
            Ok(struck.contains(&1))
        };
        self.world.host.playground()?.faults().add(fault);
        let process = self.launch()?;
        eventually(SOON, "it comes to the write", async || {
            if is_struck(self)? {
                return Ok(());
            }
            self.is_started().await
        })
        .await;
        let was_struck = is_struck(self)?;
        process.kill().await?;
        self.world.host.playground()?.faults().clear();
        self.unlock().await?;
        let process = self.launch()?;
        self.until_started().await;
        process.kill().await?;
        Ok(was_struck)
    }
}

#[tokio::test]
async fn a_host_without_the_types_is_an_error_that_says_what_to_apply() -> Result<()> {
    let host = Place::played().await?;
    let scratch = tempfile::tempdir()?;
    let output = Launch::new("federate", env!("CARGO_BIN_EXE_hawser"))
        .args(["federate", "--kubefed-namespace", SYSTEM])
        .args(["--healthz-addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(host.kubeconfig_file())
        .run(scratch.path(), SOON)
        .await?;
    let wanted = "apply crds/kubefed.io.yaml and create Namespace";
    ensure!(output.stderr.contains(wanted), "{}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn a_control_plane_that_is_killed_while_it_starts_loses_nothing_and_starts_again()
-> Result<()> {
    let mut starts = Starts::new().await?;
    let writes = starts.writes().await?;
    let kinds = writes.iter().map(|(kind, _)| kind.join(" "));
    let kinds: BTreeSet<String> = kinds.collect();
    for kind in [
        "create kubefedconfigs ",
        "delete kubefedconfigs ",
        "create configmaps ",
        "update configmaps ",
        "create secrets ",
        "create mutatingwebhookconfigurations ",
        "create validatingwebhookconfigurations ",
        "patch federatedtypeconfigs ",
        "update federatedtypeconfigs status",
        "update kubefedclusters status",
    ] {
        ensure!(kinds.contains(kind), "{kind} is not in {kinds:#?}");
    }
    let mut struck = BTreeSet::new();
    for write in &writes {
        for when in [When::Before, When::After] {
            let killed = starts.kill_at(write, when).await;
            if killed.with_context(|| format!("killed at {write:?}, {when:?}"))? {
                struck.insert(write.0.join(" "));
            }
        }
    }
    // The second of a kind may be missing in another run; no kind of write was left out.
    assert_eq!(struck, kinds);
    Ok(())
}
