//! The queue of Works, and watches of all placed objects: an event of a placed object queues its Work at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use hawser_placement::apply::compare;
use hawser_placement::names::{PARENT_NAMESPACE, PARENT_PLACEMENT};
use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, Table};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::events::Recorder;
use hawser_runtime::cluster::feed::{EventHandler, Pace};
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_runtime::controller::{SharedWatch, WatchRegistry, work};
use hawser_sync::{Key, Seen, Store as _};
use kube_lang::object::{Gvk, Object};

use super::numbers::MemberMetrics;
use super::options::MemberRules;
use super::sides::{APPLIED_WORK, MemberSides, WORK};

/// The number of Works of a member that are processed concurrently.
pub const WORKERS: usize = 32;
/// The time for which a pass waits for the first list of a kind; after that, it reads the objects one by one.
const LISTING: Duration = Duration::from_secs(5);

/// Whether Works are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The hub has not said yet, or does not know the member.
    #[default]
    Idle,
    Joined,
    /// Works lose the finalizer, their objects stay.
    Leaving,
}

/// The labels by which a Work belongs to a placement.
type Parent = [Option<String>; 2];

/// The labels by which a Work belongs to a placement: its name and its namespace.
pub fn parent(work: &Object) -> Parent {
    [PARENT_PLACEMENT, PARENT_NAMESPACE].map(|key| work.label(key).map(str::to_owned))
}

/// Maps events to Works.
pub struct WorkEvents {
    pub queue: Queue<Arc<str>>,
    /// The Works that place an object.
    placed: RwLock<HashMap<Key, BTreeSet<Arc<str>>>>,
    /// Works whose left-overs wait until the other Works of their placement are about the same snapshot, with the
    /// labels of the placement.
    waiting: Mutex<HashMap<Arc<str>, Parent>>,
    /// The object of the membership, or a Work of a member that leaves, has changed.
    pub membership: Notify,
    pub phase: watch::Sender<Phase>,
}

impl WorkEvents {
    fn add(&self, work: &Arc<str>, urgency: Urgency) {
        self.queue.add(Arc::clone(work), urgency);
    }

    /// Queues the Works that a change concerns, except the one whose pass wrote it.
    fn note(&self, change: &Change, writer: Option<&Arc<str>>) {
        let urgency = match change.what {
            ChangeType::Initial => Urgency::Initial,
            ChangeType::Changed | ChangeType::Gone => Urgency::Live,
        };
        let key = &change.key;
        let add = |work: &Arc<str>| {
            if writer != Some(work) {
                self.add(work, urgency);
            }
        };
        if key.kind == *WORK || key.kind == *APPLIED_WORK {
            add(&key.name);
        }
        if key.kind == *WORK {
            let waiting = self.waiting.lock();
            if !waiting.is_empty() {
                let parent = parent(&change.object);
                let siblings = waiting.iter().filter(|(_, of)| **of == parent);
                siblings.for_each(|(work, _)| add(work));
            }
        }
        if MemberSides::is_hub(&key.side) {
            self.membership.notify_one();
        } else if let Some(works) = self.placed.read().get(key) {
            works.iter().for_each(add);
        }
    }

    /// Notes whether a Work waits for the other Works of its placement.
    pub fn wait_for_siblings(&self, work: &Arc<str>, of: Option<Parent>) {
        let mut waiting = self.waiting.lock();
        match of {
            Some(parent) => waiting.insert(Arc::clone(work), parent),
            None => waiting.remove(work),
        };
    }

    /// Queues the other Works that the answers to a pass concern: no event of a watch reports these changes again.
    pub fn learned(&self, writer: &Arc<str>, changes: &[Change]) {
        for change in changes {
            self.note(change, Some(writer));
        }
    }
}

