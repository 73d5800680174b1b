//! The Helm chart, by the real helm on a real kube-apiserver.
//!
//! No Pod runs there, so what is looked at is the objects and what they allow.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::{Access, ServiceCluster, unique};

mod federation;
mod rights;
mod takeover;

const CRD: &str = "crds/syncagent.kcp.io_publishedresources.yaml";

/// The least that the chart can be installed with.
const LEAST: &[&str] = &[
    "kcpKubeconfig=kcp",
    "apiExportEndpointSliceName=example.org",
];
/// Beside others on one cluster: the definition there is not this release's.
const NO_CRD: &str = "crds.enabled=false";

fn chart() -> String {
    repository().join("charts/hawser").display().to_string()
}

/// Runs helm on the chart with values as `--set` takes them.
async fn helm(who: &Access, command: &[&str], values: &[&str]) -> Result<String> {
    let mut args = command.to_vec();
    for value in values {
        args.extend(["--set", value]);
    }
    who.helm(&args).await
}

/// What one template of the chart renders to.
async fn render(template: &str, values: &[&str]) -> Result<Value> {
    let (chart, template) = (chart(), format!("templates/{template}"));
    let command = ["template", "agent", &chart, "--show-only", &template];
    let text = helm(ServiceCluster::shared().await?.admin(), &command, values).await?;
    serde_saphyr::from_str(&text).with_context(|| text)
}

fn with<'a>(values: &[&'a str]) -> Vec<&'a str> {
    [LEAST, values].concat()
}

