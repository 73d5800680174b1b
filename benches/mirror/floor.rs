//! The floor: the writes of the mirror and nothing else. No filter, no deletions, no crash, and no
//! wait for more to come; it knows versions, not objects.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{DynamicObject, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::world::{Objects, World};

const IN_FLIGHT: usize = 32;
const AGAIN: Duration = Duration::from_millis(20);

/// Works until it is dropped.
pub(crate) fn run(world: &World) -> [AbortOnDropHandle<()>; 2] {
    let (cloud, robot) = (world.cloud.clone(), world.robot.clone());
    let specs = follow(cloud.clone(), robot.clone(), spec);
    let statuses = follow(robot, cloud, status);
    let running = [tokio::spawn(specs), tokio::spawn(statuses)];
    running.map(AbortOnDropHandle::new)
}

async fn follow<F>(from: Objects, to: Objects, write: fn(DynamicObject, Objects) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let turns = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut working = JoinSet::new();
    let mut events = watcher(from.api, Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(object) = event else { continue };
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
            return;
        };
        while working.try_join_next().is_some() {}
        let written = write(object, to.clone());
        working.spawn(async move {
            written.await;
            drop(turn);
        });
    }
}

// What is refused is tried again, by what is there then: somebody else writes these objects too.

async fn spec(source: DynamicObject, robot: Objects) {
    while put_spec(&source, &robot).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}

async fn put_spec(source: &DynamicObject, robot: &Objects) -> kube::Result<()> {
    let name = source.metadata.name.clone().unwrap_or_default();
    let mut copy = DynamicObject {
        types: source.types.clone(),
        metadata: kube::core::ObjectMeta::default(),
        data: json!({"spec": source.data["spec"]}),
    };
    copy.metadata.name = Some(name.clone());
    let post = PostParams::default();
    // The status alone has changed where the robot has it already in this generation.
    if source.metadata.generation == Some(1) {
        if source.data.get("status").is_none() {
            match robot.api.create(&post, &copy).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                made => drop(made?),
            }
        }
        return Ok(());
    }
    let live = robot.api.get(&name).await?;
    if live.data["spec"] != source.data["spec"] {
        copy.metadata.resource_version = live.metadata.resource_version;
        robot.api.replace(&name, &post, &copy).await?;
    }
    Ok(())
}

async fn status(copy: DynamicObject, cloud: Objects) {
    let Some(status) = copy.data.get("status") else {
        return;
    };
    let name = copy.metadata.name.clone().unwrap_or_default();
    while put_status(&name, status, &cloud).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}

async fn put_status(name: &str, status: &Value, cloud: &Objects) -> kube::Result<()> {
    let mut live = cloud.api.get(name).await?;
    if live.data.get("status") != Some(status) {
        live.data["status"] = status.clone();
        let post = PostParams::default();
        let kind = &cloud.api;
        kind.replace_subresource("status", name, &post, &live)
            .await?;
    }
    Ok(())
}
