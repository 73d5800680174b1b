//! Who sees what, and when: watchers of the measuring side, independent of any agent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::plane::{GROUP, Plane};

/// What is looked at of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// `spec.count` of copies, which are known by the name of their source.
    SpecOfCopies,
    /// `status.count` of objects of a workspace.
    Status,
}

#[derive(Default)]
struct Seen {
    times: Mutex<HashMap<(String, u64), Instant>>,
    changed: Notify,
}

/// When each count of each object was first seen.
pub(crate) struct Sightings {
    seen: Arc<Seen>,
    _watching: AbortOnDropHandle<()>,
}

fn name(object: &DynamicObject, field: Field) -> Option<String> {
    match field {
        Field::Status => object.metadata.name.clone(),
        Field::SpecOfCopies => {
            let annotations = object.metadata.annotations.as_ref()?;
            annotations
                .get("syncagent.kcp.io/remote-object-name")
                .cloned()
        }
    }
}

impl Seen {
    fn note(&self, object: &DynamicObject, field: Field) {
        let part = match field {
            Field::SpecOfCopies => "spec",
            Field::Status => "status",
        };
        let count = object.data[part]["count"].as_u64();
        if let (Some(name), Some(count)) = (name(object, field), count) {
            let now = Instant::now();
            self.times.lock().entry((name, count)).or_insert(now);
            self.changed.notify_waiters();
        }
    }
}

impl Sightings {
    /// Watches from now on.
    pub(crate) async fn start(plane: &Plane, field: Field) -> Result<Self> {
        let kind = GroupVersionKind::gvk(GROUP, "v1", "Gadget");
        let resource = ApiResource::from_gvk_with_plural(&kind, "gadgets");
        let list = plane
            .get(&format!("{}?limit=1", super::plane::GADGETS))
            .await?;
        let since = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("0")
            .to_owned();
        let seen = Arc::new(Seen::default());
        let all: Api<DynamicObject> = Api::all_with(plane.client.clone(), &resource);
        let told = Arc::clone(&seen);
        let watching = async move {
            let mut since = since;
            loop {
                let params = WatchParams::default().timeout(280);
                let stream = match all.watch(&params, &since).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        eprintln!("watching: {error}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                };
                let mut stream = stream.boxed();
                while let Some(event) = stream.next().await {
                    let object = match event {
                        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object,
                        Ok(_) => continue,
                        Err(error) => {
                            eprintln!("watching: {error}");
                            break;
                        }
                    };
                    told.note(&object, field);
                    since = object.metadata.resource_version.unwrap_or(since);
                }
            }
        };
        Ok(Self {
            seen,
            _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
        })
    }

    pub(crate) fn of(&self, name: &str, count: u64) -> Option<Instant> {
        self.seen
            .times
            .lock()
            .get(&(name.to_owned(), count))
            .copied()
    }

    pub(crate) async fn await_one(&self, name: &str, count: u64) -> Result<Instant> {
        self.await_last(&[name.to_owned()], count, Duration::from_mins(5))
            .await
    }

    /// When the last of these was seen first.
    pub(crate) async fn await_last(
        &self,
        names: &[String],
        count: u64,
        deadline: Duration,
    ) -> Result<Instant> {
        let mut left: Vec<&String> = names.iter().collect();
        let mut last = None;
        let waiting = async {
            loop {
                let changed = self.seen.changed.notified();
                // One that is missing is enough to wait, so only the last one is looked for.
                while let Some(name) = left.last() {
                    let Some(at) = self.of(name, count) else {
                        break;
                    };
                    last = last.max(Some(at));
                    left.pop();
                }
                if left.is_empty() {
                    return;
                }
                changed.await;
            }
        };
        let ended = timeout(deadline, waiting).await;
        ended.with_context(|| format!("{} of {} were not seen", left.len(), names.len()))?;
        last.context("nothing was waited for")
    }
}
