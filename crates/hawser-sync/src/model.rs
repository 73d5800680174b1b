//! A model of two control planes, a cache that lags behind them, and a small dialect between
//! them. Plain maps; time is the number of writes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use kube_lang::object::{Gvk, Object, merge_patch};

use super::fingerprint::Fingerprint;
use super::key::{Finalizer, Key, Labels, LinkId, Scope, Side};
use super::link::{Content, Fate, Link, Policy, Source, Target};
use super::memory::{Codec, CopyRecord, Entry, LostCopy, Memory, MemoryPlace, Snapshot};
use super::reason::{Class, Code, Reason};
use super::request::{Answer, Effect, Failure, Request, Step};
use super::rules::{CopyOrigin, Marks, Owner, Rules};
use super::settled::{FingerprintSource, Settled};
use super::subject::{Intent, Subject};
use super::view::{Found, Question, Seen, View};
use super::{Cluster, Dialect, Outcome, PendingChange, Report, Store, run};

pub(super) const FINALIZER: &str = "t/cleanup";

pub(super) fn kind(name: &str) -> Arc<Gvk> {
    Arc::new(Gvk::new("", "v1", name))
}

pub(super) fn kcp(cluster: &str, kind_name: &str, name: &str) -> Key {
    Scope::new(&Side::new("kcp"), &kind(kind_name), cluster).key(Some("default"), name)
}

pub(super) fn svc(kind_name: &str, namespace: &str, name: &str) -> Key {
    Scope::new(&Side::new("svc"), &kind(kind_name), "").key(Some(namespace), name)
}

/// A fault in place of the normal execution of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies before, or right after, the request takes effect.
    CrashBefore,
    CrashAfter,
    /// No answer, without or with effect.
    LostBefore,
    LostAfter,
    /// The server knows no such path.
    NotServed,
    /// The server refuses the size.
    TooLarge,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Object>,
    clock: u64,
    /// Every change of every object, in order.
    events: Vec<(u64, Key, Option<Arc<Object>>)>,
    faults: HashMap<usize, Fault>,
    /// The answer to every write to an object.
    refused: HashMap<Key, Failure>,
    /// The content that an admission webhook adds to every write of the agent to an object.
    admitted: HashMap<Key, Value>,
    crashed: bool,
    /// Reads are not answered.
    unreadable: bool,
    sent: usize,
    log: Vec<Request>,
    /// Forbidden requests that the agent sent.
    violations: Vec<String>,
}

/// Both control planes.
#[derive(Default)]
pub(super) struct World(Mutex<State>);

impl World {
    pub(super) fn get(&self, key: &Key) -> Option<Object> {
        self.0.lock().objects.get(key).cloned()
    }

    pub(super) fn all(&self) -> BTreeMap<Key, Object> {
        self.0.lock().objects.clone()
    }

    /// A change by a person or another controller; returns whether it was admitted.
    pub(super) fn edit(&self, request: &Request) -> bool {
        !matches!(self.0.lock().execute(request), Answer::Failed(_))
    }

    pub(super) fn put(&self, key: &Key, content: &Value) {
        let mut object = Object::empty(&key.kind, key.namespace.as_deref(), &key.name);
        let mut value = object.as_value().clone();
        merge_patch::apply(&mut value, content);
        object = Object::new(value).unwrap();
        if let Some(namespace) = key.namespace_key() {
            let object = Object::empty(&namespace.kind, None, &namespace.name);
            self.edit(&Request::Create {
                key: namespace,
                object,
            });
        }
        let key = key.clone();
        assert!(self.edit(&Request::Create { key, object }));
    }

    pub(super) fn patch(&self, key: &Key, patch: Value) -> bool {
        let key = key.clone();
        self.edit(&Request::Patch { key, patch })
    }

    pub(super) fn set_status(&self, key: &Key, status: Value) -> bool {
        let Some(mut object) = self.get(key) else {
            return false;
        };
        object.root_mut().insert("status".into(), status);
        let key = key.clone();
        self.edit(&Request::ReplaceStatus { key, object })
    }

    pub(super) fn delete(&self, key: &Key) -> bool {
        let Some(object) = self.get(key) else {
            return false;
        };
        let uid = object.uid().unwrap_or_default();
        self.edit(&Request::delete(key.clone(), uid))
    }

    pub(super) fn plan_faults(&self, faults: HashMap<usize, Fault>) {
        self.0.lock().faults = faults;
    }

    /// No read is answered from now on; writes are.
    pub(super) fn hide(&self) {
        self.0.lock().unreadable = true;
    }

    /// Every write to this object is refused from now on.
    pub(super) fn refuse(&self, key: &Key, failure: Failure) {
        self.0.lock().refused.insert(key.clone(), failure);
    }

