//! Phase three: make the copy, or take over what stands in its place.
//!
//! The state is remembered before the copy is made, so that a copy never exists without one.
//! What exists already is looked at live before anything is decided about it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use super::memory::{CopyRecord, Entry, Snapshot};
use super::merge::equals;
use super::pass::{Change, Pass, Sight, Turn, hold, locked, too_deep};
use super::reason::{Code, Reason};
use super::request::{Effect, Request};
use super::rules::{Made, Marks};
use super::subject::{Adoption, Identity, Key, Link, NamespacePolicy};
use super::view::{Proof, Seen};

/// What only a server sets; everything else of the metadata is the rules' business.
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
) -> Result<Turn, Reason> {
    if let Some(turn) = doubts(pass, link, key) {
        return Ok(turn.of(key));
    }
    let desired = link.rules.desired(source, None)?;
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
        // A state that says something else is the state of a copy. Unless that is gone for
        // certain, writing over it would lose what has to be merged into it.
        let other = pass.entry(link).is_some_and(|entry| {
            let snapshot = entry.snapshot.as_ref();
            snapshot.is_none_or(|snapshot| !snapshot.remembers(&desired))
        });
        if other && let Sight::Look(request) = pass.witness(key) {
            return Ok(Turn::look(request).of(key));
        }
        if !known {
            turn.memory = Some(Change(Some(Entry {
                snapshot: Some(Snapshot::whole(desired.clone())),
                copy: CopyRecord::Intended(key.clone()),
                announced: None,
            })));
        }
    }
    if turn.ended() {
        let marks = link.rules.marks(source, Made::Created);
        let object = dress(desired, key, &marks);
        let request = Request::Create {
            key: key.clone(),
            object,
        };
        turn = Turn::step(request, Effect::Placed);
    }
    Ok(turn.of(key))
}

/// What has to be looked at before anything is made.
///
/// A copy made for a source that is gone would have nobody to take it back, and a state written
/// for a copy that exists after all would lose what has to be merged into it. Where the source
/// was accepted in this very pass, the answer to our finalizer is proof enough of both; caches
/// that may be behind are not.
fn doubts(pass: &Pass<'_>, link: &Link, key: &Key) -> Option<Turn> {
    // One that should not have been made is found by its name and taken back, and making it tells
    // whether it exists.
    if link.policy.identity == Identity::Name {
        return None;
    }
    let subject = pass.subject;
    if let (Seen::Present(anchor), Some(finalizer)) =
        (pass.get(&subject.anchor), &subject.finalizer)
        && pass.done(&hold(&subject.anchor, &anchor, finalizer))
    {
        return None;
    }
    // A copy without marks stands under its name or nowhere, and making it tells.
    let marked = link.policy.identity == Identity::Marks;
    let keys = [Some(&subject.anchor), marked.then_some(key)];
    let mut turn = Turn::end(Code::NeedsToSee);
    for key in keys.into_iter().flatten() {
        if let Sight::Look(request) = pass.witness(key) {
            turn.steps.push((request, Effect::Looked));
        }
    }
    (!turn.ended()).then_some(turn)
}

fn place_known(link: &Link, record: &CopyRecord, key: &Key) -> bool {
    match link.policy.identity {
        // The uid of a copy that is gone must not stand when another one is made.
        Identity::Memory => *record == CopyRecord::Intended(key.clone()),
        Identity::Marks | Identity::Name => record.key().is_none_or(|recorded| recorded == key),
    }
}

/// The namespace that the copy needs. An unknown one is not asked for: making the copy tells.
fn namespace(pass: &Pass<'_>, link: &Link, key: &Key) -> Result<Turn, Box<Turn>> {
    let fine = Turn::end(Code::Working);
    let Some(namespace) = key.namespace_key() else {
        return Ok(fine);
    };
    if pass.proof(&namespace) == Proof::Doubtful {
        return Err(Box::new(Turn::look(Request::Read { key: namespace })));
    }
    match pass.get(&namespace) {
        Seen::Present(object) if object.in_deletion() => {
            Err(Box::new(Turn::end(Code::WaitingForNamespace).of(key)))
        }
        Seen::Present(_) | Seen::Unknown => Ok(fine),
        Seen::Absent if link.policy.namespace == NamespacePolicy::Expect => {
            Err(Box::new(Turn::end(Code::NamespaceMissing).of(key)))
        }
        Seen::Absent => {
            let object = Object::empty(&namespace.kind, None, &namespace.name);
            let request = Request::Create {
                key: namespace,
                object,
            };
            Ok(Turn::step(request, Effect::NamespaceMade))
        }
    }
}

/// The object as it is made: the content under the copy's own name, with our marks on it.
fn dress(mut desired: Object, key: &Key, marks: &Marks) -> Object {
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

/// An object that nobody owns stands where the copy should be.
pub(super) fn adopt(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    key: &Key,
    object: &Arc<Object>,
) -> Result<Turn, Reason> {
    if object.in_deletion() {
        return Ok(Turn::end(Code::WaitingForDeletion).of(key));
    }
    if object.is_fragment() {
        return Err(too_deep(key));
    }
    let desired = link.rules.desired(source, Some(object))?;
    let made = match link.policy.adoption {
        Adoption::Equal(made) if equals(&desired, object) => made,
        Adoption::Never | Adoption::Equal(_) => {
            return Err(Reason::new(Code::AdoptionRefused, key.to_string()));
        }
        Adoption::Keep | Adoption::Overwrite => Made::Adopted,
    };
    // Taking something over is not decided by what a cache says.
    if let Sight::Look(request) = pass.witness(key) {
        return Ok(Turn::look(request).of(key));
    }
    if !pass.remembers() {
        return Ok(claim(link, source, key, object, made));
    }
    let uid: Arc<str> = object.uid().unwrap_or_default().into();
    let key = key.clone();
    let entry = Entry {
        snapshot: (link.policy.adoption != Adoption::Overwrite).then(|| Snapshot::whole(desired)),
        copy: match made {
            Made::Created => CopyRecord::Created {
                key: key.clone(),
                uid,
            },
            Made::Adopted => CopyRecord::Adopted {
                key: key.clone(),
                uid,
            },
        },
        announced: None,
    };
    Ok(Turn::remember(Some(entry)).of(&key))
}

/// Puts our marks on exactly this version of an object, and touches nothing else.
pub(super) fn claim(link: &Link, source: &Object, key: &Key, object: &Object, made: Made) -> Turn {
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
    Turn::step(locked(key, object, patch), Effect::Adopted).of(key)
}
