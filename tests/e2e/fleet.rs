//! A fleet as its users meet it: a hub and two members, each a real cluster with its chart, and its agent with the rights
//! of the chart.

mod chaos;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::ports::Port;
use testbed::{Access, Launch, Options, Process, SOON, ServiceCluster, eventually};

use crate::federation::world::Way;

const SYSTEM: &str = "fleet-system";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/settings";

struct Fleet {
    hub: ServiceCluster,
    members: Vec<ServiceCluster>,
    /// The users of the agents in their own clusters: that of the hub, then those of the members.
    accounts: Vec<Access>,
    /// The users of the members in the hub.
    identities: Vec<Access>,
    agents: Vec<Process>,
    webhook: Port,
    logs: tempfile::TempDir,
}

impl Fleet {
    /// A hub that two members have joined.
    async fn start() -> Result<Self> {
        let cluster = |controllers| {
            ServiceCluster::start_with(Options {
                controllers,
                ..Options::default()
            })
        };
        let (hub, one, two) = tokio::try_join!(
            cluster(Controllers::All),
            cluster(Controllers::All),
            cluster(Controllers::All)
        )?;
        install(&hub, "hawser-hub", &[]).await?;
        check_push_mode(&hub).await?;
        check_monitoring(&hub, "hawser-hub", "replicaCount=1").await?;
        let push = "kubeconfigSecrets=members,config.hubURL=https://hub";
        check_monitoring(&hub, "hawser-member", push).await?;
        for (number, member) in [&one, &two].into_iter().enumerate() {
            let name = format!("config.memberClusterName=m{number}");
            install(
                member,
                "hawser-member",
                &[&name, "config.hubURL=https://hub"],
            )
            .await?;
        }
        // The agents have the rights of the charts in their clusters. In the hub, those of members are the hub's to give.
        let account = |cluster: &ServiceCluster, name| {
            let name = format!("system:serviceaccount:{SYSTEM}:{name}");
            cluster.user(&name, &["system:serviceaccounts"])
        };
        let accounts = vec![
            account(&hub, "hub-agent")?,
            account(&one, "member-agent")?,
            account(&two, "member-agent")?,
        ];
        let identities = vec![hub.user("agent-m0", &[])?, hub.user("agent-m1", &[])?];
        let mut fleet = Self {
            hub,
            members: vec![one, two],
            accounts,
            identities,
            agents: Vec::new(),
            webhook: Port::reserve()?,
            logs: tempfile::tempdir()?,
        };
        fleet.start_hub()?;
        for number in 0..fleet.members.len() {
            fleet.start_member(number)?;
        }
        let way = Way::to(&fleet.hub)?;
        for number in 0..fleet.members.len() {
            let name = format!("m{number}");
            let member = json!({
                "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": {"name": name, "labels": {"number": number.to_string()}},
                "spec": {
                    "identity": {"kind": "User", "name": format!("agent-{name}")},
                    "heartbeatPeriodSeconds": 1,
                },
            });
            way.create(MEMBERS, &member).await?;
        }
        for number in 0..fleet.members.len() {
            way.until(&format!("{MEMBERS}/m{number}"), |member| {
                is_true(member, "Joined")
            })
            .await;
        }
        Ok(fleet)
    }

    fn launch(&self, command: &str, number: usize) -> Launch {
        let log = self.logs.path().join(format!("{command}-{number}.log"));
        Launch::new(command, env!("CARGO_BIN_EXE_hawser"))
            .args([command, "--log-format=Console", "-v=5"])
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
            ])
            .log(log)
    }

    fn start_hub(&mut self) -> Result<()> {
        let hub = self
            .launch("hub", self.agents.len())
            .arg(format!(
                "--webhook-bind-address=127.0.0.1:{}",
                self.webhook.number()
            ))
            .arg(format!(
                "--webhook-url=https://127.0.0.1:{}",
                self.webhook.number()
            ))
            .arg(format!("--leader-election-namespace={SYSTEM}"))
            .arg("--kubeconfig")
            .arg(self.accounts[0].kubeconfig_file())
            .spawn()?;
        self.agents.push(hub);
        Ok(())
    }

    fn start_member(&mut self, number: usize) -> Result<()> {
        let member = self
            .launch("member", self.agents.len())
            .env("MEMBER_CLUSTER_NAME", format!("m{number}"))
            .arg("--kubeconfig")
            .arg(self.accounts[number + 1].kubeconfig_file())
            .arg("--hub-kubeconfig")
            .arg(self.identities[number].kubeconfig_file())
            .spawn()?;
        self.agents.push(member);
        Ok(())
    }

    /// What `hawser explain placement shop` prints.
    fn explain(&self, args: &[&str]) -> Result<String> {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(["explain", "placement", "shop", "--kubeconfig"])
            .arg(self.hub.admin().kubeconfig_file())
            .args(args)
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{stderr}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn member(&self, number: usize) -> Result<Way> {
        Way::to(&self.members[number])
    }
}

