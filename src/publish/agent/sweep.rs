//! Cleans up after objects that are gone: it deletes their state Secrets and counts the copies of workspaces that have
//! left. api-syncagent leaves such state Secrets behind, and so does a process that is killed at the wrong moment.
//!
//! A state is deleted only if everything that could still need it is known: its object by a complete list and one live
//! read, its copy by a complete list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use super::dispatch::Dispatch;
use super::numbers::AgentMetrics;
use super::publication::Publication;
use super::publishing::Publishing;
use super::router::PublishRouter;
use super::workspaces::Workspaces;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Table};
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_sync::{Answer, Failure, Found, Key, Request, Scope, Seen, Store as _};
use kube_lang::object::Object;

/// The interval without a reason to look.
const INTERVAL: Duration = Duration::from_mins(10);
/// The delay after a list has become complete: passes come first.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// The pause after a look, as a multiple of its duration.
const REST: u32 = 50;
/// The number of objects that are examined without a break.
const TOGETHER: usize = 256;

/// Deletes state Secrets of objects that are gone.
pub struct Sweep {
    pub agent: String,
    pub sides: Sides,
    pub cache: Arc<Cache>,
    pub client: Arc<GuardedClient>,
    pub dispatch: Arc<Dispatch>,
    pub publishing: Arc<Publishing>,
    pub router: Arc<PublishRouter>,
    pub workspaces: Arc<Workspaces>,
    pub metrics: Arc<AgentMetrics>,
    /// Notified when the conditions of owners may change.
    pub owners: watch::Sender<()>,
    /// Notified when there is a reason to look.
    pub reason: Arc<Notify>,
    /// The agent may not delete Secrets: logged once, and not retried.
    pub forbidden: AtomicBool,
}

impl Sweep {
    pub async fn run(self) {
        // A sweep reads the objects of all workspaces, and any workspace can cause one. So it is limited to a small
        // share of the time, however many objects there are.
        let mut pause = AFTERWARDS;
        loop {
            let reason = tokio::time::timeout(INTERVAL, self.reason.notified()).await;
            if reason.is_ok() {
                tokio::time::sleep(pause).await;
            }
            let began = Instant::now();
            self.once().await;
            pause = AFTERWARDS.max(began.elapsed() * REST);
        }
    }

    async fn once(&self) {
        let running = self.dispatch.running();
        for publication in running.values().filter(|one| !one.plan.plans_only) {
            // Copies of workspaces that have left are in nobody's shard: the leader counts them.
            if self.publishing.leads() {
                self.count_orphans(publication).await;
            }
            if self.forbidden.load(Ordering::Relaxed) {
                continue;
            }
            for (remote, key, secret) in self.states_without_object(publication).await {
                // A pass cleans up the related objects that the state records.
                if memory::codec::has_related(&secret) {
                    let anchor = self.anchor(publication, &remote);
                    self.dispatch.look_at(publication.subject(&anchor));
                    continue;
                }
                self.delete(publication, &remote, key, &secret).await;
            }
        }
    }

    async fn count_orphans(&self, publication: &Publication) {
        let has_left = |cluster: &str| self.workspaces.has_left(cluster);
        if !publication.count_orphans(&self.cache, has_left).await {
            return;
        }
        let orphans = publication.orphans();
        let count = orphans.values().sum();
        let kind = &publication.local_kind.kind;
        self.metrics.orphaned_copies(kind, count);
        let name = &publication.plan.name;
        for (workspace, copies) in orphans {
            warn!(publishedresource = %name, workspace, copies, "found orphaned copies of a workspace that no longer binds the API");
        }
        self.owners.send_replace(());
    }

    /// The states of objects of this publication that do not exist.
    async fn states_without_object(
        &self,
        publication: &Publication,
    ) -> Vec<(Remote, Key, Arc<Object>)> {
        let Some(states) = publication.states() else {
            return Vec::new();
        };
        let needed = needed(publication).await;
        let keys = states.keys().into_iter();
        let unknown = keys.filter(|key| !needed.contains(&*key.name));
        let left = unknown.filter_map(|key| {
            let Seen::Present(secret) = self.cache.get(&key) else {
                return None;
            };
            let remote = self.whose(publication, states, &secret)?;
            Some((remote, key, secret))
        });
        left.collect()
    }

    /// The object of this publication that a state belongs to. `None` if that object exists, or a copy of it does;
    /// copies do not count if there are related objects to clean up.
    fn whose(&self, publication: &Publication, states: &Table, secret: &Object) -> Option<Remote> {
        let agent = secret.label(marks::AGENT_NAME);
        let (remote, kind) = memory::primary_of(secret)?;
        let source = self.cache.source(&self.sides.kcp, &remote.cluster);
        let is_left = states.is_complete()
            && self.dispatch.share.has(&remote.cluster)
            && agent.is_none_or(|agent| agent == self.agent)
            && kind == *publication.remote_kind
            && source.is_some_and(|source| publication.has_synced(&source))
            && self.cache.get(&self.anchor(publication, &remote)) == Seen::Absent
            && (memory::codec::has_related(secret)
                || self.copies(publication, &remote) == Found::All(Vec::new()));
        is_left.then_some(remote)
    }

    fn anchor(&self, publication: &Publication, remote: &Remote) -> Key {
        let scope = Scope::new(&self.sides.kcp, &publication.remote_kind, &remote.cluster);
        scope.key(remote.namespace.as_deref(), &remote.name)
    }

    fn copies(&self, publication: &Publication, remote: &Remote) -> Found {
        let scope = Scope::new(&self.sides.service, &publication.local_kind, "");
        self.cache.find(&scope, &remote.marked())
    }

    async fn delete(&self, publication: &Publication, remote: &Remote, key: Key, secret: &Object) {
        let anchor = self.anchor(publication, remote);
        let workspace = remote.cluster.as_str().into();
        let Some(work) = self.dispatch.share.begin(&remote.cluster) else {
            return;
        };
        let check_active = || {
            publication.check_active()?;
            work.check()
        };
        let send = async |request: &Request| {
            let (client, router) = (&self.client, &*self.router);
            let sent = client
                .send(router, Some(&workspace), &check_active, request)
                .await;
            sent.ok().map(|(answer, _)| answer)
        };
        let read = send(&Request::Read { key: anchor }).await;
        let Some(uid) = secret.uid().filter(|_| read == Some(Answer::Gone)) else {
            return;
        };
        let name = Arc::clone(&key.name);
        match send(&Request::delete(key, uid)).await {
            Some(Answer::Gone | Answer::Object(_)) => {
                info!(secret = %name, workspace = remote.cluster, "deleted the state Secret of an object that is gone");
            }
            Some(Answer::Failed(Failure::Forbidden(why))) => {
                self.forbidden.store(true, Ordering::Relaxed);
                warn!(
                    why,
                    "state Secrets of deleted objects stay: the agent may not delete Secrets"
                );
            }
            Some(Answer::Failed(_) | Answer::Listed(_)) | None => {}
        }
    }
}

/// The names of the states of all existing objects.
async fn needed(publication: &Publication) -> HashSet<String> {
    let types = publication.compiled().types();
    let (version, kind) = (types.remote.api_version(), &types.remote.kind);
    let mut names = HashSet::new();
    for source in publication.sources() {
        for id in publication.subjects(&source, None) {
            if names.len().is_multiple_of(TOGETHER) {
                tokio::task::yield_now().await;
            }
            names.insert(memory::secret_name(&id.remote(), &version, kind));
        }
    }
    names
}
