//! What is left of objects that are gone: state Secrets, which the original leaves behind, as does whoever is
//! killed at the wrong moment; and copies of workspaces that have left, which are counted.
//!
//! A state is deleted only where everything that could still need it is known: its object by a complete list
//! and one live read, its copy by a complete list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{info, warn};

use super::atlas::Places;
use super::braking::Braking;
use super::dispatch::Dispatch;
use super::publication::Publication;
use super::workspaces::Workspaces;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Table};
use hawser_runtime::cluster::wire::Wire;
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::{Answer, Cluster as _, Failure, Found, Key, Request, Scope, Seen, Store as _};
use kube_lang::object::Object;

/// How often is looked, where nothing gives a reason to.
const INTERVAL: Duration = Duration::from_mins(10);
/// How long after a list has become complete: passes come first.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// See the module.
pub struct Sweep {
    pub agent: String,
    pub sides: Sides,
    pub cache: Arc<Cache>,
    pub dispatch: Arc<Dispatch>,
    pub wire: Wire<Arc<Places>>,
    pub workspaces: Arc<Workspaces>,
    pub metrics: Arc<Metrics>,
    /// Told that owners should be told of something.
    pub braking: Arc<Braking>,
    /// Told when there is a reason to look.
    pub reason: Arc<Notify>,
    /// The agent may not delete Secrets: said once, and not tried again.
    pub forbidden: AtomicBool,
}

impl Sweep {
    pub async fn run(self) {
        loop {
            let reason = tokio::time::timeout(INTERVAL, self.reason.notified()).await;
            if reason.is_ok() {
                tokio::time::sleep(AFTERWARDS).await;
            }
            self.once().await;
        }
    }

    async fn once(&self) {
        let running = self.dispatch.running();
        for publication in running.all() {
            self.count_orphans(publication).await;
            if self.forbidden.load(Ordering::Relaxed) {
                continue;
            }
            for (remote, key, secret) in self.left_over(publication) {
                // What it still tells of is let go by a pass, or by nobody.
                if memory::codec::tells_of_related(&secret) {
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
            warn!(publishedresource = %name, workspace, copies, "copies are left of a workspace that does not bind the API any more");
        }
        self.braking.stir();
    }

    /// The states of objects of this publication that are not there.
    fn left_over(&self, publication: &Publication) -> Vec<(Remote, Key, Arc<Object>)> {
        let Some(states) = publication.states() else {
            return Vec::new();
        };
        let needed = needed(publication);
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

    /// The object of this publication that a state is of, where it is known that neither that nor, unless
    /// related objects have to be looked after, a copy of it is there.
    fn whose(&self, publication: &Publication, states: &Table, secret: &Object) -> Option<Remote> {
        let agent = secret.label(marks::AGENT_NAME);
        let (remote, kind) = memory::primary_of(secret)?;
        let source = self.cache.source(&self.sides.kcp, &remote.cluster);
        let is_left = states.is_complete()
            && agent.is_none_or(|agent| agent == self.agent)
            && kind == *publication.remote_kind
            && source.is_some_and(|source| publication.sees(&source))
            && self.cache.get(&self.anchor(publication, &remote)) == Seen::Absent
            && (memory::codec::tells_of_related(secret)
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
        let goes_on = || publication.goes_on();
        let errand = self.wire.errand(&workspace, &goes_on);
        let read = errand.send(&Request::Read { key: anchor }).await;
        let Some(uid) = secret.uid().filter(|_| read == Answer::Gone) else {
            return;
        };
        let name = Arc::clone(&key.name);
        let request = Request::Delete {
            key,
            uid: uid.into(),
        };
        let answer = errand.send(&request).await;
        self.cache.learn(&request, &answer);
        match answer {
            Answer::Gone | Answer::Object(_) => {
                info!(secret = %name, workspace = remote.cluster, "the state of an object that is gone was deleted");
            }
            Answer::Failed(Failure::Forbidden(why)) => {
                self.forbidden.store(true, Ordering::Relaxed);
                warn!(
                    why,
                    "states of objects that are gone stay: the agent may not delete Secrets"
                );
            }
            Answer::Failed(_) | Answer::Listed(_) => {}
        }
    }
}

/// The names of the states of all objects that there are.
fn needed(publication: &Publication) -> HashSet<String> {
    let types = publication.compiled().types();
    let (version, kind) = (types.remote.api_version(), &types.remote.kind);
    let sources = publication.sources().into_iter();
    let subjects = sources.flat_map(|source| publication.subjects(&source, None));
    subjects
        .map(|id| memory::secret_name(&id.remote(), &version, kind))
        .collect()
}