    /// A webhook changes every write of the agent to this object from now on.
    pub(super) fn admit_with(&self, key: &Key, patch: Value) {
        self.0.lock().admitted.insert(key.clone(), patch);
    }

    /// No webhook is left.
    pub(super) fn admit(&self) {
        self.0.lock().admitted.clear();
    }

    /// Nothing is refused any more.
    pub(super) fn relent(&self) {
        self.0.lock().refused.clear();
    }

    pub(super) fn take_log(&self) -> Vec<Request> {
        std::mem::take(&mut self.0.lock().log)
    }

    /// Every state that an object had, in order.
    pub(super) fn history(&self, key: &Key) -> Vec<Option<Arc<Object>>> {
        let state = self.0.lock();
        let of_key = state.events.iter().filter(|(_, k, _)| k == key);
        of_key.map(|(_, _, object)| object.clone()).collect()
    }

    pub(super) fn changes(&self) -> usize {
        self.0.lock().events.len()
    }

    pub(super) fn crashed(&self) -> bool {
        self.0.lock().crashed
    }

    pub(super) fn sent(&self) -> usize {
        self.0.lock().sent
    }

    pub(super) fn check(&self) {
        let violations = self.0.lock().violations.clone();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

impl Cluster for World {
    async fn send(&self, request: &Request) -> Answer {
        let mut state = self.0.lock();
        let dead = Answer::Failed(Failure::Unavailable("no answer".into()));
        if state.crashed {
            return dead;
        }
        if state.unreadable && !request.writes() {
            return dead;
        }
        let n = state.sent;
        state.sent += 1;
        let fault = state.faults.get(&n).copied();
        if matches!(fault, Some(Fault::CrashBefore | Fault::LostBefore)) {
            state.crashed = fault == Some(Fault::CrashBefore);
            return dead;
        }
        if fault == Some(Fault::NotServed) {
            return Answer::Failed(Failure::NotFound);
        }
        if fault == Some(Fault::TooLarge) {
            return Answer::Failed(Failure::TooLarge);
        }
        state.inspect(request);
        state.log.push(request.clone());
        let refused = request.key().filter(|_| request.writes());
        if let Some(failure) = refused.and_then(|key| state.refused.get(key)) {
            return Answer::Failed(failure.clone());
        }
        let admitted = refused.and_then(|key| state.admitted.get(key));
        let admitted = admitted.map(|patch| admitted_with(request, patch));
        let answer = state.execute(admitted.as_ref().unwrap_or(request));
        if fault.is_some() {
            state.crashed = fault == Some(Fault::CrashAfter);
            return dead;
        }
        match answer {
            Answer::Object(object) => Answer::Object(as_read(object)),
            Answer::Listed(all) => {
                Answer::Listed(all.into_iter().map(|(k, o)| (k, as_read(o))).collect())
            }
            answer => answer,
        }
    }
}

/// A write with the content that a webhook adds.
fn admitted_with(request: &Request, change: &Value) -> Request {
    let mut request = request.clone();
    match &mut request {
        Request::Patch { patch, .. } => merge_patch::apply(patch, change),
        Request::Create { object, .. }
        | Request::Replace { object, .. }
        | Request::ReplaceStatus { object, .. } => {
            let mut value = object.as_value().clone();
            merge_patch::apply(&mut value, change);
            *object = Object::new(value).unwrap();
        }
        Request::Read { .. } | Request::Find { .. } | Request::Delete { .. } => {}
    }
    request
}

/// The part of an object that the agent can read: only the metadata if it has the field `deep`.
fn as_read(object: Arc<Object>) -> Arc<Object> {
    if !object.root().contains_key("deep") {
        return object;
    }
    let mut value = object.as_value().clone();
    let root = value.as_object_mut().expect("an object has fields");
    root.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    Arc::new(Object::fragment(value).expect("what is left was valid"))
}

/// Kinds whose status is a subresource.
fn has_status(key: &Key) -> bool {
    matches!(key.kind.kind.as_str(), "Thing")
}

impl State {
    /// The invariants that every request of the agent has to keep.
    fn inspect(&mut self, request: &Request) {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return;
        };
        let body = match request {
            Request::Create { object, .. }
            | Request::Replace { object, .. }
            | Request::ReplaceStatus { object, .. } => Some(object),
            _ => None,
        };
        if body.is_some_and(Object::is_fragment) {
            self.violations
                .push(format!("a part for the whole: {request:?}"));
        }
        let Some(object) = self.objects.get(key) else {
            if matches!(request, Request::Create { .. }) && key.kind.kind == "Thing" {
                self.accepted(request);
            }
            return;
        };
        if matches!(request, Request::Create { .. }) {
            return;
        }
        let mut problems = Vec::new();
        let body = match request {
            Request::Patch { patch, .. } => Some(patch),
            Request::Replace { object, .. } => Some(object.as_value()),
            _ => None,
        };
        let metadata = body.and_then(|body| body.get("metadata"));
        let finalizers_only = metadata.is_some_and(|m| m.get("finalizers").is_some())
            && body
                .and_then(Value::as_object)
                .is_some_and(|b| b.len() == 1);
        let current = metadata
            .and_then(|m| m.get("resourceVersion"))
            .and_then(Value::as_str)
            == object.resource_version();
        if object.in_deletion()
            && !finalizers_only
            && !matches!(request, Request::Delete { .. })
            && current
        {
            problems.push("an object in deletion was touched");
        }
        if object.annotation("foreign").is_some() {
            problems.push("a foreign object was written");
        }
        if key.side == Side::new("kcp")
            && key.kind.kind == "Thing"
            && body.is_some_and(|body| body.get("spec").is_some())
        {
            problems.push("content flowed back");
        }
        let problems = problems.into_iter().map(|p| format!("{p}: {request:?}"));
        self.violations.extend(problems);
    }

    fn accepted(&mut self, request: &Request) {
        let Request::Create { key, object } = request else {
            return;
        };
        let held = object.annotation("t/source").and_then(|source| {
            let (cluster, name) = source.split_once('/')?;
            self.objects.get(&kcp(cluster, "Thing", name))
        });
        if held.is_some_and(|source| !source.has_finalizer(FINALIZER)) {
            self.violations
                .push(format!("{key} was made before its source was accepted"));
        }
    }

    fn store(&mut self, key: &Key, object: Option<Object>) -> Option<Arc<Object>> {
        self.clock += 1;
        let object = object.map(|mut object| {
            let version = self.clock.to_string();
            object
                .metadata_mut()
                .insert("resourceVersion".into(), version.into());
            object
        });
        match &object {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        let object = object.map(Arc::new);
        self.events.push((self.clock, key.clone(), object.clone()));
        object
    }

    fn execute(&mut self, request: &Request) -> Answer {
        match request {
            Request::Read { key } => match self.objects.get(key) {
                Some(object) => Answer::Object(Arc::new(object.clone())),
                None => Answer::Gone,
            },
            Request::Find { scope, labels } => {
                let all = self.objects.iter();
                let found = all.filter(|(key, object)| key.scope() == *scope && labels.fit(object));
                Answer::Listed(
                    found
                        .map(|(key, object)| (key.clone(), Arc::new(object.clone())))
                        .collect(),
                )
            }
            Request::Create { key, object } => self.create(key, object.clone()),
            Request::Patch { key, patch } => self.update(key, patch, |old| {
                let mut value = old.as_value().clone();
                merge_patch::apply(&mut value, patch);
                value
            }),
            Request::Replace { key, object } => {
                self.update(key, object.as_value(), |_| object.as_value().clone())
            }
            Request::ReplaceStatus { key, object } => self.update_status(key, object),
            Request::Delete { key, uid, .. } => self.delete(key, uid),
        }
    }

    fn create(&mut self, key: &Key, mut object: Object) -> Answer {
        if let Some(namespace) = key.namespace_key() {
            match self.objects.get(&namespace) {
                None => return Answer::Failed(Failure::NotFound),
                Some(n) if n.in_deletion() => {
                    return Answer::Failed(Failure::NamespaceTerminating);
                }
                Some(_) => {}
            }
        }
        if self.objects.contains_key(key) {
            return Answer::Failed(Failure::AlreadyExists);
        }
        if has_status(key) {
            object.root_mut().remove("status");
        }
        let uid = format!("u{}", self.clock + 1);
        let born = format!("{:09}", self.clock + 1);
        object.metadata_mut().insert("uid".into(), uid.into());
        object
            .metadata_mut()
            .insert("creationTimestamp".into(), born.into());
        let object = self.store(key, Some(object));
        Answer::Object(object.expect("an object was stored"))
    }

    /// The preconditions of an update: its incarnation and its version.
    fn guard(&self, key: &Key, body: &Value) -> Result<Object, Failure> {
        let old = self.objects.get(key).ok_or(Failure::NotFound)?;
        let said = |field: &str| body.get("metadata")?.get(field)?.as_str();
        if said("uid").is_some_and(|uid| Some(uid) != old.uid()) {
            return Err(Failure::OtherIncarnation);
        }
        if said("resourceVersion").is_some_and(|v| Some(v) != old.resource_version()) {
            return Err(Failure::Conflict);
        }
        Ok(old.clone())
    }

    fn update(&mut self, key: &Key, body: &Value, change: impl FnOnce(&Object) -> Value) -> Answer {
        let old = match self.guard(key, body) {
            Ok(old) => old,
            Err(failure) => return Answer::Failed(failure),
        };
        let mut new = Object::new(change(&old)).expect("a patch of a valid object");
        if has_status(key) {
            match old.root().get("status") {
                Some(status) => new.root_mut().insert("status".into(), status.clone()),
                None => new.root_mut().remove("status"),
            };
        }
        self.settle(key, &old, new)
    }

    fn update_status(&mut self, key: &Key, object: &Object) -> Answer {
        if !has_status(key) {
            return Answer::Failed(Failure::NotFound);
        }
        let old = match self.guard(key, object.as_value()) {
            Ok(old) => old,
            Err(failure) => return Answer::Failed(failure),
        };
        let mut new = old.clone();
        match object.root().get("status") {
            Some(status) => new.root_mut().insert("status".into(), status.clone()),
            None => new.root_mut().remove("status"),
        };
        self.settle(key, &old, new)
    }

    fn settle(&mut self, key: &Key, old: &Object, mut new: Object) -> Answer {
        let version = old.resource_version().unwrap_or_default().to_owned();
        new.metadata_mut()
            .insert("resourceVersion".into(), version.into());
        for map in ["labels", "annotations"] {
            let empty = |v: &Value| v.as_object().is_some_and(serde_json::Map::is_empty);
            if new.metadata_mut().get(map).is_some_and(empty) {
                new.metadata_mut().remove(map);
            }
        }
        if new.in_deletion() && new.finalizers().next().is_none() {
            self.store(key, None);
            return Answer::Object(Arc::new(new));
        }
        if new == *old {
            return Answer::Object(Arc::new(new));
        }
        let stored = self.store(key, Some(new));
        Answer::Object(stored.expect("an object was stored"))
    }

    fn delete(&mut self, key: &Key, uid: &str) -> Answer {
        let Some(old) = self.objects.get(key).cloned() else {
            return Answer::Gone;
        };
        if old.uid() != Some(uid) {
            return Answer::Failed(Failure::OtherIncarnation);
        }
        if old.finalizers().next().is_none() {
            self.store(key, None);
            return Answer::Gone;
        }
        if old.in_deletion() {
            return Answer::Object(Arc::new(old));
        }
        let mut new = old;
        new.metadata_mut()
            .insert("deletionTimestamp".into(), "now".into());
        let stored = self.store(key, Some(new));
        Answer::Object(stored.expect("an object was stored"))
    }
}

/// The agent's cache.
#[derive(Default)]
pub(super) struct Cache(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    /// The write up to which the first list knew everything: watches begin there.
    listed: u64,
    known: HashMap<Key, (u64, Option<Arc<Object>>)>,
    /// Objects whose end was seen as an event.
    ended: HashSet<Key>,
    unknown: bool,
}

impl Heard {
    fn hear(&mut self, version: u64, key: &Key, object: Option<Arc<Object>>) {
        let newer = self
            .known
            .get(key)
            .is_none_or(|(known, _)| version >= *known);
        if newer {
            self.known
                .insert(key.clone(), (version, object.map(as_read)));
        }
    }
}

/// The service cluster's copies are watched by our label only.
fn filtered(key: &Key) -> bool {
    key.side == Side::new("svc") && key.kind.kind == "Thing"
}

impl Cache {
    /// Events reach the cache: those that `pick` picks by their number, in any order.
    pub(super) fn deliver(&self, world: &World, pick: impl Fn(usize) -> bool) {
        let events = world.0.lock().events.clone();
        let mut heard = self.0.lock();
        for (n, (version, key, object)) in events.iter().enumerate().rev() {
            if *version > heard.listed && pick(n) {
                if object.is_none() {
                    heard.ended.insert(key.clone());
                }
                heard.hear(*version, key, object.clone());
            }
        }
    }

    /// The process starts anew against a server that is so many writes behind.
    pub(super) fn restart(&self, world: &World, behind: usize) {
        world.0.lock().crashed = false;
        *self.0.lock() = Heard::default();
        let upto = world.0.lock().events.len().saturating_sub(behind);
        let events = world.0.lock().events[..upto].to_vec();
        let mut heard = self.0.lock();
        for (version, key, object) in events {
            heard.listed = version;
            heard.hear(version, &key, object);
        }
        // A list does not report deletions.
        heard.known.retain(|_, (_, object)| object.is_some());
    }

    /// One object is missing from the cache.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().known.remove(key);
    }

    pub(super) fn set_unknown(&self, unknown: bool) {
        self.0.lock().unknown = unknown;
    }
}

impl Store for Cache {
    fn get(&self, key: &Key) -> Seen {
        let heard = self.0.lock();
        if heard.unknown {
            return Seen::Unknown;
        }
        match heard.known.get(key) {
            Some((_, Some(object))) if !filtered(key) || object.label("t/agent").is_some() => {
                Seen::Present(Arc::clone(object))
            }
            _ if filtered(key) => Seen::Unknown,
            _ => Seen::Absent,
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        let heard = self.0.lock();
        if heard.unknown {
            return Found::Unknown;
        }
        let all = heard.known.iter().filter_map(|(key, (_, object))| {
            let object = object.as_ref()?;
            let marked = labels.fit(object);
            (key.scope() == *scope && marked).then(|| (key.clone(), Arc::clone(object)))
        });
        Found::All(all.collect())
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        let heard = self.0.lock();
        matches!(heard.known.get(key), Some((_, None)))
    }

    fn saw_end(&self, key: &Key) -> bool {
        self.0.lock().ended.contains(key)
    }

    fn fingerprint_of(&self, _: &Key, object: &Object) -> Fingerprint {
        Fingerprint::of(object)
    }
}

impl Cache {
    /// Takes the answer to a request. The newest state of an object wins.
    pub(super) fn learn(&self, request: &Request, answer: &Answer) {
        let mut heard = self.0.lock();
        match (request, answer) {
            (Request::Find { .. }, _) => {}
            (request, Answer::Object(object)) => {
                let version = object.resource_version().and_then(|v| v.parse().ok());
                if let (Some(key), Some(version)) = (request.key(), version) {
                    heard.hear(version, key, Some(Arc::clone(object)));
                }
            }
            (request, Answer::Gone) => {
                if let Some(key) = request.key() {
                    let version = heard.known.get(key).map_or(0, |(version, _)| *version);
                    heard.hear(version, key, None);
                }
            }
            (Request::Create { key, .. }, Answer::Failed(Failure::Unavailable(_))) => {
                if matches!(heard.known.get(key), Some((_, None))) {
                    heard.known.remove(key);
                }
            }
            _ => {}
        }
    }
}

impl FingerprintSource for Cache {
    fn fingerprint(&self, question: &Question) -> Option<Fingerprint> {
        match question {
            Question::Object(key) => match self.get(key) {
                Seen::Present(object) => Some(Fingerprint::of(&object)),
                Seen::Absent => Some(Fingerprint::ABSENT),
                Seen::Unknown => None,
            },
            Question::Marked(scope, labels) => match self.find(scope, labels) {
                Found::All(all) => Some(Fingerprint::of_all(
                    all.iter().map(|(_, o)| Fingerprint::of(o)),
                )),
                Found::Unknown => None,
            },
        }
    }
}

/// The dialect: a Thing of a workspace becomes a Thing of the service cluster.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a setting of the model"
)]
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) cluster: String,
    pub(super) name: String,
    /// The name of the copies; several sources may have the same one.
    pub(super) copy: String,
    pub(super) policy: Policy,
    pub(super) intent: Intent,
    pub(super) related: bool,
    pub(super) reversed: bool,
    /// How the content of related copies is kept.
    pub(super) content: Content,
    /// Whether the copies of related objects of the service go with the source.
    pub(super) cleans_up: bool,
    /// Whether absent objects may only be hidden from the agent.
    pub(super) hides: bool,
    /// Whether the status of a source reports the state of its copy.
    pub(super) reports: bool,
    pub(super) limit: usize,
    pub(super) rested: Option<Settled>,
}

