//! The floor: the writes to members and nothing else. No snapshots, no status, no owners, no deletions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::fleet::{Fleet, placements};

const IN_FLIGHT: usize = 32;
const AGAIN: Duration = Duration::from_millis(20);

/// What is placed, by its name.
type Wanted = Arc<Mutex<HashMap<String, ConfigMap>>>;

/// Works until it is dropped.
pub(crate) fn run(fleet: &Fleet) -> Result<Vec<AbortOnDropHandle<()>>> {
    let hub = fleet.hub.admin().client()?;
    let mut members = Vec::new();
    for member in &fleet.members {
        members.push(member.admin().client()?);
    }
    let wanted = Wanted::default();
    let mut running = Vec::new();
    for member in &members {
        let following = restore(member.clone(), Arc::clone(&wanted));
        running.push(AbortOnDropHandle::new(tokio::spawn(following)));
    }
    let following = update(hub.clone(), members.clone(), Arc::clone(&wanted));
    running.push(AbortOnDropHandle::new(tokio::spawn(following)));
    let following = place(hub, members, wanted);
    running.push(AbortOnDropHandle::new(tokio::spawn(following)));
    Ok(running)
}

/// Creates what placements select.
async fn place(hub: kube::Client, members: Vec<kube::Client>, wanted: Wanted) {
    let turns = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut events = watcher(placements(hub.clone()), Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(placement) = event else { continue };
        let selected = &placement.data["spec"]["resourceSelectors"][0]["name"];
        let namespace = selected.as_str().unwrap_or_default().to_owned();
        let (hub, members, wanted) = (hub.clone(), members.clone(), Arc::clone(&wanted));
        let turns = Arc::clone(&turns);
        tokio::spawn(async move {
            let maps = Api::<ConfigMap>::namespaced(hub, &namespace);
            let Ok(maps) = maps.list(&ListParams::default()).await else {
                return;
            };
            for member in members {
                let made = Namespace {
                    metadata: named(&namespace),
                    ..Namespace::default()
                };
                make(&Api::all(member.clone()), &made).await;
                for map in &maps.items {
                    let copy = copy_of(map);
                    wanted.lock().insert(map.name_any(), copy.clone());
                    let all = Api::namespaced(member.clone(), &namespace);
                    let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
                        return;
                    };
                    tokio::spawn(async move {
                        make(&all, &copy).await;
                        drop(turn);
                    });
                }
            }
        });
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn copy_of(map: &ConfigMap) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: map.namespace(),
        ..named(&map.name_any())
    };
    ConfigMap {
        metadata,
        data: map.data.clone(),
        ..ConfigMap::default()
    }
}

async fn make<K>(all: &Api<K>, object: &K)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let post = PostParams::default();
    while let Err(error) = all.create(&post, object).await {
        if matches!(&error, kube::Error::Api(status) if status.is_already_exists()) {
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Writes what changes on the hub.
async fn update(hub: kube::Client, members: Vec<kube::Client>, wanted: Wanted) {
    let mut events = watcher(Api::<ConfigMap>::all(hub), Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(map) = event else { continue };
        let name = map.name_any();
        let copy = copy_of(&map);
        {
            let mut wanted = wanted.lock();
            match wanted.get_mut(&name) {
                Some(before) if before.data != copy.data => *before = copy.clone(),
                _ => continue,
            }
        }
        for member in &members {
            let all = Api::namespaced(member.clone(), &map.namespace().unwrap_or_default());
            let _ = all.replace(&name, &PostParams::default(), &copy).await;
        }
    }
}

/// Undoes what somebody changes in a member.
async fn restore(member: kube::Client, wanted: Wanted) {
    let mut events = watcher(Api::<ConfigMap>::all(member.clone()), Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(found) = event else { continue };
        let name = found.name_any();
        let Some(mut copy) = wanted.lock().get(&name).cloned() else {
            continue;
        };
        if found.data != copy.data {
            let all = Api::namespaced(member.clone(), &found.namespace().unwrap_or_default());
            copy.metadata.resource_version = found.metadata.resource_version;
            // What is there then comes with an event.
            let _ = all.replace(&name, &PostParams::default(), &copy).await;
        }
    }
}
