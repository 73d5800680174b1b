//! The model of the API servers of both sides: objects, versions, uids, finalizers, deletion, generation, the status
//! subresource, and the events of watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::dialect::{FINALIZER, FOREIGN, Id, NAME, NAMES, SOURCE};
use hawser_sync::{Answer, Failure, Key, Request};
use kube_lang::object::{Object, merge_patch};

/// The number of kinds that are watched.
pub(super) const FEEDS: usize = 5;
/// The feed of the copies of Things, which is restricted to a label.
pub(super) const COPIES: usize = 2;
/// The feed of Secrets on the service side.
pub(super) const OWN_SECRETS: usize = 3;
/// The feed of states.
pub(super) const STATES: usize = 4;

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    /// The object before and after.
    pub(super) before: Option<Arc<Object>>,
    pub(super) now: Option<Arc<Object>>,
}

/// The events of a feed. Those that every process has heard can be forgotten.
#[derive(Default)]
pub(super) struct Log {
    /// The objects after the forgotten events, and the number of these.
    settled: BTreeMap<Key, Arc<Object>>,
    forgotten: usize,
    events: Vec<Event>,
}

impl Log {
    /// The number of events so far.
    pub(super) fn len(&self) -> usize {
        self.forgotten + self.events.len()
    }

    /// The number of objects now.
    pub(super) fn objects(&self) -> usize {
        let created = |event: &&Event| event.before.is_none();
        let ended = |event: &&Event| event.now.is_none();
        let created = self.events.iter().filter(created).count();
        let ended = self.events.iter().filter(ended).count();
        self.settled.len() + created - ended
    }

    pub(super) fn get(&self, number: usize) -> Option<&Event> {
        self.events.get(number.checked_sub(self.forgotten)?)
    }

    /// The number of events up to a version.
    pub(super) fn up_to(&self, version: u64) -> usize {
        self.forgotten
            + self
                .events
                .partition_point(|event| event.version <= version)
    }

    /// The objects after so many events.
    pub(super) fn listed(&self, events: usize) -> BTreeMap<&Key, &Arc<Object>> {
        let mut objects: BTreeMap<_, _> = self.settled.iter().collect();
        for event in &self.events[..events - self.forgotten] {
            match &event.now {
                Some(object) => objects.insert(&event.key, object),
                None => objects.remove(&event.key),
            };
        }
        objects
    }

    pub(super) fn forget(&mut self, until: usize) {
        for event in self.events.drain(..until - self.forgotten) {
            match event.now {
                Some(object) => self.settled.insert(event.key, object),
                None => self.settled.remove(&event.key),
            };
        }
        self.forgotten = until;
    }
}

/// Both sides.
#[derive(Default)]
pub(super) struct World {
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    /// The objects by the value of the label [`NAME`].
    named: BTreeMap<String, BTreeSet<Key>>,
    pub(super) version: u64,
    /// The events of each feed.
    pub(super) logs: [Log; FEEDS],
    /// What the agent must never do, and did.
    pub(super) violations: Vec<String>,
    /// The number of requests of the agent.
    pub(super) requests: u64,
}

/// The feed of an object.
fn feed_of(key: &Key) -> usize {
    let names = &*NAMES;
    match (key.side == names.tenants, &key.kind) {
        (true, kind) => usize::from(*kind == names.secret),
        (false, kind) if *kind == names.thing => COPIES,
        (false, kind) if *kind == names.secret => OWN_SECRETS,
        (false, _) => STATES,
    }
}

fn has_status(key: &Key) -> bool {
    key.kind == NAMES.thing
}

fn stated(body: &Value, field: &str) -> Option<String> {
    let text = body.get("metadata")?.get(field)?.as_str()?;
    Some(text.to_owned())
}

impl World {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// A person or another program does something; returns whether it was admitted.
    pub(super) fn does(&mut self, request: &Request) -> bool {
        !matches!(self.execute(request), Answer::Failed(_))
    }

    pub(super) fn put(&mut self, key: &Key, content: &Value) -> bool {
        let object = Object::empty(&key.kind, key.namespace.as_deref(), &key.name);
        let mut value = object.into_value();
        merge_patch::apply(&mut value, content);
        let object = Object::new(value).expect("the content of a deed is valid");
        let key = key.clone();
        self.does(&Request::Create { key, object })
    }

    pub(super) fn patch(&mut self, key: &Key, patch: Value) -> bool {
        let key = key.clone();
        self.does(&Request::Patch { key, patch })
    }

