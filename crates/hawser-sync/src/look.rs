//! What a pass knows: the caches as they are, with the answers of this pass laid over them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_lang::object::Object;

use super::decide::Question;
use super::memo::Print;
use super::request::{Answer, Failure, Request, Ticket};
use super::subject::{Key, Labels, Scope};
use super::view::{Found, Note, Proof, Seen, View};

/// The caches that a pass reads, and tells what it learns.
pub trait Store: Sync {
    fn get(&self, key: &Key) -> Seen;
    fn find(&self, scope: &Scope, labels: &Labels) -> Found;
    /// Whether the event was seen by which the object of this key went away.
    fn saw_deletion(&self, key: &Key) -> bool;
    /// Whether the object of this key was in deletion, or held by nobody, when that event came: one that
    /// is held and not in deletion can only have been hidden.
    fn saw_end(&self, key: &Key) -> bool;
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
    /// What was looked at because a write to it showed that what was known is out of date. Once.
    looked_again: HashSet<Key>,
    failed: HashMap<Ticket, Failure>,
    /// Creates that fail for as long as this namespace is not looked at.
    homeless: HashMap<Ticket, Key>,
    /// What nothing more is written to in this pass, and what the last write was answered.
    given_up: HashMap<Key, Failure>,
    last_write: HashMap<Key, Ticket>,
    /// What the caches answered when they were asked first. A pass is about one state of them,
    /// whatever they are told meanwhile: what is remembered at its end is what was carried over in its
    /// middle, and what it came to is known by exactly that state. News make another pass.
    caches: RefCell<Answers>,
}

#[derive(Default)]
struct Answers {
    objects: HashMap<Key, Seen>,
    lists: HashMap<(Scope, Labels), Found>,
}

impl<'a> PassView<'a> {
    pub fn new(store: &'a dyn Store) -> Self {
        Self {
            store,
            seen: HashMap::new(),
            found: HashMap::new(),
            doubtful: HashSet::new(),
            looked_again: HashSet::new(),
            failed: HashMap::new(),
            homeless: HashMap::new(),
            given_up: HashMap::new(),
            last_write: HashMap::new(),
            caches: RefCell::default(),
        }
    }

    /// The print of what this pass was answered.
    pub(super) fn print(&self, question: &Question) -> Option<Print> {
        match question {
            Question::Object(key) => match self.get(key) {
                Seen::Present(object) => Some(Print::of(&object)),
                Seen::Absent => Some(Print::ABSENT),
                Seen::Unknown => None,
            },
            Question::Marked(scope, labels) => match self.find(scope, labels) {
                Found::All(all) => Some(Print::of_all(all.iter().map(|(_, o)| Print::of(o)))),
                Found::Unknown => None,
            },
        }
    }

    fn stored(&self, key: &Key) -> Seen {
        let mut caches = self.caches.borrow_mut();
        let known = caches.objects.entry(key.clone());
        known.or_insert_with(|| self.store.get(key)).clone()
    }

    fn stored_all(&self, scope: &Scope, labels: &Labels) -> Found {
        let mut caches = self.caches.borrow_mut();
        let known = caches.lists.entry((scope.clone(), labels.clone()));
        known
            .or_insert_with(|| self.store.find(scope, labels))
            .clone()
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
        self.homeless.retain(|ticket, namespace| {
            let waits = namespace != key;
            if !waits {
                self.failed.remove(ticket);
            }
            waits
        });
        self.seen.insert(key.clone(), object);
    }

