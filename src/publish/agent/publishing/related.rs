//! Related kinds of published resources: discovered, watched, and polled while they are not watched.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::Publishing;
use crate::publish::agent::publication::Publication;
use crate::publish::related::{RelatedKind, TypeName};
use crate::publish::types::Origin;
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError, Kind};
use kube_lang::object::Gvk;

/// The time for which passes wait for the discovery of kinds after a published resource starts.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// The interval at which kinds without a watch are polled.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(10);

impl Publishing {
    /// Discovers the related kinds of a publication. Queues its subjects whenever more is known, and at intervals while
    /// not everything is watched. Ends with the publication.
    pub async fn follow_related(self: Arc<Self>, publication: Arc<Publication>) {
        if publication.compiled().related().is_empty() {
            return;
        }
        let began = Instant::now();
        let mut wait = FIRST / 4;
        let mut told = BTreeSet::new();
        let mut watched = false;
        let mut seen = HashSet::new();
        while !publication.is_stopped() {
            let learned = self.learn_related(&publication, &mut told).await;
            let all = {
                let related = &mut publication.state.write().related;
                let unknown = !related.unknown(publication.compiled()).is_empty();
                related.begun |= !unknown || began.elapsed() >= MAX_WAIT;
                !unknown && related.watches().all(|watch| watch.is_complete())
            };
            let all = all && !self.workspaces.endpoints().is_empty();
            if learned || all != watched {
                wait = FIRST / 4;
            }
            // A kind that is watched at all present endpoints is not watched at a new one.
            if learned || !(all && watched) {
                // Later passes read the objects of kinds without a watch again.
                for watch in publication.state.read().related.watches() {
                    watch.table().forget_answers();
                }
            }
            let again = learned || all != watched;
            // A watch that fails for the first time counts as settled, and no event reports that.
            let synced: HashSet<_> = publication.synced_endpoints().into_iter().collect();
            for source in synced
                .iter()
                .filter(|source| again || !seen.contains(*source))
            {
                self.dispatch.initial(&publication, source, None);
            }
            seen = synced;
            if !again && !all {
                let asking = publication.dependents_on_unwatched();
                for id in asking {
                    self.dispatch.look_at(id);
                }
            }
            watched = all;
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LAST),
                () = publication.redefined.notified() => wait = FIRST / 4,
            }
            if publication.state.read().related.defined.is_some() {
                wait = wait.min(FIRST);
            }
        }
    }

    /// Every subject of a publication that can be queued.
    pub(in crate::publish::agent) fn again(&self, publication: &Publication) {
        for source in publication.synced_endpoints() {
            self.dispatch.initial(publication, &source, None);
        }
    }

    async fn learn_related(
        &self,
        publication: &Publication,
        told: &mut BTreeSet<(Origin, TypeName)>,
    ) -> bool {
        let compiled = publication.compiled();
        let mut learned = false;
        let (unknown, outdated) = {
            let related = &mut publication.state.write().related;
            (related.unknown(compiled), related.outdated(compiled))
        };
        for (side, name) in unknown.into_iter().chain(outdated) {
            let known = publication.related_kinds().get(side, &name).cloned();
            if known.is_some() && side == Origin::Service {
                self.schemas.discovery.invalidate(&name.group);
            }
            match self.find_related(side, &name).await {
                Ok(Some(kind)) => {
                    let kind = related_kind(&kind, &name);
                    if known.as_ref() == Some(&kind) {
                        continue;
                    }
                    let at = match side {
                        Origin::Kcp => &self.sides.kcp,
                        Origin::Service => &self.sides.service,
                    };
                    self.names.register(at, &kind.kind, &name.resource);
                    let news = if known.is_none() {
                        "was found"
                    } else {
                        "has changed"
                    };
                    info!(publishedresource = %publication.plan.name, kind = %kind.kind, side = %at, namespaced = kind.namespaced, status = kind.status, "a related kind {news}");
                    let related = &mut publication.state.write().related;
                    Arc::make_mut(&mut related.kinds).learn(side, name, kind);
                    related.edition += 1;
                    learned = true;
                }
                // A type that is no longer served keeps its last known kind. It may be served again, or its objects are
                // gone with it.
                Ok(None) | Err(_) if known.is_some() => {}
                Ok(None) | Err(_) => {
                    if told.insert((side, name.clone())) {
                        let TypeName {
                            group,
                            version,
                            resource,
                        } = &name;
                        warn!(publishedresource = %publication.plan.name, group, version, resource, ?side, "a related kind is not served yet");
                    }
                }
            }
        }
        if learned {
            let endpoints = self.workspaces.endpoints();
            publication.watch_related(&self.service, &endpoints, &self.watches);
        }
        learned
    }

    async fn find_related(
        &self,
        side: Origin,
        name: &TypeName,
    ) -> Result<Option<Kind>, DiscoveryError> {
        let TypeName {
            group,
            version,
            resource,
        } = name;
        if side == Origin::Service {
            let discovery = &self.schemas.discovery;
            return discovery.resource(group, version, resource).await;
        }
        let mut answer = Ok(None);
        for endpoint in self.workspaces.endpoints() {
            let discovery = Discovery::new(endpoint.everywhere());
            answer = discovery.resource(group, version, resource).await;
            if matches!(answer, Ok(Some(_))) {
                break;
            }
        }
        answer
    }
}

fn related_kind(kind: &Kind, name: &TypeName) -> RelatedKind {
    let mut versions = kind.versions.iter();
    RelatedKind {
        kind: Arc::new(Gvk::new(&name.group, &name.version, &kind.kind)),
        namespaced: kind.namespaced,
        status: versions.any(|version| version.name == name.version && version.status),
    }
}
