//! A dialect in a hundred lines: a ConfigMap of a workspace has a copy of its name on the service cluster.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::cluster::brake::{BrakeOptions, CopyCounts};
use crate::cluster::cache::Change;
use crate::cluster::cache::{ChangeType, Coverage, Table};
use crate::cluster::connection::{Call, Connection};
use crate::cluster::feed::{Clusters, Content, EventHandler, Pace, Selection};
use crate::cluster::ground::Ground;
use crate::cluster::queue::Queue;
use crate::cluster::queue::Urgency;
use crate::cluster::troubles::DueTrouble;
use crate::cluster::wire::Endpoint;
use hawser_sync::{
    CopyOrigin, Intent, Link, LinkId, Marks, Outcome, Owner, Policy, Request, Rules, Scope, Side,
    Source, Step, Subject, Target, View,
};
use kcp_playground::server::{Action, Fault, Matcher};
use kube_lang::object::{Gvk, Object};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WORKERS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name(Arc<str>);

impl QueueKey for Name {
    fn tenant(&self) -> &Arc<str> {
        &self.0
    }
}

struct Twins {
    subjects: Arc<Subjects<Name>>,
    table: Mutex<Option<Arc<Table>>>,
    stopped: CancellationToken,
    /// The next pass panics.
    panics: AtomicBool,
    panicked: AtomicUsize,
    passes: AtomicUsize,
    rested: AtomicUsize,
    /// Passes that were told to end.
    given_up: AtomicUsize,
}

fn key(side: &str, name: &str) -> Key {
    let kind = Arc::new(Gvk::new("", "v1", "ConfigMap"));
    Scope::new(&Side::new(side), &kind, "").key(Some("default"), name)
}

impl EventHandler for Twins {
    fn changed(&self, table: &Arc<Table>, change: Change) {
        if &*table.side().0 == "there" {
            self.table.lock().get_or_insert_with(|| Arc::clone(table));
        }
        let urgency = match change.what {
            ChangeType::Initial => Urgency::Initial,
            ChangeType::Changed | ChangeType::Gone => Urgency::Live,
        };
        self.subjects
            .queue
            .add(Name(Arc::clone(&change.key.name)), urgency);
    }
}

impl Dialect for Twins {
    type Id = Name;
    type Pass = Twin;

    const REFUSED: Option<Duration> = None;

    fn begin(self: &Arc<Self>, name: &Name) -> Option<Twin> {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "as a mistake");
        Some(Twin {
            twins: Arc::clone(self),
            name: name.clone(),
        })
    }

    fn worked(&self, _: Duration, _: Duration, outcome: Option<queue::Outcome>) {
        self.panicked
            .fetch_add(usize::from(outcome.is_none()), Ordering::SeqCst);
    }
}

struct Twin {
    twins: Arc<Twins>,
    name: Name,
}

impl hawser_sync::Dialect for Twin {
    fn subject(&self, _: &dyn View) -> Result<Subject, Vec<Request>> {
        let anchor = key("here", &self.name.0);
        let copy = key("there", &self.name.0);
        Ok(Subject {
            anchor: anchor.clone(),
            finalizer: None,
            memory: None,
            intent: Intent::Sync,
            links: vec![Link {
                id: LinkId::new("copy"),
                wave: 0,
                source: Source::Live(anchor),
                target: Target::Named(copy.clone()),
                rules: Arc::new(Same(copy)),
                policy: Policy::mirrored(),
            }],
        })
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

impl PassDialect for Twin {
    fn rested(&self) {
        self.twins.rested.fetch_add(1, Ordering::SeqCst);
    }

    fn check_active(&self) -> Result<(), String> {
        let stopped = self.twins.stopped.is_cancelled();
        if stopped {
            return Err("switched off".to_owned());
        }
        Ok(())
    }

    fn deletion(&self, request: &Request) -> Option<Deletion> {
        let Request::Delete { key, .. } = request else {
            return None;
        };
        let table = self.twins.table.lock();
        Some(Deletion {
            kind: Arc::clone(&key.kind),
            key: key.clone(),
            tenant: Arc::clone(&key.name),
            stock: CopyCounts::of_nobody(table.as_ref().map_or(0, |table| table.len())),
        })
    }

    fn keeps(&self) -> Option<(Arc<Gvk>, Key)> {
        let copy = key("there", &self.name.0);
        Some((Arc::clone(&copy.kind), copy))
    }

    fn log(&self, _: &Outcome, _: Option<DueTrouble>) {}

    fn settled(&self, ended: &FinishedPass<'_>) -> queue::Outcome {
        self.twins.passes.fetch_add(1, Ordering::SeqCst);
        let given_up = |one: &Outcome| {
            one.reason
                .detail
                .contains("other objects wait for the worker")
        };
        if ended.report.outcomes.iter().any(given_up) {
            self.twins.given_up.fetch_add(1, Ordering::SeqCst);
        }
        ended.next
    }
}

#[derive(Debug)]
struct Same(Key);

impl Rules for Same {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.0.clone())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        let mut desired = Object::empty(&source.gvk(), source.namespace(), source.name());
        if let Some(data) = source.root().get("data") {
            desired.root_mut().insert("data".into(), data.clone());
        }
        Ok(desired)
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, _: &Object) -> Owner {
        Owner::Nobody
    }

