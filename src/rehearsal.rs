//! Passes over objects in memory: the requests that would be sent, and their results.
//!
//! For `hawser render`, for the writes of a pass that [`explain`](crate::explain) only tries, and for tests. Two maps
//! stand for the control planes; they execute the engine's requests like an API server, without schemas, admission or
//! authorization.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use hawser_sync::Labels;
use hawser_sync::{
    Answer, Cluster, Dialect, Failure, Fingerprint, Found, Key, Outcome, Report, Request, Scope,
    Seen, Step, Store, Subject, View, run,
};
use kube_lang::object::{Object, merge_patch};

/// The objects in memory.
#[derive(Debug, Default)]
pub struct Rehearsal(Mutex<RehearsalState>);

#[derive(Debug, Default)]
struct RehearsalState {
    objects: BTreeMap<Key, Arc<Object>>,
    gone: BTreeSet<Key>,
    /// The objects that exist but are hidden.
    concealed: BTreeMap<Key, Arc<Object>>,
    sent: Vec<Request>,
    clock: u64,
}

/// A subject that does not change.
struct FixedSubject<'a>(&'a Subject);

impl Dialect for FixedSubject<'_> {
    fn subject(&self, _view: &dyn View) -> Result<Subject, Vec<Request>> {
        Ok(self.0.clone())
    }

    fn report(&self, _subject: &Subject, _outcomes: &[Outcome], _view: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

impl Rehearsal {
    /// Stores an object; a missing uid and version are added.
    pub fn put(&self, key: &Key, object: &Object) {
        let mut state = self.0.lock();
        state.store(key, object.clone());
    }

    /// Changes an object like another writer.
    #[cfg(test)]
    pub fn patch(&self, key: &Key, patch: Value) -> Answer {
        let request = Request::Patch {
            key: key.clone(),
            patch,
        };
        self.0.lock().execute(&request)
    }

    /// Deletes an object like another writer.
    #[cfg(test)]
    pub fn delete(&self, key: &Key) -> Answer {
        let uid = self.object(key).and_then(|o| o.uid().map(Arc::from));
        let request = Request::delete(key.clone(), uid.unwrap_or_default());
        self.0.lock().execute(&request)
    }

    /// Hides an object without a deletion event.
    #[cfg(test)]
    pub fn hide(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.lock().objects.remove(key)
    }

    /// Takes an object out of what a claim's selector covers: it looks deleted, and its name is taken.
    #[cfg(test)]
    pub fn conceal(&self, key: &Key) {
        let mut state = self.0.lock();
        let object = state.objects.get(key).cloned();
        state.remove(key);
        state
            .concealed
            .extend(object.map(|object| (key.clone(), object)));
    }

    /// Shows a concealed object again.
    #[cfg(test)]
    pub fn reveal(&self, key: &Key) {
        let mut state = self.0.lock();
        if let Some(object) = state.concealed.remove(key) {
            state.store(key, Object::clone(&object));
        }
    }

    /// Deletes a concealed object.
    #[cfg(test)]
    pub fn delete_concealed(&self, key: &Key) {
        self.0.lock().concealed.remove(key);
    }

    pub fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.lock().objects.get(key).cloned()
    }

    /// All objects.
    #[cfg(test)]
    pub fn objects(&self) -> BTreeMap<Key, Arc<Object>> {
        self.0.lock().objects.clone()
    }

    /// One pass of a subject, and the requests that it sent.
    pub fn pass(&self, subject: &Subject) -> (Report, Vec<Request>) {
        self.pass_of(&FixedSubject(subject))
    }

    /// One pass of a dialect, and the requests that it sent.
    pub fn pass_of(&self, front: &impl Dialect) -> (Report, Vec<Request>) {
        self.0.lock().sent.clear();
        let report = futures::executor::block_on(run(front, None, self, self));
        (report, std::mem::take(&mut self.0.lock().sent))
    }
}

impl RehearsalState {
    fn store(&mut self, key: &Key, mut object: Object) -> Arc<Object> {
        self.clock += 1;
        let clock = self.clock;
        let metadata = object.metadata_mut();
        metadata
            .entry("uid")
            .or_insert_with(|| format!("uid-{clock}").into());
        metadata.insert("resourceVersion".into(), clock.to_string().into());
        let object = Arc::new(object);
        self.gone.remove(key);
        self.objects.insert(key.clone(), Arc::clone(&object));
        object
    }

