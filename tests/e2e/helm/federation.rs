//! The chart of the control plane of federations.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser_runtime::cluster::connection::{Call, Connection, Limits};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Options, SOON, ServiceCluster, eventually};

use super::{helm, refused};

const SYSTEM: &str = "kube-federation-system";

fn chart() -> String {
    let chart = repository().join("charts/hawser-federation");
    chart.display().to_string()
}

/// All objects that the chart renders to.
async fn render(values: &[&str]) -> Result<Vec<Value>> {
    let chart = chart();
    let command = ["template", "kubefed", &chart, "--namespace", SYSTEM];
    let text = helm(ServiceCluster::shared().await?.admin(), &command, values).await?;
    let documents = serde_saphyr::from_multiple::<Value>(&text).with_context(|| text)?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

#[tokio::test]
async fn values_of_the_original_reach_the_configuration() -> Result<()> {
    let admin = ServiceCluster::shared().await?.admin();
    helm(admin, &["lint", "--strict", &chart()], &[]).await?;
    let about: Value = serde_saphyr::from_str(&admin.helm(&["show", "chart", &chart()]).await?)?;
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));

    let plain = render(&[]).await?;
    let config = of_kind(&plain, "KubeFedConfig");
    assert_eq!(config[0]["spec"], json!({"scope": "Cluster"}));
    assert_eq!(of_kind(&plain, "FederatedTypeConfig").len(), 10);

    let values = [
        "global.scope=Namespaced",
        "controllermanager.clusterAvailableDelay=5s",
        "controllermanager.leaderElectResourceLock=endpoints",
        "controllermanager.clusterHealthCheckFailureThreshold=4",
        "controllermanager.syncController.adoptResources=Disabled",
        "controllermanager.featureGates.RawResourceStatusCollection=Enabled",
        "controllermanager.controller.replicaCount=1",
        "controllermanager.controller.repository=registry.example.org",
        "controllermanager.controller.tag=v2",
        "controllermanager.controller.env.A=b",
    ];
    let given = render(&values).await?;
    assert_eq!(
        of_kind(&given, "KubeFedConfig")[0]["spec"],
        json!({
            "scope": "Namespaced",
            "controllerDuration": {"availableDelay": "5s"},
            "leaderElect": {"resourceLock": "endpoints"},
            "clusterHealthCheck": {"failureThreshold": 4},
            "syncController": {"adoptResources": "Disabled"},
            "featureGates": [{"name": "RawResourceStatusCollection", "configuration": "Enabled"}],
        })
    );
    let deployment = of_kind(&given, "Deployment")[0];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.org/hawser:v2");
    assert_eq!(container["env"][1], json!({"name": "A", "value": "b"}));
    assert_eq!(deployment["spec"]["replicas"], 1);
    // Nothing outside its namespace, apart from the configurations of the webhook.
    let everywhere = of_kind(&given, "ClusterRole");
    let names: Vec<&Value> = everywhere
        .iter()
        .map(|role| &role["metadata"]["name"])
        .collect();
    assert_eq!(names, ["kubefed-webhook-kube-federation-system"]);
    refused(
        render(&["global.scope=All"]).await,
        "has to be Cluster or Namespaced",
    );
    Ok(())
}

/// Values of the original's chart, as somebody may have set them.
const ORIGINAL: &str = r"
global: { scope: Cluster }
controllermanager:
  enabled: true
  commonTolerations: [{ key: dedicated, operator: Exists }]
  commonNodeSelector: { kubernetes.io/os: linux }
  imagePullSecrets: [{ name: pull }]
  clusterAvailableDelay: 5s
  clusterUnavailableDelay: 60s
  cacheSyncTimeout: 5m
  leaderElectLeaseDuration: 15s
  leaderElectRenewDeadline: 10s
  leaderElectRetryPeriod: 5s
  leaderElectResourceLock: configmaps
  clusterHealthCheckPeriod: 10s
  clusterHealthCheckFailureThreshold: 3
  clusterHealthCheckSuccessThreshold: 1
  clusterHealthCheckTimeout: 3s
  syncController: { maxConcurrentReconciles: 2, adoptResources: Enabled }
  statusController: { maxConcurrentReconciles: 2 }
  featureGates: { PushReconciler: Enabled, SchedulerPreferences: Enabled, RawResourceStatusCollection: Disabled }
  controller:
    annotations: { note: ahoy }
    replicaCount: 2
    repository: registry.example.org
    image: hawser
    tag: v1
    imagePullPolicy: Always
    logLevel: 2
    forceRedeployment: true
    env: { A: b }
    resources: { limits: { cpu: 500m, memory: 512Mi } }
  webhook:
    replicaCount: 1
    repository: registry.example.org
    logLevel: 8
  certManager: { enabled: true, rootCertificate: { organizations: [ships] } }
  postInstallJob: { repository: bitnami, image: kubectl }
  service: { labels: { team: harbour } }
