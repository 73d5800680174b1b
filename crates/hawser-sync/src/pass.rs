//! One decision while it is being made: what it has asked, what it wants done, what each link
//! gets to hear.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use kube_lang::object::Object;

use super::decide::Question;
use super::look::Listening;
use super::memo::Print;
use super::memory::{Entry, Memory};
use super::reason::{Code, Reason};
use super::request::{Effect, Failure, Request, Step};
use super::subject::{Finalizer, Key, Labels, Link, LinkId, Scope, Subject};
use super::view::{Found, Note, Proof, Seen, View};

/// What is known of an object, after everything doubtful was sent to be looked at.
pub(super) enum Sight {
    Present(Arc<Object>),
    Absent,
    /// A live read is needed first.
    Look(Request),
}

/// An entry to be remembered (`Some`) or forgotten (`None`).
#[derive(Clone)]
pub(super) struct Change(pub(super) Option<Entry>);

/// What a link wants in this decision, and where it stands.
pub(super) struct Turn {
    pub(super) steps: Vec<(Request, Effect)>,
    pub(super) memory: Option<Change>,
    /// What is to be done once that is remembered, or cannot be.
    pub(super) behind: Option<(Request, Effect)>,
    pub(super) reason: Reason,
    pub(super) copy: Option<Key>,
}