impl Front {
    pub(super) fn new(cluster: &str, name: &str) -> Self {
        Self {
            cluster: cluster.into(),
            name: name.into(),
            copy: format!("{cluster}-{name}"),
            policy: Policy::primary(),
            intent: Intent::Sync,
            related: false,
            reversed: false,
            content: Content::Merge,
            cleans_up: false,
            hides: false,
            reports: false,
            limit: usize::MAX,
            rested: None,
        }
    }

    pub(super) fn source(&self) -> Key {
        kcp(&self.cluster, "Thing", &self.name)
    }

    pub(super) fn copy_key(&self) -> Key {
        svc("Thing", "copies", &self.copy)
    }

    pub(super) fn kept(&self, world: &World) -> bool {
        world
            .get(&self.memory())
            .is_none_or(|state| only_kept(&state))
    }

    pub(super) fn memory(&self) -> Key {
        let name = format!("state-{}-{}", self.cluster, self.name);
        svc("State", "agent", &name)
    }

    /// The keys of the related objects: one that is copied back, one that is copied along.
    pub(super) fn credentials(&self) -> (Key, Key) {
        (
            svc("Secret", "copies", &format!("{}-out", self.copy)),
            kcp(&self.cluster, "Secret", &format!("{}-out", self.name)),
        )
    }

