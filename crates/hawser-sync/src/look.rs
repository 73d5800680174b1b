//! The view of a pass: the caches, overlaid with the answers of this pass.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_lang::object::Object;

use super::facts::Facts;
use super::fingerprint::Fingerprint;
use super::key::{Key, Labels, Scope};
use super::request::{Answer, Failure, Request, RequestId};
use super::settled::Settled;
use super::view::{Found, Freshness, Note, Question, Seen, View};

/// The caches that a pass reads.
pub trait Store: Sync {
    fn get(&self, key: &Key) -> Seen;
    fn find(&self, scope: &Scope, labels: &Labels) -> Found;
    /// Whether the deletion of this object was seen as an event.
    fn saw_deletion(&self, key: &Key) -> bool;
    /// Whether the object was in deletion, or had no finalizer, at that event. Otherwise it can only have been hidden.
    fn saw_end(&self, key: &Key) -> bool;
    /// The fingerprint of an object that was read: [`Fingerprint::of`], unless the store keeps it.
    fn fingerprint_of(&self, key: &Key, object: &Object) -> Fingerprint;
}

type List = Vec<(Key, Arc<Object>)>;

/// The view of one pass.
pub struct PassView<'a> {
    store: &'a dyn Store,
    seen: HashMap<Key, Option<Arc<Object>>>,
    found: HashMap<(Scope, Labels), List>,
    stale: HashSet<Key>,
    /// Objects whose creation was not answered: it may have been carried out.
    doubted: HashSet<Key>,
    /// How often objects were read because a write showed that the cache was stale.
    looked_again: HashMap<Key, u8>,
    failed: HashMap<RequestId, Failure>,
    /// Creates that fail until this namespace has been read.
    homeless: HashMap<RequestId, Key>,
    /// Objects that are not written again in this pass, with the answer to the last write.
    given_up: HashMap<Key, Failure>,
    last_write: HashMap<Key, RequestId>,
    /// Written objects, as they were before the first write.
    before: HashMap<Key, Seen>,
    /// Objects that could not be created because they existed.
    there: HashSet<Key>,
    /// The uids of created objects.
    created: HashMap<Key, Arc<str>>,
    /// The first answers of the caches. A pass works on one state of them, even if events arrive meanwhile: the memory
    /// at its end records exactly the changes that it copied. New events cause another pass.
    caches: RefCell<Answers>,
    facts: Facts,
    asked: RefCell<(Vec<Question>, HashSet<Question>)>,
    /// The last pass of this process over the subject, if it came to rest.
    rested: Option<&'a Settled>,
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
            stale: HashSet::new(),
            doubted: HashSet::new(),
            looked_again: HashMap::new(),
            failed: HashMap::new(),
            homeless: HashMap::new(),
            given_up: HashMap::new(),
            last_write: HashMap::new(),
            before: HashMap::new(),
            there: HashSet::new(),
            created: HashMap::new(),
            caches: RefCell::default(),
            facts: Facts::default(),
            asked: RefCell::default(),
            rested: None,
        }
    }

    pub(super) fn after(rested: Option<&'a Settled>, store: &'a dyn Store) -> Self {
        Self {
            rested,
            ..Self::new(store)
        }
    }

    /// The questions since the last call, whether answered or not.
    pub fn take_asked(&self) -> Vec<Question> {
        self.asked.take().0
    }

    fn ask(&self, question: Question) {
        let (asked, known) = &mut *self.asked.borrow_mut();
        if known.insert(question.clone()) {
            asked.push(question);
        }
    }

    /// The fingerprint of the answers of this pass.
    pub(super) fn fingerprint(&self, question: &Question) -> Option<Fingerprint> {
        match question {
            Question::Object(key) => match self.get(key) {
                Seen::Present(object) => Some(self.store.fingerprint_of(key, &object)),
                Seen::Absent => Some(Fingerprint::ABSENT),
                Seen::Unknown => None,
            },
            Question::Marked(scope, labels) => match self.find(scope, labels) {
                Found::All(all) => Some(Fingerprint::of_all(
                    all.iter()
                        .map(|(key, object)| self.store.fingerprint_of(key, object)),
                )),
                Found::Unknown => None,
            },
        }
    }

    fn stored(&self, key: &Key) -> Seen {
        let mut caches = self.caches.borrow_mut();
        let known = caches.objects.entry(key.clone());
        known.or_insert_with(|| self.store.get(key)).clone()
    }

    fn known(&self, key: &Key) -> Seen {
        match self.seen.get(key) {
            Some(Some(object)) => Seen::Present(Arc::clone(object)),
            Some(None) => Seen::Absent,
            None => self.stored(key),
        }
    }

    /// Overlays an answer.
    pub fn learn(&mut self, request: &Request, answer: Answer) {
        match answer {
            Answer::Failed(failure) => self.refused(request, failure),
            Answer::Listed(list) => {
                if let Request::Find { scope, labels } = request {
                    for (key, object) in &list {
                        self.observe(key, Some(Arc::clone(object)));
                    }
                    self.found.insert((scope.clone(), labels.clone()), list);
                }
            }
            Answer::Object(_) | Answer::Gone => {
                let Some(key) = request.key() else { return };
                if let (Request::Create { .. }, Answer::Object(object)) = (request, &answer)
                    && let Some(uid) = object.uid()
                {
                    self.created.insert(key.clone(), uid.into());
                }
                let object = match answer {
                    Answer::Object(object) => Some(object),
                    _ => None,
                };
                if request.writes() && !self.before.contains_key(key) {
                    self.before.insert(key.clone(), self.known(key));
                }
                self.observe(key, object);
                if request.writes() {
                    self.last_write.insert(key.clone(), request.ticket());
                }
            }
        }
    }

    fn observe(&mut self, key: &Key, object: Option<Arc<Object>>) {
        self.stale.remove(key);
        self.doubted.remove(key);
        self.homeless.retain(|ticket, namespace| {
            let waits = namespace != key;
            if !waits {
                self.failed.remove(ticket);
            }
            waits
        });
        self.seen.insert(key.clone(), object);
    }

    /// Whether the object of a request may be read again: once, or a few times more to replace it if this pass has created
    /// something. No other pass knows that it was created here, and another process may write the memory that has to say so.
    fn may_look_again(&mut self, request: &Request, key: &Key) -> bool {
        let replaces = matches!(request, Request::Replace { .. });
        let most = if replaces && !self.created.is_empty() {
            4
        } else {
            1
        };
        let looks = self.looked_again.entry(key.clone()).or_default();
        *looks += 1;
        *looks <= most
    }

    /// Stores a failure. If a write shows that the cache is stale, its object is read again, and the write may be
    /// repeated. Other failures, and further ones, are left to another pass: an overloaded server does not get the same
    /// request again at once.
    fn refused(&mut self, request: &Request, failure: Failure) {
        let ticket = request.ticket();
        if let (true, Some(key)) = (request.writes(), request.key()) {
            if failure == Failure::AlreadyExists {
                self.there.insert(key.clone());
            }
            match (&failure, request) {
                // An earlier absence proves nothing now.
                (Failure::Unavailable(_), Request::Create { .. }) => {
                    self.doubted.insert(key.clone());
                    self.given_up.insert(key.clone(), failure.clone());
                }
                // If a create is answered with 404, its namespace is missing.
                (Failure::NotFound, Request::Create { .. }) => {
                    if let Some(namespace) = key.namespace_key()
                        && self.may_look_again(request, &namespace)
                    {
                        self.stale.insert(namespace.clone());
                        self.homeless.insert(ticket, namespace);
                    }
                }
                // The kind has no status subresource.
                (Failure::NotFound, Request::ReplaceStatus { .. }) => {}
                (failure, _) if failure.is_conflict() && self.may_look_again(request, key) => {
                    self.stale.insert(key.clone());
                    return;
                }
                // It is unknown whether a write without an answer took effect, and an object that is not found cannot
                // be written.
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
        self.ask(Question::Object(key.clone()));
        self.known(key)
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.ask(Question::Marked(scope.clone(), labels.clone()));
        let list = (scope.clone(), labels.clone());
        let mut all = if let Some(listed) = self.found.get(&list) {
            listed.clone()
        } else {
            let mut caches = self.caches.borrow_mut();
            let stored = caches.lists.entry(list);
            match stored.or_insert_with(|| self.store.find(scope, labels)) {
                Found::All(all) => all.clone(),
                Found::Unknown => return Found::Unknown,
            }
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

    fn freshness(&self, key: &Key) -> Freshness {
        if self.stale.contains(key) {
            Freshness::Stale
        } else if self.doubted.contains(key) {
            Freshness::Cached
        } else if self.seen.contains_key(key)
            || (self.store.saw_deletion(key) && self.stored(key) == Seen::Absent)
        {
            Freshness::Live
        } else {
            Freshness::Cached
        }
    }

    fn ended(&self, key: &Key) -> bool {
        self.store.saw_end(key) && self.stored(key) == Seen::Absent
    }

    fn answered(&self, key: &Key) -> bool {
        self.seen.contains_key(key)
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
                // The 404 answered another request, so here it only shows that the cache is stale.
                Failure::NotFound => Failure::Conflict,
                failure => failure.clone(),
            })
        };
        failed.or_else(given_up).map(Note::Failed)
    }

    fn before(&self, key: &Key) -> Option<Seen> {
        self.before.get(key).cloned()
    }

    fn was_there(&self, key: &Key) -> bool {
        self.there.contains(key)
    }

    fn created(&self, key: &Key, object: &Object) -> bool {
        let created = self.created.get(key);
        created.is_some_and(|uid| object.uid() == Some(&**uid))
    }

    fn rested(&self, key: &Key, object: &Object) -> bool {
        let rested = self.rested.and_then(|it| it.object(key));
        rested.is_some_and(|rested| rested == self.store.fingerprint_of(key, object))
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }
}
