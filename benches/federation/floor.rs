//! The floor: the writes to members and nothing else. No versions, no status, no events, no finalizers, no deletions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::load::NAMESPACE;
use crate::world::{MEMBER_NAMES, World};

const IN_FLIGHT: usize = 32;
const AGAIN: Duration = Duration::from_millis(20);

type Wanted = Arc<Mutex<HashMap<String, ConfigMap>>>;

/// Works until it is dropped.
pub(crate) async fn run(world: &World) -> Result<Vec<AbortOnDropHandle<()>>> {
    let host = kube::Client::try_from(world.host.config().await?)?;
    let mut members = Vec::new();
    for member in &world.members {
        members.push(kube::Client::try_from(member.config().await?)?);
    }
    let wanted = Wanted::default();
    let mut running = Vec::new();
    for client in &members {
        // The namespace is there when the load begins.
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespace: Namespace = serde_json::from_value(namespace)?;
        let all = Api::<Namespace>::all(client.clone());
        all.create(&PostParams::default(), &namespace).await?;
        let copies = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
        let following = restore(copies, Arc::clone(&wanted));
        running.push(AbortOnDropHandle::new(tokio::spawn(following)));
    }
    let following = propagate(host, members, wanted);
    running.push(AbortOnDropHandle::new(tokio::spawn(following)));
    Ok(running)
}

async fn propagate(host: kube::Client, members: Vec<kube::Client>, wanted: Wanted) {
    let kind = GroupVersionKind::gvk("types.kubefed.io", "v1beta1", "FederatedConfigMap");
    let resource = ApiResource::from_gvk_with_plural(&kind, "federatedconfigmaps");
    let turns = Arc::new(Semaphore::new(IN_FLIGHT));
    let all = Api::<DynamicObject>::all_with(host, &resource);
    let mut events = watcher(all, Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(federated) = event else { continue };
        let Ok((copy, placed)) = copy_of(&federated) else {
            continue;
        };
        let name = copy.metadata.name.clone().unwrap_or_default();
        wanted.lock().insert(name, copy.clone());
        for (_, member) in members
            .iter()
            .enumerate()
            .filter(|(n, _)| placed.contains(n))
        {
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
                return;
            };
            let copies = Api::<ConfigMap>::namespaced(member.clone(), NAMESPACE);
            let copy = copy.clone();
            tokio::spawn(async move {
                let post = PostParams::default();
                while let Err(error) = copies.create(&post, &copy).await {
                    if matches!(&error, kube::Error::Api(status) if status.is_already_exists()) {
                        break;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                drop(turn);
            });
        }
    }
}

/// The copy, and the numbers of the members that it belongs in.
fn copy_of(federated: &DynamicObject) -> Result<(ConfigMap, Vec<usize>)> {
    let spec = &federated.data["spec"];
    let mut copy: ConfigMap = serde_json::from_value(spec["template"].clone())?;
    copy.metadata.name.clone_from(&federated.metadata.name);
    let clusters = spec["placement"]["clusters"].as_array().context("names")?;
    let number = |name: &str| MEMBER_NAMES.iter().position(|known| *known == name);
    let placed = clusters
        .iter()
        .filter_map(|one| number(one["name"].as_str()?));
    Ok((copy, placed.collect()))
}

/// Undoes what somebody changes in a member.
async fn restore(copies: Api<ConfigMap>, wanted: Wanted) {
    let mut events = watcher(copies.clone(), Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(found) = event else { continue };
        let name = found.metadata.name.clone().unwrap_or_default();
        let Some(mut copy) = wanted.lock().get(&name).cloned() else {
            continue;
        };
        if found.data != copy.data {
            copy.metadata.resource_version = found.metadata.resource_version;
            // What is there then comes with an event.
            let _ = copies.replace(&name, &PostParams::default(), &copy).await;
        }
    }
}