impl Turn {
    pub(super) fn end(reason: impl Into<Reason>) -> Self {
        Self {
            steps: Vec::new(),
            memory: None,
            behind: None,
            reason: reason.into(),
            copy: None,
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

    pub(super) fn look(request: Request) -> Self {
        Self::step(request, Effect::Looked)
    }

    pub(super) fn remember(entry: Option<Entry>) -> Self {
        Self {
            memory: Some(Change(entry)),
            ..Self::end(Code::Working)
        }
    }

    /// Of this object no more can be read than its metadata: it stays as it is.
    pub(super) fn too_deep(key: &Key) -> Self {
        Self::end(too_deep(key))
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
    view: Listening<'a>,
    /// The stored memory and what it says; set once it has been seen.
    pub(super) stored: Option<Arc<Object>>,
    pub(super) memory: Memory,
    pub(super) steps: Vec<Step>,
    pub(super) changes: BTreeMap<LinkId, Option<Entry>>,
    /// What waits for the memory to be written.
    pub(super) behind: Vec<Step>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(subject: &'a Subject, view: &'a dyn View) -> Self {
        Self {
            subject,
            view: Listening::new(view),
            stored: None,
            memory: Memory::default(),
            steps: Vec::new(),
            changes: BTreeMap::new(),
            behind: Vec::new(),
        }
    }

    pub(super) fn into_asked(self) -> (Vec<Step>, Vec<Question>) {
        (self.steps, self.view.into_asked())
    }

    pub(super) fn get(&self, key: &Key) -> Seen {
        self.view.get(key)
    }

    pub(super) fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.view.find(scope, labels)
    }

    pub(super) fn proof(&self, key: &Key) -> Proof {
        self.view.proof(key)
    }

    /// What is known of an object, where nothing may be concluded from not knowing.
    pub(super) fn see(&self, key: &Key) -> Sight {
        let look = || Sight::Look(Request::Read { key: key.clone() });
        match self.get(key) {
            _ if self.proof(key) == Proof::Doubtful => look(),
            Seen::Present(object) => Sight::Present(object),
            Seen::Absent => Sight::Absent,
            Seen::Unknown => look(),
        }
    }

    /// What is known of an object for certain: from a read or an answer of this pass.
    pub(super) fn witness(&self, key: &Key) -> Sight {
        match self.see(key) {
            Sight::Look(request) => Sight::Look(request),
            sight if self.proof(key) == Proof::Witnessed => sight,
            _ => Sight::Look(Request::Read { key: key.clone() }),
        }
    }

    /// Whether an object that is absent was seen to end.
    pub(super) fn ended(&self, key: &Key) -> bool {
        self.view.ended(key)
    }

    /// Whether an object may not be read, as far as this pass has tried.
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

    pub(super) fn entry(&self, link: &Link) -> Option<&Entry> {
        self.memory.entries.get(&link.id)
    }

    pub(super) fn remembers(&self) -> bool {
        self.subject.memory.is_some()
    }

    /// Whether the memory was written in this pass.
    pub(super) fn wrote_memory(&self) -> bool {
        let place = self.subject.memory.as_ref();
        place.is_some_and(|place| self.view.wrote(&place.key))
    }

    /// Whether all that the memory announces is known to have been done, because a pass of this process
    /// came to rest with it.
    pub(super) fn rested(&self) -> bool {
        let place = self.subject.memory.as_ref();
        let rested = place.and_then(|place| place.rested);
        rested.is_some() && rested == self.stored.as_deref().map(Print::of)
    }

    /// Takes over what a link wants. What has failed in this pass is not asked for again: the
    /// failure becomes the link's reason.
    pub(super) fn take(&mut self, link: Option<&LinkId>, turn: &mut Turn) {
        let mut kept = Vec::new();
        for (request, effect) in turn.steps.drain(..) {
            if let Some(failure) = self.failure(&request) {
                turn.reason = reason_of(&request, &failure);
                continue;
            }
            // It was done, and somebody undid it at once: not worth a fight within one pass.
            if self.done(&request) {
                turn.reason = Code::TooManyChanges.into();
                continue;
            }
            kept.push((request, effect));
        }
        for (request, effect) in &kept {
            if !self.steps.iter().any(|s| s.request == *request) {
                self.steps.push(Step {
                    link: link.cloned(),
                    request: request.clone(),
                    effect: *effect,
                });
            }
        }
        turn.steps = kept;
        if let (Some(Change(change)), Some(link)) = (turn.memory.clone(), link) {
            self.changes.insert(link.clone(), change);
            if let Some((request, effect)) = turn.behind.take() {
                self.behind.push(Step {
                    link: Some(link.clone()),
                    request,
                    effect,
                });
            }
        }
    }
}

/// What a failed request means for the link that it was for.
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

pub(super) fn too_deep(key: &Key) -> Reason {
    Reason::new(Code::TooDeep, key.to_string())
}

/// The patch that puts our finalizer on an object.
pub(super) fn hold(key: &Key, object: &Object, finalizer: &Finalizer) -> Request {
    let mut list: Vec<&str> = object.finalizers().collect();
    list.push(&finalizer.0);
    list.sort_unstable();
    list.dedup();
    locked(key, object, json!({"metadata": {"finalizers": list}}))
}

/// The patch that takes our finalizer off an object.
pub(super) fn release(key: &Key, object: &Object, finalizer: &Finalizer) -> Request {
    let list: Vec<&str> = object
        .finalizers()
        .filter(|f| *f != &*finalizer.0)
        .collect();
    locked(key, object, json!({"metadata": {"finalizers": list}}))
}

/// The next finalizer to shed from an object. Where that fails it stays: it may not be ours to decide,
/// and must not keep anything else from being done.
pub(super) fn shed(pass: &Pass<'_>, link: &Link, key: &Key, object: &Object) -> Option<Turn> {
    let without = without_shed(link, object)?;
    let request = if object.is_fragment() {
        let left: Vec<_> = without.finalizers().collect();
        locked(key, object, json!({"metadata": {"finalizers": left}}))
    } else {
        Request::Replace {
            key: key.clone(),
            object: without,
        }
    };
    (pass.failure(&request).is_none() && !pass.done(&request))
        .then(|| Turn::step(request, Effect::Shed))
}

/// An object without the finalizers that are shed; none where it has none of them.
pub(super) fn without_shed(link: &Link, object: &Object) -> Option<Object> {
    let shed = &link.policy.shed;
    if !shed.iter().any(|f| object.has_finalizer(&f.0)) {
        return None;
    }
    let left: Vec<Value> = object
        .finalizers()
        .filter(|f| !shed.iter().any(|shed| *shed.0 == **f))
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
pub(super) fn unlocked(key: &Key, object: &Object, mut patch: Value) -> Request {
    if let Some(uid) = object.uid() {
        patch["metadata"]["uid"] = uid.into();
    }
    Request::Patch {
        key: key.clone(),
        patch,
    }
}

/// A merge patch for exactly this version of an object.
pub(super) fn locked(key: &Key, object: &Object, mut patch: Value) -> Request {
    if let Some(version) = object.resource_version() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    unlocked(key, object, patch)
}
