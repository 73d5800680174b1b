//! Kinds of a real kube-apiserver that no CRD defines are found, defined and published in kcp.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hawser::testing::{Manifest, PUBLISHED_RESOURCES, SchemaMode, Schemas, Watched};
use hawser_runtime::cluster::connection::{Call, Connection, Limits};
use hawser_runtime::cluster::discovery::Discovery;
use kcp_playground::Playground;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{SOON, ServiceCluster, eventually, unique};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";

async fn connect(kubeconfig: Kubeconfig) -> Result<Connection> {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Connection::new(config, Limits::default())?)
}

async fn service() -> Result<Connection> {
    let access = ServiceCluster::shared().await?.admin();
    let service = connect(Kubeconfig::read_from(access.kubeconfig_file())?).await?;
    let crd = include_str!("../../crds/syncagent.kcp.io_publishedresources.yaml");
    let crd: Value = serde_saphyr::from_str(crd)?;
    // Another test may have been faster.
    service.call(Call::post(CRDS, &crd)).await?;
    eventually(SOON, "published resources are served", async || {
        service.ask(Call::get(PUBLISHED_RESOURCES)).await
    })
    .await;
    Ok(service)
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_no_crd_defines_are_published_from_the_models_of_the_server() -> Result<()> {
    let service = service().await?;
    let playground = Playground::start().await?;
    let kcp = connect(serde_json::from_value(playground.kcp_kubeconfig())?).await?;
    let discovery = Arc::new(Discovery::new(service.clone()));
    let schemas = Schemas::new(
        service.clone(),
        kcp.clone(),
        discovery,
        "agent",
        SchemaMode::Writes,
        Arc::new(|_: &Manifest| Ok(())),
    );
    let group = format!("{}.example.org", unique("models"));
    for (from, kind, plural, status) in [
        ("", "ConfigMap", "configmaps", false),
        ("apps", "Deployment", "deployments", true),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            "clusterroles",
            false,
        ),
    ] {
        let object = json!({
            "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
            "metadata": {"name": unique("models")},
            "spec": {"resource": {"apiGroup": from, "kind": kind}, "projection": {"group": group}},
        });
        let made = service
            .ask(Call::post(PUBLISHED_RESOURCES, &object))
            .await?;
        let manifest = Manifest::read(&made).map_err(anyhow::Error::msg)?;
        let unknown = |_: &str| Watched::Unknown;
        let settled = schemas.settle(&manifest, unknown).await?;
        ensure!(
            settled.crd.is_none() && settled.warnings.is_empty(),
            "{settled:?}"
        );
        ensure!(settled.local_plural == plural, "{settled:?}");
        ensure!(settled.types.remote_status == status, "{settled:?}");
        ensure!(
            settled.remote_is_namespaced == (kind != "ClusterRole"),
            "{settled:?}"
        );
        ensure!(
            !settled.types.subresources.contains(&"scale"),
            "it is of another kind"
        );

        let schema = kcp
            .ask(Call::get(format!("{SCHEMAS}/{}", settled.schema)))
            .await?;
        ensure!(schema["spec"]["group"] == *group, "{schema}");
        let versions = schema["spec"]["versions"]
            .as_array()
            .context("no versions")?;
        ensure!(
            versions.len() == 1 && versions[0]["storage"] == true,
            "{schema}"
        );
        let path = format!("{PUBLISHED_RESOURCES}/{}", manifest.name);
        let after =
            Manifest::read(&service.ask(Call::get(&*path)).await?).map_err(anyhow::Error::msg)?;
        ensure!(
            after.recorded.as_deref() == Some(&*settled.schema),
            "{after:?}"
        );
        service.ask(Call::delete(path, &json!({}))).await?;
    }
    playground.stop().await;
    Ok(())
}
