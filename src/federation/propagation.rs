//! The running types, with their watches on the host and in each ready member; the queue of federated objects, and its
//! workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use hawser_federation::scheduling::TARGETS;
use hawser_federation::status::Collection;
use hawser_federation::types::MANAGED;
use hawser_federation::types::type_config::ApiResource;
use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, Coverage, Table};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, EventHandler, Selection};
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_runtime::controller::telemetry::CacheGauges;
use hawser_runtime::controller::{SharedWatch, WatchRegistry, WatchSpec, work};
use hawser_sync::{Key, Scope, Side};
use kube_lang::object::{Gvk, Object};

use super::controllers::{self};
use super::events::EventRecorder;
use super::host::{self, CLUSTER_VERSION, FederationSettings, NAMESPACE, SOURCE, VERSION};
use super::members::{MemberCluster, MemberClusters};
use super::numbers::FederationMetrics;
use super::queues::{Checks, FederatedId};

static MEMBER: LazyLock<Side> = LazyLock::new(|| Side::new("member"));

/// The maximum number of concurrent passes; one type has at most a quarter of them.
const WORKERS: usize = 1024;
/// Objects whose versions and status are written at the same time. Thus the copies of many new objects do not wait for
/// the records of the first ones, and the line of requests to the host stays short for other types.
const RECORDS: usize = 32;
/// The one queue of the objects of all types, in metrics.
pub const QUEUE: &str = "federated";
/// The selector of the watches in members: managed objects.
const SELECTOR: &str = "labelSelector=kubefed.io%2Fmanaged%3Dtrue";
/// The time for which a pass waits for the first list of a healthy member, unless `cacheSyncTimeout` is shorter. The
/// status reports lists that take longer.
const LISTING: Duration = Duration::from_secs(10);

/// The parameters of a type's propagation; other parameters are another [`FederatedType`].
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSpec {
    pub name: Arc<str>,
    pub target: ApiResource,
    pub federated: ApiResource,
    /// The federated namespaces that limit the placement of namespaced types.
    pub namespaces: Option<ApiResource>,
    pub collection: Collection,
    /// The type that the status of copies of Services is written as, beside that of the federated object.
    pub service_status: Option<ApiResource>,
}

/// A running type.
pub struct FederatedType {
    pub spec: TypeSpec,
    target: Arc<Gvk>,
    federated: Arc<Gvk>,
    namespaces: Option<Arc<Gvk>>,
    host: Vec<Arc<SharedWatch>>,
    members: Mutex<BTreeMap<Arc<str>, MemberWatch>>,
    pub stopped: CancellationToken,
    /// Its name in metrics.
    pub controller: String,
    /// The time for which a pass waits for the first list of a member.
    listing: Duration,
    /// Objects that are nested too deeply to be read, with the generation that their status is about.
    unreadable: Mutex<HashMap<FederatedId, i64>>,
}

struct MemberWatch {
    source: Arc<str>,
    begun: Instant,
    watch: Arc<SharedWatch>,
}

/// The known objects of a type in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    Complete,
    /// Soon to be complete.
    Begun,
    Failed(String),
}

impl FederatedType {
    /// Whether namespaces themselves are federated.
    pub fn is_of_namespaces(&self) -> bool {
        *self.target == **NAMESPACE
    }

    pub fn federated_key(&self, id: &FederatedId) -> Key {
        host::scope(&self.federated).key(id.namespace.as_deref(), &id.name)
    }

    /// The federated namespace around an object, where placement is limited by one.
    pub fn namespace_key(&self, id: &FederatedId) -> Option<Key> {
        let namespace = id.namespace.as_deref()?;
        let kind = self.namespaces.as_ref()?;
        Some(host::scope(kind).key(Some(namespace), namespace))
    }

    pub fn version_key(namespace: Option<&str>, name: &str) -> Key {
        let kind = if namespace.is_some() {
            &VERSION
        } else {
            &CLUSTER_VERSION
        };
        host::scope(kind).key(namespace, name)
    }

    pub fn copy_key(&self, id: &FederatedId, member: &str) -> Key {
        let namespace = id.namespace.as_deref();
        let namespace = namespace.filter(|_| self.spec.target.is_namespaced());
        Scope::new(&MEMBER, &self.target, member).key(namespace, &id.name)
    }

