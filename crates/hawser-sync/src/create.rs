//! Phase three: create the copy, or adopt the object in its place.
//!
//! The state is remembered before the copy is created, so that a copy never exists without one. An object that exists
//! already is read live before it is adopted.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use super::key::Key;
use super::link::{Adoption, Identity, Link};
use super::memory::{CopyRecord, Entry, Snapshot};
use super::merge::{equals, merge};
use super::pass::{
    EntryUpdate, LinkDecision, Lookup, Pass, add_finalizer, patch_version, unread,
    waiting_for_deletion,
};
use super::pending::PendingChange;
use super::reason::{Code, Reason};
use super::request::{Effect, Request};
use super::rules::{CopyOrigin, Marks};
use super::view::{Freshness, Seen};

/// Metadata that only a server sets; the rules determine everything else.
const SET_BY_SERVERS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

pub(super) fn create(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    key: &Key,
) -> Result<LinkDecision, Reason> {
    if let Some(turn) = needed_reads(pass, link, key) {
        return Ok(turn.of(key));
    }
    let desired = pass.facts().desired(link, source, None)?;
    let mut turn = match namespace(pass, link, key) {
        Ok(turn) => turn,
        Err(turn) => return Ok(*turn),
    };
    if pass.remembers() && link.policy.content.is_remembered() {
        let known = pass.entry(link).is_some_and(|entry| {
            let snapshot = entry.snapshot.as_ref();
            snapshot.is_some_and(|snapshot| snapshot.remembers(&desired))
                && place_known(link, &entry.copy, key)
        });
        // A state with other content may be the state of an existing copy. Unless the copy is certainly gone,
        // overwriting its state would lose the changes to merge.
        let other = pass.entry(link).is_some_and(|entry| {
            let snapshot = entry.snapshot.as_ref();
            snapshot.is_none_or(|snapshot| !snapshot.remembers(&desired))
        });
        if other && let Lookup::Read(request) = pass.lookup_live(key) {
            return Ok(LinkDecision::read(request).of(key));
        }
        if !known {
            turn.memory = Some(EntryUpdate(Some(intention(pass, link, &desired, key))));
        }
    }
    if turn.ended() {
        let marks = link.rules.marks(source, CopyOrigin::Created);
        let object = with_marks(Arc::unwrap_or_clone(desired), key, &marks);
        let request = Request::Create {
            key: key.clone(),
            object,
        };
        turn = LinkDecision::step(request, Effect::Placed);
    }
    Ok(turn.of(key))
}

/// The reads that are needed before anything is created.
///
/// A copy of a source that is gone would never be deleted, and a state written for a copy that exists after all would
/// lose the changes to merge into it. If the finalizer was added to the source in this pass, the answer proves both;
/// caches, which may be stale, do not.
fn needed_reads(pass: &Pass<'_>, link: &Link, key: &Key) -> Option<LinkDecision> {
    // A copy that should not exist is always found again by its name and deleted, and the create shows whether it
    // exists.
    if link.policy.identity == Identity::Name {
        return None;
    }
    let subject = pass.subject;
    if let (Seen::Present(anchor), Some(finalizer)) =
        (pass.view.get(&subject.anchor), &subject.finalizer)
        && pass.done(&add_finalizer(&subject.anchor, &anchor, finalizer))
    {
        return None;
    }
    // A copy without marks can only be under this name, and the create shows whether it exists.
    let marked = link.policy.identity == Identity::Marks;
    let keys = [Some(&subject.anchor), marked.then_some(key)];
    let mut turn = LinkDecision::end(Code::NeedsToSee);
    for key in keys.into_iter().flatten() {
        if let Lookup::Read(request) = pass.lookup_live(key) {
            turn.steps.push((request, Effect::Looked));
        }
    }
    (!turn.ended()).then_some(turn)
}

/// The memory of a copy before it is created. A copy that only the memory records may have been deleted, or may be
/// hidden, for example by the selector of a claim. If it shows again, its uid identifies it, and the recorded places
/// are the changes that were due.
fn intention(pass: &Pass<'_>, link: &Link, desired: &Arc<Object>, key: &Key) -> Entry {
    let entry = pass.entry(link);
    let entry = entry.filter(|_| link.policy.identity == Identity::Memory);
    let lost = entry.and_then(|entry| entry.copy.lost(key));
    let before = entry.filter(|_| lost.is_some());
    let pending = before.and_then(|entry| {
        let snapshot = entry.snapshot.as_ref()?.base_for(desired);
        let mut body = merge(&snapshot, desired);
        if let Some(pending) = &entry.pending {
            pending.add_desired(&mut body, desired);
        }
        (!body.is_empty()).then(|| PendingChange::of(&body, &snapshot))?
    });
    Entry {
        snapshot: Some(Snapshot::whole(Arc::clone(desired))),
        copy: CopyRecord::Intended {
            key: key.clone(),
            lost,
            taken: false,
        },
        pending,
    }
}

