//! One published resource at work: its rules, the feeds it lives on, and what its objects came to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};

use super::feeds::{Feeds, Watched};
use super::related::Works;
use super::workspaces::Endpoint;
use crate::publish::compiled::Compiled;
use crate::publish::marks::{self, Remote};
use crate::publish::rules::{SECRET, Sides};
use hawser_runtime::cluster::cache::{Cache, Change, Coverage, SourceId, Table, What};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_sync::decide::Question;
use hawser_sync::{Answer, Failure, Key, Memo, Print, Request, Seen, Side, Store as _};
use kube_lang::object::{Gvk, Object};

use super::feeds::Wanted;

/// An object of a workspace under a published resource: what passes are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId {
    /// The uid of the published resource.
    pub publication: Arc<str>,
    pub cluster: Arc<str>,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl SubjectId {
    pub fn remote(&self) -> Remote {
        Remote {
            cluster: self.cluster.to_string(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: self.name.to_string(),
        }
    }
}

/// How many copies are looked at without a break.
const TOGETHER: usize = 256;

/// What the service cluster's source is called in the cache: there is one cluster only.
pub const SERVICE: &str = "service";

/// What a published resource was made from.
pub struct Plan {
    /// Of the published resource.
    pub uid: Arc<str>,
    pub name: String,
    pub compiled: Arc<Compiled>,
    pub local_resource: Arc<str>,
    pub remote_resource: Arc<str>,
    pub remote_is_namespaced: bool,
}

impl Plan {
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.compiled.fingerprint() == other.compiled.fingerprint()
            && self.local_resource == other.local_resource
            && self.remote_resource == other.remote_resource
            && self.remote_is_namespaced == other.remote_is_namespaced
    }
}

/// What the objects of one workspace came to.
type Memos = HashMap<SubjectId, Arc<Memo>>;

/// A published resource at work. What holds it may stop it; nothing is written for it afterwards.
pub struct Publication {
    pub plan: Plan,
    sides: Sides,
    pub local_kind: Arc<Gvk>,
    pub remote_kind: Arc<Gvk>,
    /// Copies, states and namespaces on the service cluster.
    local: Vec<Arc<Watched>>,
    /// What is watched of each endpoint: the objects first.
    remote: RwLock<HashMap<SourceId, Vec<Arc<Watched>>>>,
    memos: Mutex<HashMap<Arc<str>, Memos>>,
    /// Whose copies are where, as passes found them: a copy need not name its source rightly.
    copies_of: Mutex<HashMap<Key, SubjectId>>,
    /// What the servers do not allow, in words.
    refused: Mutex<BTreeSet<String>>,
    /// What workspaces have not accepted that the agent does there, by kind.
    unaccepted: Mutex<BTreeSet<(String, Arc<str>)>>,
    /// How many copies there are of workspaces that have left, by workspace.
    orphans: Mutex<BTreeMap<String, usize>>,
    /// Objects of which somebody else takes back what is written.
    contested: Mutex<BTreeSet<SubjectId>>,
    /// What travels with its objects.
    pub related: Works,
    stopped: AtomicBool,
}

static CONFIG_MAP: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "ConfigMap").into());
static NAMESPACE: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Namespace").into());
static LOGICAL_CLUSTER: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| Gvk::new("core.kcp.io", "v1alpha1", "LogicalCluster").into());

pub fn secret_kind() -> Arc<Gvk> {
    Arc::clone(&SECRET)
}

pub fn config_map_kind() -> Arc<Gvk> {
    Arc::clone(&CONFIG_MAP)
}

pub fn namespace_kind() -> Arc<Gvk> {
    Arc::clone(&NAMESPACE)
}

pub fn logical_cluster_kind() -> Arc<Gvk> {
    Arc::clone(&LOGICAL_CLUSTER)
}

/// A feed of the service cluster.
pub fn local_feed(
    service: &Connection,
    side: &Side,
    kind: &Arc<Gvk>,
    resource: &str,
    coverage: Coverage,
) -> Wanted {
    let label = coverage.labelled.as_deref();
    let selection = Selection {
        connection: service.clone(),
        resource: resource.into(),
        namespace: coverage.namespace.clone(),
        query: label.map(|label| format!("labelSelector={}", label.replace('/', "%2F"))),
        clusters: Clusters::One("".into()),
        content: Content::Whole,
    };
    Wanted {
        side: side.clone(),
        kind: Arc::clone(kind),
        source: SERVICE.into(),
        coverage,
        selection,
    }
}