    /// The federated object whose copy this would be.
    fn id_of_copy(&self, key: &Key) -> FederatedId {
        let namespace = if self.is_of_namespaces() {
            Some(&key.name)
        } else {
            key.namespace.as_ref()
        };
        FederatedId {
            type_name: Arc::clone(&self.spec.name),
            namespace: namespace.cloned(),
            name: Arc::clone(&key.name),
        }
    }

    /// The resource that a scope is served as, on the host or in members.
    pub fn resource(&self, scope: &Scope) -> Option<Arc<str>> {
        if is_in_member(scope) {
            return (scope.kind == self.target)
                .then(|| self.spec.target.plural_name.as_str().into());
        }
        if scope.kind == self.federated {
            return Some(self.spec.federated.plural_name.as_str().into());
        }
        let status = self.spec.service_status.as_ref();
        if let Some(status) = status.filter(|status| status.gvk() == *scope.kind) {
            return Some(status.plural_name.as_str().into());
        }
        host::resource(&scope.kind).map(Into::into)
    }

    /// Whether the status of an object that cannot be read is about its generation.
    pub fn is_reported(&self, id: &FederatedId, federated: &Object) -> bool {
        let unreadable = self.unreadable.lock();
        federated.is_fragment() && unreadable.get(id) == Some(&generation(federated))
    }

    pub fn reported(&self, id: &FederatedId, federated: &Object) {
        if federated.is_fragment() {
            let generation = generation(federated);
            self.unreadable.lock().insert(id.clone(), generation);
        }
    }

    pub fn forget(&self, id: &FederatedId) {
        self.unreadable.lock().remove(id);
    }

    /// Whether everything is known of the host that passes follow from.
    pub fn is_known(&self) -> bool {
        self.host.iter().all(|watch| watch.is_complete())
    }

    pub fn listed(&self, name: &str, member: &MemberCluster) -> Listed {
        let members = self.members.lock();
        let Some(of) = members.get(name).filter(|of| of.source == member.source) else {
            return Listed::Begun;
        };
        if of.watch.is_complete() {
            return Listed::Complete;
        }
        match of.watch.health().problem {
            Some(problem) => Listed::Failed(problem),
            None if of.begun.elapsed() < self.listing => Listed::Begun,
            None => Listed::Failed("the first list is not complete yet".to_owned()),
        }
    }
}

/// The generation of an object; 0 without one.
pub fn generation(object: &Object) -> i64 {
    let metadata = object.root().get("metadata");
    let generation = metadata.and_then(|metadata| metadata["generation"].as_i64());
    generation.unwrap_or_default()
}

/// Whether a scope is one of members, by their names.
pub fn is_in_member(scope: &Scope) -> bool {
    scope.side == *MEMBER
}

/// Maps events to federated objects.
pub struct FederationEvents {
    queue: Queue<FederatedId>,
    types: RwLock<BTreeMap<Arc<str>, Arc<FederatedType>>>,
    available: Duration,
    /// Workloads whose replicas have to be scheduled; none without a scheduler.
    checks: Option<Checks>,
}