/// The memory of an intended copy in whose place another object was first. By its content alone it may look like the
/// copy.
fn note_taken(pass: &Pass<'_>, link: &Link, key: &Key) -> Option<Entry> {
    let entry = pass.entry(link)?;
    let is_intended = entry.copy.may_be_created(key);
    (is_intended && pass.was_taken(link, key)).then(|| Entry {
        snapshot: entry.snapshot.clone(),
        copy: CopyRecord::Intended {
            key: key.clone(),
            lost: None,
            taken: true,
        },
        pending: None,
    })
}

fn place_known(link: &Link, record: &CopyRecord, key: &Key) -> bool {
    match link.policy.identity {
        // The record must not have the uid of an earlier copy when another one is created.
        Identity::Memory => record.may_be_created(key),
        Identity::Marks | Identity::Name => record.key().is_none_or(|recorded| recorded == key),
    }
}

/// Creates the namespace that the copy needs. An unknown namespace is not read: creating the copy shows whether it
/// exists.
fn namespace(pass: &Pass<'_>, link: &Link, key: &Key) -> Result<LinkDecision, Box<LinkDecision>> {
    let fine = LinkDecision::end(Code::Working);
    let Some(namespace) = key.namespace_key() else {
        return Ok(fine);
    };
    // Who creates no namespaces may not be allowed to read them.
    if link.policy.makes_namespaces() && pass.view.freshness(&namespace) == Freshness::Stale {
        return Err(Box::new(LinkDecision::read(Request::Read {
            key: namespace,
        })));
    }
    match pass.view.get(&namespace) {
        Seen::Present(object) if object.in_deletion() => Err(Box::new(
            LinkDecision::end(Code::WaitingForNamespace).of(key),
        )),
        Seen::Present(_) | Seen::Unknown => Ok(fine),
        Seen::Absent if !link.policy.makes_namespaces() => {
            Err(Box::new(LinkDecision::end(Code::NamespaceMissing).of(key)))
        }
        Seen::Absent => {
            let object = Object::empty(&namespace.kind, None, &namespace.name);
            let request = Request::Create {
                key: namespace,
                object,
            };
            Ok(LinkDecision::step(request, Effect::NamespaceMade))
        }
    }
}

/// The object to create: the content under the copy's own name, with Hawser's marks.
fn with_marks(mut desired: Object, key: &Key, marks: &Marks) -> Object {
    desired.set_gvk(&key.kind);
    let metadata = desired.metadata_mut();
    for field in SET_BY_SERVERS {
        metadata.remove(field);
    }
    metadata.insert("name".into(), Value::from(&*key.name));
    match &key.namespace {
        Some(namespace) => metadata.insert("namespace".into(), Value::from(&**namespace)),
        None => metadata.remove("namespace"),
    };
    for (name, value) in marks.labels() {
        desired.set_label(name, value);
    }
    for (name, value) in marks.annotations() {
        desired.set_annotation(name, value);
    }
    desired
}

/// An object without owner is where the copy should be.
pub(super) fn adopt(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    key: &Key,
    object: &Arc<Object>,
) -> Result<LinkDecision, Reason> {
    if object.in_deletion() {
        return Ok(LinkDecision::end(waiting_for_deletion(object)).of(key));
    }
    if let Some(taken) = note_taken(pass, link, key) {
        return Ok(LinkDecision::remember(Some(taken)).of(key));
    }
    if object.is_fragment() {
        return Err(unread(key, object));
    }
    let desired = pass.facts().desired(link, source, Some(object))?;
    let made = match link.policy.adoption {
        Adoption::Equal(made) if equals(&desired, object) => made,
        Adoption::Never | Adoption::Equal(_) => {
            return Err(Reason::new(Code::AdoptionRefused, key.to_string()));
        }
        Adoption::Keep | Adoption::Overwrite => CopyOrigin::Adopted,
    };
    // A cache does not suffice for adopting an object.
    if let Lookup::Read(request) = pass.lookup_live(key) {
        return Ok(LinkDecision::read(request).of(key));
    }
    if !pass.remembers() {
        return Ok(claim(link, source, key, object, made));
    }
    let entry = Entry {
        snapshot: (link.policy.adoption != Adoption::Overwrite).then(|| Snapshot::whole(desired)),
        copy: CopyRecord::of(key, object, made),
        pending: None,
    };
    Ok(LinkDecision::remember(Some(entry)).of(key))
}

/// Adds the marks to exactly this version of an object, and changes nothing else.
pub(super) fn claim(
    link: &Link,
    source: &Object,
    key: &Key,
    object: &Object,
    made: CopyOrigin,
) -> LinkDecision {
    let marks = link.rules.marks(source, made);
    let labels: Map<String, Value> = marks
        .labels()
        .map(|(k, v)| (k.clone(), v.clone().into()))
        .collect();
    let annotations: Map<String, Value> = marks
        .annotations()
        .map(|(k, v)| (k.clone(), v.clone().into()))
        .collect();
    let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
    LinkDecision::step(patch_version(key, object, patch), Effect::Adopted).of(key)
}
