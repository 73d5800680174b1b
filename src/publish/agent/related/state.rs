//! What a published resource knows of its related objects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::publish::agent::feeds::{local_feed, namespace_kind};
use crate::publish::agent::share::Share;
use crate::publish::agent::subject::SubjectId;
use crate::publish::agent::workspaces::Endpoint;
use crate::publish::compiled::Compiled;
use crate::publish::related::{Kinds, TypeName};
use crate::publish::rules::Sides;
use crate::publish::types::Origin;
use hawser_runtime::cluster::cache::{Coverage, SourceId};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::controller::{ReverseIndex, SharedWatch, WatchRegistry, WatchSpec};
use kube_lang::object::Gvk;

/// The time for which types are discovered again after a definition has changed, because serving lags behind.
const SETTLING: Duration = Duration::from_secs(10);
/// The interval of the discovery of workspaces' types: changes by other exports cause no event.
const OUTDATED: Duration = Duration::from_secs(30);

/// The byte budget for bodies that have not been read, for each kind and source. Most Secrets of a cluster are
/// unrelated, and consumers may have any number of them.
const IDLE: usize = 16 << 20;

/// Makes editions unique within the process.
static NEXT_EDITION: AtomicU64 = AtomicU64::new(0);

type ByKind = HashMap<Arc<Gvk>, Arc<SharedWatch>>;

/// The known related objects of one published resource.
pub struct RelatedState {
    pub kinds: Arc<Kinds>,
    /// The watches of the service cluster, and of each endpoint.
    pub local: ByKind,
    pub remote: HashMap<SourceId, ByKind>,
    /// The reverse index: the subjects that read an object.
    pub index: ReverseIndex<SubjectId>,
    /// Set when passes no longer wait for kinds that are not served.
    pub begun: bool,
    /// Incremented whenever passes would have another result although no object has changed.
    pub edition: u64,
    /// The time since which the definition of a type may not be served as it is.
    pub defined: Option<Instant>,
    /// The time of the last discovery of the workspaces' types.
    pub asked: Instant,
}

impl RelatedState {
    pub fn new(compiled: &Compiled) -> Self {
        let mut state = Self {
            kinds: Arc::default(),
            local: ByKind::new(),
            remote: HashMap::new(),
            index: ReverseIndex::default(),
            begun: false,
            edition: NEXT_EDITION.fetch_add(1 << 32, Ordering::Relaxed),
            defined: None,
            asked: Instant::now(),
        };
        state.begun = state.unknown(compiled).is_empty();
        state
    }

    /// The fingerprint of the inputs of passes beside objects.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Known types that may have changed.
    pub fn outdated(&mut self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
        self.defined = self.defined.filter(|since| since.elapsed() < SETTLING);
        let settling = self.defined.is_some();
        let remote = settling || self.asked.elapsed() >= OUTDATED;
        if remote {
            self.asked = Instant::now();
        }
        let mut all = types(compiled);
        all.retain(|(side, name)| {
            let due = match side {
                Origin::Service => settling,
                Origin::Kcp => remote,
            };
            due && !name.group.is_empty() && self.kinds.get(*side, name).is_some()
        });
        all
    }

    /// Types that no side has served yet.
    pub fn unknown(&self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
        let mut all = types(compiled);
        all.retain(|(side, name)| self.kinds.get(*side, name).is_none());
        all
    }

    /// The watches that one side needs: kinds, with their names in paths.
    pub fn wanted(&self, compiled: &Compiled, side: Origin) -> Vec<(Arc<Gvk>, String)> {
        let mut wanted = Vec::new();
        for entry in compiled.related() {
            let name = match side {
                Origin::Service => entry.on_service(),
                Origin::Kcp => entry.in_workspaces(),
            };
            if let Some(known) = self.kinds.get(side, name) {
                wanted.push((Arc::clone(&known.kind), name.resource.clone()));
            }
            // Namespaces of the service cluster are always watched.
            if side == Origin::Kcp && entry.origin == Origin::Kcp && entry.selects_namespaces() {
                wanted.push((namespace_kind(), "namespaces".to_owned()));
            }
        }
        wanted
    }

    /// Watches all known kinds on the service cluster.
    pub fn watch_local(
        &mut self,
        sides: &Sides,
        compiled: &Compiled,
        service: &Connection,
        watches: &WatchRegistry,
    ) {
        for (kind, resource) in self.wanted(compiled, Origin::Service) {
            self.local.entry(Arc::clone(&kind)).or_insert_with(|| {
                let side = &sides.service;
                watches.watch(local_feed(service, side, &kind, &resource, candidates()))
            });
        }
    }

    /// Watches all known kinds at exactly these endpoints.
    pub fn watch_remote(
        &mut self,
        sides: &Sides,
        compiled: &Compiled,
        endpoints: &[Endpoint],
        share: &Share,
        watches: &WatchRegistry,
    ) {
        let wanted = self.wanted(compiled, Origin::Kcp);
        self.remote
            .retain(|url, _| endpoints.iter().any(|endpoint| endpoint.url == *url));
        for endpoint in endpoints {
            let watched = self.remote.entry(Arc::clone(&endpoint.url)).or_default();
            for (kind, resource) in &wanted {
                watched.entry(Arc::clone(kind)).or_insert_with(|| {
                    let wanted = endpoint.wanted(sides, kind, resource, share);
                    let coverage = Coverage {
                        partition: wanted.coverage.partition,
                        ..candidates()
                    };
                    watches.watch(WatchSpec { coverage, ..wanted })
                });
            }
        }
    }

    /// Whether everything that can be known is known. Kinds without a watch are read live.
    pub fn has_synced(&self, source: &SourceId) -> bool {
        let settled = |watch: &Arc<SharedWatch>| {
            let health = watch.health();
            health.complete || health.problem.is_some()
        };
        let remote = self.remote.get(source);
        self.begun
            && self.local.values().all(settled)
            && remote.is_none_or(|watches| watches.values().all(settled))
    }

    /// Whether the objects of a workspace are known, of all kinds of this endpoint that can be watched.
    pub fn has_loaded(&self, source: &SourceId, cluster: &str) -> bool {
        let watches = self.remote.get(source).into_iter().flatten();
        let mut tables = watches.map(|(_, watch)| (watch.table(), watch.health()));
        tables.all(|(table, health)| table.has_loaded(cluster) || health.problem.is_some())
    }

    /// Whether passes need objects of this kind at an endpoint.
    pub fn watches_at(&self, source: &SourceId, kind: &Arc<Gvk>) -> bool {
        let remote = self.remote.get(source);
        remote.is_some_and(|watches| watches.contains_key(kind))
    }

    /// All current watches.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<SharedWatch>> {
        let remote = self.remote.values().flat_map(HashMap::values);
        self.local.values().chain(remote)
    }
}

fn candidates() -> Coverage {
    Coverage {
        idle: Some(IDLE),
        ..Coverage::default()
    }
}

/// Every type that entries lead to, on each side.
fn types(compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
    let entries = compiled.related().iter();
    let types = entries.flat_map(|entry| {
        [
            (Origin::Service, entry.on_service().clone()),
            (Origin::Kcp, entry.in_workspaces().clone()),
        ]
    });
    types.collect()
}
