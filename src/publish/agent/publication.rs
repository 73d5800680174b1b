//! One running published resource: its rules, its feeds, and notes about its objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::feeds::{local_feed, logical_cluster_kind, namespace_kind, secret_kind};
use super::related::state::RelatedState;
use super::share::Share;
use super::subject::SubjectId;
use super::workspaces::Endpoint;
use crate::publish::compiled::Compiled;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::pause::Pause;
use crate::publish::rules::Sides;
use crate::publish::synced::LastReport;
use hawser_runtime::cluster::brake::CopyCounts;
use hawser_runtime::cluster::cache::{
    Cache, Change, ChangeType, Coverage, SourceId, Table, TenantMark,
};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::controller::{CopyIndex, SharedWatch, WatchRegistry};
use hawser_sync::{Answer, Drift, Failure, Key, Request, Scope, Seen, Side, Store as _};
use kube_lang::object::{Gvk, Object};

/// The number of copies that are examined without a break.
const TOGETHER: usize = 256;

/// The time without a watch after which the condition reports it.
const UNWATCHED_AFTER: Duration = Duration::from_secs(10);

/// The time for which the number of this replica's objects is taken as known.
const COUNTED: Duration = Duration::from_secs(1);

/// The input of a publication.
pub struct Plan {
    /// The uid of the published resource.
    pub uid: Arc<str>,
    pub name: String,
    pub compiled: Arc<Compiled>,
    /// The name of the schema that belongs to the rules.
    pub schema: String,
    pub local_resource: Arc<str>,
    pub remote_resource: Arc<str>,
    pub remote_is_namespaced: bool,
    /// Nothing is written for it: its objects are planned.
    pub plans_only: bool,
    /// The pause of all its objects.
    pub pause: Option<Pause>,
}

impl Plan {
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.compiled.fingerprint() == other.compiled.fingerprint()
            && self.local_resource == other.local_resource
            && self.remote_resource == other.remote_resource
            && self.remote_is_namespaced == other.remote_is_namespaced
            && self.plans_only == other.plans_only
            && self.pause == other.pause
    }
}

/// A running published resource. Any holder may stop it; nothing is written for it afterwards.
pub struct Publication {
    pub plan: Plan,
    pub(super) sides: Sides,
    /// The workspaces whose objects are watched: all, if nothing is written for it.
    pub(super) share: Share,
    pub local_kind: Arc<Gvk>,
    pub remote_kind: Arc<Gvk>,
    /// Watches of copies, states and namespaces on the service cluster.
    local: Vec<Arc<SharedWatch>>,
    /// Taken after the lock of [`Publishing`](super::publishing::Publishing), before those of watches and tables.
    pub(super) state: RwLock<PublicationState>,
    /// The definition of a related type may have changed.
    pub(super) redefined: Notify,
    /// Something that its objects depend on has changed since it was planned.
    changed: AtomicBool,
    stopped: AtomicBool,
    /// The objects and workspaces of this replica, and when they were counted.
    counted: Mutex<Option<(Instant, (usize, usize))>>,
}

/// The known state of a publication.
pub(super) struct PublicationState {
    /// The watches of each endpoint: the objects first.
    remote: HashMap<SourceId, Vec<Arc<SharedWatch>>>,
    /// Subjects by copy key, as learned from passes; a copy's own annotations may be wrong.
    copies_of: CopyIndex<SubjectId>,
    /// Requests that the servers refused, as text.
    refused: BTreeSet<String>,
    /// Kinds that workspaces have not accepted, by the permission claims.
    unaccepted: BTreeSet<(String, Arc<str>)>,
    /// The number of copies of workspaces that have left, by workspace.
    orphans: BTreeMap<String, usize>,
    /// Objects whose writes another writer undoes.
    contested: BTreeSet<SubjectId>,
    /// Objects with writes that a pause holds.
    pub(super) paused: BTreeSet<SubjectId>,
    /// The last report on each object, if the owner wants reports.
    pub(super) reports: HashMap<SubjectId, LastReport>,
    /// The drift of copies, as the last passes found it.
    pub(super) drift: HashMap<SubjectId, Arc<Drift>>,
    /// The related objects.
    pub(super) related: RelatedState,
}