impl Publication {
    /// Begins to watch the service cluster. Nothing is synced before these feeds are complete.
    pub fn prepare(
        plan: Plan,
        sides: &Sides,
        service: &Connection,
        feeds: &Feeds,
        state_namespace: &str,
    ) -> Arc<Self> {
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
        };
        let states = Coverage {
            labelled: Some(marks::OBJECT_STATE.into()),
            value: None,
            namespace: Some(state_namespace.into()),
            indexed: Vec::new(),
            idle: None,
        };
        let watch = |kind: &Arc<Gvk>, resource: &str, coverage| {
            feeds.watch(local_feed(
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
        let related = Works::new(sides, &plan.compiled);
        related.watch_local(&plan.compiled, service, feeds);
        Arc::new(Self {
            plan,
            sides: sides.clone(),
            local_kind,
            remote_kind,
            local,
            remote: RwLock::default(),
            memos: Mutex::default(),
            copies_of: Mutex::default(),
            refused: Mutex::default(),
            unaccepted: Mutex::default(),
            orphans: Mutex::default(),
            contested: Mutex::default(),
            related,
            stopped: AtomicBool::new(false),
        })
    }

    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.plan.compiled
    }

    /// Resolves when everything on the service cluster is known that passes ask for.
    pub async fn local_completed(&self) {
        for feed in &self.local {
            feed.completed().await;
        }
    }

    /// Watches at exactly these endpoints from now on; answers those that are new.
    pub fn attach(&self, endpoints: &[Endpoint], feeds: &Feeds) -> Vec<SourceId> {
        self.related.watch_remote(self.compiled(), endpoints, feeds);
        let mut new = Vec::new();
        let mut remote = self.remote.write();
        remote.retain(|url, _| endpoints.iter().any(|endpoint| endpoint.url == *url));
        for endpoint in endpoints {
            if remote.contains_key(&endpoint.url) {
                continue;
            }
            let watch = |kind: &Arc<Gvk>, resource: &str| {
                feeds.watch(endpoint.wanted(&self.sides, kind, resource))
            };
            let mut watched = vec![watch(&self.remote_kind, &self.plan.remote_resource)];
            if self.compiled().needs_namespace() {
                watched.push(watch(&namespace_kind(), "namespaces"));
            }
            if self.compiled().needs_path() {
                watched.push(watch(&logical_cluster_kind(), "logicalclusters"));
            }
            remote.insert(Arc::clone(&endpoint.url), watched);
            new.push(Arc::clone(&endpoint.url));
        }
        new
    }

    /// Whether everything is known of the workspaces of this endpoint.
    pub fn sees(&self, source: &SourceId) -> bool {
        let remote = self.remote.read();
        let feeds = remote.get(source);
        feeds.is_some_and(|feeds| feeds.iter().all(|feed| feed.is_complete()))
            && self.related.sees(source)
    }

    /// How many copies there are.
    pub fn copies(&self) -> usize {
        self.local.first().map_or(0, |copies| copies.table().len())
    }

    /// How many copies there are of workspaces that have left, by workspace.
    pub fn orphans(&self) -> BTreeMap<String, usize> {
        self.orphans.lock().clone()
    }

    /// Counts the copies of workspaces that have left; whether the numbers are others than before.
    pub async fn count_orphans(&self, cache: &Cache, has_left: impl Fn(&str) -> bool) -> bool {
        let mut counts = BTreeMap::new();
        let keys = self.local.first().map(|copies| copies.table().keys());
        for (number, key) in keys.unwrap_or_default().into_iter().enumerate() {
            if number % TOGETHER == 0 {
                tokio::task::yield_now().await;
            }
            let known = self
                .copies_of
                .lock()
                .get(&key)
                .map(|id| has_left(&id.cluster));
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
        let mut orphans = self.orphans.lock();
        let differs = *orphans != counts;
        *orphans = counts;
        differs
    }

    /// Takes note of whether a request was allowed; whether that is news.
    pub fn allowed(&self, request: &Request, answer: &Answer) -> bool {
        let Some(key) = request.key() else {
            return false;
        };
        let forbidden = matches!(answer, Answer::Failed(Failure::Forbidden(_)));
        if !forbidden && matches!(answer, Answer::Failed(_)) {
            return false;
        }
        // Of what travels along, that is up to each workspace, and no right of the agent.
        if key.side == self.sides.kcp && key.kind != self.remote_kind {
            let mut unaccepted = self.unaccepted.lock();
            if !forbidden && unaccepted.is_empty() {
                return false;
            }
            let told = (key.kind.kind.clone(), Arc::clone(&key.cluster));
            return if forbidden {
                unaccepted.insert(told)
            } else {
                request.writes() && unaccepted.remove(&told)
            };
        }
        let mut refused = self.refused.lock();
        if !forbidden && refused.is_empty() {
            return false;
        }
        let place = self.place(&key.side);
        let right = format!("{} {} {place}", request.verb(), key.kind.kind);
        if forbidden {
            refused.insert(right)
        } else {
            refused.remove(&right)
        }
    }

    /// Kinds that workspaces do not let the agent write, and how many workspaces.
    pub fn unaccepted(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (kind, _) in self.unaccepted.lock().iter() {
            *counts.entry(kind.clone()).or_default() += 1;
        }
        counts
    }

    /// Takes note of whether somebody else takes back what is written of an object; whether that is news.
    pub fn contested(&self, id: &SubjectId, is_contested: bool) -> bool {
        let mut contested = self.contested.lock();
        if is_contested {
            contested.insert(id.clone())
        } else {
            contested.remove(id)
        }
    }

    /// Of how many objects somebody else takes back what is written.
    pub fn contests(&self) -> usize {
        self.contested.lock().len()
    }

    /// What the servers do not allow.
    pub fn refused(&self) -> BTreeSet<String> {
        let mut refused = self.refused.lock().clone();
        refused.extend(self.unwatched());
        refused
    }

    /// What is known of the states of objects.
    pub fn states(&self) -> Option<&Arc<Table>> {
        self.local.get(1).map(|states| states.table())
    }

    /// Every endpoint that is watched.
    pub fn sources(&self) -> Vec<SourceId> {
        self.remote.read().keys().cloned().collect()
    }

    /// What may not be watched, in words.
    fn unwatched(&self) -> Vec<String> {
        let remote = self.remote.read();
        let feeds = self.local.iter().chain(remote.values().flatten()).cloned();
        let feeds = feeds.chain(self.related.feeds());
        let forbidden = feeds.filter(|feed| feed.health().forbidden);
        forbidden
            .map(|feed| {
                let (kind, side) = (feed.table().kind(), feed.table().side());
                format!("list and watch {} {}", kind.kind, self.place(side))
            })
            .collect()
    }

    fn place(&self, side: &Side) -> &'static str {
        if *side == self.sides.kcp {
            "in kcp"
        } else {
            "on the service cluster"
        }
    }

    /// What keeps it from beginning, for the owner: what of the service cluster could not be listed yet,
    /// and why.
    pub fn unseen(&self) -> Vec<String> {
        let unlisted = self.local.iter().filter(|feed| !feed.is_complete());
        let problem = |feed: &Arc<Watched>| {
            let problem = feed.health().problem?;
            Some(format!("{}: {problem}", feed.table().kind().kind))
        };
        unlisted.filter_map(problem).collect()
    }

    /// Every object that is known of an endpoint, or of one workspace of it.
    pub fn subjects(&self, source: &SourceId, cluster: Option<&str>) -> Vec<SubjectId> {
        let remote = self.remote.read();
        let Some(objects) = remote.get(source).and_then(|feeds| feeds.first()) else {
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
        let remote = self.remote.read();
        let Some(objects) = remote.get(source).and_then(|feeds| feeds.first()) else {
            return Vec::new();
        };
        let keys = objects.table().keys_of(cluster, Some(namespace));
        keys.iter().map(|key| self.subject(key)).collect()
    }

    /// Whether its passes ask for objects of this kind at an endpoint.
    pub fn watches(&self, source: &SourceId, kind: &Arc<Gvk>) -> bool {
        let remote = self.remote.read();
        let mut feeds = remote.get(source).into_iter().flatten();
        feeds.any(|feed| feed.table().kind() == kind) || self.related.watches(source, kind)
    }

    /// The subject of an object of a workspace.
    pub fn subject(&self, key: &Key) -> SubjectId {
        SubjectId {
            publication: Arc::clone(&self.plan.uid),
            cluster: Arc::clone(&key.cluster),
            namespace: key.namespace.clone(),
            name: Arc::clone(&key.name),
        }
    }

    /// The subject whose copy an object says it is.
    fn subject_of_copy(&self, copy: &Object) -> Option<SubjectId> {
        let remote = Remote::read(copy)?;
        Some(SubjectId {
            publication: Arc::clone(&self.plan.uid),
            cluster: remote.cluster.into(),
            namespace: remote.namespace.map(Into::into),
            name: remote.name.into(),
        })
    }

    /// The subjects that an object on the service cluster may be the copy of.
    pub fn subjects_of_copy(&self, change: &Change) -> Vec<SubjectId> {
        let mut known = self.copies_of.lock();
        let found = match change.what {
            What::Gone => known.remove(&change.key),
            What::Initial | What::Changed => known.get(&change.key).cloned(),
        };
        drop(known);
        let named = self.subject_of_copy(&change.object);
        let named = named.filter(|named| found.as_ref() != Some(named));
        found.into_iter().chain(named).collect()
    }

    /// Takes note of where the copy of an object is.
    pub fn found_copy(&self, id: &SubjectId, copy: &Key) {
        if copy.kind == self.local_kind {
            self.copies_of.lock().insert(copy.clone(), id.clone());
        }
    }

    /// Takes note of an answer by which a copy is gone: no event need tell of it any more.
    pub fn lost_copy(&self, request: &Request, answer: &Answer) {
        if let (Some(key), Answer::Gone) = (request.key(), answer) {
            self.copies_of.lock().remove(key);
        }
    }

    pub fn anchor(&self, id: &SubjectId) -> Key {
        Key {
            side: self.sides.kcp.clone(),
            kind: Arc::clone(&self.remote_kind),
            cluster: Arc::clone(&id.cluster),
            namespace: id.namespace.clone(),
            name: Arc::clone(&id.name),
        }
    }

    /// The print of all that passes go by and that is no object.
    pub fn rules(&self) -> u64 {
        let compiled = self.compiled().fingerprint();
        compiled.wrapping_add(self.related.edition())
    }

    /// Whether nothing has changed since this object came to rest.
    pub fn rests(&self, id: &SubjectId, cache: &Cache) -> bool {
        let memo = self.memo(id);
        memo.is_some_and(|memo| memo.holds(self.rules(), cache))
    }

    /// The print that an answer had when this object came to rest.
    pub fn rested_with(&self, id: &SubjectId, question: &Question) -> Option<Print> {
        self.memo(id)?.answer(question)
    }

    fn memo(&self, id: &SubjectId) -> Option<Arc<Memo>> {
        let memos = self.memos.lock();
        memos.get(&id.cluster)?.get(id).cloned()
    }

    pub fn remember(&self, id: &SubjectId, memo: Option<Memo>) {
        let mut memos = self.memos.lock();
        let Some(memo) = memo else {
            if let Some(of_cluster) = memos.get_mut(&id.cluster) {
                of_cluster.remove(id);
            }
            return;
        };
        let of_cluster = memos.entry(Arc::clone(&id.cluster)).or_default();
        of_cluster.insert(id.clone(), Arc::new(memo));
    }

    /// Drops what was noted of the objects of a workspace that no longer takes part.
    pub fn forget(&self, cluster: &str) {
        self.memos.lock().remove(cluster);
        let mut copies = self.copies_of.lock();
        copies.retain(|_, id| *id.cluster != *cluster);
        let mut unaccepted = self.unaccepted.lock();
        unaccepted.retain(|(_, workspace)| **workspace != *cluster);
        let mut contested = self.contested.lock();
        contested.retain(|id| *id.cluster != *cluster);
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether requests are still sent for it, or why not.
    pub fn goes_on(&self) -> Result<(), String> {
        if self.is_stopped() {
            return Err("no longer published so".to_owned());
        }
        Ok(())
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