/// Installs a chart, with the definitions.
async fn install(cluster: &ServiceCluster, chart: &str, values: &[&str]) -> Result<()> {
    let path = repository().join("charts").join(chart);
    let path = path.to_str().context("a path in Unicode")?;
    let place = ["--create-namespace", "--namespace", SYSTEM];
    let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    let admin = cluster.admin();
    admin
        .helm(&[&["lint", "--strict", path], &*values].concat())
        .await?;
    admin
        .helm(&[&["install", "fleet", path], &place[..], &*values].concat())
        .await?;
    let wait = ["wait", "--for=condition=Established", "crd", "--all"];
    admin.kubectl(&wait).await?;
    Ok(())
}

/// The objects of the Prometheus operator, which come on request.
async fn check_monitoring(cluster: &ServiceCluster, chart: &str, needed: &str) -> Result<()> {
    let path = repository().join("charts").join(chart);
    let text = path.to_str().context("a path in Unicode")?;
    let template = async |switch: &str| {
        let values = format!("{needed},{switch}");
        let only = ["--show-only", "templates/monitoring.yaml", "--set", &values];
        let made = cluster
            .admin()
            .helm(&[&["template", "fleet", text], &only[..]].concat())
            .await?;
        let found: Value = serde_saphyr::from_str(&made).with_context(|| made.clone())?;
        anyhow::Ok(found)
    };
    let rules = template("metrics.rules.enabled=true").await?;
    let given = std::fs::read_to_string(path.join("files/alerts.yaml"))?;
    ensure!(rules["spec"] == serde_saphyr::from_str::<Value>(&given)?);
    let monitor = template("metrics.podMonitor.enabled=true").await?;
    ensure!(monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics");
    Ok(())
}

/// In push mode, the agent's Lease is in the hub, and it has no rights where it runs.
async fn check_push_mode(cluster: &ServiceCluster) -> Result<()> {
    let path = repository().join("charts/hawser-member");
    let path = path.to_str().context("a path in Unicode")?;
    let push = [
        "--set",
        "kubeconfigSecrets=members,config.hubURL=https://hub",
    ];
    let made = cluster
        .admin()
        .helm(&[&["template", "edge", path], &push[..]].concat())
        .await?;
    for part in [
        "--kubeconfig-secrets=members",
        "--leader-election-namespace=members",
    ] {
        ensure!(made.contains(part), "{made}");
    }
    for part in ["MEMBER_CLUSTER_NAME", "kind: ClusterRole"] {
        ensure!(!made.contains(part), "{made}");
    }
    let both = ["--set", "config.memberClusterName=m0"];
    let refused = cluster
        .admin()
        .helm(&[&["template", "edge", path], &push[..], &both].concat())
        .await;
    let problem = format!("{:#}", refused.err().context("it was accepted")?);
    ensure!(problem.contains("config.memberClusterName"), "{problem}");
    Ok(())
}

fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == type_ && one["status"] == "True")
}

