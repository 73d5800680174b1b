//! A ConfigMap, made with kube-rs in a workspace of a kcp that lives in this process.
#![expect(clippy::print_stdout, reason = "it shows what it does")]

use std::error::Error;
use tokio::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kcp_playground::Playground;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let playground = Playground::start().await?;
    println!("ready after {:?}", begun.elapsed());
    let kubeconfig: Kubeconfig = serde_json::from_value(playground.workspace_kubeconfig("root"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "example"}, "data": {"greeting": "hello"},
    }))?;
    let mark = playground.requests().mark();
    let made = maps.create(&PostParams::default(), &map).await?;
    println!("made at {:?}", made.metadata.resource_version);
    let seen = playground.requests().since(mark);
    println!("requests: {}", seen.len());
    playground.stop().await;
    Ok(())
}
