//! A model of a cloud and a robot, and of caches that lag behind both. Plain maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::definition::{Definition, Plane, SPEC_SOURCE, Settings, Status, compile};
use super::rules::{Id, side, subject_of};
use super::status::LinkedUids;
use hawser_sync::Labels;
use hawser_sync::{
    Answer, Cluster, Dialect, Failure, Fingerprint, Found, Key, Outcome, Report, Request, Scope,
    Seen, Step, Store, Subject, View, run,
};
use kube_lang::object::Object;

/// The fate of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    LostBefore,
    LostAfter,
    Refused,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Object>,
    clock: u64,
    faults: Vec<Fault>,
    log: Vec<String>,
}

pub(super) struct Model {
    pub(super) definition: Arc<Definition>,
    state: Mutex<State>,
    /// The state of the caches.
    cached: Mutex<BTreeMap<Key, Object>>,
    /// The incarnations that were seen together; forgotten by a restart.
    pairs: Mutex<BTreeMap<Id, LinkedUids>>,
}

/// A definition with these annotations, compiled.
pub(super) fn definition(status: Status, annotations: &Value, settings: Settings) -> Definition {
    let subresources = match status {
        Status::Subresource => json!({"status": {}}),
        Status::InObject => json!({}),
    };
    let mut all = json!({SPEC_SOURCE: "cloud"});
    for (name, value) in annotations.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    let crd = json!({
        "metadata": {"name": "missions.example.com", "annotations": all},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "missions", "kind": "Mission"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": subresources}],
        },
    });
    compile(&crd, &Arc::new(settings)).unwrap().unwrap()
}

impl Model {
    pub(super) fn new(definition: Definition) -> Self {
        Self {
            definition: Arc::new(definition),
            state: Mutex::default(),
            cached: Mutex::default(),
            pairs: Mutex::default(),
        }
    }

    pub(super) fn key(&self, plane: Plane, name: &str) -> Key {
        id(name).at(&self.definition, plane)
    }

    pub(super) fn get(&self, plane: Plane, name: &str) -> Option<Object> {
        self.state
            .lock()
            .objects
            .get(&self.key(plane, name))
            .cloned()
    }

    /// Puts or changes an object as people and controllers do.
    pub(super) fn put(&self, plane: Plane, name: &str, change: &Value) {
        let key = self.key(plane, name);
        let mut state = self.state.lock();
        let before = state.objects.get(&key).cloned();
        let mut object = before.unwrap_or_else(|| {
            let mut object = Object::empty(&key.kind, Some("default"), name);
            state.clock += 1;
            let uid = format!("u{}", state.clock);
            object.metadata_mut().insert("uid".into(), uid.into());
            object.metadata_mut().insert("generation".into(), 0.into());
            object
        });
        let mut value = object.as_value().clone();
        kube_lang::object::merge_patch::apply(&mut value, change);
        if value.get("spec") != object.as_value().get("spec") {
            let generation = value["metadata"]["generation"].as_u64().unwrap_or_default();
            value["metadata"]["generation"] = (generation + 1).into();
        }
        object = Object::new(value).unwrap();
        state.store(&key, Some(object));
    }

    pub(super) fn delete(&self, plane: Plane, name: &str) {
        let key = self.key(plane, name);
        self.state.lock().delete(&key);
    }

    pub(super) fn fault(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    pub(super) fn heal(&self) {
        self.state.lock().faults.clear();
    }

    /// The requests since the last call.
    pub(super) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().log)
    }

    /// The caches see the current state of one object.
    pub(super) fn hear(&self, plane: Plane, name: &str) {
        let key = self.key(plane, name);
        let now = self.state.lock().objects.get(&key).cloned();
        let mut cached = self.cached.lock();
        match now {
            Some(object) => cached.insert(key, object),
            None => cached.remove(&key),
        };
    }

    pub(super) fn restart(&self) {
        self.pairs.lock().clear();
        *self.cached.lock() = self.state.lock().objects.clone();
    }

    pub(super) fn pass(&self, name: &str) -> Report {
        let front = Front {
            definition: &self.definition,
            id: id(name),
            seen: self.pairs.lock().get(&id(name)).cloned(),
        };
        let report = futures::executor::block_on(run(&front, None, self, self));
        let of = |plane| self.cached.lock().get(&self.key(plane, name)).cloned();
        let (source, copy) = (self.definition.owner, self.definition.owner.other());
        if let (Some(source), Some(copy)) = (of(source), of(copy))
            && !copy.in_deletion()
            && let Some(pair) = LinkedUids::of(&source, &copy)
        {
            self.pairs.lock().insert(id(name), pair);
        }
        report
    }

    /// Repeats events of both sides and passes until nothing is sent any more.
    pub(super) fn settle(&self, name: &str) {
        for _ in 0..12 {
            self.hear(Plane::Cloud, name);
            self.hear(Plane::Robot, name);
            if self.pass(name).requests == 0 {
                return;
            }
        }
        panic!("{name} never comes to rest: {:#?}", self.requests());
    }
}

pub(super) fn id(name: &str) -> Id {
    Id {
        namespace: Some("default".into()),
        name: name.into(),
    }
}

struct Front<'a> {
    definition: &'a Arc<Definition>,
    id: Id,
    seen: Option<LinkedUids>,
}

