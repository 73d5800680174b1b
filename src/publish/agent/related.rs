//! Related objects: their kinds, the feeds that report their changes, and the subjects that a change concerns.
//!
//! One watch for each kind and side serves all published resources. If a kind cannot be watched, the subjects that
//! depend on it are queued again every few seconds instead.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use tracing::{info, warn};

use super::publication::{Publication, SubjectId, local_feed, namespace_kind, secret_kind};
use super::publishing::Publishing;
use super::router::ResourceNames;
use super::share::Share;
use super::workspaces::Endpoint;
use crate::publish::compiled::Compiled;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::related::{
    self, AlwaysQuiet, ClaimIndex, ClaimOwner, Kinds, PublishedKind, Quiet, RelatedContext,
    RelatedEnds, RelatedKind, TypeName,
};
use crate::publish::rules::Sides;
use crate::publish::types::Origin;
use hawser_runtime::cluster::cache::{Change, ChangeType, Coverage, SourceId};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError, Kind};
use hawser_runtime::controller::{ReverseIndex, SharedWatch, WatchRegistry, WatchSpec};
use hawser_sync::Question;
use hawser_sync::{FingerprintSource, Key, Report, Scope};
use kube_lang::object::{Gvk, Object};

mod quiet;

use quiet::QuietTracker;

/// The state that all published resources share. One for each process.
pub struct RelatedShared {
    /// The agent's namespace: memories are only there, whatever other objects claim.
    namespace: Arc<str>,
    ledger: ClaimIndex,
    quiet: Box<dyn Quiet>,
    published: RwLock<Arc<[PublishedKind]>>,
}

impl RelatedShared {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ledger: ClaimIndex::default(),
            quiet: Box::new(QuietTracker::default()),
            published: RwLock::default(),
        }
    }

    /// A state of its own for passes that are only tried, as a new process would have it: every object has long been
    /// unchanged.
    pub fn for_trials(&self, published: Vec<PublishedKind>) -> Self {
        Self {
            quiet: Box::new(AlwaysQuiet),
            published: RwLock::new(published.into()),
            ..Self::new(&self.namespace)
        }
    }

    /// Adds the claims of a memory until its subject has had a pass. Requests find the kinds of these claims, even if
    /// no entry names them any more.
    ///
    /// A memory without related objects ends the claims of a subject of another replica. Those of a subject of this one
    /// may be of a pass that has not recorded them yet.
    pub fn learn_claims(
        &self,
        sides: &Sides,
        change: &Change,
        names: &ResourceNames,
        share: &Share,
    ) {
        let secret = &change.object;
        let is_ours = change.key.kind == secret_kind()
            && change.key.namespace.as_ref() == Some(&self.namespace);
        if !is_ours {
            return;
        }
        let (Some(_), Some(cluster)) = (
            secret.label(marks::OBJECT_STATE),
            secret.label(marks::CLUSTER),
        ) else {
            return;
        };
        // Related objects are in the workspace of the published object.
        let remote = Remote {
            cluster: cluster.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let copies = match change.what {
            ChangeType::Gone => Vec::new(),
            _ if !memory::codec::has_related(secret) => {
                let by = claim_owner(secret, &remote);
                if share.has(cluster) {
                    self.ledger.recorded_nothing(&by);
                } else {
                    self.ledger.remembered_nothing(&by);
                }
                return;
            }
            ChangeType::Initial | ChangeType::Changed => memory::codec::copies(secret),
        };
        let records = copies.iter().map(|(id, copy)| (id, copy));
        let (claims, made) = related::recorded_claims(records, sides, &remote);
        let by = claim_owner(secret, &remote);
        self.ledger.remembered(&by, claims, made);
        let ends = copies
            .iter()
            .filter_map(|(id, _)| RelatedEnds::read(id, sides, &remote))
            .flat_map(|ends| [ends.source, ends.target]);
        for (key, resource) in ends {
            names.register(&key.side, &key.kind, &resource);
        }
    }

    /// The state of the object that has claims.
    pub fn state_key(&self, sides: &Sides, owner: &ClaimOwner) -> Key {
        let scope = Scope::new(&sides.service, &secret_kind(), "");
        scope.key(Some(&self.namespace), &owner.memory)
    }

    /// All published kinds.
    pub fn published(&self) -> Arc<[PublishedKind]> {
        Arc::clone(&self.published.read())
    }

    /// Sets the published kinds; returns whether some are new.
    pub fn publishes(&self, now: Vec<PublishedKind>) -> bool {
        let mut published = self.published.write();
        let is_new = |one: &PublishedKind| {
            let mut before = published.iter();
            !before.any(|before| (&before.group, &before.kind) == (&one.group, &one.kind))
        };
        let some_are_new = now.iter().any(is_new);
        *published = now.into();
        some_are_new
    }

    pub fn ledger(&self) -> &ClaimIndex {
        &self.ledger
    }

    pub fn around<'a>(
        &'a self,
        kinds: &'a Kinds,
        published: &'a [PublishedKind],
    ) -> RelatedContext<'a> {
        RelatedContext {
            kinds,
            ledger: &self.ledger,
            published,
            quiet: &*self.quiet,
        }
    }
}