fn args(deployment: &Value) -> Vec<&str> {
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    args.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[track_caller]
fn refused(answer: Result<impl Sized>, why: &str) {
    let error = answer.err().expect("helm accepted it").to_string();
    assert!(error.contains(why), "{error}");
}

#[tokio::test]
async fn the_chart_is_without_a_fault_and_of_the_version_of_the_agent() -> Result<()> {
    let admin = ServiceCluster::shared().await?.admin();
    helm(admin, &["lint", "--strict", &chart()], LEAST).await?;
    let about: Value = serde_saphyr::from_str(&admin.helm(&["show", "chart", &chart()]).await?)?;
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[tokio::test]
async fn what_the_agent_cannot_do_without_has_to_be_given() -> Result<()> {
    let template = "deployment.yaml";
    refused(
        render(template, &["kcpKubeconfig=kcp"]).await,
        "apiExportEndpointSliceName: set it",
    );
    refused(
        render(template, &["apiExportName=example.org"]).await,
        "kcpKubeconfig: set it",
    );
    refused(
        render(template, &with(&["agentName=1st.agent"])).await,
        "agentName",
    );
    refused(
        render(
            "rbac.yaml",
            &with(&["publishedResources[0].group=example.org"]),
        )
        .await,
        "publishedResources[0].resource",
    );
    Ok(())
}

#[tokio::test]
async fn every_value_that_is_a_flag_reaches_the_agent() -> Result<()> {
    let deployment = render("deployment.yaml", LEAST).await?;
    assert_eq!(
        args(&deployment),
        [
            "--namespace=$(POD_NAMESPACE)",
            "--enable-leader-election=true",
            "--apiexportendpointslice-ref=example.org",
            "--agent-name=$(AGENT_NAME)",
            "--kcp-kubeconfig=/etc/api-syncagent/kcp/kubeconfig",
            "--health-address=:8081",
            "--metrics-address=:8085",
        ]
    );
    let values = with(&[
        "apiExportName=not-this",
        "kubeconfig=cluster",
        "kubeconfigHostOverride=https://example.org",
        "kubeconfigCAFileOverride=/ca.crt",
        "publishedResourceSelector=tier=gold",
        "disabledControllers={apiexport,sync}",
        "enableLeaderElection=false",
        "probes.enabled=false",
        "metrics.enabled=false",
        "extraFlags={--log-debug,--log-format=Console}",
    ]);
    let deployment = render("deployment.yaml", &values).await?;
    assert_eq!(
        args(&deployment),
        [
            "--namespace=$(POD_NAMESPACE)",
            "--enable-leader-election=false",
            "--apiexportendpointslice-ref=example.org",
            "--agent-name=$(AGENT_NAME)",
            "--kcp-kubeconfig=/etc/api-syncagent/kcp/kubeconfig",
            "--kubeconfig=/etc/api-syncagent/cluster/kubeconfig",
            "--kubeconfig-host-override=https://example.org",
            "--kubeconfig-ca-file-override=/ca.crt",
            "--published-resource-selector=tier=gold",
            "--disabled-controllers=apiexport,sync",
            "--log-debug",
            "--log-format=Console",
        ]
    );
    let values = ["kcpKubeconfig=kcp", "apiExportName=example.org"];
    let deployment = render("deployment.yaml", &values).await?;
    assert!(args(&deployment).contains(&"--apiexport-ref=example.org"));
    Ok(())
}

#[tokio::test]
async fn the_agent_knows_every_flag_that_the_chart_sets() -> Result<()> {
    let all = with(&[
        "kubeconfig=cluster",
        "kubeconfigHostOverride=https://example.org",
        "kubeconfigCAFileOverride=/ca.crt",
        "publishedResourceSelector=tier in (gold)",
        "disabledControllers={sync}",
        "shards=6",
    ]);
    let older = ["kcpKubeconfig=kcp", "apiExportName=example.org"];
    for values in [&all[..], &older] {
        let deployment = render("deployment.yaml", values).await?;
        let args = args(&deployment);
        // As in the image: no subcommand. What stands before the last flag is read before it.
        let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(&args)
            .arg("--help")
            .output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        let help = String::from_utf8(output.stdout)?;
        for arg in args {
            let (flag, _) = arg.split_once('=').context("a flag without a value")?;
            ensure!(
                help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}[")),
                "{arg}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_flag_given_by_hand_takes_the_place_of_the_charts_own() -> Result<()> {
    let values = with(&["extraFlags={--health-address=:1,--metrics-address=0}"]);
    let deployment = render("deployment.yaml", &values).await?;
    let last: Vec<_> = args(&deployment).into_iter().skip(5).collect();
    assert_eq!(last, ["--health-address=:1", "--metrics-address=0"]);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for field in ["ports", "readinessProbe", "livenessProbe"] {
        assert!(container[field].is_null(), "{field}");
    }
    refused(
        render("service.yaml", &values).await,
        "could not find template",
    );
    Ok(())
}

#[tokio::test]
async fn rules_and_dashboard_come_on_request() -> Result<()> {
    let template = "monitoring.yaml";
    refused(render(template, LEAST).await, "could not find template");
    let rules = render(template, &with(&["metrics.rules.enabled=true"])).await?;
    assert_eq!(rules["kind"], "PrometheusRule");
    let given = std::fs::read_to_string(repository().join("charts/hawser/files/alerts.yaml"))?;
    let given: Value = serde_saphyr::from_str(&given)?;
    assert_eq!(rules["spec"], given);
    let monitor = render(template, &with(&["metrics.serviceMonitor.enabled=true"])).await?;
    assert_eq!(monitor["spec"]["endpoints"], json!([{"port": "metrics"}]));
    let values = with(&["metrics.dashboard.enabled=true"]);
    let dashboard = render(template, &values).await?;
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = dashboard["data"]["hawser.json"]
        .as_str()
        .context("no dashboard")?;
    assert_eq!(serde_json::from_str::<Value>(text)?["title"], "Hawser");
    let alone = with(&[
        "metrics.serviceMonitor.enabled=true",
        "metrics.service.enabled=false",
    ]);
    refused(render(template, &alone).await, "metrics.service.enabled");
    let without = with(&["metrics.rules.enabled=true", "metrics.enabled=false"]);
    refused(render(template, &without).await, "could not find template");
    Ok(())
}

#[tokio::test]
async fn the_pod_runs_without_rights_and_each_field_of_its_security_has_its_place() -> Result<()> {
    let deployment = render("deployment.yaml", LEAST).await?;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534,
            "seccompProfile": { "type": "RuntimeDefault" },
        })
    );
    assert_eq!(
        pod["containers"][0]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        })
    );
    let values = with(&[
        "securityContext.runAsUser=null",
        "securityContext.fsGroup=7",
    ]);
    let deployment = render("deployment.yaml", &values).await?;
    let security = &deployment["spec"]["template"]["spec"]["securityContext"];
    assert!(
        security["runAsUser"].is_null() && security["fsGroup"] == 7,
        "{security}"
    );
    Ok(())
}