    pub(super) fn config(&self) -> (Key, Key) {
        (
            kcp(&self.cluster, "Secret", &format!("{}-in", self.name)),
            svc("Secret", "copies", &format!("{}-in", self.copy)),
        )
    }

    /// Whether the original that is copied along ends with the anchor. If nothing is ever hidden, a read shows that.
    fn config_ended(&self, view: &dyn View) -> Result<bool, Vec<Request>> {
        let (config, _) = self.config();
        let remembers = matches!(view.get(&self.memory()), Seen::Present(_));
        let goes =
            matches!(view.get(&self.source()), Seen::Present(anchor) if anchor.in_deletion());
        if self.hides
            || !goes
            || !remembers
            || view.get(&config) != Seen::Absent
            || view.ended(&config)
        {
            return Ok(false);
        }
        let read = Request::Read {
            key: config.clone(),
        };
        match view.note(&read) {
            _ if view.answered(&config) => Ok(true),
            Some(_) => Ok(false),
            None => Err(vec![read]),
        }
    }

    fn labels(&self) -> Labels {
        self.own_labels().into()
    }

    fn own_labels(&self) -> [(String, String); 2] {
        let pairs = [("t/cluster", &self.cluster), ("t/name", &self.name)];
        pairs.map(|(k, v)| (k.to_owned(), v.clone()))
    }