impl EventHandler for WorkEvents {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        self.note(&change, None);
    }

    fn completed(&self, table: &Arc<Table>) {
        if MemberSides::is_hub(table.side()) {
            self.membership.notify_one();
        } else {
            // What went between a live read and the list was never heard of.
            for (_, works) in self
                .placed
                .read()
                .iter()
                .filter(|(key, _)| key.kind == *table.kind())
            {
                for work in works {
                    self.add(work, Urgency::Initial);
                }
            }
        }
    }
}

/// The result of an apply: the manifest by its hash, and the content of the object.
type LeftContent = (String, u64);

/// The parts that all members of a process share.
#[derive(Clone)]
pub struct Shared {
    pub hub: Connection,
    pub rules: MemberRules,
    pub numbers: Arc<MemberMetrics>,
    pub recorder: Recorder,
}

/// The queue of Works and the watches of placed objects.
pub struct Applier {
    pub sides: Arc<MemberSides>,
    pub cache: Arc<Cache>,
    pub client: Arc<GuardedClient>,
    pub events: Arc<WorkEvents>,
    pub rules: MemberRules,
    pub numbers: Arc<MemberMetrics>,
    pub recorder: Recorder,
    watches: Arc<WatchRegistry>,
    /// The watches of the hub and of `AppliedWork`s.
    own: Vec<Arc<SharedWatch>>,
    kinds: Mutex<HashMap<Arc<Gvk>, Arc<SharedWatch>>>,
    /// The objects that each Work places.
    works: Mutex<HashMap<Arc<str>, HashSet<Key>>>,
    left: Mutex<HashMap<Key, LeftContent>>,
    /// The passes that apply manifests at this moment.
    pub applying: TaskTracker,
}

impl Applier {
    pub fn new(sides: &Arc<MemberSides>, shared: &Shared) -> Arc<Self> {
        let cache = MemberSides::cache();
        let events = Arc::new(WorkEvents {
            queue: Queue::new(WORKERS),
            placed: RwLock::default(),
            waiting: Mutex::default(),
            membership: Notify::new(),
            phase: watch::Sender::default(),
        });
        let pace = Pace {
            retry: (Duration::from_millis(100), Duration::from_secs(5)),
            ..Pace::default()
        };
        let watches = WatchRegistry::new(&cache, pace, Arc::clone(&events) as _);
        let own = sides
            .hub_watches()
            .into_iter()
            .chain(sides.member_watch(&APPLIED_WORK));
        let own = own.map(|spec| watches.watch(spec)).collect();
        let applying = TaskTracker::new();
        // It can be waited for at any time.
        applying.close();
        Arc::new(Self {
            sides: Arc::clone(sides),
            client: GuardedClient::hiding_contents(&cache),
            cache,
            events,
            rules: shared.rules,
            numbers: Arc::clone(&shared.numbers),
            recorder: shared.recorder.clone(),
            watches,
            own,
            kinds: Mutex::default(),
            works: Mutex::default(),
            left: Mutex::default(),
            applying,
        })
    }

    /// Works until closed.
    pub async fn run(self: Arc<Self>) {
        for watch in &self.own {
            watch.completed().await;
        }
        let queue = self.events.queue.clone();
        work(self, &queue, WORKERS).await;
    }

    pub fn close(&self) {
        self.events.queue.close();
    }

    pub fn phase(&self) -> Phase {
        *self.events.phase.borrow()
    }

    /// Has all Works looked at, if this is new.
    pub fn enter(&self, phase: Phase) {
        let is_new = self
            .events
            .phase
            .send_if_modified(|now| std::mem::replace(now, phase) != phase);
        if is_new {
            for name in self.names() {
                self.events.add(&name, Urgency::Live);
            }
        }
    }

    /// Whether all Works of the member are known.
    pub fn is_listed(&self) -> bool {
        self.own.iter().all(|watch| watch.is_complete())
    }