impl PublicationState {
    /// The watch of the objects of an endpoint.
    fn objects(&self, source: &SourceId) -> Option<&Arc<SharedWatch>> {
        self.remote.get(source)?.first()
    }
}

impl Publication {
    /// Starts the watches of the service cluster. Nothing is synchronized before these feeds are complete.
    pub fn prepare(
        plan: Plan,
        sides: &Sides,
        service: &Connection,
        watches: &WatchRegistry,
        state_namespace: &str,
        share: &Share,
    ) -> Arc<Self> {
        let share = if plan.plans_only {
            Share::All
        } else {
            share.clone()
        };
        let types = plan.compiled.types();
        let (local_kind, remote_kind) = (Arc::clone(&types.local), Arc::clone(&types.remote));
        let indexed = [marks::CLUSTER, marks::NAMESPACE_HASH, marks::NAME_HASH];
        let copies = Coverage {
            labelled: Some(marks::CLUSTER.into()),
            value: None,
            namespace: None,
            // Objects outside of namespaces have no hash of one.
            indexed: indexed
                .into_iter()
                .filter(|label| plan.remote_is_namespaced || *label != marks::NAMESPACE_HASH)
                .map(Into::into)
                .collect(),
            idle: None,
            partition: share.partition(TenantMark::Label(marks::CLUSTER), None),
        };
        let states = Coverage {
            labelled: Some(marks::OBJECT_STATE.into()),
            value: None,
            namespace: Some(state_namespace.into()),
            indexed: Vec::new(),
            idle: None,
            // What other workspaces claim decides about shared objects.
            partition: share.partition(
                TenantMark::Label(marks::CLUSTER),
                Some(memory::codec::has_related),
            ),
        };
        let watch = |kind: &Arc<Gvk>, resource: &str, coverage| {
            watches.watch(local_feed(
                service,
                &sides.service,
                kind,
                resource,
                coverage,
            ))
        };
        let local = vec![
            watch(&local_kind, &plan.local_resource, copies),
            watch(&secret_kind(), "secrets", states),
            watch(&namespace_kind(), "namespaces", Coverage::default()),
        ];
        let related = RelatedState::new(&plan.compiled);
        let publication = Self {
            plan,
            sides: sides.clone(),
            share,
            local_kind,
            remote_kind,
            local,
            state: RwLock::new(PublicationState {
                remote: HashMap::new(),
                copies_of: CopyIndex::default(),
                refused: BTreeSet::new(),
                unaccepted: BTreeSet::new(),
                orphans: BTreeMap::new(),
                contested: BTreeSet::new(),
                paused: BTreeSet::new(),
                reports: HashMap::new(),
                drift: HashMap::new(),
                related,
            }),
            redefined: Notify::new(),
            changed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            counted: Mutex::default(),
        };
        publication.watch_related(service, &[], watches);
        Arc::new(publication)
    }

    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.plan.compiled
    }

    /// Resolves when everything that passes need from the service cluster is known.
    pub async fn local_completed(&self) {
        for feed in &self.local {
            feed.completed().await;
        }
    }

    /// Watches exactly these endpoints from now on; returns the new ones.
    pub fn attach(&self, endpoints: &[Endpoint], watches: &WatchRegistry) -> Vec<SourceId> {
        let mut new = Vec::new();
        let mut state = self.state.write();
        let (sides, compiled) = (&self.sides, self.compiled());
        state
            .related
            .watch_remote(sides, compiled, endpoints, &self.share, watches);
        state
            .remote
            .retain(|url, _| endpoints.iter().any(|endpoint| endpoint.url == *url));
        for endpoint in endpoints {
            if state.remote.contains_key(&endpoint.url) {
                continue;
            }
            let watch = |kind: &Arc<Gvk>, resource: &str| {
                watches.watch(endpoint.wanted(sides, kind, resource, &self.share))
            };
            let mut watched = vec![watch(&self.remote_kind, &self.plan.remote_resource)];
            if compiled.needs_namespace() {
                watched.push(watch(&namespace_kind(), "namespaces"));
            }
            if compiled.needs_path() {
                watched.push(watch(&logical_cluster_kind(), "logicalclusters"));
            }
            state.remote.insert(Arc::clone(&endpoint.url), watched);
            new.push(Arc::clone(&endpoint.url));
        }
        new
    }

    /// Whether everything of this endpoint's workspaces is known.
    pub fn has_synced(&self, source: &SourceId) -> bool {
        let state = self.state.read();
        let watches = state.remote.get(source);
        watches.is_some_and(|watches| watches.iter().all(|watch| watch.is_complete()))
            && state.related.has_synced(source)
    }

    /// Whether everything of a workspace is known, at an endpoint that has synced.
    pub fn has_loaded(&self, source: &SourceId, cluster: &str) -> bool {
        // Asked for each event.
        if matches!(self.share, Share::All) {
            return true;
        }
        let state = self.state.read();
        let watches = self
            .local
            .iter()
            .chain(state.remote.get(source).into_iter().flatten());
        let mut tables = watches.map(|watch| watch.table());
        tables.all(|table| table.has_loaded(cluster)) && state.related.has_loaded(source, cluster)
    }

    /// Whether its passes need objects of this kind on the service cluster that are listed late.
    pub fn watches_late(&self, kind: &Arc<Gvk>) -> bool {
        let has_parts = |watch: &&Arc<SharedWatch>| watch.table().coverage().partition.is_some();
        let mut in_parts = self.local.iter().filter(has_parts);
        in_parts.any(|watch| watch.table().kind() == kind) || self.watches_related(kind)
    }

    /// The endpoints whose workspaces are known completely.
    pub fn synced_endpoints(&self) -> Vec<SourceId> {
        let mut seen = self.sources();
        seen.retain(|source| self.has_synced(source));
        seen
    }

    /// The number of copies, of objects in this workspace, and of workspaces.
    pub fn stock(&self, cluster: &str) -> CopyCounts {
        let copies = self.local.first().map_or(0, |copies| copies.table().len());
        let state = self.state.read();
        let objects = state.remote.values().filter_map(|feeds| feeds.first());
        let shares = objects.map(|objects| objects.table().share_of(cluster));
        let (of_tenant, tenants) =
            shares.fold((0, 0), |(own, all), share| (own + share.0, all + share.1));
        CopyCounts {
            copies,
            of_tenant,
            tenants,
        }
    }

    /// The same among the workspaces of this replica, for its brake: it sees the deletions of no others. The copies of
    /// its workspaces are counted by their objects, at most once a second.
    pub fn stock_of_share(&self, cluster: &str, share: &Share) -> CopyCounts {
        let all = self.stock(cluster);
        if matches!(share, Share::All) {
            return all;
        }
        let mut counted = self.counted.lock();
        let (objects, tenants) = match *counted {
            Some((at, counts)) if at.elapsed() < COUNTED => counts,
            Some(_) | None => {
                let state = self.state.read();
                let feeds = state.remote.values().filter_map(|feeds| feeds.first());
                let own = feeds.map(|feed| feed.table().share_where(|name| share.has(name)));
                let counts = own.fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1));
                *counted = Some((Instant::now(), counts));
                counts
            }
        };
        let part = |copies: usize| copies.saturating_mul(objects) / self.objects().max(1);
        CopyCounts {
            copies: part(all.copies),
            of_tenant: all.of_tenant,
            tenants,
        }
    }

    /// The number of objects in workspaces.
    pub fn objects(&self) -> usize {
        let state = self.state.read();
        let objects = state.remote.values().filter_map(|feeds| feeds.first());
        objects.map(|objects| objects.table().len()).sum()
    }

    /// The number of copies of workspaces that have left, by workspace.
    pub fn orphans(&self) -> BTreeMap<String, usize> {
        self.state.read().orphans.clone()
    }

    /// Counts the copies of workspaces that have left; returns whether the numbers changed.
    pub async fn count_orphans(&self, cache: &Cache, has_left: impl Fn(&str) -> bool) -> bool {
        let mut counts = BTreeMap::new();
        let keys = self.local.first().map(|copies| copies.table().keys());
        for (number, key) in keys.unwrap_or_default().into_iter().enumerate() {
            if number % TOGETHER == 0 {
                tokio::task::yield_now().await;
            }
            let known = self.state.read().copies_of.get(&key).cloned();
            let known = known.map(|id| has_left(&id.cluster));
            if known == Some(false) {
                continue;
            }
            let Seen::Present(copy) = cache.get(&key) else {
                continue;
            };
            let own = copy.label(marks::AGENT_NAME) == Some(&*self.compiled().agent().name);
            if let Some(cluster) = copy.label(marks::CLUSTER)
                && own
                && has_left(cluster)
            {
                *counts.entry(cluster.to_owned()).or_default() += 1;
            }
        }
        let mut state = self.state.write();
        let differs = state.orphans != counts;
        state.orphans = counts;
        differs
    }

    /// Notes whether a request was allowed, and copies that are gone. Returns whether a right is news.
    pub fn answered(&self, request: &Request, answer: &Answer) -> bool {
        let Some(key) = request.key() else {
            return false;
        };
        // A deletion event may not follow.
        if matches!(answer, Answer::Gone) {
            self.state.write().copies_of.remove(key);
        }
        let forbidden = matches!(answer, Answer::Failed(Failure::Forbidden(_)));
        if !forbidden && matches!(answer, Answer::Failed(_)) {
            return false;
        }
        // Rights on related objects in a workspace are the decision of that workspace, not rights of the agent.
        let is_up_to_workspace = key.side == self.sides.kcp && key.kind != self.remote_kind;
        let is_empty = {
            let state = self.state.read();
            if is_up_to_workspace {
                state.unaccepted.is_empty()
            } else {
                state.refused.is_empty()
            }
        };
        if !forbidden && is_empty {
            return false;
        }
        if is_up_to_workspace {
            let told = (key.kind.kind.clone(), Arc::clone(&key.cluster));
            let unaccepted = &mut self.state.write().unaccepted;
            return if forbidden {
                unaccepted.insert(told)
            } else {
                request.writes() && unaccepted.remove(&told)
            };
        }
        let place = self.place(&key.side);
        let right = format!("{} {} {place}", request.verb(), key.kind.kind);
        let refused = &mut self.state.write().refused;
        if forbidden {
            refused.insert(right)
        } else {
            refused.remove(&right)
        }
    }

    /// Kinds that workspaces do not let the agent write, with the number of workspaces.
    pub fn unaccepted(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (kind, _) in &self.state.read().unaccepted {
            *counts.entry(kind.clone()).or_default() += 1;
        }
        counts
    }

    /// Notes the results of a pass: the copies of its object, and whether another writer undoes its writes. Returns
    /// whether that is news.
    pub fn passed<'k>(
        &self,
        id: &SubjectId,
        copies: impl Iterator<Item = &'k Key> + Clone,
        is_contested: bool,
    ) -> bool {
        let copies = copies.filter(|copy| copy.kind == self.local_kind);
        let is_known = {
            let state = self.state.read();
            let known = &state.copies_of;
            state.contested.contains(id) == is_contested
                && copies.clone().all(|copy| known.get(copy) == Some(id))
        };
        if is_known {
            return false;
        }
        let mut state = self.state.write();
        for copy in copies {
            state.copies_of.insert(copy, id);
        }
        if is_contested {
            state.contested.insert(id.clone())
        } else {
            state.contested.remove(id)
        }
    }

    /// The number of objects whose writes another writer undoes.
    pub fn contests(&self) -> usize {
        self.state.read().contested.len()
    }

    /// The requests and watches that the servers refuse.
    pub fn refused(&self) -> BTreeSet<String> {
        let state = self.state.read();
        let watches = self.local.iter().chain(state.remote.values().flatten());
        let watches = watches.chain(state.related.watches());
        let forbidden = watches.filter(|watch| watch.health().forbidden);
        let unwatched = forbidden.map(|watch| {
            let (kind, side) = (watch.table().kind(), watch.table().side());
            format!("list and watch {} {}", kind.kind, self.place(side))
        });
        state.refused.iter().cloned().chain(unwatched).collect()
    }

    /// The known copies.
    pub fn copies(&self) -> Vec<(Key, Arc<Object>)> {
        let copies = self.local.first();
        copies
            .map(|copies| copies.table().all())
            .unwrap_or_default()
    }

    /// The known states of objects.
    pub fn states(&self) -> Option<&Arc<Table>> {
        self.local.get(1).map(|states| states.table())
    }

    /// Every watched endpoint.
    pub fn sources(&self) -> Vec<SourceId> {
        self.state.read().remote.keys().cloned().collect()
    }

    fn place(&self, side: &Side) -> &'static str {
        if *side == self.sides.kcp {
            "in kcp"
        } else {
            "on the service cluster"
        }
    }

    /// The kinds of the service cluster that could not be listed yet, and why, for the owner. They keep the publication
    /// from starting.
    pub fn unseen(&self) -> Vec<String> {
        let unlisted = self.local.iter().filter(|feed| !feed.is_complete());
        let problem = |feed: &Arc<SharedWatch>| {
            let problem = feed.health().problem?;
            Some(format!("{}: {problem}", feed.table().kind().kind))
        };
        unlisted.filter_map(problem).collect()
    }

    /// The kinds without which the objects of some workspace are not known, with the problem of each.
    pub fn unlisted(&self) -> BTreeSet<String> {
        let state = self.state.read();
        let feeds = self.local.iter().chain(state.remote.values().flatten());
        let feeds = feeds.chain(state.related.watches());
        let unlisted = feeds.filter(|feed| !feed.is_complete());
        let told = unlisted.map(|feed| {
            let (kind, place) = (feed.table().kind(), self.place(feed.table().side()));
            let problem = feed.health().problem;
            let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
            format!("{} {place}{problem}", kind.kind)
        });
        told.collect()
    }

    /// The kinds that could not be watched for a while, for the owner. Kinds that may not be watched are missing
    /// rights, and kinds that could never be listed on the service cluster are in `unseen`.
    pub fn unwatched_kinds(&self) -> BTreeSet<String> {
        let state = self.state.read();
        let listed = self.local.iter().filter(|feed| feed.is_complete());
        let feeds = listed.chain(state.remote.values().flatten());
        let feeds = feeds.chain(state.related.watches());
        let told = feeds.filter_map(|feed| {
            let health = feed.health();
            let since = health.since.filter(|_| !health.forbidden)?;
            let (kind, place) = (feed.table().kind(), self.place(feed.table().side()));
            let problem = health
                .problem
                .filter(|_| since.elapsed() >= UNWATCHED_AFTER)?;
            Some(format!("{} {place}: {problem}", kind.kind))
        });
        told.collect()
    }

    /// Every known object of an endpoint, or of one workspace of it.
    pub fn subjects(&self, source: &SourceId, cluster: Option<&str>) -> Vec<SubjectId> {
        let state = self.state.read();
        let Some(objects) = state.objects(source) else {
            return Vec::new();
        };
        let keys = match cluster {
            Some(cluster) => objects.table().keys_of(cluster, None),
            None => objects.table().keys(),
        };
        keys.iter().map(|key| self.subject(key)).collect()
    }

    /// The objects of one namespace of a workspace.
    pub fn subjects_in(&self, source: &SourceId, cluster: &str, namespace: &str) -> Vec<SubjectId> {
        let state = self.state.read();
        let Some(objects) = state.objects(source) else {
            return Vec::new();
        };
        let keys = objects.table().keys_of(cluster, Some(namespace));
        keys.iter().map(|key| self.subject(key)).collect()
    }

    /// Whether its passes need objects of this kind at an endpoint.
    pub fn watches(&self, source: &SourceId, kind: &Arc<Gvk>) -> bool {
        let state = self.state.read();
        let mut watches = state.remote.get(source).into_iter().flatten();
        watches.any(|watch| watch.table().kind() == kind) || state.related.watches_at(source, kind)
    }

    /// The subject of an object of a workspace.
    pub fn subject(&self, key: &Key) -> SubjectId {
        SubjectId {
            publication: Arc::clone(&self.plan.uid),
            object: key.clone(),
        }
    }

    /// The subject of the object at a place.
    pub fn subject_at(&self, cluster: &str, namespace: Option<&str>, name: &str) -> SubjectId {
        let scope = Scope::new(&self.sides.kcp, &self.remote_kind, cluster);
        self.subject(&scope.key(namespace, name))
    }

    /// The subject whose copy an object says it is.
    fn subject_of_copy(&self, copy: &Object) -> Option<SubjectId> {
        Some(self.subject_of(&Remote::read(copy)?))
    }

    /// The subject of an object that a copy or a state names.
    pub fn subject_of(&self, remote: &Remote) -> SubjectId {
        self.subject_at(&remote.cluster, remote.namespace.as_deref(), &remote.name)
    }

    /// The subjects that an object concerns: as the object itself, its copy, or something that it depends on.
    pub fn concerned(&self, source: &SourceId, change: &Change) -> HashSet<SubjectId> {
        let key = &change.key;
        let mut concerned = {
            let state = self.state.read();
            state.related.index.dependents(key, &change.object)
        };
        if key.side == self.sides.kcp {
            if key.kind == self.remote_kind {
                concerned.insert(self.subject(key));
            }
            if key.kind == namespace_kind() && self.compiled().needs_namespace() {
                concerned.extend(self.subjects_in(source, &key.cluster, &key.name));
            }
        } else if key.kind == self.local_kind {
            let found = match change.what {
                ChangeType::Gone => self.state.write().copies_of.remove(key),
                ChangeType::Initial | ChangeType::Changed => {
                    let state = self.state.read();
                    state.copies_of.get(key).cloned()
                }
            };
            concerned.extend(found);
            // A copy may name a wrong source, but for a new copy this is the only hint.
            concerned.extend(self.subject_of_copy(&change.object));
        }
        concerned
    }

    pub fn anchor(&self, id: &SubjectId) -> Key {
        if id.kind == self.remote_kind {
            id.object.clone()
        } else {
            id.object.of_kind(&self.remote_kind)
        }
    }

    /// Drops the notes about objects of a workspace that is no longer bound.
    pub fn forget(&self, cluster: &str) {
        self.note_change();
        self.state.write().copies_of.forget_tenant(cluster);
        self.forget_where(|other| *other == *cluster);
    }

    /// Drops what passes have noted about objects of these workspaces. Whose copy an object is stays known.
    pub fn forget_where(&self, is_meant: impl Fn(&str) -> bool) {
        let mut state = self.state.write();
        let stays = |id: &SubjectId| !is_meant(&id.cluster);
        state
            .unaccepted
            .retain(|(_, workspace)| !is_meant(workspace));
        state.contested.retain(stays);
        state.paused.retain(stays);
        state.reports.retain(|id, _| stays(id));
        state.drift.retain(|id, _| stays(id));
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether requests are still sent for it; otherwise the reason.
    pub fn check_active(&self) -> Result<(), String> {
        if self.is_stopped() {
            return Err("superseded".to_owned());
        }
        if self.plan.plans_only {
            return Err("the mode is Plan".to_owned());
        }
        Ok(())
    }

    /// Something that its objects depend on has changed.
    pub fn note_change(&self) {
        self.changed.store(true, Ordering::SeqCst);
    }

    /// Whether something has changed since the last call.
    pub fn take_change(&self) -> bool {
        self.changed.swap(false, Ordering::SeqCst)
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
