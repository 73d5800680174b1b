//! The controller of the CRDs on the robot: it starts and stops a syncer for each definition.
//!
//! Definitions are watched without their schemas; a definition with the annotation is read. A syncer is restarted only
//! if something relevant to it has changed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::numbers::MirrorMetrics;
use super::planes::MirrorConnections;
use super::syncer::{Syncer, SyncerConfig};
use crate::mirror::definition::{
    FILTER_BY_ROBOT_NAME, Plane, SPEC_SOURCE, STATUS_SUBTREE, Settings, compile, ignored_filter,
};
use crate::mirror::rules::side;
use hawser_runtime::cluster::cache::{Cache, Change, Coverage, Table};
use hawser_runtime::cluster::connection::{Call, RequestError};
use hawser_runtime::cluster::feed::{Clusters, Content, EventHandler, Feed, Selection};
use hawser_runtime::cluster::queue::{Outcome, Queue, Urgency, Work};
use hawser_runtime::controller::brakes::APPROVAL;
use hawser_runtime::controller::{Reconciler, work};
use hawser_runtime::overview::KindOverview;
use hawser_runtime::overview::recent::RecentChanges;
use hawser_sync::{Key, Scope, Seen, Store as _};
use kube_lang::object::Gvk;

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Starts and stops syncers.
pub struct CrdController {
    planes: MirrorConnections,
    numbers: Arc<MirrorMetrics>,
    settings: Arc<Settings>,
    config: SyncerConfig,
    /// Ends everything. Syncers stop with it, whenever they were started.
    stop: CancellationToken,
    cache: Arc<Cache>,
    started: Instant,
    /// Names of definitions.
    queue: Queue<Arc<str>>,
    known: Mutex<HashMap<Arc<str>, DefinitionRecord>>,
}

/// The known state of a definition with the annotation.
struct DefinitionRecord {
    running: Option<RunningSyncer>,
    refused: Option<RefusedDefinition>,
}

/// A definition that is not followed.
#[derive(Clone)]
struct RefusedDefinition {
    kind: String,
    /// The reason, as it was logged.
    why: String,
}

struct RunningSyncer {
    fingerprint: u64,
    syncer: Arc<Syncer>,
    task: JoinHandle<()>,
}

impl RunningSyncer {
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

impl CrdController {
    pub fn new(
        planes: &MirrorConnections,
        numbers: &Arc<MirrorMetrics>,
        settings: Settings,
        config: SyncerConfig,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let cache = Cache::new();
        cache.route(&side(Plane::Robot), "", &"robot".into());
        Arc::new(Self {
            planes: planes.clone(),
            numbers: Arc::clone(numbers),
            settings: Arc::new(settings),
            config,
            stop,
            cache,
            started: Instant::now(),
            queue: Queue::new(2),
            known: Mutex::default(),
        })
    }

    /// Works until stopped, then waits for every syncer to end.
    pub async fn run(self: Arc<Self>, known: impl FnOnce()) {
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
        let feed = Feed::start(selection, table, Arc::clone(&self) as _, self.config.pace);
        if self
            .stop
            .run_until_cancelled(feed.completed())
            .await
            .is_some()
        {
            known();
            let followed = work(Arc::clone(&self), &self.queue, 1);
            self.stop.run_until_cancelled(followed).await;
        }
        self.queue.close();
        let all = std::mem::take(&mut *self.known.lock());
        let stopping = all.into_values().filter_map(|known| known.running);
        futures::future::join_all(stopping.map(RunningSyncer::stop)).await;
    }