";

#[tokio::test]
async fn values_of_kubefeds_chart_are_accepted_as_they_are() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let admin = cluster.admin();
    let namespace = cluster.namespace("kubefed").await?;
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("values.yaml");
    std::fs::write(&file, ORIGINAL)?;
    let (file, chart) = (file.display().to_string(), chart());
    helm(admin, &["lint", "--strict", &chart, "--values", &file], &[]).await?;
    let release = [&*chart, "--namespace", &namespace, "--values", &file];
    let template = [&["template", "kubefed"], &release[..]].concat();
    let text = helm(admin, &template, &[]).await?;
    let objects = serde_saphyr::from_multiple::<Value>(&text).with_context(|| text.clone())?;
    let deployment = of_kind(&objects, "Deployment")[0];
    let pod = &deployment["spec"]["template"];
    let annotations = &pod["metadata"]["annotations"];
    ensure!(
        annotations["note"] == "ahoy" && annotations["rollme"].is_string(),
        "{annotations}"
    );
    assert_eq!(pod["spec"]["tolerations"][0]["key"], "dedicated");
    assert_eq!(
        pod["spec"]["nodeSelector"],
        json!({"kubernetes.io/os": "linux"})
    );
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"], "512Mi");
    for kind in ["Job", "Certificate", "Issuer"] {
        ensure!(of_kind(&objects, kind).is_empty(), "{kind}");
    }
    // The server knows every field of every object that it serves.
    let served = |object: &&Value| {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        !version.contains("kubefed.io")
    };
    let all = scratch.path().join("all.json");
    let items: Vec<&Value> = (objects.iter().filter(|object| object.is_object()))
        .filter(served)
        .collect();
    std::fs::write(
        &all,
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
    )?;
    let all = all.display().to_string();
    let apply = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "--filename",
        &all,
    ];
    admin.kubectl(&apply).await?;
    Ok(())
}

#[tokio::test]
async fn the_account_of_the_chart_may_do_what_the_control_plane_needs() -> Result<()> {
    let options = || Options {
        controllers: Controllers::All,
        ..Options::default()
    };
    for scope in ["Cluster", "Namespaced"] {
        let cluster = ServiceCluster::start_with(options()).await?;
        works(&cluster, scope).await?;
    }
    Ok(())
}

