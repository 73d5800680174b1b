//! A simple scheduler, kubelet and Deployment controller for a member: a Deployment has its Pods at once, and those run
//! for which there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hawser_runtime::cluster::connection::{Call, RequestError};
use jiff::Timestamp;
use kcp_playground::StandIn;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::place::Place;

/// The kinds that it works on.
pub(super) const KINDS: &[StandIn] = &[
    StandIn {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
    },
    StandIn {
        group: "",
        kind: "Pod",
        plural: "pods",
    },
];

const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

/// The interval of the controllers.
const PERIOD: Duration = Duration::from_millis(100);

/// The toy nodes of a member. They end when dropped.
pub(super) struct Nodes {
    room: Arc<AtomicUsize>,
    _playing: AbortOnDropHandle<()>,
}

impl Nodes {
    /// With room for all.
    pub(super) fn of(member: Place) -> Self {
        let room = Arc::new(AtomicUsize::new(usize::MAX));
        let playing = play(member, Arc::clone(&room));
        Self {
            room,
            _playing: AbortOnDropHandle::new(tokio::spawn(playing)),
        }
    }

    /// From now on there is room for this many Pods.
    pub(super) fn set_room(&self, pods: usize) {
        self.room.store(pods, Ordering::Relaxed);
    }
}

async fn play(member: Place, room: Arc<AtomicUsize>) {
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        // Whatever fails is done at the next look.
        let Ok(found) = member.ask(Call::get(DEPLOYMENTS)).await else {
            continue;
        };
        for deployment in found["items"].as_array().into_iter().flatten() {
            let _ = run(&member, deployment, room.load(Ordering::Relaxed)).await;
        }
    }
}

/// Gives a Deployment its Pods and its status.
async fn run(member: &Place, deployment: &Value, room: usize) -> Result<(), RequestError> {
    let text = |field: &str| deployment["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or_default();
    let wanted = usize::try_from(wanted).unwrap_or_default();
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let found = member.ask(Call::get(&*pods)).await?;
    let there = found["items"].as_array().map_or(&[][..], Vec::as_slice);
    for number in 0..wanted.max(there.len()) {
        let pod = format!("{name}-{number}");
        let path = format!("{pods}/{pod}");
        let known = there.iter().find(|found| found["metadata"]["name"] == *pod);
        let runs = known.is_some_and(|known| known["status"]["phase"] == "Running");
        match known {
            Some(_) if number >= wanted => drop(member.ask(Call::delete(path, &json!({}))).await?),
            None if number < wanted => {
                let labels = &deployment["spec"]["template"]["metadata"]["labels"];
                let object = json!({"metadata": {"name": pod, "labels": labels}});
                member.ask(Call::post(&*pods, &object)).await?;
                let path = format!("{path}/status");
                member
                    .ask(Call::merge_patch(path, &status(number < room)))
                    .await?;
            }
            Some(_) if runs != (number < room) => {
                let path = format!("{path}/status");
                member
                    .ask(Call::merge_patch(path, &status(number < room)))
                    .await?;
            }
            _ => {}
        }
    }
    let ready = wanted.min(room);
    let status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": wanted, "readyReplicas": ready, "updatedReplicas": wanted,
        "availableReplicas": ready, "unavailableReplicas": wanted - ready,
    });
    if deployment["status"] != status {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status");
        let patch = json!({"status": status});
        member.ask(Call::merge_patch(path, &patch)).await?;
    }
    Ok(())
}

/// The status of a Pod that runs, or that no node has room for.
fn status(runs: bool) -> Value {
    let now = Timestamp::now().to_string();
    let condition = |kind: &str, is: bool| {
        let (status, reason) = if is {
            ("True", "Running")
        } else {
            ("False", "Unschedulable")
        };
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": now})
    };
    let phase = if runs { "Running" } else { "Pending" };
    let conditions = [condition("PodScheduled", runs), condition("Ready", runs)];
    json!({"status": {"phase": phase, "startTime": now, "conditions": conditions}})
}