    fn link(id: &str, wave: u8, (source, target): (Key, Key), policy: Policy) -> Link {
        Link {
            id: LinkId::new(id),
            wave,
            source: Source::Live(source),
            target: Target::Named(target.clone()),
            rules: Arc::new(Plain(target)),
            policy,
        }
    }
}

impl Dialect for Front {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let mut links = vec![Link {
            id: LinkId::new("primary"),
            wave: 0,
            source: Source::Live(self.source()),
            target: Target::Marked {
                scope: self.copy_key().scope(),
                labels: self.labels(),
            },
            rules: Arc::new(self.clone()),
            policy: self.policy.clone(),
        }];
        if self.related {
            let back = Policy {
                retract: if self.cleans_up {
                    Fate::Delete
                } else {
                    Fate::Keep
                },
                content: self.content,
                ..Policy::related()
            };
            let along = Policy {
                source_finalizer: Some(Finalizer::new(FINALIZER)),
                source_ended: self.config_ended(view)?,
                retract: Fate::Delete,
                ..back.clone()
            };
            links.push(Self::link("out", 1, self.credentials(), back));
            links.push(Self::link("in", 1, self.config(), along));
        }
        if self.reversed {
            links.reverse();
        }
        Ok(Subject {
            anchor: self.source(),
            finalizer: Some(Finalizer::new(FINALIZER)),
            memory: Some(MemoryPlace {
                key: self.memory(),
                codec: Arc::new(Plaintext { limit: self.limit }),
            }),
            intent: self.intent,
            links,
        })
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        let Seen::Present(anchor) = view.get(&subject.anchor) else {
            return Vec::new();
        };
        let mut placed: Vec<_> = outcomes
            .iter()
            .filter(|o| &*o.link.0 != "primary" && o.reason.code == Code::InStep)
            .filter_map(|o| o.copy.as_ref().map(|key| key.name.to_string()))
            .collect();
        placed.sort();
        let placed = placed.join(",");
        if anchor.in_deletion()
            || !anchor.has_finalizer(FINALIZER)
            || !self.related
            || outcomes.iter().any(|o| o.reason.code == Code::TooDeep)
            || anchor.annotation("t/related").unwrap_or_default() == placed
        {
            return Vec::new();
        }
        vec![Step {
            link: None,
            request: Request::Patch {
                key: subject.anchor.clone(),
                patch: json!({"metadata": {"uid": anchor.uid(), "annotations": {"t/related": placed}}}),
            },
            effect: Effect::Reported,
        }]
    }
}