/// Every value that the original's chart has, as somebody may have set it.
const ORIGINAL: &str = r"
apiExportEndpointSliceName: example.org
apiExportName: ''
agentName: ships
kcpKubeconfig: kcp
publishedResourceSelector: 'tier in (gold, silver)'
extraFlags: ['--log-format=Console']
nameOverride: sync
fullnameOverride: ships-agent
namespaceOverride: ''
image: { repository: registry.example.org/api-syncagent, tag: v0.7.0 }
replicas: 1
enableLeaderElection: false
disabledControllers: [apiexport]
resources: { requests: { cpu: 50m, memory: 32Mi }, limits: { memory: 128Mi } }
crds: { enabled: false }
serviceAccount: { create: true, automount: true, annotations: { owner: ships }, name: captain }
extraVolumes: [{ name: ca, configMap: { name: ca } }]
extraVolumeMounts: [{ name: ca, mountPath: /ca }]
hostAliases: { enabled: true, values: [{ ip: 10.1.2.3, hostnames: [kcp.example.org] }] }
nodeSelector: { kubernetes.io/os: linux }
tolerations: [{ key: dedicated, operator: Exists }]
affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
securityContext: { runAsNonRoot: true, runAsUser: 1000 }
extraLabels: { team: harbour }
extraAnnotations: { note: ahoy }
global: { imagePullSecrets: [first, { name: second }] }
";

#[tokio::test]
async fn values_of_the_originals_chart_are_accepted_as_they_are() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let admin = cluster.admin();
    let namespace = cluster.namespace("original").await?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, ORIGINAL)?;
    let (file, chart) = (file.display().to_string(), chart());
    let command = [
        "install",
        "old",
        &chart,
        "--namespace",
        &namespace,
        "--values",
        &file,
    ];
    let said = admin.helm(&command).await?;
    ensure!(!said.contains("has no effect"), "{said}");

    let all: Api<Deployment> = Api::namespaced(admin.client()?, &namespace);
    let found = serde_json::to_value(all.get("ships-agent").await?)?;
    let pod = &found["spec"]["template"]["spec"];
    for (path, wanted) in [
        ("/metadata/labels/team", json!("harbour")),
        ("/metadata/annotations/note", json!("ahoy")),
        ("/spec/replicas", json!(1)),
        (
            "/spec/selector/matchLabels",
            json!({ "app.kubernetes.io/name": "sync", "app.kubernetes.io/instance": "ships" }),
        ),
        ("/spec/template/metadata/labels/team", json!("harbour")),
        ("/spec/template/metadata/annotations/note", json!("ahoy")),
    ] {
        assert_eq!(found.pointer(path), Some(&wanted), "{path}");
    }
    for (path, wanted) in [
        ("/serviceAccountName", json!("captain")),
        (
            "/imagePullSecrets",
            json!([{ "name": "first" }, { "name": "second" }]),
        ),
        ("/hostAliases/0/hostnames", json!(["kcp.example.org"])),
        ("/nodeSelector", json!({ "kubernetes.io/os": "linux" })),
        ("/tolerations/0/key", json!("dedicated")),
        ("/securityContext/runAsUser", json!(1000)),
        ("/volumes/1/name", json!("ca")),
        (
            "/containers/0/image",
            json!("registry.example.org/api-syncagent:v0.7.0"),
        ),
        ("/containers/0/volumeMounts/1/mountPath", json!("/ca")),
        ("/containers/0/resources/limits/memory", json!("128Mi")),
        ("/containers/0/env/1/value", json!("ships")),
    ] {
        assert_eq!(pod.pointer(path), Some(&wanted), "{path}");
    }
    let flags = args(&found);
    assert!(
        flags.contains(&"--published-resource-selector=tier in (gold, silver)"),
        "{flags:?}"
    );
    assert!(
        flags.contains(&"--disabled-controllers=apiexport"),
        "{flags:?}"
    );
    admin
        .helm(&["uninstall", "old", "--namespace", &namespace])
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_value_that_the_chart_does_not_know_is_named() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let namespace = cluster.namespace("notes").await?;
    let chart = chart();
    let command = [
        "install",
        "noted",
        &chart,
        "--namespace",
        &namespace,
        "--dry-run=server",
    ];
    let values = with(&[NO_CRD, "replica=3", "enableLeaderElection=false"]);
    let said = helm(cluster.admin(), &command, &values).await?;
    ensure!(
        said.contains("The value `replica` is unknown to this chart"),
        "{said}"
    );
    ensure!(said.contains("replicas are active"), "{said}");
    ensure!(said.matches("has no effect").count() == 1, "{said}");
    Ok(())
}

#[tokio::test]
async fn the_server_knows_every_field_of_every_object() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let admin = cluster.admin();
    let namespace = cluster.namespace("fields").await?;
    let values = with(&[
        "podDisruptionBudget.enabled=true",
        "kubeconfig=cluster",
        "publishedResources[0].group=example.org",
        "publishedResources[0].resource=boats",
        "publishedResources[0].status=true",
        "serviceAccount.annotations.a=b",
        "metrics.service.annotations.a=b",
    ]);
    let name = unique("fields");
    let chart = chart();
    let command = ["template", &name, &chart, "--namespace", &namespace];
    let text = helm(admin, &command, &values).await?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, text)?;
    let file = file.display().to_string();
    let said = admin
        .kubectl(&[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "--force-conflicts",
            "--filename",
            &file,
        ])
        .await?;
    for kind in [
        "deployment",
        "service/",
        "serviceaccount",
        "role.",
        "rolebinding.",
        "clusterrole.",
        "clusterrolebinding.",
        "poddisruptionbudget",
        "customresourcedefinition",
    ] {
        ensure!(said.contains(kind), "{kind}: {said}");
    }
    Ok(())
}