    fn execute(&mut self, request: &Request) -> Answer {
        match request {
            Request::Read { key } => match self.objects.get(key) {
                Some(object) => Answer::Object(Arc::clone(object)),
                None => Answer::Gone,
            },
            Request::Find { scope, labels } => Answer::Listed(self.found(scope, labels)),
            Request::Create { key, object } => {
                if self.objects.contains_key(key) || self.concealed.contains_key(key) {
                    return Answer::Failed(Failure::AlreadyExists);
                }
                Answer::Object(self.store(key, object.clone()))
            }
            Request::Patch { key, patch } => {
                let Some(now) = self.objects.get(key) else {
                    return Answer::Failed(Failure::NotFound);
                };
                if let Some(failure) = precondition(now, patch) {
                    return Answer::Failed(failure);
                }
                let mut value = now.as_value().clone();
                merge_patch::apply(&mut value, patch);
                self.replace(key, value)
            }
            Request::Replace { key, object } | Request::ReplaceStatus { key, object } => {
                let Some(now) = self.objects.get(key) else {
                    return Answer::Failed(Failure::NotFound);
                };
                if let Some(failure) = precondition(now, object.as_value()) {
                    return Answer::Failed(failure);
                }
                let mut value = object.as_value().clone();
                if matches!(request, Request::ReplaceStatus { .. }) {
                    let status = value.get("status").cloned();
                    value = now.as_value().clone();
                    if let Some(root) = value.as_object_mut() {
                        match status {
                            Some(status) => root.insert("status".into(), status),
                            None => root.remove("status"),
                        };
                    }
                }
                self.replace(key, value)
            }
            Request::Delete { key, uid, .. } => self.delete(key, uid),
        }
    }

    fn replace(&mut self, key: &Key, value: Value) -> Answer {
        match Object::new(value) {
            Ok(object) if object.in_deletion() && object.finalizers().next().is_none() => {
                self.remove(key);
                Answer::Object(Arc::new(object))
            }
            Ok(object) => Answer::Object(self.store(key, object)),
            Err(error) => Answer::Failed(Failure::Invalid(error.to_string())),
        }
    }

    fn delete(&mut self, key: &Key, uid: &str) -> Answer {
        let Some(now) = self.objects.get(key) else {
            return Answer::Gone;
        };
        if now.uid() != Some(uid) {
            return Answer::Failed(Failure::OtherIncarnation);
        }
        if now.finalizers().next().is_none() {
            self.remove(key);
            return Answer::Gone;
        }
        let mut object = Object::clone(now);
        let metadata = object.metadata_mut();
        metadata
            .entry("deletionTimestamp")
            .or_insert_with(|| "2026-01-01T00:00:00Z".into());
        Answer::Object(self.store(key, object))
    }

    fn remove(&mut self, key: &Key) {
        self.clock += 1;
        self.objects.remove(key);
        self.gone.insert(key.clone());
    }

    fn found(&self, scope: &Scope, labels: &Labels) -> Vec<(Key, Arc<Object>)> {
        let marked = |object: &Object| labels.fit(object);
        self.objects
            .iter()
            .filter(|(key, object)| key.scope() == *scope && marked(object))
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect()
    }
}

/// The precondition in a body.
fn precondition(now: &Object, body: &Value) -> Option<Failure> {
    let said = |field: &str| body.get("metadata")?.get(field)?.as_str();
    if said("uid").is_some_and(|uid| now.uid() != Some(uid)) {
        return Some(Failure::OtherIncarnation);
    }
    said("resourceVersion")
        .filter(|version| now.resource_version() != Some(version))
        .map(|_| Failure::Conflict)
}

impl Store for Rehearsal {
    fn get(&self, key: &Key) -> Seen {
        match self.object(key) {
            Some(object) => Seen::Present(object),
            None => Seen::Absent,
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        Found::All(self.0.lock().found(scope, labels))
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        self.0.lock().gone.contains(key)
    }

    fn saw_end(&self, key: &Key) -> bool {
        self.saw_deletion(key)
    }

    fn fingerprint_of(&self, _: &Key, object: &Object) -> Fingerprint {
        Fingerprint::of(object)
    }
}

impl Cluster for Rehearsal {
    async fn send(&self, request: &Request) -> Answer {
        let mut state = self.0.lock();
        state.sent.push(request.clone());
        state.execute(request)
    }
}