/// The part of an object that is synchronized.
fn stripped(source: &Object) -> Object {
    let mut object = source.clone();
    object.root_mut().remove("status");
    let name = source.name().to_owned();
    let mut metadata = serde_json::Map::new();
    metadata.insert("name".into(), name.into());
    for field in ["labels", "annotations"] {
        let keys = source.as_value()["metadata"][field].as_object();
        let keys: serde_json::Map<_, _> = keys
            .into_iter()
            .flatten()
            .filter(|(k, _)| !k.starts_with("t/"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if !keys.is_empty() {
            metadata.insert(field.into(), keys.into());
        }
    }
    object.root_mut().insert("metadata".into(), metadata.into());
    object
}

impl Rules for Front {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.copy_key())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Ok(stripped(source))
    }

    fn marks(&self, _: &Object, made: CopyOrigin) -> Marks {
        let mut marks = Marks::default();
        marks.identity.labels = self.own_labels().into();
        let source = format!("{}/{}", self.cluster, self.name);
        marks.identity.annotations.insert("t/source".into(), source);
        marks.identity.labels.insert("t/agent".into(), "a".into());
        if made == CopyOrigin::Adopted {
            marks
                .extra
                .annotations
                .insert("t/adopted".into(), "true".into());
        }
        marks
    }

    fn owner(&self, live: &Object) -> Owner {
        if let Some(who) = live.annotation("foreign") {
            return Owner::Other(who.to_owned());
        }
        let source = format!("{}/{}", self.cluster, self.name);
        let made = match live.annotation("t/adopted") {
            Some(_) => CopyOrigin::Adopted,
            None => CopyOrigin::Created,
        };
        match (live.annotation("t/source"), live.label("t/cluster")) {
            (Some(other), _) if other != source => Owner::Other(other.to_owned()),
            (Some(_), _) => Owner::Ours(made),
            (None, Some(_)) if self.labels().iter().all(|(k, v)| live.label(k) == Some(v)) => {
                Owner::Ours(made)
            }
            (None, Some(other)) => Owner::Other(other.to_owned()),
            (None, None) => Owner::Nobody,
        }
    }

    fn status(&self, from: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(from.root().get("status").cloned())
    }

    fn reported(
        &self,
        status: Option<Arc<Value>>,
        from: &Object,
        to: &Object,
        current: bool,
    ) -> Option<Arc<Value>> {
        if !self.reports {
            return status;
        }
        let mut whole = status.map_or_else(|| json!({}), Arc::unwrap_or_clone);
        whole["copied"] = if current {
            from.as_value()["spec"].clone()
        } else {
            to.as_value()["status"]["copied"].clone()
        };
        Some(Arc::new(whole))
    }
}