impl FederationEvents {
    fn of(&self, name: &str) -> Option<Arc<FederatedType>> {
        self.types.read().get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<FederatedType>> {
        self.types.read().values().cloned().collect()
    }

    /// Has the schedule of a workload checked.
    fn check(&self, id: &FederatedId, after: Duration) {
        if let Some(checks) = &self.checks {
            checks.add(id, after);
        }
    }

    fn add(&self, id: FederatedId, urgency: Urgency, after: Duration) {
        if after.is_zero() {
            self.queue.add(id, urgency);
        } else {
            self.queue.add_after(id, urgency, after);
        }
    }

    /// All federated objects of a type, or those in a namespace.
    fn add_all(&self, of: &FederatedType, namespace: Option<&str>, after: Duration) {
        let watches = of.host.iter();
        let mut tables = watches.map(|watch| watch.table());
        let Some(table) = tables.find(|table| *table.kind() == of.federated) else {
            return;
        };
        let keys = match namespace {
            Some(namespace) => table.keys_of("", Some(namespace)),
            None => table.keys(),
        };
        for key in keys {
            let id = FederatedId {
                type_name: Arc::clone(&of.spec.name),
                namespace: key.namespace.clone(),
                name: Arc::clone(&key.name),
            };
            self.check(&id, Duration::ZERO);
            self.add(id, Urgency::Initial, after);
        }
        if namespace.is_none() {
            self.add_copies(of, after);
        }
    }

    /// The federated objects of all known copies. Those that are gone are in no table, and the copies have to lose the label.
    fn add_copies(&self, of: &FederatedType, after: Duration) {
        let members = of.members.lock();
        let tables = members.values().map(|member| member.watch.table());
        let keys: Vec<Key> = tables.flat_map(|table| table.keys()).collect();
        drop(members);
        for key in keys {
            self.add(of.id_of_copy(&key), Urgency::Initial, after);
        }
    }

    /// Queues the federated objects that a change concerns.
    fn note(&self, change: &Change) {
        let key = &change.key;
        let urgency = match change.what {
            ChangeType::Initial => Urgency::Initial,
            ChangeType::Changed | ChangeType::Gone => Urgency::Live,
        };
        for of in self.types.read().values() {
            if is_in_member(&key.scope()) {
                if key.kind == of.target {
                    let id = of.id_of_copy(key);
                    if let Some(checks) = &self.checks {
                        checks.add(&id, checks.period);
                    }
                    self.add(id, urgency, Duration::ZERO);
                }
                continue;
            }
            let status = of.spec.service_status.as_ref();
            if key.kind == of.federated || status.is_some_and(|s| s.gvk() == *key.kind) {
                let id = FederatedId {
                    type_name: Arc::clone(&of.spec.name),
                    namespace: key.namespace.clone(),
                    name: Arc::clone(&key.name),
                };
                self.check(&id, Duration::ZERO);
                self.add(id, urgency, Duration::ZERO);
            } else if of.namespaces.as_ref() == Some(&key.kind) {
                self.add_all(of, key.namespace.as_deref(), Duration::ZERO);
            } else if of.is_of_namespaces() && key.kind == of.target {
                self.add(of.id_of_copy(key), urgency, Duration::ZERO);
            }
        }
    }
}

impl EventHandler for FederationEvents {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        self.note(&change);
    }

    fn completed(&self, table: &Arc<Table>) {
        for of in self.all() {
            let member = of.members.lock().values().find_map(|member| {
                Arc::ptr_eq(member.watch.table(), table).then(|| member.begun.elapsed())
            });
            if let Some(since) = member {
                self.add_all(&of, None, self.available.saturating_sub(since));
            } else if of
                .host
                .iter()
                .any(|watch| Arc::ptr_eq(watch.table(), table))
            {
                self.add_all(&of, None, Duration::ZERO);
            }
        }
    }
}

/// The running types and their workers.
pub struct Propagation {
    pub host: Connection,
    pub settings: Arc<FederationSettings>,
    pub cache: Arc<Cache>,
    events: Arc<FederationEvents>,
    watches: Arc<WatchRegistry>,
    /// The members and their changes.
    changes: watch::Receiver<Option<Arc<MemberClusters>>>,
    /// The members that passes work with. Each change of them queues objects; a change that is undone before it is taken
    /// from `changes` was seen by no pass.
    members: RwLock<Option<Arc<MemberClusters>>>,
    pub client: Arc<GuardedClient>,
    caches: Mutex<CacheGauges>,
    pub recorder: EventRecorder,
    pub numbers: Arc<FederationMetrics>,
    /// The turns to write versions and status.
    pub records: Semaphore,
}

impl Propagation {
    pub fn new(
        host: &Connection,
        settings: &Arc<FederationSettings>,
        cache: &Arc<Cache>,
        changes: watch::Receiver<Option<Arc<MemberClusters>>>,
        recorder: &EventRecorder,
        numbers: &Arc<FederationMetrics>,
        checks: Option<Checks>,
    ) -> Arc<Self> {
        let events = Arc::new(FederationEvents {
            queue: Queue::new(workers(settings)),
            types: RwLock::default(),
            available: settings.available,
            checks,
        });
        let watches = WatchRegistry::new(cache, host::pace(), Arc::clone(&events) as _);
        Arc::new(Self {
            host: host.clone(),
            settings: Arc::clone(settings),
            cache: Arc::clone(cache),
            events,
            watches,
            changes,
            members: RwLock::default(),
            client: GuardedClient::hiding_contents(cache),
            caches: Mutex::default(),
            recorder: recorder.clone(),
            numbers: Arc::clone(numbers),
            records: Semaphore::new(RECORDS),
        })
    }

