//! The page on the federation as a new user follows it: the chart, a control plane as the chart starts it and with no more
//! rights than it gives, and the commands in turn.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Options, Port, Process, SOON, ServiceCluster};

use super::kubefedctl::{Ctl, shown};
use super::world::{SYSTEM, Way, core, federated};

const NAMESPACE: &str = "my-namespace";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/my-namespace/deployments";

/// The command of the page that installs the chart, word by word.
fn install() -> Result<Vec<String>> {
    let page = std::fs::read_to_string(repository().join("docs/federation.md"))?;
    let lines: Vec<&str> = page.lines().collect();
    let from = lines
        .iter()
        .position(|line| line.starts_with("    helm install "));
    let mut words = Vec::new();
    for line in &lines[from.context("a command")?..] {
        let more = line.strip_suffix('\\');
        words.extend(more.unwrap_or(line).split_whitespace().map(str::to_owned));
        if more.is_none() {
            break;
        }
    }
    // From the directory that the page is read in.
    let chart = words.iter_mut().find(|word| word.starts_with("charts/"));
    let chart = chart.context("a chart")?;
    *chart = repository().join(&*chart).display().to_string();
    let repository = words.iter_mut().find(|word| word.contains("REGISTRY"));
    let repository = repository.context("a registry")?;
    *repository = repository.replace("REGISTRY", "registry.example.com");
    Ok(words)
}

/// Starts the process of the chart's Deployment, by its arguments and with its account.
async fn start(host: &ServiceCluster, way: &Way, log: &std::path::Path) -> Result<Process> {
    let path = format!("/apis/apps/v1/namespaces/{SYSTEM}/deployments/kubefed-controller-manager");
    let deployment = way.until_there(&path).await;
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().context("an account")?;
    let account = format!("system:serviceaccount:{SYSTEM}:{account}");
    let user = host.user(
        &account,
        &["system:serviceaccounts", "system:authenticated"],
    )?;
    let port = Port::reserve()?;
    let listens = format!("127.0.0.1:{}", port.number());
    let args = pod["containers"][0]["args"].as_array().context("args")?;
    let args = args.iter().filter_map(Value::as_str).map(|arg| {
        let arg = arg.replace("$(KUBEFED_NAMESPACE)", SYSTEM);
        // No Pod has an address here.
        if arg.starts_with("--webhook-addr=") {
            format!("--webhook-addr={listens}")
        } else if let Some((flag, _)) = arg.split_once("-addr=") {
            format!("{flag}-addr=127.0.0.1:0")
        } else {
            arg
        }
    });
    Launch::new("federate", env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .args(["--v=5", "--log-format=Console"])
        // Flags of the original that its users may have set.
        .args(["--rest-config-qps=100", "--rest-config-burst=200"])
        .args(["--master", &host.url()])
        .arg(format!("--webhook-url=https://{listens}"))
        .arg("--kubeconfig")
        .arg(user.kubeconfig_file())
        .log(log)
        .spawn()
}

#[tokio::test]
async fn the_page_holds_from_helm_install_to_unjoin_with_the_rights_of_the_chart() -> Result<()> {
    let cluster = || {
        ServiceCluster::start_with(Options {
            controllers: Controllers::All,
            ..Options::default()
        })
    };
    let (host, member) = tokio::try_join!(cluster(), cluster())?;
    let install = install()?;
    let words: Vec<&str> = install.iter().map(String::as_str).collect();
    ensure!(words[0] == "helm" && words.contains(&SYSTEM), "{words:?}");
    host.admin().helm(&words[1..]).await?;
    let scratch = tempfile::tempdir()?;
    let (way, there) = (Way::to(&host)?, Way::to(&member)?);
    let control_plane = start(&host, &way, &scratch.path().join("federate.log")).await?;

    let namespace = json!({"metadata": {"name": NAMESPACE}});
    way.create("/api/v1/namespaces", &namespace).await?;
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "web", "image": "registry.example/web"}]);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }});
    way.create(DEPLOYMENTS, &deployment).await?;
    let ctl = Ctl::among(&[("host", host.admin()), ("cluster1", member.admin())])?;
    for command in shown()? {
        ctl.ok(&command).await?;
        if command.starts_with("join ") {
            way.until(&core("kubefedclusters/cluster1"), |cluster| {
                cluster["status"]["conditions"][0]["reason"] == "ClusterReady"
            })
            .await;
        }
        if command.starts_with("federate ") {
            propagates(&way, &there).await?;
        }
    }
    // The copies outlive the commands.
    there.until_there(&format!("{DEPLOYMENTS}/web")).await;
    let log = control_plane.log();
    ensure!(!log.contains("status 403"), "{log}");
    control_plane.stop(SOON).await?;
    let uninstall = ["uninstall", "kubefed", "--namespace", SYSTEM];
    host.admin().helm(&uninstall).await?;
    Ok(())
}

/// Everything that a control plane does needs its rights once.
async fn propagates(host: &Way, member: &Way) -> Result<()> {
    let copy = format!("{DEPLOYMENTS}/web");
    member.until_there(&copy).await;
    let workload = format!("{}/web", federated(NAMESPACE, "federateddeployments"));
    host.until_reason(&workload, None).await;
    host.until_event(NAMESPACE, "CreateInCluster", "Creating Deployment")
        .await;
    // Replicas are scheduled.
    let preferences = format!(
        "/apis/scheduling.kubefed.io/v1alpha1/namespaces/{NAMESPACE}/replicaschedulingpreferences"
    );
    let preference = json!({
        "apiVersion": "scheduling.kubefed.io/v1alpha1", "kind": "ReplicaSchedulingPreference",
        "metadata": {"name": "web"}, "spec": {"targetKind": "FederatedDeployment", "totalReplicas": 3},
    });
    host.create(&preferences, &preference).await?;
    member
        .until(&copy, |copy| copy["spec"]["replicas"] == 3)
        .await;
    // What is in no namespace has versions of its own, and is deleted with its copies.
    let all = "/apis/types.kubefed.io/v1beta1/federatedclusterroles";
    let role = json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedClusterRole",
        "metadata": {"name": "reader"},
        "spec": {
            "template": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
            "placement": {"clusterSelector": {}},
        },
    });
    host.create(all, &role).await?;
    let path = format!("{all}/reader");
    host.until_reason(&path, None).await;
    let versions = "/apis/core.kubefed.io/v1alpha1/clusterpropagatedversions/clusterrole-reader";
    host.until(versions, |versions| {
        versions["status"]["clusterVersions"][0]["clusterName"] == "cluster1"
    })
    .await;
    host.delete(&path).await?;
    host.until_gone(&path).await;
    let copy = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";
    ensure!(member.get(copy).await?.is_none(), "a copy is left");
    Ok(())
}