async fn works(cluster: &ServiceCluster, scope: &str) -> Result<()> {
    let (chart, scope_value) = (chart(), format!("global.scope={scope}"));
    let install = [
        "install",
        "kubefed",
        &chart,
        "--namespace",
        SYSTEM,
        "--create-namespace",
    ];
    let scratch = tempfile::tempdir()?;
    if scope == "Cluster" {
        // Those without effect are named, and no others.
        let file = scratch.path().join("values.yaml");
        std::fs::write(&file, ORIGINAL)?;
        let file = file.display().to_string();
        let install = [&install[..], &["--values", &file]].concat();
        let said = helm(cluster.admin(), &install, &["controllermanager.typo=1"]).await?;
        for name in [
            "certManager",
            "postInstallJob",
            "typo",
            "webhook.logLevel",
            "webhook.replicaCount",
            "webhook.repository",
        ] {
            let told = format!("The value `controllermanager.{name}` has no effect: ");
            ensure!(said.contains(&told), "{told} is not in {said}");
        }
        ensure!(said.matches("has no effect").count() == 6, "{said}");
    } else {
        let said = helm(cluster.admin(), &install, &[&scope_value]).await?;
        ensure!(!said.contains("has no effect"), "{said}");
    }
    let account = format!("system:serviceaccount:{SYSTEM}:kubefed-controller");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let user = cluster.user(&account, &groups)?;
    let port = testbed::Port::reserve()?;
    let log = scratch.path().join("federate.log");
    let control_plane = Launch::new("federate", env!("CARGO_BIN_EXE_hawser"))
        .args([
            "federate",
            "--log-format=Console",
            "--logtostderr",
            "--kubefed-namespace",
            SYSTEM,
        ])
        .args(["--healthz-addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0"])
        .arg(format!("--webhook-addr=127.0.0.1:{}", port.number()))
        .arg(format!("--webhook-url=https://127.0.0.1:{}", port.number()))
        .arg("--kubeconfig")
        .arg(user.kubeconfig_file())
        .log(&log)
        .spawn()?;
    let host = Connection::new(cluster.admin().config()?, Limits::default())?;
    let core = format!("/apis/core.kubefed.io/v1beta1/namespaces/{SYSTEM}");
    let running = if scope == "Cluster" { 10 } else { 8 };
    eventually(SOON, "types are at work", async || -> Result<()> {
        let list = host
            .ask(Call::get(format!("{core}/federatedtypeconfigs")))
            .await?;
        let items = list["items"].as_array().context("a list")?.iter();
        let at_work = items.filter(|config| config["status"]["propagationController"] == "Running");
        let count = at_work.count();
        ensure!(count == running, "{count} types are running");
        Ok(())
    })
    .await;
    let suffix = if scope == "Cluster" {
        String::new()
    } else {
        format!("-{SYSTEM}")
    };
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/validations.core.kubefed.io{suffix}"
    );
    eventually(SOON, &path, async || host.ask(Call::get(&*path)).await).await;
    refuses(&host).await;
    // Completed by the webhook, and fixed.
    let configs = format!("{core}/kubefedconfigs");
    let little = json!({
        "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedConfig", "metadata": {"name": "little"},
        "spec": {"scope": scope},
    });
    let completed = host.ask(Call::post(&*configs, &little)).await?;
    assert_eq!(
        completed["spec"]["clusterHealthCheck"]["failureThreshold"],
        3
    );
    let other = if scope == "Cluster" {
        "Namespaced"
    } else {
        "Cluster"
    };
    let change = Call::merge_patch(
        format!("{configs}/little"),
        &json!({"spec": {"scope": other}}),
    );
    let refused = host.ask(change).await.err().context("the scope changed")?;
    assert_eq!(refused.code(), Some(403));
    assert!(refused.to_string().contains("spec.scope"), "{refused}");
    let said = control_plane.log();
    assert!(!said.contains("status 403"), "{said}");
    control_plane.stop(SOON).await?;

    // The program of the original that serves the webhook alone, with the certificate in files.
    let secret = format!("/api/v1/namespaces/{SYSTEM}/secrets/kubefed-webhook-certificate");
    let secret = host.ask(Call::get(secret)).await?;
    for name in ["tls.crt", "tls.key"] {
        let data = secret["data"][name].as_str().context("data")?;
        std::fs::write(scratch.path().join(name), STANDARD.decode(data)?)?;
    }
    let webhook = Launch::new("webhook", env!("CARGO_BIN_EXE_hawser"))
        .args(["kubefed-webhook", "--logtostderr", "--v=8"])
        .arg(format!("--secure-port=127.0.0.1:{}", port.number()))
        .arg("--cert-dir")
        .arg(scratch.path())
        .log(scratch.path().join("webhook.log"))
        .spawn()?;
    refuses(&host).await;
    webhook.stop(SOON).await?;

    helm(
        cluster.admin(),
        &["uninstall", "kubefed", "--namespace", SYSTEM],
        &[],
    )
    .await?;
    eventually(
        SOON,
        "the configurations end with the release",
        async || -> Result<()> {
            let gone = host.ask(Call::get(&*path)).await.err();
            let gone = gone.context("it is still there")?;
            ensure!(gone.code() == Some(404), "{gone}");
            Ok(())
        },
    )
    .await;
    Ok(())
}

/// Asked by the webhook: the server does not accept it.
async fn refuses(host: &Connection) {
    let wrong = json!({
        "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster", "metadata": {"name": "wrong"},
        "spec": {"apiEndpoint": "ftp://x", "secretRef": {"name": "s"}},
    });
    let clusters =
        format!("/apis/core.kubefed.io/v1beta1/namespaces/{SYSTEM}/kubefedclusters?dryRun=All");
    eventually(SOON, "the webhook refuses", async || -> Result<()> {
        let dry = host.ask(Call::post(&*clusters, &wrong)).await;
        let error = dry.err().context("it was accepted")?.to_string();
        ensure!(error.contains("spec.apiEndpoint"), "{error}");
        Ok(())
    })
    .await;
}
