//! A release of the original's chart that becomes one of ours, and goes back.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use serde_json::json;
use testbed::ServiceCluster;
use testbed::binaries::repository;

use super::{CRD, args, chart};

/// What matters of the original's chart when it is followed by another one: the labels that select
/// its Pods, the arguments, and the definition as a part of the release.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Values.agentName }}'}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/name: kcp-api-syncagent
      app.kubernetes.io/instance: '{{ .Values.agentName }}'
  template:
    metadata:
      labels:
        app.kubernetes.io/name: kcp-api-syncagent
        app.kubernetes.io/instance: '{{ .Values.agentName }}'
    spec:
      containers:
        - name: agent
          image: '{{ .Values.image.repository }}:{{ .Values.image.tag }}'
          args: ['--namespace=$(POD_NAMESPACE)', '--agent-name={{ .Values.agentName }}']
";

const VALUES: &str = "\
agentName: ships
apiExportEndpointSliceName: example.org
kcpKubeconfig: kcp
replicas: 1
image: {repository: registry.example.org/api-syncagent, tag: v0.7.0}
";

fn original(dir: &Path) -> Result<()> {
    let templates = dir.join("templates");
    fs::create_dir_all(&templates)?;
    fs::write(
        dir.join("Chart.yaml"),
        "apiVersion: v2\nname: api-syncagent\nversion: 0.6.2\nappVersion: v0.7.0\n",
    )?;
    fs::write(dir.join("values.yaml"), "{}\n")?;
    fs::write(templates.join("deployment.yaml"), DEPLOYMENT)?;
    // Its definition has neither columns nor what a template could mistake for an action.
    let text = fs::read_to_string(repository().join(CRD))?;
    let mut crd: CustomResourceDefinition = serde_saphyr::from_str(&text)?;
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = None;
        version.schema = serde_json::from_value(json!({ "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } }))?;
    }
    let mut crd = serde_json::to_value(crd)?;
    crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
    crd["kind"] = json!("CustomResourceDefinition");
    fs::write(templates.join("crd.yaml"), crd.to_string())?;
    Ok(())
}

#[tokio::test]
async fn a_release_of_the_originals_chart_becomes_one_of_ours_and_goes_back() -> Result<()> {
    // The definition is there once for a whole cluster.
    let cluster = ServiceCluster::start().await?;
    let admin = cluster.admin();
    let namespace = cluster.namespace("takeover").await?;
    let dir = tempfile::tempdir()?;
    original(&dir.path().join("original"))?;
    let values = dir.path().join("values.yaml");
    fs::write(&values, VALUES)?;
    let (theirs, ours) = (dir.path().join("original").display().to_string(), chart());
    let values = values.display().to_string();
    let with = ["ships", "--namespace", &namespace, "--values", &values];
    admin
        .helm(&[&["install"], &with[..], &[&theirs]].concat())
        .await?;

    let deployments: Api<Deployment> = Api::namespaced(admin.client()?, &namespace);
    let before = deployments.get("ships").await?;
    let example = repository().join("examples/crontabs/published-resource.yaml");
    let example = example.display().to_string();
    testbed::eventually(testbed::SOON, "the kind is served", async || {
        admin.kubectl(&["create", "--filename", &example]).await
    })
    .await;

    let image = ["--set", "image.repository=hawser,image.tag=0.1.0"];
    admin
        .helm(&[&["upgrade"], &with[..], &image, &[&ours]].concat())
        .await?;
    let after = deployments.get("ships").await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    let found = serde_json::to_value(after)?;
    assert_eq!(
        found["spec"]["template"]["spec"]["containers"][0]["image"],
        "hawser:0.1.0"
    );
    ensure!(
        args(&found).contains(&"--apiexportendpointslice-ref=example.org"),
        "{found}"
    );
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.client()?);
    let definition = definitions
        .get("publishedresources.syncagent.kcp.io")
        .await?;
    let columns = definition.spec.versions[0]
        .additional_printer_columns
        .as_ref();
    ensure!(
        columns.is_some_and(|columns| !columns.is_empty()),
        "it is not ours"
    );

    // Back: the very image of before, by our chart, then their chart again.
    let theirs_by_ours = ["--set", "probes.enabled=false"];
    admin
        .helm(&[&["upgrade"], &with[..], &theirs_by_ours, &[&ours]].concat())
        .await?;
    let found = serde_json::to_value(deployments.get("ships").await?)?;
    assert_eq!(
        found["spec"]["template"]["spec"]["containers"][0]["image"],
        "registry.example.org/api-syncagent:v0.7.0"
    );
    ensure!(
        !args(&found).iter().any(|arg| arg.starts_with("--health")),
        "{found}"
    );
    admin
        .helm(&[&["upgrade"], &with[..], &[&theirs]].concat())
        .await?;
    let again = deployments.get("ships").await?;
    assert_eq!(again.metadata.uid, before.metadata.uid);

    let published = admin
        .kubectl(&["get", "publishedresources", "--output=name"])
        .await?;
    let name = published.trim();
    ensure!(name.ends_with("/publish-crontabs"), "{name}");
    admin
        .helm(&["uninstall", "ships", "--namespace", &namespace])
        .await?;
    deployments
        .get_opt("ships")
        .await?
        .is_none()
        .then_some(())
        .context("it stayed")
}