/// Whether a memory holds only the record of a copy that stays on purpose.
fn only_kept(state: &Object) -> bool {
    let entries = state.root().get("entries").and_then(Value::as_object);
    entries.is_some_and(|entries| entries.keys().eq(["out"]))
}

/// The rules of a related object: all of its content, without marks.
#[derive(Debug)]
struct Plain(Key);

impl Rules for Plain {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.0.clone())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Ok(stripped(source))
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, live: &Object) -> Owner {
        live.annotation("foreign")
            .map_or(Owner::Nobody, |who| Owner::Other(who.to_owned()))
    }

    fn status(&self, _: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(None)
    }
}

/// A memory in plain JSON, with snapshots reduced beyond a limit.
#[derive(Debug)]
struct Plaintext {
    limit: usize,
}

fn record(entry: &Entry) -> Value {
    let (how, key, uid) = match &entry.copy {
        CopyRecord::Unrecorded => ("unrecorded", None, None),
        CopyRecord::Intended {
            key, taken: true, ..
        } => ("taken", Some(key), None),
        CopyRecord::Intended { key, lost, .. } => match lost {
            None => ("intended", Some(key), None),
            Some(lost) if lost.made == CopyOrigin::Created => ("lost", Some(key), Some(&lost.uid)),
            Some(lost) => ("lost adopted", Some(key), Some(&lost.uid)),
        },
        CopyRecord::Created { key, uid } => ("created", Some(key), Some(uid)),
        CopyRecord::Adopted { key, uid } => ("adopted", Some(key), Some(uid)),
    };
    let digests: BTreeMap<_, _> = entry
        .snapshot
        .iter()
        .flat_map(Snapshot::digests)
        .map(|(pointer, hash)| (pointer.clone(), hash.to_vec()))
        .collect();
    json!({
        "snapshot": entry.snapshot.as_ref().map(|s| s.object().as_value().clone()),
        "digests": digests, "how": how, "uid": uid.map(std::string::ToString::to_string),
        "namespace": key.and_then(|k| k.namespace.as_deref()), "name": key.map(|k| &*k.name),
        "announced": entry.pending.as_ref().map(|a| json!([a.places, a.before.to_vec()])),
    })
}

fn recall(value: &Value, scope: &Scope) -> Option<Entry> {
    let snapshot = Object::new(value.get("snapshot")?.clone()).ok();
    let digests = value["digests"].as_object().into_iter().flatten();
    let digests = digests.filter_map(|(pointer, hash)| {
        let hash: Vec<u8> = serde_json::from_value(hash.clone()).ok()?;
        Some((pointer.clone(), hash.try_into().ok()?))
    });
    let digests = digests.collect();
    let key = value["name"]
        .as_str()
        .map(|name| scope.key(value["namespace"].as_str(), name));
    let uid = value["uid"].as_str().map(Arc::from);
    Some(Entry {
        snapshot: snapshot.map(|s| Snapshot::from_parts(s, digests)),
        copy: match (value["how"].as_str()?, key, uid) {
            (how @ ("intended" | "taken"), Some(key), _) => CopyRecord::Intended {
                key,
                lost: None,
                taken: how == "taken",
            },
            (how @ ("lost" | "lost adopted"), Some(key), Some(uid)) => {
                let made = if how == "lost" {
                    CopyOrigin::Created
                } else {
                    CopyOrigin::Adopted
                };
                let lost = Some(LostCopy { uid, made });
                CopyRecord::Intended {
                    key,
                    lost,
                    taken: false,
                }
            }
            ("created", Some(key), Some(uid)) => CopyRecord::Created { key, uid },
            ("adopted", Some(key), Some(uid)) => CopyRecord::Adopted { key, uid },
            _ => CopyRecord::Unrecorded,
        },
        pending: serde_json::from_value(value["announced"].clone())
            .ok()
            .map(|(places, before)| PendingChange { places, before }),
    })
}