    /// The known Works of the member.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut tables = self.own.iter().map(|watch| watch.table());
        let works = tables.find(|table| *table.kind() == *WORK);
        let keys = works.map(|table| table.keys()).unwrap_or_default();
        keys.into_iter().map(|key| Arc::clone(&key.name)).collect()
    }

    /// False only if the hub says that there is no such Work.
    pub fn is_work(&self, name: &str) -> bool {
        !matches!(self.cache.get(&self.sides.work(name)), Seen::Absent)
    }

    /// Notes what a Work places, and watches it from now on. Returns false if a kind cannot be watched.
    pub async fn follow(&self, work: &Arc<str>, keys: HashSet<Key>) -> bool {
        let kinds: HashSet<Arc<Gvk>> = keys.iter().map(|key| Arc::clone(&key.kind)).collect();
        self.note(work, keys);
        let of_kinds = kinds.len();
        let watches: Vec<Arc<SharedWatch>> = {
            let mut watched = self.kinds.lock();
            let watches = kinds.into_iter().filter_map(|kind| {
                let spec = self.sides.member_watch(&kind)?;
                let watch = watched.entry(kind);
                Some(Arc::clone(
                    watch.or_insert_with(|| self.watches.watch(spec)),
                ))
            });
            watches.collect()
        };
        let is_healthy = |watch: &&Arc<SharedWatch>| watch.health().problem.is_none();
        let listed = async {
            for watch in watches.iter().filter(is_healthy) {
                watch.completed().await;
            }
        };
        let _ = timeout(LISTING, listed).await;
        watches.iter().filter(is_healthy).count() == of_kinds
    }

    /// Forgets a Work that is gone.
    pub fn forget(&self, work: &Arc<str>) {
        self.events.wait_for_siblings(work, None);
        self.note(work, HashSet::new());
    }

    fn note(&self, work: &Arc<str>, keys: HashSet<Key>) {
        let mut works = self.works.lock();
        let before = if keys.is_empty() {
            works.remove(work).unwrap_or_default()
        } else {
            works
                .insert(Arc::clone(work), keys.clone())
                .unwrap_or_default()
        };
        if before == keys {
            return;
        }
        let mut placed = self.events.placed.write();
        for key in before.difference(&keys) {
            if let Some(of) = placed.get_mut(key) {
                of.remove(work);
                if of.is_empty() {
                    placed.remove(key);
                    self.left.lock().remove(key);
                }
            }
        }
        for key in keys {
            placed.entry(key).or_default().insert(Arc::clone(work));
        }
        // Kinds of which nothing is placed any more are not watched.
        let used: HashSet<&Arc<Gvk>> = placed.keys().map(|key| &key.kind).collect();
        self.kinds.lock().retain(|kind, _| used.contains(kind));
    }

    /// Notes what an apply left.
    pub fn leave(&self, key: &Key, hash: &str, object: &Value) {
        let left = (hash.to_owned(), fingerprint(object));
        self.left.lock().insert(key.clone(), left);
    }

    /// Whether an object is as the last apply of this manifest left it.
    pub fn is_as_left(&self, key: &Key, hash: &str, object: &Value) -> bool {
        let left = self.left.lock();
        left.get(key)
            .is_some_and(|(of, content)| of == hash && *content == fingerprint(object))
    }
}

