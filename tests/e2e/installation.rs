//! The whole of it, as the pages say: the chart on a real kube-apiserver, an agent with its arguments
//! and its rights and no others, the examples published, bound and used.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use kcp_playground::Playground;
use kcp_playground::PlaygroundOptions;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::binaries::repository;
use testbed::{Launch, Process, SOON, ServiceCluster, eventually};

use crate::workspaces::{self, create};

const EXPORT: &str = "wares.example.org";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
const VALUES: &str = "\
agentName: ships
apiExportEndpointSliceName: wares.example.org
kcpKubeconfig: kcp
publishedResources:
  - {group: example.com, resource: crontabs, status: true}
  - {group: db.internal.example.com, resource: postgresclusters, status: true}
";

/// A service cluster with a release of the chart, a kcp with a provider and a consumer, and what the
/// Deployment would run.
struct Installation {
    service: ServiceCluster,
    kcp: Playground,
    provider: Client,
    consumer: Client,
    namespace: String,
    agent: Process,
    _directory: TempDir,
}

impl Installation {
    async fn make() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let service = ServiceCluster::start().await?;
        let namespace = service.namespace("hawser").await?;
        let values = directory.path().join("values.yaml");
        fs::write(&values, VALUES)?;
        let (values, chart) = (
            values.display().to_string(),
            repository().join("charts/hawser").display().to_string(),
        );
        let install = ["install", "first", &chart, "--namespace", &namespace];
        let command = [&install[..], &["--values", &values]].concat();
        service.admin().helm(&command).await?;

        let options = PlaygroundOptions {
            token_file: "of-the-agent,agent,1,\"agents\"\n".to_owned(),
            ..PlaygroundOptions::default()
        };
        let kcp = Playground::start_with(options).await?;
        let provider = workspaces::make(&kcp, "provider").await?;
        let consumer = workspaces::make(&kcp, "consumer").await?;
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
            "metadata": { "name": EXPORT }, "spec": {},
        });
        create(&provider, &export).await?;
        let url = format!("{}/clusters/root:provider", kcp.kcp_url());
        let kubeconfig = directory.path().join("kcp.kubeconfig");
        let own = kcp.kubeconfig_at(&url, "agent", "of-the-agent");
        fs::write(&kubeconfig, own.to_string())?;

        let agent = run_the_deployment(&service, &namespace, &kubeconfig, directory.path()).await?;
        Ok(Self {
            service,
            kcp,
            provider,
            consumer,
            namespace,
            agent,
            _directory: directory,
        })
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.service.admin().kubectl(args).await
    }

    /// The one object of a kind on the service cluster.
    async fn only(&self, resource: &str) -> Result<Value> {
        let args = ["get", resource, "--all-namespaces", "--output=json"];
        let list: Value = serde_json::from_str(&self.kubectl(&args).await?)?;
        let items = list["items"].as_array().context("no list")?;
        let [one] = &items[..] else {
            anyhow::bail!("{} {resource}", items.len());
        };
        Ok(one.clone())
    }
}

/// Starts what the Pod would run, as whom it would run; the addresses of a Pod are nobody's here.
async fn run_the_deployment(
    service: &ServiceCluster,
    namespace: &str,
    kcp: &Path,
    directory: &Path,
) -> Result<Process> {
    let all: Api<Deployment> = Api::namespaced(service.admin().client()?, namespace);
    let deployment = serde_json::to_value(all.get("ships").await?)?;
    let pod = &deployment["spec"]["template"]["spec"];
    let name = pod["serviceAccountName"].as_str().context("no account")?;
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let own = service.user(&user, &["system:serviceaccounts"])?;
    let args = pod["containers"][0]["args"].as_array().context("no args")?;
    let args = args.iter().filter_map(Value::as_str).map(|arg| {
        let flag = arg.split('=').next().unwrap_or_default();
        match flag {
            "--health-address" | "--metrics-address" => format!("{flag}=0"),
            "--kcp-kubeconfig" => format!("{flag}={}", kcp.display()),
            _ => arg
                .replace("$(POD_NAMESPACE)", namespace)
                .replace("$(AGENT_NAME)", "ships"),
        }
    });
    Launch::new("agent", env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .arg(format!("--kubeconfig={}", own.kubeconfig_file().display()))
        .log(directory.join("agent.log"))
        .spawn()
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

/// Publishes an example by the commands of its README.
async fn publish(installation: &Installation, example: &str) -> Result<()> {
    let directory = repository().join("examples").join(example);
    for file in ["crd.yaml", "published-resource.yaml"] {
        let file = directory.join(file).display().to_string();
        installation
            .kubectl(&["apply", "--filename", &file])
            .await?;
    }
    let name = format!("publishedresource/publish-{example}");
    let wait = ["wait", "--for=condition=Ready", &name, "--timeout=60s"];
    if let Err(error) = installation.kubectl(&wait).await {
        let found = installation
            .kubectl(&["get", &name, "--output=yaml"])
            .await?;
        anyhow::bail!("{error}\n{found}\n{}", installation.agent.log_tail(40));
    }
    Ok(())
}

/// Binds the export once it has so many schemas, and accepts all that it claims.
async fn bind(installation: &Installation, schemas: usize) -> Result<()> {
    let export = eventually(SOON, "the export has all schemas", async || {
        let export = get(&installation.provider, &format!("{EXPORTS}/{EXPORT}")).await?;
        let found = export["spec"]["latestResourceSchemas"].as_array();
        ensure!(found.is_some_and(|all| all.len() == schemas), "{export}");
        Ok(export)
    })
    .await;
    let mut claims = export["spec"]["permissionClaims"].clone();
    for claim in claims.as_array_mut().context("no claims")? {
        claim["state"] = "Accepted".into();
    }
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": { "name": "wares" },
        "spec": {
            "reference": { "export": { "path": "root:provider", "name": EXPORT } },
            "permissionClaims": claims,
        },
    });
    create(&installation.consumer, &binding).await?;
    Ok(())
}

