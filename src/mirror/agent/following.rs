//! The definitions on the robot, and which syncers follow from them.
//!
//! Definitions are watched without their schemas; one that asks to be followed is read. A syncer is begun
//! anew only where something has changed that matters to it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::numbers::Numbers;
use super::planes::Planes;
use super::syncer::{Manner, Syncer};
use crate::mirror::definition::{Plane, SPEC_SOURCE, Settings, compile, ignored_filter};
use crate::mirror::rules::side;
use hawser_runtime::cluster::cache::{Cache, Change, Coverage, Table};
use hawser_runtime::cluster::connection::{AskError, Call};
use hawser_runtime::cluster::feed::{Clusters, Content, Feed, Listener, Selection};
use hawser_runtime::cluster::queue::{Outcome, Queue, Urgency};
use hawser_sync::{Key, Scope, Seen, Store as _};
use kube_lang::object::Gvk;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The annotation of a definition that names holds to be released.
pub const APPROVAL: &str = "hawser.dev/approve-deletions";

/// See the module.
pub struct Following {
    planes: Planes,
    numbers: Arc<Numbers>,
    settings: Arc<Settings>,
    manner: Manner,
    cache: Arc<Cache>,
    /// Names of definitions.
    queue: Queue<Arc<str>>,
    known: Mutex<HashMap<Arc<str>, Known>>,
}

/// What is known of a definition that asks to be followed.
struct Known {
    running: Option<Running>,
    /// Why it is not followed, as it was told.
    refused: Option<String>,
}

struct Running {
    fingerprint: u64,
    syncer: Arc<Syncer>,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.syncer.stopped.cancel();
        // It ended by itself only if it panicked, which was told.
        let _ = self.task.await;
        self.syncer.numbers.forget(&self.syncer.definition.name);
    }
}

fn kind() -> Arc<Gvk> {
    let (group, kind) = ("apiextensions.k8s.io", "CustomResourceDefinition");
    Arc::new(Gvk::new(group, "v1", kind))
}

fn scope() -> Scope {
    Scope::new(&side(Plane::Robot), &kind(), "")
}

impl Following {
    pub fn new(
        planes: &Planes,
        numbers: &Arc<Numbers>,
        settings: Settings,
        manner: Manner,
    ) -> Arc<Self> {
        let cache = Cache::new();
        cache.route(&side(Plane::Robot), "", &"robot".into());
        Arc::new(Self {
            planes: planes.clone(),
            numbers: Arc::clone(numbers),
            settings: Arc::new(settings),
            manner,
            cache,
            queue: Queue::new(2),
            known: Mutex::default(),
        })
    }

    /// Follows until told to stop, then ends every syncer.
    pub async fn run(self: Arc<Self>, stop: CancellationToken, known: impl FnOnce()) {
        let kind = kind();
        let everything = Coverage::default();
        let table = self
            .cache
            .add(&side(Plane::Robot), &kind, &"robot".into(), everything);
        let selection = Selection {
            connection: self.planes.robot.clone(),
            resource: "customresourcedefinitions".into(),
            namespace: None,
            query: None,
            clusters: Clusters::One("".into()),
            content: Content::Metadata,
        };
        info!("Syncing cache for CRDs");
        let feed = Feed::start(selection, table, Arc::clone(&self) as _, self.manner.pace);
        if stop.run_until_cancelled(feed.completed()).await.is_some() {
            known();
            stop.run_until_cancelled(self.follow()).await;
        }
        self.queue.close();
        let all = std::mem::take(&mut *self.known.lock());
        let stopping = all.into_values().filter_map(|known| known.running);
        futures::future::join_all(stopping.map(Running::stop)).await;
    }

    async fn follow(&self) {
        while let Some(work) = self.queue.next().await {
            let outcome = match self.look_at(&work.key).await {
                Ok(()) => Outcome::Settled,
                Err(problem) => {
                    error!(CRD = &*work.key, Error = %problem, "reading a CRD failed, trying again");
                    Outcome::Failed(None)
                }
            };
            self.queue.done(work, outcome);
        }
    }

