//! What a pass knows: the caches as they are, with the answers of this pass laid over them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::object::Object;

use super::decide::{Known, Question};
use super::request::{Answer, Failure, Request, Ticket};
use super::subject::{Key, Labels, Scope};
use super::view::{Found, Note, Proof, Seen, View};

/// The caches that a pass reads, and tells what it learns.
pub trait Store: Sync {
    fn get(&self, key: &Key) -> Seen;
    fn find(&self, scope: &Scope, labels: &Labels) -> Found;
    /// Whether the event was seen by which the object of this key went away.
    fn saw_deletion(&self, key: &Key) -> bool;
    /// Takes the answer to a request. The newest state of an object wins.
    fn learn(&self, request: &Request, answer: &Answer);
}

type List = Vec<(Key, Arc<Object>)>;

/// The view of one pass.
pub struct PassView<'a> {
    store: &'a dyn Store,
    seen: HashMap<Key, Option<Arc<Object>>>,
    found: HashMap<(Scope, Labels), List>,
    doubtful: HashSet<Key>,
    failed: HashMap<Ticket, (Failure, Option<Key>)>,
    last_write: HashMap<Key, Ticket>,
}

impl<'a> PassView<'a> {
    pub fn new(store: &'a dyn Store) -> Self {
        Self {
            store,
            seen: HashMap::new(),
            found: HashMap::new(),
            doubtful: HashSet::new(),
            failed: HashMap::new(),
            last_write: HashMap::new(),
        }
    }

    /// Lays an answer over what was known.
    pub fn learn(&mut self, request: &Request, answer: Answer) {
        self.store.learn(request, &answer);
        match answer {
            Answer::Object(object) => self.answered(request, Some(object)),
            Answer::Gone => self.answered(request, None),
            Answer::Listed(list) => {
                if let Request::Find { scope, labels } = request {
                    for (key, object) in &list {
                        self.observe(key, Some(Arc::clone(object)));
                    }
                    self.found.insert((scope.clone(), labels.clone()), list);
                    self.failed.remove(&request.ticket());
                }
            }
            Answer::Failed(failure) => self.refused(request, failure),
        }
    }

    fn answered(&mut self, request: &Request, object: Option<Arc<Object>>) {
        if let Some(key) = request.key() {
            self.observe(key, object);
            if request.writes() {
                self.last_write.insert(key.clone(), request.ticket());
            }
        }
    }

    fn observe(&mut self, key: &Key, object: Option<Arc<Object>>) {
        self.doubtful.remove(key);
        self.failed
            .retain(|_, (_, about)| about.as_ref() != Some(key));
        self.seen.insert(key.clone(), object);
    }

    fn refused(&mut self, request: &Request, failure: Failure) {
        let about = match (&failure, request) {
            // What a create does not find is the namespace.
            (Failure::NotFound, Request::Create { key, .. }) => key.namespace_key(),
            (Failure::NotFound, Request::ReplaceStatus { .. }) => None,
            (failure, request) if failure.look_again() && request.writes() => {
                self.doubtful.extend(request.key().cloned());
                return;
            }
            (_, request) => request.key().cloned(),
        };
        if failure == Failure::NotFound {
            self.doubtful.extend(about.clone());
        }
        // A write without an answer may have been executed.
        if matches!(failure, Failure::Unavailable(_)) && request.writes() {
            self.doubtful.extend(request.key().cloned());
        }
        self.failed.insert(request.ticket(), (failure, about));
    }
}

impl View for PassView<'_> {
    fn get(&self, key: &Key) -> Seen {
        match self.seen.get(key) {
            Some(Some(object)) => Seen::Present(Arc::clone(object)),
            Some(None) => Seen::Absent,
            None => self.store.get(key),
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        let listed = self.found.get(&(scope.clone(), labels.clone())).cloned();
        let mut all = match listed.map_or_else(|| self.store.find(scope, labels), Found::All) {
            Found::All(all) => all,
            Found::Unknown => return Found::Unknown,
        };
        all.retain(|(key, _)| !self.seen.contains_key(key));
        for (key, object) in &self.seen {
            let Some(object) = object else { continue };
            let marked = |(k, v): (&String, &String)| object.label(k) == Some(v);
            if key.scope() == *scope && labels.iter().all(marked) {
                all.push((key.clone(), Arc::clone(object)));
            }
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Found::All(all)
    }

    fn proof(&self, key: &Key) -> Proof {
        if self.doubtful.contains(key) {
            Proof::Doubtful
        } else if self.seen.contains_key(key)
            || (self.store.saw_deletion(key) && self.store.get(key) == Seen::Absent)
        {
            Proof::Witnessed
        } else {
            Proof::Cached
        }
    }

    fn note(&self, request: &Request) -> Option<Note> {
        let ticket = request.ticket();
        if let Some((failure, _)) = self.failed.get(&ticket) {
            return Some(Note::Failed(failure.clone()));
        }
        let last = request.key().and_then(|key| self.last_write.get(key));
        (request.writes() && last == Some(&ticket)).then_some(Note::Done)
    }
}

/// A view that notes what it is asked.
pub struct Listening<'a> {
    view: &'a dyn View,
    asked: RefCell<Vec<(Question, Known)>>,
}

impl<'a> Listening<'a> {
    pub fn new(view: &'a dyn View) -> Self {
        Self {
            view,
            asked: RefCell::new(Vec::new()),
        }
    }

    pub fn into_asked(self) -> Vec<(Question, Known)> {
        self.asked.into_inner()
    }

    /// Keeps the first answer: where a cache has changed since, the decision is not one about its
    /// present state.
    fn heard(&self, question: Question, known: impl FnOnce() -> Known) {
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|(before, _)| *before == question) {
            asked.push((question, known()));
        }
    }
}

impl View for Listening<'_> {
    fn get(&self, key: &Key) -> Seen {
        let seen = self.view.get(key);
        let known = || Known::Object(seen.clone());
        self.heard(Question::Object(key.clone()), known);
        seen
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        let found = self.view.find(scope, labels);
        let known = || Known::Marked(found.clone());
        self.heard(Question::Marked(scope.clone(), labels.clone()), known);
        found
    }

    fn proof(&self, key: &Key) -> Proof {
        self.view.proof(key)
    }

    fn note(&self, request: &Request) -> Option<Note> {
        self.view.note(request)
    }
}
