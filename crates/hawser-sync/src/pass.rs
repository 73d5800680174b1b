//! The state of one decision: its questions, its steps, and the outcome of each link.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use kube_lang::object::{Missing, Object};

use super::drift::Drift;
use super::facts::Facts;
use super::key::{Finalizer, Key, LinkId};
use super::link::Link;
use super::memory::{CopyRecord, Entry, Memory};
use super::reason::{Code, Reason};
use super::request::{Effect, Failure, Request, Step};
use super::subject::Subject;
use super::view::{Freshness, Note, Seen, View};

/// The known state of an object, after a read was requested for a doubtful one.
pub(super) enum Lookup {
    Present(Arc<Object>),
    Absent,
    /// Not known well enough: this read comes first.
    Read(Request),
}

/// An entry to be remembered (`Some`) or forgotten (`None`).
pub(super) struct EntryUpdate(pub(super) Option<Entry>);

/// The wishes of a link in this decision, and its outcome.
pub(super) struct LinkDecision {
    pub(super) steps: Vec<(Request, Effect)>,
    pub(super) memory: Option<EntryUpdate>,
    /// Steps that follow once the entry is remembered, or cannot be.
    pub(super) behind: Option<(Request, Effect)>,
    pub(super) reason: Reason,
    pub(super) copy: Option<Key>,
    pub(super) current: bool,
    pub(super) drift: Option<Arc<Drift>>,
}

impl LinkDecision {
    pub(super) fn end(reason: impl Into<Reason>) -> Self {
        Self {
            steps: Vec::new(),
            memory: None,
            behind: None,
            reason: reason.into(),
            copy: None,
            current: false,
            drift: None,
        }
    }

    pub(super) fn step(request: Request, effect: Effect) -> Self {
        let code = if request.writes() {
            Code::Working
        } else {
            Code::NeedsToSee
        };
        Self {
            steps: vec![(request, effect)],
            ..Self::end(code)
        }
    }

    pub(super) fn read(request: Request) -> Self {
        Self::step(request, Effect::Looked)
    }

    pub(super) fn remember(entry: Option<Entry>) -> Self {
        Self {
            memory: Some(EntryUpdate(entry)),
            ..Self::end(Code::Working)
        }
    }

    /// Only the metadata of this object can be read: it is not changed.
    pub(super) fn unread(key: &Key, object: &Object) -> Self {
        Self::end(unread(key, object))
    }

    #[must_use]
    pub(super) fn of(mut self, copy: &Key) -> Self {
        self.copy = Some(copy.clone());
        self
    }

    /// Whether nothing is under way for this link.
    pub(super) fn ended(&self) -> bool {
        self.steps.is_empty() && self.memory.is_none()
    }
}