fn fingerprint(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    compare::content(object).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::iter;

    use futures::FutureExt as _;
    use serde_json::json;

    use hawser_placement::availability::JobTracking;
    use hawser_placement::types::definitions::definitions;
    use hawser_runtime::cluster::connection::Call;
    use hawser_runtime::cluster::events;
    use hawser_runtime::cluster::ground::{Ground, fault};
    use hawser_runtime::cluster::wire::collection;
    use jiff::Timestamp;
    use kcp_playground::server::{Action, When};

    use super::super::sides::MemberAccess;
    use super::*;
    use hawser_runtime::cluster::queue::Outcome;
    use hawser_runtime::controller::Reconciler as _;

    fn work_of(name: &str, placement: &str) -> Value {
        json!({
            "apiVersion": WORK.api_version(), "kind": "Work",
            "metadata": {"name": name, "namespace": "fleet-member-m", "labels": {PARENT_PLACEMENT: placement}},
            "spec": {"workload": {"manifests": []}},
        })
    }

    /// An agent at a playground that is hub and member.
    async fn applier(ground: &Ground) -> Arc<Applier> {
        for definition in &definitions() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let made = ground.service.ask(Call::post(path, definition)).await;
            made.unwrap();
        }
        let namespace = json!({"metadata": {"name": "fleet-member-m"}});
        let made = ground
            .service
            .ask(Call::post("/api/v1/namespaces", &namespace));
        made.await.unwrap();
        let config = ground.service_config().await;
        let access = MemberAccess::new(ground.service.clone(), &config);
        let sides = MemberSides::new("m", ground.service.clone(), access);
        let shared = Shared {
            hub: ground.service.clone(),
            rules: MemberRules {
                jobs: JobTracking::NotTracked,
                reports_namespaces: false,
                deletion_wait: Duration::ZERO,
            },
            numbers: MemberMetrics::new(),
            recorder: events::line(Timestamp::now).0,
        };
        let applier = Applier::new(&sides, &shared);
        for watch in &applier.own {
            watch.completed().await;
        }
        applier.enter(Phase::Joined);
        applier
    }

    #[tokio::test]
    async fn a_work_that_waits_for_its_siblings_is_woken_by_them() {
        let events = WorkEvents {
            queue: Queue::new(WORKERS),
            placed: RwLock::default(),
            waiting: Mutex::default(),
            membership: Notify::new(),
            phase: watch::Sender::default(),
        };
        let woken = |name: &str, placement: &str| {
            let object = Object::new(work_of(name, placement)).unwrap();
            let key = hawser_sync::Scope::new(&hawser_sync::Side::new("hub"), &WORK, "");
            events.note(
                &Change {
                    key: key.key(Some("fleet-member-m"), name),
                    object: object.into(),
                    what: ChangeType::Changed,
                },
                None,
            );
            let works = iter::from_fn(|| events.queue.next().now_or_never().flatten());
            let names = works.map(|work| {
                let name = work.key.to_string();
                events.queue.done(work, Outcome::Settled);
                name
            });
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let waits = parent(&Object::new(work_of("a", "p")).unwrap());
        events.wait_for_siblings(&"a".into(), Some(waits));
        assert_eq!(woken("b", "p"), ["a", "b"]);
        assert_eq!(woken("c", "other"), ["c"]);
        assert_eq!(woken("a", "p"), ["a"]);
        events.wait_for_siblings(&"a".into(), None);
        assert_eq!(woken("b", "p"), ["b"]);
    }

    #[tokio::test]
    async fn objects_of_a_kind_that_cannot_be_watched_are_looked_at_from_time_to_time() {
        let ground = Ground::start().await;
        let refused = || Action::Status {
            code: 403,
            when: When::Before,
        };
        for verb in ["list", "watch"] {
            let faults = ground.playground.faults();
            faults.add(fault(verb, "configmaps", refused()));
        }
        let applier = applier(&ground).await;
        let of = |kind: &str, name: &str| {
            let manifest = json!({
                "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            });
            let mut work = work_of(name, "p");
            work["spec"]["workload"]["manifests"] = json!([manifest]);
            work
        };
        let mut outcomes = Vec::new();
        for (kind, name) in [("ConfigMap", "unwatched"), ("Secret", "watched")] {
            let all = collection(&WORK, Some("fleet-member-m"), "works");
            let made = ground.service.ask(Call::post(all, &of(kind, name))).await;
            made.unwrap();
            // The other Work may be queued again by its own writes.
            let queued = loop {
                let queued = applier.events.queue.next().await.unwrap();
                if *queued.key == *name {
                    break queued;
                }
                applier.events.queue.done(queued, Outcome::Settled);
            };
            outcomes.push(applier.reconcile(&queued).await);
            applier.events.queue.done(queued, Outcome::Settled);
        }
        let later = Duration::from_mins(15);
        assert_eq!(outcomes, [Outcome::Again(later), Outcome::Settled]);
    }
}