fn is_available(placement: &Value) -> bool {
    let conditions = placement["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        one["type"] == "ClusterResourcePlacementAvailable"
            && one["status"] == "True"
            && one["observedGeneration"] == placement["metadata"]["generation"]
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_placed_updated_moved_and_taken_back() -> Result<()> {
    let mut fleet = Fleet::start().await?;
    let hub = Way::to(&fleet.hub)?;
    let members = [fleet.member(0)?, fleet.member(1)?];
    hub.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .await?;
    let map = json!({"metadata": {"name": "settings"}, "data": {"size": "1"}});
    hub.create("/api/v1/namespaces/shop/configmaps", &map)
        .await?;
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "shop"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickFixed", "clusterNames": ["m0", "m1"]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxUnavailable": "100%", "maxSurge": "25%", "unavailablePeriodSeconds": 1,
            }},
        },
    });
    // With the rights of the chart, the hub is asked before anything is stored.
    let mut wrong = placement.clone();
    wrong["spec"]["policy"]["clusterNames"] = json!(["m0", "m0"]);
    eventually(SOON, "the webhook refuses", async || -> Result<()> {
        let dry = hub
            .create(&format!("{PLACEMENTS}?dryRun=All"), &wrong)
            .await;
        let problem = format!("{:#}", dry.err().context("it was accepted")?);
        ensure!(problem.contains("must be unique"), "{problem}");
        Ok(())
    })
    .await;
    hub.create(PLACEMENTS, &placement).await?;
    for member in &members {
        member.until(MAP, |map| map["data"]["size"] == "1").await;
    }
    let at = format!("{PLACEMENTS}/shop");
    let placed = hub.until(&at, is_available).await;
    let selected = placed["status"]["selectedResources"].as_array();
    ensure!(selected.is_some_and(|all| all.len() == 2), "{placed:#}");

    // A member sees nothing of another one.
    let seen = Way::by(fleet.identities[0].config()?)?;
    let works = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces";
    seen.get(&format!("{works}/fleet-member-m0/works")).await?;
    for path in [
        format!("{works}/fleet-member-m1/works"),
        PLACEMENTS.to_owned(),
    ] {
        ensure!(seen.get(&path).await.is_err(), "{path} can be read");
    }

    // What the hub does while nobody runs it is made up for.
    fleet.agents.remove(0).kill().await?;
    hub.patch(MAP, &json!({"data": {"size": "2"}})).await?;
    fleet.start_hub()?;
    for member in &members {
        member.until(MAP, |map| map["data"]["size"] == "2").await;
    }

    // Drift is undone by the members.
    members[0]
        .patch(MAP, &json!({"data": {"size": "9"}}))
        .await?;
    members[0]
        .until(MAP, |map| map["data"]["size"] == "2")
        .await;

    hub.patch(&at, &json!({"spec": {"policy": {"clusterNames": ["m1"]}}}))
        .await?;
    members[0].until_gone(MAP).await;
    hub.until(&at, is_available).await;
    members[1]
        .until(MAP, |map| map["data"]["size"] == "2")
        .await;

    let told = fleet.explain(&[])?;
    ensure!(
        told.contains("picked      m1: ") && told.contains("not picked  m0: "),
        "{told}"
    );
    let other = fleet.logs.path().join("other.json");
    let mut policy = placement.clone();
    policy["spec"]["policy"] = json!({"placementType": "PickAll"});
    std::fs::write(&other, policy.to_string())?;
    let told = fleet.explain(&["--dry-run", other.to_str().context("a path in Unicode")?])?;
    ensure!(told.contains("picked      m0 [added]: "), "{told}");
    ensure!(told.contains("1 would be added and 0 removed"), "{told}");

    hub.delete(&at).await?;
    members[1].until_gone(MAP).await;
    hub.until_gone(&at).await;
    hub.until(MAP, |map| map["data"]["size"] == "2").await;

    // What is abandoned stays, and belongs to nobody.
    let mut kept = placement.clone();
    kept["metadata"]["name"] = "kept".into();
    kept["spec"]["policy"]["clusterNames"] = json!(["m1"]);
    kept["spec"]["strategy"]["deleteStrategy"] = json!({"propagationPolicy": "Abandon"});
    hub.create(PLACEMENTS, &kept).await?;
    let at = format!("{PLACEMENTS}/kept");
    hub.until(&at, is_available).await;
    hub.delete(&at).await?;
    hub.until_gone(&at).await;
    let applied = "/apis/placement.kubernetes-fleet.io/v1beta1/appliedworks/kept-work";
    members[1].until_gone(applied).await;
    hub.until_gone(&format!("{works}/fleet-member-m1/works/kept-work"))
        .await;
    let left = members[1].get(MAP).await?.context("it stays")?;
    ensure!(
        left["metadata"]["ownerReferences"].is_null()
            && left["metadata"]["deletionTimestamp"].is_null(),
        "{left:#}"
    );

    // A member leaves, and nothing of it is left in the hub.
    hub.delete(&format!("{MEMBERS}/m1")).await?;
    hub.until_gone(&format!("{MEMBERS}/m1")).await;
    hub.until_gone("/api/v1/namespaces/fleet-member-m1").await;
    Ok(())
}