pub(super) struct Pass<'a> {
    pub(super) subject: &'a Subject,
    pub(super) view: &'a dyn View,
    /// The stored memory and its entries; set once it has been read.
    pub(super) stored: Option<Arc<Object>>,
    pub(super) memory: Arc<Memory>,
    pub(super) steps: Vec<Step>,
    pub(super) changes: BTreeMap<LinkId, Option<Entry>>,
    /// Steps that wait for the write of the memory.
    pub(super) behind: Vec<Step>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(subject: &'a Subject, view: &'a dyn View) -> Self {
        Self {
            subject,
            view,
            stored: None,
            memory: Arc::default(),
            steps: Vec::new(),
            changes: BTreeMap::new(),
            behind: Vec::new(),
        }
    }

    /// The known state of an object; `None` if nothing may be concluded.
    pub(super) fn lookup(&self, key: &Key) -> Lookup {
        let look = || Lookup::Read(Request::Read { key: key.clone() });
        match self.view.get(key) {
            _ if self.view.freshness(key) == Freshness::Stale => look(),
            Seen::Present(object) => Lookup::Present(object),
            Seen::Absent => Lookup::Absent,
            Seen::Unknown => look(),
        }
    }

    /// The certain state of an object: from a read or an answer of this pass.
    pub(super) fn lookup_live(&self, key: &Key) -> Lookup {
        match self.lookup(key) {
            Lookup::Read(request) => Lookup::Read(request),
            lookup if self.view.freshness(key) == Freshness::Live => lookup,
            _ => Lookup::Read(Request::Read { key: key.clone() }),
        }
    }

    /// Whether reading the object was forbidden in this pass.
    pub(super) fn forbids(&self, read: &Request) -> bool {
        matches!(self.failure(read), Some(Failure::Forbidden(_)))
    }

    pub(super) fn done(&self, request: &Request) -> bool {
        self.view.note(request) == Some(Note::Done)
    }

    pub(super) fn failure(&self, request: &Request) -> Option<Failure> {
        match self.view.note(request) {
            Some(Note::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    pub(super) fn facts(&self) -> &Facts {
        self.view.facts()
    }

    pub(super) fn entry(&self, link: &Link) -> Option<&Entry> {
        self.memory.entries.get(&link.id)
    }

    pub(super) fn remembers(&self) -> bool {
        self.subject.memory.is_some()
    }

    /// Whether another object was under this key before the first attempt to create the copy: the create was refused,
    /// and its intention was recorded in this pass, so that no earlier attempt can have succeeded.
    pub(super) fn was_taken(&self, link: &Link, key: &Key) -> bool {
        let Some(place) = self.subject.memory.as_ref() else {
            return false;
        };
        if !self.view.was_there(key) {
            return false;
        }
        match self.view.before(&place.key) {
            Some(Seen::Absent) => true,
            Some(Seen::Present(stored)) => {
                let memory = self.facts().memory(place, &stored, &self.subject.links);
                let copy = memory.entries.get(&link.id).map(|entry| &entry.copy);
                copy.is_none_or(|copy| *copy != CopyRecord::Unrecorded && !copy.may_be_created(key))
            }
            Some(Seen::Unknown) | None => false,
        }
    }

    /// Whether the memory was written in this pass.
    pub(super) fn wrote_memory(&self) -> bool {
        let place = self.subject.memory.as_ref();
        place.is_some_and(|place| self.view.before(&place.key).is_some())
    }

    /// Whether everything that the memory announces is known to be done, because a pass of this process came to rest
    /// with it.
    pub(super) fn rested(&self) -> bool {
        let memory = self.subject.memory.as_ref().zip(self.stored.as_ref());
        memory.is_some_and(|(place, stored)| self.view.rested(&place.key, stored))
    }

    /// Adds the wishes of a link; returns whether nothing is under way for it. Steps that have failed in this pass are
    /// not repeated: the failure becomes the link's reason.
    pub(super) fn take(&mut self, link: Option<&LinkId>, turn: &mut LinkDecision) -> bool {
        let mut ended = turn.memory.is_none();
        for (request, effect) in turn.steps.drain(..) {
            if let Some(failure) = self.failure(&request) {
                turn.reason = reason_of(&request, &failure);
                continue;
            }
            // The write succeeded in this pass, and another writer reverted it at once. It is not repeated within the
            // pass.
            if self.done(&request) {
                turn.reason = Code::TooManyChanges.into();
                continue;
            }
            ended = false;
            if !self.steps.iter().any(|step| step.request == request) {
                self.steps.push(Step {
                    link: link.cloned(),
                    request,
                    effect,
                });
            }
        }
        if let (Some(EntryUpdate(change)), Some(link)) = (turn.memory.take(), link) {
            self.changes.insert(link.clone(), change);
            if let Some((request, effect)) = turn.behind.take() {
                self.behind.push(Step {
                    link: Some(link.clone()),
                    request,
                    effect,
                });
            }
        }
        ended
    }
}

/// The reason of a link whose request failed.
pub(super) fn reason_of(request: &Request, failure: &Failure) -> Reason {
    let code = match failure {
        Failure::Invalid(_) => Code::Invalid,
        Failure::TooLarge => Code::TooLarge,
        Failure::NamespaceTerminating => Code::WaitingForNamespace,
        Failure::NotFound if matches!(request, Request::ReplaceStatus { .. }) => {
            Code::StatusNotServed
        }
        Failure::NotFound if matches!(request, Request::Create { .. }) => Code::NamespaceMissing,
        _ if !request.writes() => Code::NotSeen,
        Failure::Forbidden(_) => Code::Forbidden,
        Failure::Held(_) => Code::Held,
        Failure::Paused(_) => Code::Paused,
        Failure::NotSent(_) => Code::NotSeen,
        Failure::Early => Code::SourceNotQuiet,
        Failure::Contested(_) => Code::Contested,
        Failure::Unavailable(_) => Code::NoAnswer,
        Failure::NotFound
        | Failure::Conflict
        | Failure::AlreadyExists
        | Failure::OtherIncarnation => Code::TooManyChanges,
    };
    let about = request.key().map(ToString::to_string).unwrap_or_default();
    Reason::new(code, format!("{} {about}: {failure}", request.verb()))
}

/// The reason of a link whose write had another effect than intended. It is retried with back-off, and not twice in one
/// pass.
pub(super) fn stored_otherwise(key: &Key) -> Reason {
    Reason::new(Code::StoredOtherwise, key.to_string())
}

/// The reason of a link that needs an object of which only a fragment is known.
pub fn unread(key: &Key, object: &Object) -> Reason {
    let code = match object.missing() {
        Some(Missing::LeftOut) => Code::CacheLimitExceeded,
        Some(Missing::TooDeep) | None => Code::TooDeep,
    };
    Reason::new(code, key.to_string())
}

/// The patch that adds the finalizer to an object.
pub(super) fn add_finalizer(key: &Key, object: &Object, finalizer: &Finalizer) -> Request {
    let mut list: Vec<&str> = object.finalizers().collect();
    list.push(&finalizer.0);
    list.sort_unstable();
    list.dedup();
    patch_version(key, object, json!({"metadata": {"finalizers": list}}))
}

/// The patch that removes the finalizer from an object.
pub(super) fn remove_finalizer(key: &Key, object: &Object, finalizer: &Finalizer) -> Request {
    let list: Vec<&str> = object
        .finalizers()
        .filter(|f| *f != &*finalizer.0)
        .collect();
    patch_version(key, object, json!({"metadata": {"finalizers": list}}))
}

/// The next foreign finalizer to remove from an object. If that fails, it stays: another program may have to decide
/// about it, and it must not block anything.
pub(super) fn drop_foreign_finalizer(
    pass: &Pass<'_>,
    link: &Link,
    key: &Key,
    object: &Object,
) -> Option<LinkDecision> {
    let without = without_foreign_finalizers(link, object)?;
    let request = if object.is_fragment() {
        let left: Vec<_> = without.finalizers().collect();
        patch_version(key, object, json!({"metadata": {"finalizers": left}}))
    } else {
        Request::Replace {
            key: key.clone(),
            object: without,
        }
    };
    (pass.failure(&request).is_none() && !pass.done(&request))
        .then(|| LinkDecision::step(request, Effect::Shed))
}

/// An object without the finalizers to be removed; `None` if it has none of them.
pub(super) fn without_foreign_finalizers(link: &Link, object: &Object) -> Option<Object> {
    let foreign = &link.policy.foreign_finalizers;
    if !foreign.iter().any(|f| object.has_finalizer(&f.0)) {
        return None;
    }
    let left: Vec<Value> = object
        .finalizers()
        .filter(|f| !foreign.iter().any(|one| *one.0 == **f))
        .map(Into::into)
        .collect();
    let mut object = object.clone();
    let metadata = object.metadata_mut();
    if left.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), left.into());
    }
    Some(object)
}

/// A merge patch for this incarnation of an object, whatever its version.
pub(super) fn patch_uid(key: &Key, object: &Object, mut patch: Value) -> Request {
    if let Some(uid) = object.uid() {
        patch["metadata"]["uid"] = uid.into();
    }
    Request::Patch {
        key: key.clone(),
        patch,
    }
}

/// A merge patch for exactly this version of an object.
pub(super) fn patch_version(key: &Key, object: &Object, mut patch: Value) -> Request {
    if let Some(version) = object.resource_version() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    patch_uid(key, object, patch)
}

/// The reason while an object is in deletion, with what holds it.
pub(super) fn waiting_for_deletion(object: &Object) -> Reason {
    let finalizers: Vec<&str> = object.finalizers().collect();
    let detail = match &*finalizers {
        [] => String::new(),
        [one] => format!("finalizer {one}"),
        [first, second] => format!("finalizers {first}, {second}"),
        [first, rest @ ..] => format!("finalizer {first} and {} others", rest.len()),
    };
    Reason::new(Code::WaitingForDeletion, detail)
}