    /// Takes a failure. A write that shows that what was known is out of date is followed by one look at
    /// its object, and may then be made once more. What else failed, or fails again, is for another pass:
    /// a server in trouble is not asked for the same again at once.
    fn refused(&mut self, request: &Request, failure: Failure) {
        let ticket = request.ticket();
        if let (true, Some(key)) = (request.writes(), request.key()) {
            match (&failure, request) {
                // What a create does not find is the namespace.
                (Failure::NotFound, Request::Create { .. }) => {
                    if let Some(namespace) = key.namespace_key()
                        && self.looked_again.insert(namespace.clone())
                    {
                        self.doubtful.insert(namespace.clone());
                        self.homeless.insert(ticket, namespace);
                    }
                }
                // A kind without a status to be written.
                (Failure::NotFound, Request::ReplaceStatus { .. }) => {}
                (failure, _) if failure.is_conflict() && self.looked_again.insert(key.clone()) => {
                    self.doubtful.insert(key.clone());
                    return;
                }
                // Whether a write without an answer was carried out is not known, and what is not there
                // cannot be written.
                (Failure::Unavailable(_) | Failure::NotFound, _) => {
                    self.given_up.insert(key.clone(), failure.clone());
                }
                (failure, _) if failure.is_conflict() => {
                    self.given_up.insert(key.clone(), failure.clone());
                }
                _ => {}
            }
        }
        self.failed.insert(ticket, failure);
    }
}

impl View for PassView<'_> {
    fn get(&self, key: &Key) -> Seen {
        match self.seen.get(key) {
            Some(Some(object)) => Seen::Present(Arc::clone(object)),
            Some(None) => Seen::Absent,
            None => self.stored(key),
        }
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        let listed = self.found.get(&(scope.clone(), labels.clone())).cloned();
        let mut all = match listed.map_or_else(|| self.stored_all(scope, labels), Found::All) {
            Found::All(all) => all,
            Found::Unknown => return Found::Unknown,
        };
        all.retain(|(key, _)| !self.seen.contains_key(key));
        for (key, object) in &self.seen {
            let Some(object) = object else { continue };
            if key.scope() == *scope && labels.fit(object) {
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
            || (self.store.saw_deletion(key) && self.stored(key) == Seen::Absent)
        {
            Proof::Witnessed
        } else {
            Proof::Cached
        }
    }

    fn ended(&self, key: &Key) -> bool {
        self.store.saw_end(key) && self.stored(key) == Seen::Absent
    }

    fn note(&self, request: &Request) -> Option<Note> {
        let ticket = request.ticket();
        let key = request.key().filter(|_| request.writes());
        if key.and_then(|key| self.last_write.get(key)) == Some(&ticket) {
            return Some(Note::Done);
        }
        let failed = self.failed.get(&ticket).cloned();
        let given_up = || {
            Some(match self.given_up.get(key?)? {
                // Of another request: that it is not found says nothing of this one.
                Failure::NotFound => Failure::Conflict,
                failure => failure.clone(),
            })
        };
        failed.or_else(given_up).map(Note::Failed)
    }

    fn wrote(&self, key: &Key) -> bool {
        self.last_write.contains_key(key)
    }
}

/// A view that notes what it is asked.
pub struct Listening<'a> {
    view: &'a dyn View,
    asked: RefCell<Vec<Question>>,
    known: RefCell<HashSet<Question>>,
}

impl<'a> Listening<'a> {
    pub fn new(view: &'a dyn View) -> Self {
        Self {
            view,
            asked: RefCell::default(),
            known: RefCell::default(),
        }
    }

    pub fn into_asked(self) -> Vec<Question> {
        self.asked.into_inner()
    }

    fn ask(&self, question: Question) {
        if self.known.borrow_mut().insert(question.clone()) {
            self.asked.borrow_mut().push(question);
        }
    }
}

impl View for Listening<'_> {
    fn get(&self, key: &Key) -> Seen {
        self.ask(Question::Object(key.clone()));
        self.view.get(key)
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.ask(Question::Marked(scope.clone(), labels.clone()));
        self.view.find(scope, labels)
    }

    fn proof(&self, key: &Key) -> Proof {
        self.view.proof(key)
    }

    fn ended(&self, key: &Key) -> bool {
        self.view.ended(key)
    }

    fn note(&self, request: &Request) -> Option<Note> {
        self.view.note(request)
    }

    fn wrote(&self, key: &Key) -> bool {
        self.view.wrote(key)
    }
}