    async fn look_at(&self, name: &Arc<str>) -> Result<(), RequestError> {
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
                let same = |known: &DefinitionRecord| {
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
                    let syncer = Syncer::new(
                        definition,
                        &self.planes,
                        &self.numbers,
                        &self.config,
                        self.stop.child_token(),
                    );
                    let running = RunningSyncer {
                        fingerprint,
                        task: tokio::spawn(Arc::clone(&syncer).run()),
                        syncer: Arc::clone(&syncer),
                    };
                    let known = DefinitionRecord {
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
                if told.is_none_or(|told| told.why != why) {
                    error!(Resource = &**name, Error = why, "skipping custom resource");
                }
                let kind = crd["spec"]["names"]["kind"].as_str();
                let known = DefinitionRecord {
                    running: None,
                    refused: Some(RefusedDefinition {
                        kind: kind.unwrap_or_default().to_owned(),
                        why,
                    }),
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

    /// The name of the robot.
    pub fn robot(&self) -> &str {
        &self.settings.robot_name
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn recent(&self) -> RecentChanges {
        self.numbers.recent.changes()
    }

    pub fn syncers(&self) -> Vec<Arc<Syncer>> {
        let known = self.known.lock();
        let running = known.values().filter_map(|known| known.running.as_ref());
        running.map(|running| Arc::clone(&running.syncer)).collect()
    }

    /// The definitions that are not followed although they ask for it.
    pub fn refused(&self) -> Vec<KindOverview> {
        let known = self.known.lock();
        let refused = known.iter().filter_map(|(name, known)| {
            let RefusedDefinition { kind, why } = known.refused.clone()?;
            Some(KindOverview {
                name: name.to_string(),
                kind,
                problems: vec![why],
                ..KindOverview::default()
            })
        });
        refused.collect()
    }

    /// Whether every known definition was looked at.
    pub fn is_at_rest(&self) -> bool {
        let state = self.queue.state();
        let delayed = self.queue.depth().delayed;
        // None came from the delayed ones in between.
        let is_same = state.adds == self.queue.state().adds;
        is_same && state.ready + state.busy + delayed == 0
    }

    /// The annotations of a definition that concern the mirror.
    pub fn annotations(&self, name: &str) -> Vec<(&'static str, String)> {
        let Seen::Present(crd) = self.cache.get(&scope().key(None, name)) else {
            return Vec::new();
        };
        let all = [SPEC_SOURCE, FILTER_BY_ROBOT_NAME, STATUS_SUBTREE].into_iter();
        all.filter_map(|name| Some((name, crd.annotation(name)?.to_owned())))
            .collect()
    }

    /// Updates the metrics of all syncers.
    pub fn count(&self) {
        for known in self.known.lock().values() {
            if let Some(RunningSyncer { syncer, .. }) = &known.running {
                self.numbers
                    .stands(&syncer.definition.name, &syncer.standing());
            }
        }
        let syncers = self.syncers();
        self.numbers.out_of_sync.take(|count| {
            for syncer in &syncers {
                let kind = &syncer.definition.kind.kind;
                let subjects = &syncer.subjects;
                subjects.each_unsettled(|_, problem| count(kind, problem.reason.code));
            }
        });
        let link = &self.planes.link;
        self.numbers.link(link.silence(), link.is_up());
    }

    /// The ids of all holds, for tests.
    #[cfg(test)]
    pub(super) fn holds(&self) -> Vec<String> {
        let known = self.known.lock();
        let running = known.values().filter_map(|known| known.running.as_ref());
        let syncers = running.map(|running| &running.syncer);
        let held = syncers.filter_map(|syncer| syncer.brakes.held(&syncer.definition.kind));
        held.flat_map(|held| held.ids.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// The definitions that are followed or refused, for tests.
    #[cfg(test)]
    pub(super) fn standing(&self) -> Vec<(String, Result<tokio::time::Instant, String>)> {
        let known = self.known.lock();
        let mut all: Vec<_> = known
            .iter()
            .map(|(name, known)| {
                let standing = match (&known.running, &known.refused) {
                    (Some(running), _) => Ok(running.syncer.begun_at()),
                    (None, refused) => {
                        let refused = refused.clone();
                        Err(refused.map(|refused| refused.why).unwrap_or_default())
                    }
                };
                (name.to_string(), standing)
            })
            .collect();
        all.sort();
        all
    }
}

impl Reconciler for CrdController {
    type Key = Arc<str>;

    async fn reconcile(self: &Arc<Self>, work: &Work<Arc<str>>) -> Outcome {
        match self.look_at(&work.key).await {
            Ok(()) => Outcome::Settled,
            Err(problem) => {
                error!(CRD = &*work.key, Error = %problem, "reading a CRD failed; retrying");
                Outcome::Failed(None)
            }
        }
    }
}

impl EventHandler for CrdController {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        let name = Arc::clone(&change.key.name);
        // Each is its own tenant: one that cannot be read delays nobody.
        self.queue.add(name, Urgency::Live);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    use super::super::ground::{CLOUD, Clusters, missions, syncer_config};
    use super::*;

    #[tokio::test]
    async fn a_definition_that_is_read_while_the_mirror_ends_begins_no_syncer_that_goes_on() {
        let clusters = Clusters::with(true, &json!({})).await;
        let stop = CancellationToken::new();
        let (following, _) = clusters
            .following(Settings::of_robot("r1"), syncer_config(), stop.clone())
            .await;
        stop.cancel();
        let name: Arc<str> = "missions.example.com".into();
        following.take(&name, &missions(true, &json!({}))).await;
        let known = following.known.lock().remove(&name).unwrap();
        let ended = timeout(Duration::from_mins(1), known.running.unwrap().task).await;
        ended.expect("it ends by itself").unwrap();
        assert_eq!(clusters.sent(CLOUD, 0).len(), 0);
    }
}