    /// Works until closed.
    pub async fn run(self: Arc<Self>) {
        let workers = workers(&self.settings);
        let queue = self.events.queue.clone();
        let followed = Arc::clone(&self).follow();
        tokio::select! {
            () = work(Arc::clone(&self), &queue, workers) => {}
            () = followed => {}
        }
    }

    pub fn close(&self) {
        self.events.queue.close();
    }

    /// The members that passes work with.
    pub fn members(&self) -> Option<Arc<MemberClusters>> {
        self.members.read().clone()
    }

    /// The running type with this name.
    pub fn of(&self, name: &str) -> Option<Arc<FederatedType>> {
        self.events.of(name)
    }

    /// Works on an object now, although its last pass failed a moment ago.
    pub fn retry(&self, id: &FederatedId) {
        self.events
            .add(id.clone(), Urgency::Initial, Duration::ZERO);
    }

    /// Queues the objects that changes in an answer concern: no event of a watch reports them again.
    pub fn learned(&self, changes: &[Change]) {
        for change in changes {
            self.events.note(change);
        }
    }

    /// Has the schedules of all workloads checked.
    pub fn check_all(&self) {
        for (_, name) in TARGETS {
            let of = self.of(name);
            let tables = of.iter().flat_map(|of| &of.host);
            for table in tables.map(|watch| watch.table()) {
                let is_of_workloads = of.as_ref().is_some_and(|of| of.federated == *table.kind());
                for key in table.keys().into_iter().filter(|_| is_of_workloads) {
                    let id = FederatedId {
                        type_name: name.into(),
                        namespace: key.namespace.clone(),
                        name: Arc::clone(&key.name),
                    };
                    self.events.check(&id, Duration::ZERO);
                }
            }
        }
    }

    /// Updates the metrics of all running parts.
    pub fn count(&self) {
        let numbers = &self.numbers;
        let metrics = &numbers.metrics;
        metrics.shared_queue(QUEUE, self.events.queue.state());
        if let Some(checks) = &self.events.checks {
            metrics.shared_queue(controllers::PREFERENCES, checks.state());
        }
        numbers.controllers.count();
        let label = |side: &Side| if *side == *MEMBER { "member" } else { SOURCE };
        self.caches.lock().take(metrics, &self.cache, label);
    }

    /// Starts to propagate a type, unless it already runs with these parameters.
    pub fn start(&self, spec: TypeSpec) {
        let known = self.events.of(&spec.name);
        if known.is_some_and(|known| known.spec == spec) {
            return;
        }
        self.stop(&spec.name);
        info!(name = &*spec.name, "propagating a type");
        let kind = |resource: &ApiResource| Arc::new(resource.gvk());
        let (target, federated) = (kind(&spec.target), kind(&spec.federated));
        let namespaces = spec.namespaces.as_ref();
        let mut watched = vec![(Arc::clone(&federated), spec.federated.plural_name.as_str())];
        watched.extend(namespaces.map(|n| (kind(n), n.plural_name.as_str())));
        let status = spec.service_status.as_ref();
        watched.extend(status.map(|status| (kind(status), status.plural_name.as_str())));
        watched.push(if spec.federated.is_namespaced() {
            (Arc::clone(&VERSION), "propagatedversions")
        } else {
            (Arc::clone(&CLUSTER_VERSION), "clusterpropagatedversions")
        });
        let host = watched.into_iter().map(|(kind, resource)| {
            let limit = self.settings.limit();
            let whole = Content::Whole;
            let spec = host::watch(&self.host, &kind, resource, limit, whole);
            self.watches.watch(spec)
        });
        let mut host: Vec<_> = host.collect();
        if *target == **NAMESPACE {
            let cut = Content::Metadata;
            let spec = host::watch(&self.host, &NAMESPACE, "namespaces", None, cut);
            host.push(self.watches.watch(spec));
        }
        let controller = federated.kind.to_lowercase();
        let controllers = &self.numbers.controllers;
        controllers.announce(&controller, workers(&self.settings) / 4);
        if let Some(status) = &spec.service_status {
            controllers.announce(&status.kind.to_lowercase(), workers(&self.settings) / 4);
        }
        let begun = Arc::new(FederatedType {
            namespaces: namespaces.map(kind),
            controller,
            spec,
            target,
            federated,
            host,
            members: Mutex::default(),
            stopped: CancellationToken::new(),
            listing: LISTING.min(self.settings.sync_timeout),
            unreadable: Mutex::default(),
        });
        let name = Arc::clone(&begun.spec.name);
        self.events.types.write().insert(name, Arc::clone(&begun));
        self.watch(&begun);
        // Its tables may have been complete before it was known.
        self.events.add_all(&begun, None, Duration::ZERO);
    }