fn claim_owner(secret: &Object, remote: &Remote) -> ClaimOwner {
    ClaimOwner {
        memory: secret.name().into(),
        cluster: remote.cluster.as_str().into(),
    }
}

type ByKind = HashMap<Arc<Gvk>, Arc<SharedWatch>>;

/// The known related objects of one published resource.
pub(super) struct RelatedState {
    kinds: Arc<Kinds>,
    /// The watches of the service cluster, and of each endpoint.
    local: ByKind,
    remote: HashMap<SourceId, ByKind>,
    /// The reverse index: the subjects that read an object.
    pub(super) index: ReverseIndex<SubjectId>,
    /// Set when passes no longer wait for kinds that are not served.
    begun: bool,
    /// Incremented whenever passes would have another result although no object has changed.
    edition: u64,
    /// The time since which the definition of a type may not be served as it is.
    defined: Option<Instant>,
    /// The time of the last discovery of the workspaces' types.
    asked: Instant,
}

/// Makes editions unique within the process.
static NEXT_EDITION: AtomicU64 = AtomicU64::new(0);

/// Whether an object of a workspace still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Gone,
}

/// The time for which passes wait for the discovery of kinds after a published resource starts.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// The interval at which kinds without a watch are polled.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(10);
/// The time for which types are discovered again after a definition has changed, because serving lags behind.
const SETTLING: Duration = Duration::from_secs(10);
/// The interval of the discovery of workspaces' types: changes by other exports cause no event.
const OUTDATED: Duration = Duration::from_secs(30);

/// The byte budget for bodies that have not been read, for each kind and source. Most Secrets of a cluster are
/// unrelated, and consumers may have any number of them.
const IDLE: usize = 16 << 20;

fn candidates() -> Coverage {
    Coverage {
        idle: Some(IDLE),
        ..Coverage::default()
    }
}

