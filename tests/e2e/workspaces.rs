//! Workspaces of a playground, and objects in them.

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kcp_playground::Playground;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testbed::{SOON, eventually};

/// A client of one workspace.
pub(crate) async fn client(playground: &Playground, path: &str) -> Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(playground.kcp_kubeconfig())?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let url = config.cluster_url.to_string();
    let (server, _) = url.split_once("/clusters/").context("no workspace")?;
    config.cluster_url = format!("{server}/clusters/{path}").parse()?;
    Ok(Client::try_from(config)?)
}

/// Makes a workspace below the root, and awaits that it can be used.
pub(crate) async fn make(playground: &Playground, name: &str) -> Result<Client> {
    let workspace = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": { "name": name },
    });
    let root = client(playground, "root").await?;
    create(&root, &workspace).await?;
    eventually(SOON, "the workspace is ready", async || {
        let path = format!("/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}");
        let found: Value = root.request(Request::get(path).body(Vec::new())?).await?;
        ensure!(found["status"]["phase"] == "Ready", "{found}");
        Ok(())
    })
    .await;
    client(playground, &format!("root:{name}")).await
}

/// Creates an object of a kind whose plural has an `s`, and returns it as it is then.
pub(crate) async fn create(client: &Client, object: &Value) -> Result<Value> {
    let text = |path| object.pointer(path).and_then(Value::as_str);
    let kind = text("/kind").context("no kind")?.to_lowercase();
    let version = text("/apiVersion").context("no apiVersion")?;
    let place = text("/metadata/namespace").map(|name| format!("namespaces/{name}/"));
    let uri = format!("/apis/{version}/{}{kind}s", place.unwrap_or_default());
    let request = Request::post(uri)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())?;
    Ok(client.request(request).await?)
}