impl Dialect for Front<'_> {
    fn subject(&self, _: &dyn View) -> Result<Subject, Vec<Request>> {
        Ok(subject_of(self.definition, &self.id, self.seen.clone()))
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

impl Store for Model {
    fn get(&self, key: &Key) -> Seen {
        // Nobody watches anything else.
        if key.kind != self.definition.kind {
            return Seen::Unknown;
        }
        let cached = self.cached.lock();
        cached.get(key).map_or(Seen::Absent, |object| {
            Seen::Present(Arc::new(object.clone()))
        })
    }

    fn find(&self, _: &Scope, _: &Labels) -> Found {
        Found::Unknown
    }

    fn saw_deletion(&self, _: &Key) -> bool {
        false
    }

    fn saw_end(&self, _: &Key) -> bool {
        false
    }

    fn fingerprint_of(&self, _: &Key, object: &Object) -> Fingerprint {
        Fingerprint::of(object)
    }
}

impl Cluster for Model {
    async fn send(&self, request: &Request) -> Answer {
        let key = request.key().expect("nothing is searched for").clone();
        let mut state = self.state.lock();
        state.log.push(format!("{} {}", request.verb(), key.side));
        let cloud = key.side == side(Plane::Cloud);
        if cloud && matches!(request, Request::Read { .. }) {
            return Answer::Failed(Failure::Unavailable("not allowed here".to_owned()));
        }
        let lost = Answer::Failed(Failure::Unavailable("lost".to_owned()));
        let fault = if request.writes() {
            state.faults.pop()
        } else {
            None
        };
        match fault {
            Some(Fault::LostBefore) => return lost,
            Some(Fault::Refused) => return Answer::Failed(Failure::Forbidden("no".to_owned())),
            _ => {}
        }
        let answer = state.execute(&self.definition, request, &key);
        if fault == Some(Fault::LostAfter) {
            return lost;
        }
        let mut cached = self.cached.lock();
        match &answer {
            Answer::Object(object) => cached.insert(key, Object::clone(object)),
            Answer::Gone => cached.remove(&key),
            _ => None,
        };
        answer
    }
}

impl State {
    fn store(&mut self, key: &Key, object: Option<Object>) -> Answer {
        self.clock += 1;
        let Some(mut object) = object else {
            self.objects.remove(key);
            return Answer::Gone;
        };
        if object.in_deletion() && object.finalizers().next().is_none() {
            self.objects.remove(key);
            return Answer::Object(Arc::new(object));
        }
        let version = self.clock.to_string();
        object
            .metadata_mut()
            .insert("resourceVersion".into(), version.into());
        self.objects.insert(key.clone(), object.clone());
        Answer::Object(Arc::new(object))
    }

    fn delete(&mut self, key: &Key) -> Answer {
        let Some(mut object) = self.objects.get(key).cloned() else {
            return Answer::Gone;
        };
        if object.finalizers().next().is_none() {
            return self.store(key, None);
        }
        let now = "2026-01-01T00:00:00Z";
        object
            .metadata_mut()
            .insert("deletionTimestamp".into(), now.into());
        self.store(key, Some(object))
    }

    fn execute(&mut self, definition: &Definition, request: &Request, key: &Key) -> Answer {
        let failed = Answer::Failed;
        let now = self.objects.get(key).cloned();
        match (request, now) {
            (Request::Read { .. }, Some(now)) => Answer::Object(Arc::new(now)),
            (Request::Read { .. } | Request::Delete { .. }, None) => Answer::Gone,
            (Request::Create { .. }, Some(_)) => failed(Failure::AlreadyExists),
            (Request::Create { object, .. }, None) => {
                let mut object = object.clone();
                let uid = format!("u{}", self.clock + 1);
                object.metadata_mut().insert("uid".into(), uid.into());
                object.metadata_mut().insert("generation".into(), 1.into());
                if definition.status == Status::Subresource {
                    object.root_mut().remove("status");
                }
                self.store(key, Some(object))
            }
            (Request::Delete { uid, .. }, Some(now)) => {
                if now.uid() != Some(uid) {
                    return failed(Failure::OtherIncarnation);
                }
                self.delete(key)
            }
            (Request::Replace { .. } | Request::ReplaceStatus { .. }, None) => {
                failed(Failure::NotFound)
            }
            (Request::Replace { object, .. }, Some(now)) => {
                self.replace(definition, key, object, &now, Part::Content)
            }
            (Request::ReplaceStatus { object, .. }, Some(now)) => {
                if definition.status == Status::InObject {
                    return failed(Failure::NotFound);
                }
                self.replace(definition, key, object, &now, Part::Status)
            }
            (Request::Find { .. } | Request::Patch { .. }, _) => {
                panic!("{} is never to be sent", request.verb())
            }
        }
    }

    fn replace(
        &mut self,
        definition: &Definition,
        key: &Key,
        object: &Object,
        now: &Object,
        part: Part,
    ) -> Answer {
        if object.resource_version() != now.resource_version() || object.uid() != now.uid() {
            return Answer::Failed(Failure::Conflict);
        }
        let mut next = match part {
            Part::Content => object.clone(),
            Part::Status => now.clone(),
        };
        let keeps_status = part == Part::Content && definition.status == Status::Subresource;
        let status = if keeps_status { now } else { object };
        match status.root().get("status") {
            Some(status) => next.root_mut().insert("status".into(), status.clone()),
            None => next.root_mut().remove("status"),
        };
        if next.root().get("spec") != now.root().get("spec") {
            let generation = now.root()["metadata"]["generation"]
                .as_u64()
                .unwrap_or_default();
            next.metadata_mut()
                .insert("generation".into(), (generation + 1).into());
        }
        if next == *now {
            return Answer::Object(Arc::new(next));
        }
        self.store(key, Some(next))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Content,
    Status,
}
