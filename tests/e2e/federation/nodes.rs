//! Scheduler and kubelet of a member, played by the test: as many Pods of a namespace run as there is room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::world::Way;

/// How often they look.
const PERIOD: Duration = Duration::from_millis(200);

/// See the module. Dropping it leaves the Pods as they are.
pub(super) struct Nodes {
    room: Arc<AtomicUsize>,
    _playing: AbortOnDropHandle<()>,
}

impl Nodes {
    /// With room for all.
    pub(super) fn of(member: Way, namespace: &str) -> Self {
        let room = Arc::new(AtomicUsize::new(usize::MAX));
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let playing = tokio::spawn(play(member, pods, Arc::clone(&room)));
        Self {
            room,
            _playing: AbortOnDropHandle::new(playing),
        }
    }

    /// From now on there is room for this many Pods.
    pub(super) fn set_room(&self, pods: usize) {
        self.room.store(pods, Ordering::Relaxed);
    }
}

async fn play(member: Way, pods: String, room: Arc<AtomicUsize>) {
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        // The member may be down.
        let Ok(Some(found)) = member.get(&pods).await else {
            continue;
        };
        let items = found["items"].as_array().cloned().unwrap_or_default();
        let mut there: Vec<Value> = (items.into_iter())
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .collect();
        there.sort_by_key(|pod| pod["status"]["phase"] != "Running");
        let room = room.load(Ordering::Relaxed);
        for (number, pod) in there.iter().enumerate() {
            let path = format!(
                "{pods}/{}",
                pod["metadata"]["name"].as_str().unwrap_or_default()
            );
            let runs = pod["status"]["phase"] == "Running";
            let told = pod["status"]["conditions"].is_array();
            // Whatever fails is done at the next look.
            let _ = match (number < room, runs) {
                (true, true) => continue,
                (true, false) => member.patch(&format!("{path}/status"), &running()).await,
                (false, true) => member.delete(&path).await.map(|()| Value::Null),
                (false, false) if told => continue,
                (false, false) => {
                    member
                        .patch(&format!("{path}/status"), &unschedulable())
                        .await
                }
            };
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": now()})
}

fn now() -> String {
    let now = Timestamp::now().as_second();
    Timestamp::from_second(now).unwrap_or_default().to_string()
}

fn running() -> Value {
    let conditions = [
        condition("PodScheduled", "True", "Scheduled"),
        condition("Ready", "True", "Ready"),
    ];
    json!({"status": {"phase": "Running", "startTime": now(), "conditions": conditions}})
}

fn unschedulable() -> Value {
    json!({"status": {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable")]}})
}