fn published_resources() -> ApiResource {
    let kind = GroupVersionKind::gvk("syncagent.kcp.io", "v1alpha1", "PublishedResource");
    ApiResource::from_gvk_with_plural(&kind, "publishedresources")
}

/// Of all objects in a namespace and beyond, those of a release, as `kind name`.
async fn objects_of(release: &str, namespace: &str, who: &Access) -> Result<BTreeSet<String>> {
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,\
                 clusterrolebindings,poddisruptionbudgets,customresourcedefinitions";
    let selector = format!("app.kubernetes.io/instance={release}");
    let mut found = BTreeSet::new();
    for place in [namespace, "default"] {
        let said = who
            .kubectl(&[
                "get",
                kinds,
                "--namespace",
                place,
                "--selector",
                &selector,
                "--output=name",
            ])
            .await?;
        found.extend(said.lines().map(|line| line.replace(namespace, "NS")));
    }
    Ok(found)
}

#[tokio::test]
async fn the_chart_is_installed_upgraded_and_uninstalled_and_the_definition_stays() -> Result<()> {
    let cluster = ServiceCluster::start().await?;
    let admin = cluster.admin();
    let namespace = cluster.namespace("release").await?;
    let chart = chart();
    let release = |command| [command, "ships", &chart, "--namespace", &namespace];
    helm(admin, &release("install"), LEAST).await?;
    let mut wanted: BTreeSet<String> = [
        "deployment.apps/ships",
        "service/ships-metrics",
        "serviceaccount/ships",
        "role.rbac.authorization.k8s.io/ships",
        "role.rbac.authorization.k8s.io/hawser:NS:ships",
        "rolebinding.rbac.authorization.k8s.io/ships",
        "rolebinding.rbac.authorization.k8s.io/hawser:NS:ships",
        "clusterrole.rbac.authorization.k8s.io/hawser:NS:ships",
        "clusterrolebinding.rbac.authorization.k8s.io/hawser:NS:ships",
        "customresourcedefinition.apiextensions.k8s.io/publishedresources.syncagent.kcp.io",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(objects_of("ships", &namespace, admin).await?, wanted);

    // The definition is the one in crds/, and is served.
    let own: Value = serde_saphyr::from_str(&std::fs::read_to_string(repository().join(CRD))?)?;
    let rendered = render("crd.yaml", LEAST).await?;
    assert_eq!(rendered["spec"], own["spec"]);
    let all: Api<DynamicObject> = Api::all_with(admin.client()?, &published_resources());
    testbed::eventually(testbed::SOON, "it is served", async || {
        all.list(&ListParams::default()).await
    })
    .await;
    let example = repository().join("examples/crontabs/published-resource.yaml");
    let example = example.display().to_string();
    admin.kubectl(&["create", "--filename", &example]).await?;

    let values = with(&[
        "replicas=3",
        "publishedResourceSelector=tier=gold",
        "podDisruptionBudget.enabled=true",
        "metrics.service.enabled=false",
    ]);
    helm(admin, &release("upgrade"), &values).await?;
    wanted.remove("service/ships-metrics");
    wanted.insert("poddisruptionbudget.policy/ships".to_owned());
    assert_eq!(objects_of("ships", &namespace, admin).await?, wanted);
    let deployments: Api<Deployment> = Api::namespaced(admin.client()?, &namespace);
    let found = serde_json::to_value(deployments.get("ships").await?)?;
    assert_eq!(found["spec"]["replicas"], 3);
    assert!(args(&found).contains(&"--published-resource-selector=tier=gold"));

    admin
        .helm(&["uninstall", "ships", "--namespace", &namespace])
        .await?;
    wanted.retain(|name| name.starts_with("customresourcedefinition"));
    assert_eq!(objects_of("ships", &namespace, admin).await?, wanted);
    assert_eq!(all.list(&ListParams::default()).await?.items.len(), 1);

    // The definition that stayed is taken over by the next release of the same name.
    helm(admin, &release("install"), LEAST).await?;
    admin
        .helm(&["uninstall", "ships", "--namespace", &namespace])
        .await?;
    Ok(())
}