    fn status(&self, _: &Object, to: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(to.root().get("status").cloned())
    }
}

struct TwoSides {
    here: Connection,
    there: Connection,
}

impl Router for TwoSides {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        let connection = match &*scope.side.0 {
            "here" => &self.here,
            _ => &self.there,
        };
        Some(Endpoint {
            connection: connection.clone(),
            resource: "configmaps".into(),
        })
    }
}

/// The dialect at work.
struct AtWork {
    ground: Ground,
    twins: Arc<Twins>,
    brakes: Arc<BrakeRegistry>,
    watches: Vec<Arc<SharedWatch>>,
    _controller: AbortOnDropHandle<()>,
}

impl AtWork {
    async fn start(brake: BrakeOptions) -> Self {
        let ground = Ground::start().await;
        let (cache, subjects) = (Cache::new(), Subjects::new(Queue::new(WORKERS)));
        let twins = Arc::new(Twins {
            subjects: Arc::clone(&subjects),
            table: Mutex::default(),
            stopped: CancellationToken::new(),
            panics: AtomicBool::new(false),
            panicked: AtomicUsize::new(0),
            passes: AtomicUsize::new(0),
            rested: AtomicUsize::new(0),
            given_up: AtomicUsize::new(0),
        });
        let watches = WatchRegistry::new(&cache, Pace::default(), Arc::clone(&twins) as _);
        let watch = |side: &str, connection: &Connection| {
            cache.route(&Side::new(side), "", &side.into());
            watches.watch(WatchSpec {
                side: Side::new(side),
                kind: Arc::clone(&key(side, "").kind),
                source: side.into(),
                coverage: Coverage::default(),
                selection: Selection {
                    connection: connection.clone(),
                    resource: "configmaps".into(),
                    namespace: None,
                    query: None,
                    clusters: Clusters::One("".into()),
                    content: Content::Whole,
                },
            })
        };
        let watches = vec![watch("here", &ground.kcp), watch("there", &ground.service)];
        for watch in &watches {
            watch.completed().await;
        }
        let router = Arc::new(TwoSides {
            here: ground.kcp.clone(),
            there: ground.service.clone(),
        });
        let brakes = BrakeRegistry::new(Some(brake), |_| {});
        let controller = {
            let client = GuardedClient::new(&cache);
            Controller::new(&twins, &subjects, &client, router, &brakes, &Arc::default())
        };
        Self {
            ground,
            twins,
            brakes,
            watches,
            _controller: AbortOnDropHandle::new(tokio::spawn(controller.run(WORKERS))),
        }
    }

    /// The objects that were parsed since the last call.
    fn parses(&self) -> usize {
        let tables = self.watches.iter().map(|watch| watch.table());
        tables
            .map(|table| table.parses.swap(0, Ordering::SeqCst))
            .sum()
    }

    async fn create(&self, name: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"},
        });
        self.ground
            .kcp
            .ask(Call::post(MAPS, &object))
            .await
            .unwrap();
    }

    async fn copy(&self, name: &str) -> Option<Value> {
        let found = self
            .ground
            .service
            .call(Call::get(format!("{MAPS}/{name}")))
            .await
            .unwrap();
        (found.status != 404).then(|| found.ok().unwrap())
    }

    async fn delete(&self, name: &str) {
        let call = Call::delete(format!("{MAPS}/{name}"), &json!({}));
        self.ground.kcp.ask(call).await.unwrap();
    }
}

async fn until(mut fits: impl AsyncFnMut() -> bool) {
    let fitting = async {
        while !fits().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), fitting)
        .await
        .expect("in time");
}