impl RelatedState {
    pub(super) fn new(compiled: &Compiled) -> Self {
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
    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    /// Known types that may have changed.
    fn outdated(&mut self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
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
    fn unknown(&self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
        let mut all = types(compiled);
        all.retain(|(side, name)| self.kinds.get(*side, name).is_none());
        all
    }

    /// The watches that one side needs: kinds, with their names in paths.
    fn wanted(&self, compiled: &Compiled, side: Origin) -> Vec<(Arc<Gvk>, String)> {
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
    fn watch_local(
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
    pub(super) fn watch_remote(
        &mut self,
        sides: &Sides,
        compiled: &Compiled,
        endpoints: &[Endpoint],
        watches: &WatchRegistry,
    ) {
        let wanted = self.wanted(compiled, Origin::Kcp);
        self.remote
            .retain(|url, _| endpoints.iter().any(|endpoint| endpoint.url == *url));
        for endpoint in endpoints {
            let watched = self.remote.entry(Arc::clone(&endpoint.url)).or_default();
            for (kind, resource) in &wanted {
                watched.entry(Arc::clone(kind)).or_insert_with(|| {
                    let wanted = endpoint.wanted(sides, kind, resource);
                    watches.watch(WatchSpec {
                        coverage: candidates(),
                        ..wanted
                    })
                });
            }
        }
    }

    /// Whether everything that can be known is known. Kinds without a watch are read live.
    pub(super) fn has_synced(&self, source: &SourceId) -> bool {
        let settled = |watch: &Arc<SharedWatch>| {
            let health = watch.health();
            health.complete || health.problem.is_some()
        };
        let remote = self.remote.get(source);
        self.begun
            && self.local.values().all(settled)
            && remote.is_none_or(|watches| watches.values().all(settled))
    }

    /// Whether passes need objects of this kind at an endpoint.
    pub(super) fn watches_at(&self, source: &SourceId, kind: &Arc<Gvk>) -> bool {
        let remote = self.remote.get(source);
        remote.is_some_and(|watches| watches.contains_key(kind))
    }

    /// All current watches.
    pub(super) fn watches(&self) -> impl Iterator<Item = &Arc<SharedWatch>> {
        let remote = self.remote.values().flat_map(HashMap::values);
        self.local.values().chain(remote)
    }
}

/// The related objects of a publication.
impl Publication {
    pub fn related_kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.state.read().related.kinds)
    }

    /// Whether the related kinds are known, or have been waited for.
    pub(super) fn has_begun(&self) -> bool {
        self.state.read().related.begun
    }

    /// Notes that passes would have another result from now on.
    pub fn renew(&self) {
        self.state.write().related.edition += 1;
    }

    /// The definition of a type of this group has changed on the service cluster: its types, and the workspaces' types
    /// made from them, may be different now.
    pub fn defined_anew(&self, group: &str) {
        let mut entries = self.compiled().related().iter();
        if entries.any(|e| {
            [e.on_service(), e.in_workspaces()]
                .iter()
                .any(|t| t.group == group)
        }) {
            self.state.write().related.defined = Some(Instant::now());
            self.redefined.notify_one();
        }
    }

    /// The related kinds that are not served, as text.
    pub fn unserved(&self) -> Vec<String> {
        let state = self.state.read();
        if !state.related.begun {
            return Vec::new();
        }
        let words = |(side, name): (Origin, TypeName)| {
            let TypeName {
                group,
                version,
                resource,
            } = name;
            let place = match side {
                Origin::Kcp => "in workspaces",
                Origin::Service => "on the service cluster",
            };
            let dot = if group.is_empty() { "" } else { "." };
            format!("{resource}{dot}{group} in version {version} {place}")
        };
        let unknown = state.related.unknown(self.compiled());
        unknown.into_iter().map(words).collect()
    }

    /// Watches all known related kinds at exactly these endpoints.
    pub(super) fn watch_related(
        &self,
        service: &Connection,
        endpoints: &[Endpoint],
        watches: &WatchRegistry,
    ) {
        let (sides, compiled) = (&self.sides, self.compiled());
        let related = &mut self.state.write().related;
        related.watch_local(sides, compiled, service, watches);
        related.watch_remote(sides, compiled, endpoints, watches);
    }

    /// Whether passes need related objects of this kind on the service cluster.
    pub fn watches_related(&self, kind: &Arc<Gvk>) -> bool {
        self.state.read().related.local.contains_key(kind)
    }

    /// Records the questions of a pass, by which its subject is found again. Returns whether something of them changed
    /// before without being reported to the subject.
    pub fn note_related(
        &self,
        id: &SubjectId,
        report: &Report,
        presence: Presence,
        own_state: impl FnOnce() -> Option<Key>,
        fingerprints: &dyn FingerprintSource,
    ) -> bool {
        let entries = self.compiled().related();
        let mut outcomes = report.outcomes.iter();
        let tells = outcomes.any(|one| related::entry_of(&one.link).is_some());
        if entries.is_empty() && !tells {
            return false;
        }
        let anchor = self.anchor(id);
        let namespaces = entries.iter().any(|entry| entry.selects_namespaces());
        let is_state = |key: &Key| {
            let agent = &self.compiled().agent().namespace;
            key.side == self.sides.service && key.namespace.as_deref() == Some(agent)
        };
        // The states of others are asked for rarely.
        let states = report.asked.iter().filter(|question| match question {
            Question::Object(key) => is_state(key),
            Question::Marked(..) => false,
        });
        let own_state = if states.count() > 1 {
            own_state()
        } else {
            None
        };
        let mut state = self.state.write();
        let local = &state.related.local;
        let concerns = |question: &&Question| match question {
            Question::Object(key) if is_state(key) => {
                own_state.as_ref().is_some_and(|own| own != key)
            }
            Question::Object(key) => *key != anchor && (namespaces || key.kind != namespace_kind()),
            Question::Marked(scope, _) => {
                scope.side == self.sides.kcp
                    || scope.kind != self.local_kind
                    || local.contains_key(&scope.kind)
            }
        };
        let questions = match presence {
            // The object may have related objects with our finalizer that show again.
            Presence::Gone if !tells => Vec::new(),
            Presence::Gone | Presence::There => {
                report.asked.iter().filter(concerns).cloned().collect()
            }
        };
        let new = state.related.index.set(id, questions);
        // The comparison may take long, and others need the state.
        drop(state);
        let mut answers = report.asked.iter().zip(&report.fingerprints);
        answers.any(|(question, fingerprint)| {
            new.contains(question)
                && fingerprint.is_some()
                && fingerprints.fingerprint(question) != *fingerprint
        })
    }

    /// The subjects that refer to objects without a watch.
    fn dependents_on_unwatched(&self) -> HashSet<SubjectId> {
        let state = self.state.read();
        let watches = state.related.watches();
        let unwatched = watches.filter(|watch| !watch.is_complete());
        let index = &state.related.index;
        unwatched
            .flat_map(|watch| index.dependents_on_kind(watch.table().side(), watch.table().kind()))
            .collect()
    }
}

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
    pub(super) fn again(&self, publication: &Publication) {
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

fn related_kind(kind: &Kind, name: &TypeName) -> RelatedKind {
    let mut versions = kind.versions.iter();
    RelatedKind {
        kind: Arc::new(Gvk::new(&name.group, &name.version, &kind.kind)),
        namespaced: kind.namespaced,
        status: versions.any(|version| version.name == name.version && version.status),
    }
}