    /// Ends the propagation of a type: it sends no more requests.
    pub fn stop(&self, name: &str) {
        let stopped = self.events.types.write().remove(name);
        if let Some(stopped) = stopped {
            info!(name, "a type is no longer propagated");
            stopped.stopped.cancel();
            self.events.queue.forget_tenant(name);
        }
    }

    /// Follows members that come, go, and change.
    async fn follow(self: Arc<Self>) {
        let mut changes = self.changes.clone();
        loop {
            let now = changes.borrow_and_update().clone();
            if let Some(now) = now {
                self.take(&now);
            }
            if changes.changed().await.is_err() {
                // The process is about to end.
                return std::future::pending().await;
            }
        }
    }

    fn take(&self, now: &Arc<MemberClusters>) {
        let before = self.members();
        let empty = MemberClusters::new();
        let known = before.as_deref().unwrap_or(&empty);
        for (name, member) in &**now {
            match member.ready() {
                Some(_) => self.cache.route(&MEMBER, name, &member.source),
                None => self.cache.unroute(&MEMBER, name),
            }
        }
        for name in known.keys().filter(|name| !now.contains_key(*name)) {
            self.cache.unroute(&MEMBER, name);
        }
        *self.members.write() = Some(Arc::clone(now));
        let is_lost = |name: &Arc<str>, old: &MemberCluster| {
            old.ready().is_some() && now.get(name).and_then(MemberCluster::ready).is_none()
        };
        let lost = known.iter().any(|(name, old)| is_lost(name, old))
            || known.keys().any(|name| !now.contains_key(name));
        let other = now.iter().any(|(name, member)| {
            let old = known.get(name);
            old.is_none_or(|old| old.labels != member.labels || old.source != member.source)
        });
        let after = match (&before, other, lost) {
            // Before that nothing was done.
            (None, ..) => Some(Duration::ZERO),
            (_, true, _) => Some(self.settings.available),
            (_, false, true) => Some(self.settings.unavailable),
            (_, false, false) => None,
        };
        for of in self.events.all() {
            self.watch(&of);
            if let Some(after) = after {
                self.events.add_all(&of, None, after);
            }
        }
        debug!(count = now.len(), lost, "members changed");
    }

    /// Watches the copies of a type in all members that are ready, and in no other.
    fn watch(&self, of: &FederatedType) {
        let mut watched = of.members.lock();
        // As they are by now: whoever comes second knows more.
        let members = self.members().unwrap_or_default();
        watched.retain(|name, old| {
            let member = members.get(name).filter(|member| member.ready().is_some());
            member.is_some_and(|member| member.source == old.source)
        });
        for (name, member) in &*members {
            let Some(connection) = member.ready() else {
                continue;
            };
            if watched.contains_key(name) {
                continue;
            }
            let limit = self.settings.limit();
            let namespace = limit.filter(|_| of.spec.target.is_namespaced());
            let spec = WatchSpec {
                side: MEMBER.clone(),
                kind: Arc::clone(&of.target),
                source: Arc::clone(&member.source),
                coverage: Coverage {
                    labelled: Some(MANAGED.into()),
                    value: Some("true".into()),
                    namespace: namespace.clone(),
                    ..Coverage::default()
                },
                selection: Selection {
                    connection: connection.clone(),
                    resource: of.spec.target.plural_name.as_str().into(),
                    namespace,
                    query: Some(SELECTOR.to_owned()),
                    clusters: Clusters::One(Arc::clone(name)),
                    content: Content::Whole,
                },
            };
            let watch = MemberWatch {
                source: Arc::clone(&member.source),
                begun: Instant::now(),
                watch: self.watches.watch(spec),
            };
            watched.insert(Arc::clone(name), watch);
        }
    }
}

/// The number of objects that may be processed concurrently.
fn workers(settings: &FederationSettings) -> usize {
    WORKERS.max(settings.concurrency.saturating_mul(4))
}

/// Says where a host's source is, once for the process.
pub fn route_host(cache: &Cache) {
    cache.route(&Side::new(SOURCE), "", &SOURCE.into());
}