impl Codec for Plaintext {
    fn read(&self, stored: &Object, links: &[Link]) -> Memory {
        let entries = links.iter().filter_map(|link| {
            let value = stored.root().get("entries")?.get(&*link.id.0)?;
            Some((link.id.clone(), recall(value, &link.target.scope())?))
        });
        Memory {
            entries: entries.collect(),
        }
    }

    fn write(
        &self,
        stored: Option<&Object>,
        _: &[Link],
        changes: &BTreeMap<LinkId, Option<Entry>>,
    ) -> Result<Object, Reason> {
        let fresh = || Object::empty(&kind("State"), Some("agent"), "state");
        let mut object = stored.cloned().unwrap_or_else(fresh);
        let entries = object
            .root_mut()
            .entry("entries")
            .or_insert_with(|| json!({}));
        for (id, entry) in changes {
            match entry {
                Some(entry) => {
                    let mut entry = entry.clone();
                    let large = record(&entry).to_string().len() > self.limit;
                    if let Some(snapshot) = entry.snapshot.as_mut().filter(|_| large) {
                        *snapshot = snapshot.reduced(32);
                    }
                    entries[&*id.0] = record(&entry);
                }
                None => {
                    if let Some(entries) = entries.as_object_mut() {
                        entries.remove(&*id.0);
                    }
                }
            }
        }
        Ok(object)
    }
}

/// Both control planes, the agent's cache, and its front ends.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) cache: Cache,
    pub(super) fronts: Vec<Front>,
}

impl Cluster for Stage {
    async fn send(&self, request: &Request) -> Answer {
        let answer = self.world.send(request).await;
        self.cache.learn(request, &answer);
        answer
    }
}

impl Stage {
    pub(super) fn new(fronts: Vec<Front>) -> Self {
        let stage = Self {
            world: World::default(),
            cache: Cache::default(),
            fronts,
        };
        for namespace in ["agent", "copies"] {
            let key = svc("", namespace, "").namespace_key().unwrap();
            let object = Object::empty(&key.kind, None, &key.name);
            stage.world.edit(&Request::Create { key, object });
        }
        stage
    }

    /// One pass of one front end with caches as they are.
    pub(super) fn pass(&self, front: &Front) -> Report {
        let pass = run(front, front.rested.as_ref(), &self.cache, self);
        let report = futures::executor::block_on(pass);
        // Reads end before their pass does.
        let reads = |outcome: &Outcome| outcome.reason.code == Code::NeedsToSee;
        assert!(!report.outcomes.iter().any(reads), "{:?}", report.outcomes);
        report
    }

    /// Delivers all events and runs all passes, until no request is sent any more.
    #[track_caller]
    pub(super) fn settle(&self) -> Vec<Report> {
        for _ in 0..40 {
            self.cache.deliver(&self.world, |_| true);
            let before = (self.world.sent(), self.world.changes());
            let reports: Vec<_> = self.fronts.iter().map(|front| self.pass(front)).collect();
            // Only another try, with back-off, shows whether a refused name is free by now.
            let refused = |r: &Report| {
                r.outcomes
                    .iter()
                    .any(|o| o.reason.code.class() == Class::Refused)
            };
            let quiet = self.world.sent() == before.0 || reports.iter().any(refused);
            if quiet && self.world.changes() == before.1 {
                self.world.check();
                return reports;
            }
        }
        let log = self.world.take_log();
        let tail = &log[log.len().saturating_sub(6)..];
        panic!("requests are repeated for ever: {tail:#?}");
    }

    /// The writes of one pass with a current cache, as words.
    pub(super) fn writes(&self, front: &Front) -> Vec<String> {
        self.cache.deliver(&self.world, |_| true);
        self.world.take_log();
        self.pass(front);
        let log = self.world.take_log();
        log.iter()
            .map(|r| format!("{} {}", r.verb(), r.key().map_or("", |k| &k.kind.kind)))
            .collect()
    }

    /// All marks of the agent that are left anywhere.
    pub(super) fn leftovers(&self) -> BTreeSet<String> {
        let all = self.world.all();
        let ours = all.iter().filter(|(key, object)| {
            (key.kind.kind == "State" && !only_kept(object))
                || object.has_finalizer(FINALIZER)
                || object.label("t/cluster").is_some()
        });
        ours.map(|(key, _)| key.to_string()).collect()
    }
}