fn example_of(name: &str, file: &str) -> Result<Value> {
    let path = repository().join("examples").join(name).join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| text)
}

/// Every field of `wanted` is in `found`; there may be defaults beside them.
fn has(found: &Value, wanted: &Value) -> Result<()> {
    for (field, value) in wanted.as_object().context("no fields")? {
        ensure!(found.get(field) == Some(value), "{field}: {found}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_are_used_through_an_agent_with_the_rights_of_the_chart() -> Result<()> {
    let it = Installation::make().await?;
    for example in ["crontabs", "databases"] {
        publish(&it, example).await?;
    }
    bind(&it, 2).await?;

    // There and back.
    create(&it.consumer, &example_of("crontabs", "object.yaml")?).await?;
    create(&it.consumer, &example_of("databases", "object.yaml")?).await?;
    let copy = eventually(SOON, "the cron tab has its copy", async || {
        it.only("crontabs").await
    })
    .await;
    assert_eq!(copy["spec"]["image"], "registry.internal/backup:1.2");
    let copy = eventually(SOON, "the database has its copy", async || {
        it.only("postgresclusters").await
    })
    .await;
    let wanted = json!({ "version": "17", "storageGiB": 10, "costCenter": "default" });
    has(&copy["spec"], &wanted)?;
    let place = |field| copy["metadata"][field].as_str().unwrap_or_default();
    let status = json!({ "status": example_of("databases", "copy.yaml")?["status"] }).to_string();
    let (name, namespace) = (place("name"), place("namespace"));
    let object = ["postgresclusters", name, "--namespace", namespace];
    let change = ["--subresource=status", "--type=merge", "--patch", &status];
    it.kubectl(&[&["patch"], &object[..], &change].concat())
        .await?;
    let own = "/apis/databases.example.org/v1alpha1/namespaces/default/databases/orders";
    let url = json!({ "url": "postgres://orders-rw.databases.example.org:5432" });
    eventually(SOON, "the consumer sees the status", async || {
        has(&get(&it.consumer, own).await?["status"], &url)
    })
    .await;

    eventually(SOON, "the consumer is told", async || {
        let events = get(&it.consumer, "/api/v1/namespaces/default/events").await?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let of_object = |event: &&Value| event["involvedObject"]["name"] == "orders";
        let placed = events.iter().filter(of_object);
        let mut reasons = placed.map(|event| &event["reason"]);
        ensure!(reasons.any(|reason| reason == "ObjectPlaced"), "{events:?}");
        Ok(())
    })
    .await;

    // Deletions leave nothing behind.
    for (path, resource) in [
        (own, "postgresclusters"),
        (
            "/apis/crontabs.example.org/v1/namespaces/default/crontabs/nightly",
            "crontabs",
        ),
    ] {
        it.consumer
            .request::<Value>(Request::delete(path).body(Vec::new())?)
            .await?;
        eventually(SOON, "the object and its copy are gone", async || {
            let left = it.kubectl(&["get", resource, "--all-namespaces"]).await?;
            ensure!(left.trim().is_empty(), "{left}");
            ensure!(
                get(&it.consumer, path).await.is_err(),
                "the object is there"
            );
            Ok(())
        })
        .await;
    }
    let secrets = [
        "get",
        "secrets",
        "--namespace",
        &it.namespace,
        "--output=name",
    ];
    let states = it.kubectl(&secrets).await?;
    ensure!(!states.contains("obj-state"), "{states}");
    // What it needs it may do.
    for example in ["crontabs", "databases"] {
        let name = format!("publishedresource/publish-{example}");
        let wait = "--for=jsonpath={.status.conditions[0].reason}=Synchronizing";
        it.kubectl(&["wait", wait, &name, "--timeout=60s"]).await?;
    }
    let exit = it.agent.stop(SOON).await?;
    assert!(exit.success(), "{exit:?}: {}", it.agent.log_tail(20));
    let log = it.agent.log();
    ensure!(
        !log.contains("forbidden") && !log.contains("status 403"),
        "{log}"
    );
    it.kcp.stop().await;
    Ok(())
}