    pub(super) fn set_status(&mut self, key: &Key, status: Value) -> bool {
        let Some(object) = self.get(key) else {
            return false;
        };
        let mut object = Object::clone(object);
        object.root_mut().insert("status".into(), status);
        let key = key.clone();
        self.does(&Request::ReplaceStatus { key, object })
    }

    pub(super) fn delete(&mut self, key: &Key) -> bool {
        let Some(object) = self.get(key) else {
            return false;
        };
        let uid = object.uid().unwrap_or_default().to_owned();
        self.does(&Request::delete(key.clone(), uid))
    }

    /// A request of the agent, for a subject.
    pub(super) fn serve(&mut self, about: &Id, request: &Request) -> Answer {
        self.requests += 1;
        if request.writes() {
            let problems = self.inspect(about, request);
            let problems = problems.into_iter();
            self.violations
                .extend(problems.map(|problem| format!("{problem}: {request:?}")));
        }
        self.execute(request)
    }

    /// What is wrong with a write, whatever the agent knew.
    fn inspect(&self, about: &Id, request: &Request) -> Vec<&'static str> {
        let mut problems = Vec::new();
        let Some(key) = request.key() else {
            return problems;
        };
        if Id::of(key).as_ref() != Some(about) {
            problems.push("an object of another subject was written");
        }
        let body = match request {
            Request::Patch { patch, .. } => Some(patch),
            Request::Create { object, .. }
            | Request::Replace { object, .. }
            | Request::ReplaceStatus { object, .. } => Some(object.as_value()),
            _ => None,
        };
        let Some(object) = self.objects.get(key) else {
            return problems;
        };
        let uid = match request {
            Request::Delete { uid, .. } => Some(uid.to_string()),
            _ => body.and_then(|body| stated(body, "uid")),
        };
        if uid.is_some_and(|uid| Some(&*uid) != object.uid()) {
            return problems;
        }
        if object.annotation(FOREIGN).is_some() && !matches!(request, Request::Create { .. }) {
            problems.push("a foreign object was written");
        }
        let is_thing = *key == about.0.thing;
        let patched = |field: &str| body.is_some_and(|body| body.get(field).is_some());
        if is_thing && patched("spec") && !matches!(request, Request::ReplaceStatus { .. }) {
            problems.push("content flowed back");
        }
        let finalizers = body.and_then(|body| body.get("metadata")?.get("finalizers"));
        let finalizers = finalizers.and_then(Value::as_array);
        let releases = finalizers.is_some_and(|list| !list.iter().any(|it| it == FINALIZER));
        if is_thing && releases && object.has_finalizer(FINALIZER) {
            let version = body.and_then(|body| stated(body, "resourceVersion"));
            let is_current = version.is_none_or(|it| Some(&*it) == object.resource_version());
            let copy = self.objects.get(&about.0.copy);
            let is_ours = copy.is_some_and(|copy| {
                copy.annotation(FOREIGN).is_none() && copy.annotation(SOURCE).is_some()
            });
            if is_current && is_ours {
                problems.push("a source was released before its copy was gone");
            }
        }
        problems
    }

    fn store(&mut self, key: &Key, object: Option<Object>) -> Option<Arc<Object>> {
        self.version += 1;
        let now = object.map(|mut object| {
            let version = self.version.to_string();
            let metadata = object.metadata_mut();
            metadata.insert("resourceVersion".into(), version.into());
            Arc::new(object)
        });
        let before = match &now {
            Some(object) => self.objects.insert(key.clone(), Arc::clone(object)),
            None => self.objects.remove(key),
        };
        let name = |object: &Option<Arc<Object>>| Some(object.as_ref()?.label(NAME)?.to_owned());
        let (old, new) = (name(&before), name(&now));
        if old != new {
            if let Some(keys) = old.and_then(|old| self.named.get_mut(&old)) {
                keys.remove(key);
            }
            if let Some(new) = new {
                self.named.entry(new).or_default().insert(key.clone());
            }
        }
        self.logs[feed_of(key)].events.push(Event {
            version: self.version,
            key: key.clone(),
            before,
            now: now.clone(),
        });
        now
    }

    fn execute(&mut self, request: &Request) -> Answer {
        let executed = match request {
            Request::Read { key } => match self.objects.get(key) {
                Some(object) => Ok(Answer::Object(Arc::clone(object))),
                None => Ok(Answer::Gone),
            },
            Request::Find { scope, labels } => {
                let is_of = |key: &Key| {
                    key.side == scope.side && key.cluster == scope.cluster && key.kind == scope.kind
                };
                let fits = |(key, object): &(&Key, &Arc<Object>)| is_of(key) && labels.fit(object);
                let shared =
                    |(key, object): (&Key, &Arc<Object>)| (key.clone(), Arc::clone(object));
                let found = match labels.get(NAME) {
                    Some(name) => {
                        let keys = self.named.get(name).into_iter().flatten();
                        let named = keys.filter_map(|key| self.objects.get_key_value(key));
                        named.filter(fits).map(shared).collect()
                    }
                    None => self.objects.iter().filter(fits).map(shared).collect(),
                };
                Ok(Answer::Listed(found))
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
            Request::Delete { key, uid, .. } => self.remove(key, uid),
        };
        executed.unwrap_or_else(Answer::Failed)
    }

    fn create(&mut self, key: &Key, mut object: Object) -> Result<Answer, Failure> {
        if self.objects.contains_key(key) {
            return Err(Failure::AlreadyExists);
        }
        if has_status(key) {
            object.root_mut().remove("status");
        }
        let number = self.version + 1;
        let metadata = object.metadata_mut();
        metadata.insert("name".into(), (*key.name).into());
        metadata.insert("uid".into(), format!("u{number}").into());
        metadata.insert("creationTimestamp".into(), format!("{number:09}").into());
        metadata.insert("generation".into(), 1.into());
        Ok(self.stored(key, object))
    }

    fn stored(&mut self, key: &Key, object: Object) -> Answer {
        let stored = self.store(key, Some(object));
        Answer::Object(stored.expect("an object was stored"))
    }

    /// The preconditions of an update: its incarnation and its version.
    fn guard(&self, key: &Key, body: &Value) -> Result<Arc<Object>, Failure> {
        let old = self.objects.get(key).ok_or(Failure::NotFound)?;
        if stated(body, "uid").is_some_and(|uid| Some(&*uid) != old.uid()) {
            return Err(Failure::OtherIncarnation);
        }
        let version = stated(body, "resourceVersion");
        if version.is_some_and(|it| Some(&*it) != old.resource_version()) {
            return Err(Failure::Conflict);
        }
        Ok(Arc::clone(old))
    }

    fn update(
        &mut self,
        key: &Key,
        body: &Value,
        change: impl FnOnce(&Object) -> Value,
    ) -> Result<Answer, Failure> {
        let old = self.guard(key, body)?;
        let Ok(mut new) = Object::new(change(&old)) else {
            return Err(Failure::Invalid("not an object".to_owned()));
        };
        if has_status(key) {
            keep(&mut new, &old, "status");
            if new.root().get("spec") != old.root().get("spec") {
                let generation = old.as_value()["metadata"]["generation"].as_u64();
                let next = generation.unwrap_or_default() + 1;
                new.metadata_mut().insert("generation".into(), next.into());
            }
        }
        Ok(self.settle(key, &old, new))
    }

    fn update_status(&mut self, key: &Key, object: &Object) -> Result<Answer, Failure> {
        if !has_status(key) {
            return Err(Failure::NotFound);
        }
        let old = self.guard(key, object.as_value())?;
        let mut new = Object::clone(&old);
        keep(&mut new, object, "status");
        Ok(self.settle(key, &old, new))
    }

    fn settle(&mut self, key: &Key, old: &Object, mut new: Object) -> Answer {
        let metadata = new.metadata_mut();
        for field in [
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
        ] {
            match old.as_value()["metadata"].get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        }
        for map in ["labels", "annotations", "finalizers"] {
            let is_empty = |value: &Value| {
                value.as_object().is_some_and(Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            if metadata.get(map).is_some_and(is_empty) {
                metadata.remove(map);
            }
        }
        if new.in_deletion() && new.finalizers().next().is_none() {
            self.store(key, None);
            return Answer::Object(Arc::new(new));
        }
        if new == *old {
            return Answer::Object(Arc::new(new));
        }
        self.stored(key, new)
    }

    fn remove(&mut self, key: &Key, uid: &str) -> Result<Answer, Failure> {
        let Some(old) = self.objects.get(key) else {
            return Ok(Answer::Gone);
        };
        if old.uid() != Some(uid) {
            return Err(Failure::OtherIncarnation);
        }
        if old.finalizers().next().is_none() {
            self.store(key, None);
            return Ok(Answer::Gone);
        }
        if old.in_deletion() {
            return Ok(Answer::Object(Arc::clone(old)));
        }
        let mut new = Object::clone(old);
        let now = json!("now");
        new.metadata_mut().insert("deletionTimestamp".into(), now);
        Ok(self.stored(key, new))
    }
}

/// Takes a field from another object.
fn keep(object: &mut Object, from: &Object, field: &str) {
    match from.root().get(field) {
        Some(value) => object.root_mut().insert(field.into(), value.clone()),
        None => object.root_mut().remove(field),
    };
}