    async fn look_at(&self, name: &Arc<str>) -> Result<(), AskError> {
        let key: Key = scope().key(None, name);
        let asks = match self.cache.get(&key) {
            Seen::Present(crd) => crd.annotation(SPEC_SOURCE).is_some_and(|s| !s.is_empty()),
            Seen::Absent | Seen::Unknown => false,
        };
        if !asks {
            self.stop(name).await;
            return Ok(());
        }
        match self
            .planes
            .robot
            .ask(Call::get(format!("{DEFINITIONS}/{name}")))
            .await
        {
            Ok(crd) => {
                self.take(name, &crd).await;
                Ok(())
            }
            Err(error) if error.code() == Some(404) => {
                self.stop(name).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn take(&self, name: &Arc<str>, crd: &Value) {
        match compile(crd, &self.settings) {
            Ok(Some(definition)) => {
                let fingerprint = definition.fingerprint();
                let same = |known: &Known| {
                    let running = known.running.as_ref()?;
                    (running.fingerprint == fingerprint).then(|| Arc::clone(&running.syncer))
                };
                let running = self.known.lock().get(name).and_then(same);
                let syncer = if let Some(syncer) = running {
                    syncer
                } else {
                    self.stop(name).await;
                    if let Some(why) = ignored_filter(crd, &self.settings) {
                        error!(CRD = &**name, Error = %why, "ignoring the filter of a CRD: all its objects are synced");
                    }
                    let syncer = Syncer::new(definition, &self.planes, &self.numbers, &self.manner);
                    let running = Running {
                        fingerprint,
                        task: tokio::spawn(Arc::clone(&syncer).run()),
                        syncer: Arc::clone(&syncer),
                    };
                    let known = Known {
                        running: Some(running),
                        refused: None,
                    };
                    self.known.lock().insert(Arc::clone(name), known);
                    syncer
                };
                if let Some(ids) = crd["metadata"]["annotations"][APPROVAL].as_str() {
                    syncer.approve(ids);
                }
            }
            Ok(None) => self.stop(name).await,
            Err(refusal) => {
                let why = refusal.to_string();
                let told = self
                    .known
                    .lock()
                    .get(name)
                    .and_then(|known| known.refused.clone());
                self.stop(name).await;
                if told.as_ref() != Some(&why) {
                    error!(Resource = &**name, Error = why, "skipping custom resource");
                }
                let known = Known {
                    running: None,
                    refused: Some(why),
                };
                self.known.lock().insert(Arc::clone(name), known);
            }
        }
    }

    async fn stop(&self, name: &str) {
        let known = self.known.lock().remove(name);
        if let Some(running) = known.and_then(|known| known.running) {
            running.stop().await;
        }
    }

    /// Takes numbers of everything at work.
    pub fn count(&self) {
        for known in self.known.lock().values() {
            if let Some(Running { syncer, .. }) = &known.running {
                self.numbers
                    .stands(&syncer.definition.name, &syncer.standing());
            }
        }
        let link = &self.planes.link;
        self.numbers.link(link.silence(), link.is_up());
    }

    /// The ids of all holds, for tests.
    #[cfg(test)]
    pub(super) fn holds(&self) -> Vec<String> {
        let known = self.known.lock();
        let running = known.values().filter_map(|known| known.running.as_ref());
        let held = running.filter_map(|running| running.syncer.with_brake(|brake, _| brake.held()));
        held.flatten().map(|hold| hold.id.to_string()).collect()
    }

    /// What is followed and what is refused, for tests.
    #[cfg(test)]
    pub(super) fn standing(&self) -> Vec<(String, Result<tokio::time::Instant, String>)> {
        let known = self.known.lock();
        let mut all: Vec<_> = known
            .iter()
            .map(|(name, known)| {
                let standing = match (&known.running, &known.refused) {
                    (Some(running), _) => Ok(running.syncer.begun_at()),
                    (None, refused) => Err(refused.clone().unwrap_or_default()),
                };
                (name.to_string(), standing)
            })
            .collect();
        all.sort();
        all
    }
}

impl Listener for Following {
    fn changed(&self, change: Change) {
        let name = Arc::clone(&change.key.name);
        // Each is its own tenant: one that cannot be read delays nobody.
        self.queue.add(Arc::clone(&name), &name, Urgency::Live);
    }

    fn completed(&self, _: &Arc<Table>) {}
}