#[tokio::test]
async fn a_copy_is_made_and_followed_and_an_event_about_what_is_at_rest_makes_no_pass() {
    let at_work = AtWork::start(BrakeOptions::default()).await;
    at_work.create("a").await;
    until(async || at_work.copy("a").await.is_some()).await;
    let queue = &at_work.twins.subjects.queue;
    let passes = || at_work.twins.passes.load(Ordering::SeqCst);
    until(async || queue.depth().ready() + queue.busy() == 0).await;
    let (before, _) = (passes(), at_work.parses());
    let patch = json!({"data": {"a": "2"}});
    let call = Call::merge_patch(format!("{MAPS}/a"), &patch);
    at_work.ground.kcp.ask(call).await.unwrap();
    until(async || {
        at_work
            .copy("a")
            .await
            .is_some_and(|c| c["data"]["a"] == "2")
    })
    .await;
    let rested = || at_work.twins.rested.load(Ordering::SeqCst);
    until(async || queue.depth().ready() + queue.busy() == 0).await;
    // A pass reads the object and its copy. Its checks before a write parse neither again.
    assert!(at_work.parses() <= 2 * (passes() - before));
    let (passes_before, before) = (passes(), rested());
    queue.add(Name("a".into()), Urgency::Live);
    until(async || rested() > before).await;
    assert_eq!(passes(), passes_before);
    assert_eq!(at_work.parses(), 0);
}

#[tokio::test]
async fn a_pass_that_panics_is_tried_again_and_its_worker_goes_on() {
    let at_work = AtWork::start(BrakeOptions::default()).await;
    at_work.twins.panics.store(true, Ordering::SeqCst);
    at_work.create("a").await;
    until(async || at_work.copy("a").await.is_some()).await;
    assert_eq!(at_work.twins.panicked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_pass_whose_request_hangs_gives_its_worker_to_a_tenant_that_waits() {
    let at_work = AtWork::start(BrakeOptions::default()).await;
    let faults = at_work.ground.playground.faults();
    let creates = Matcher {
        verb: Some("create".to_owned()),
        cluster: Some(String::new()),
        resource: Some("configmaps".to_owned()),
        ..Matcher::default()
    };
    // Longer than any request is waited for.
    let never = Action::Latency(Duration::from_mins(5));
    faults.add(Fault {
        times: Some(WORKERS as u64),
        ..Fault::new(creates, never)
    });
    // Each name is a tenant.
    for name in ["a", "b", "c", "d"] {
        at_work.create(name).await;
    }
    until(async || faults.struck() == [WORKERS as u64]).await;
    at_work.create("another").await;
    until(async || at_work.copy("another").await.is_some()).await;
    // No request was waited for until it timed out.
    assert!(at_work.twins.given_up.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn nothing_is_written_for_what_is_switched_off() {
    let at_work = AtWork::start(BrakeOptions::default()).await;
    at_work.twins.stopped.cancel();
    let mark = at_work.ground.playground.requests().mark();
    at_work.create("a").await;
    until(async || at_work.twins.passes.load(Ordering::SeqCst) > 0).await;
    let requests = at_work.ground.playground.requests().since(mark);
    let written = requests
        .iter()
        .filter(|r| ["create", "patch"].contains(&&*r.verb));
    assert_eq!(written.count(), 1, "but for the test's own");
}

#[tokio::test]
async fn a_pass_that_ends_after_its_subject_was_withdrawn_leaves_nothing_of_it() {
    let at_work = AtWork::start(BrakeOptions::default()).await;
    at_work.create("a").await;
    let (twins, name) = (&at_work.twins, Name("a".into()));
    until(async || twins.subjects.rested(&name).is_some()).await;
    twins.stopped.cancel();
    twins.subjects.forget(|_| true);
    let passes = twins.passes.load(Ordering::SeqCst);
    // As one that was under way then, it finds nothing to do.
    twins.subjects.queue.add(name.clone(), Urgency::Live);
    until(async || twins.passes.load(Ordering::SeqCst) > passes).await;
    assert!(twins.subjects.rested(&name).is_none());
}

#[tokio::test]
async fn copies_that_would_go_in_a_mass_stay_until_that_is_approved() {
    let at_work = AtWork::start(BrakeOptions {
        share: 40,
        at_least: 3,
        few: 0,
        window: Duration::from_mins(10),
    })
    .await;
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        at_work.create(name).await;
    }
    let left = async || {
        let mut left = 0;
        for name in names {
            left += usize::from(at_work.copy(name).await.is_some());
        }
        left
    };
    until(async || left().await == names.len()).await;
    let kind = &key("there", "").kind;
    for name in names {
        at_work.delete(name).await;
    }
    until(async || at_work.brakes.count(kind) == 4).await;
    assert_eq!(left().await, 4);

    let held = at_work.brakes.held(kind).unwrap();
    assert!(at_work.brakes.approve(kind, &held.ids));
    for name in names {
        at_work
            .twins
            .subjects
            .queue
            .add(Name(name.into()), Urgency::Live);
    }
    until(async || left().await == 0).await;
    assert_eq!(at_work.brakes.count(kind), 0);
}
