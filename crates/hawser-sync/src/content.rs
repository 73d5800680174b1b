//! Phase four: content and status of a copy that exists.
//!
//! What changed in the source since the last known state is merged into the copy, so that local
//! changes to other fields stay. Labels and annotations are compared key by key.

use std::sync::Arc;

use serde_json::{Map, Value};

use kube_lang::object::{Object, numbers};

use super::announce::{Announced, effective};
use super::create::claim;
use super::memory::{CopyRecord, Entry, Snapshot};
use super::merge::{NOT_CONTENT, lay_over, merge, overwrite, string_map};
use super::pass::{
    Change as Recorded, Pass, Sight, Turn, locked, reason_of, shed, too_deep, unlocked,
    without_shed,
};
use super::reason::{Code, Reason};
use super::request::{Effect, Failure, Request};
use super::rules::{Made, Marks, Metadata};
use super::subject::{Content, Identity, Key, LastWords, Link, Source, StatusFlow};

/// A copy as locating found it.
pub(super) struct Copy {
    pub(super) key: Key,
    pub(super) object: Arc<Object>,
    pub(super) made: Made,
    pub(super) marked: bool,
}

pub(super) fn content(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    copy: &Copy,
) -> Result<Turn, Reason> {
    let Copy { key, object, .. } = copy;
    let takes_part =
        || link.policy.last_words == LastWords::Carry && link.rules.was_made_for(source, object);
    if object.in_deletion() && !takes_part() {
        return Ok(last_words(pass, link, Some(source), key, object));
    }
    if object.is_fragment() {
        return Err(too_deep(key));
    }
    if !copy.marked {
        let claimed = claim(link, source, key, object, copy.made);
        if !claimed.steps.iter().any(|(request, _)| pass.done(request)) {
            return Ok(claimed);
        }
    }
    let desired = link.rules.desired(source, Some(object))?;
    if link.policy.content == Content::Exact {
        let marks = link.rules.marks(source, copy.made);
        if let Some(whole) = exact(link, object, &desired, &marks) {
            let request = Request::Replace {
                key: key.clone(),
                object: whole,
            };
            if !pass.done(&request) {
                return Ok(Turn::step(request, Effect::Synced).of(key));
            }
        }
        return in_step(pass, link, source, copy, None);
    }
    let change = match change(pass, link, key, object, &desired) {
        Ok(change) => change,
        Err(look) => return Ok(Turn::look(look).of(key)),
    };
    if let Some(delete) = replacement(pass, link, copy, &change) {
        return Ok(Turn::step(delete, Effect::Cleanup).of(key));
    }
    let announcement = announcement(pass, link, copy, &desired, &change);
    let request = patch(link, source, copy, change);
    if let Some(request) = request
        && !pass.done(&request)
    {
        return Ok(match announcement {
            Some(entry) => Turn {
                behind: Some((request, Effect::Synced)),
                ..Turn::remember(Some(entry)).of(key)
            },
            None => Turn::step(request, Effect::Synced).of(key),
        });
    }
    let remembered = pass.remembers() && link.policy.content.is_remembered();
    let again = again(pass, link, source, copy, &desired);
    let memory = remembered.then(|| remember(pass, link, copy, desired, again));
    in_step(pass, link, source, copy, memory.flatten())
}

/// The deletion of a copy that no server would change as it has to be: it is made anew once it is gone.
/// Only of one that is known to have been made here.
fn replacement(pass: &Pass<'_>, link: &Link, copy: &Copy, change: &Change) -> Option<Request> {
    let (Change::Merge(body) | Change::Overwrite(body)) = change;
    let Some(CopyRecord::Created { uid, .. }) = pass.entry(link).map(|entry| &entry.copy) else {
        return None;
    };
    if link.policy.identity != Identity::Memory || copy.object.uid() != Some(&**uid) {
        return None;
    }
    let changed = effective(body, Some(copy.object.as_value()));
    let mut fields = changed.keys();
    fields
        .any(|field| link.rules.is_final(&copy.object, field))
        .then(|| Request::Delete {
            key: copy.key.clone(),
            uid: Arc::clone(uid),
        })
}

/// Whether what another pass announced was made in this one.
fn again(pass: &Pass<'_>, link: &Link, source: &Object, copy: &Copy, desired: &Object) -> bool {
    if pass.wrote_memory() {
        return false;
    }
    let entry = pass.entry(link);
    let announced = entry.and_then(|entry| entry.announced.as_ref());
    announced.is_some_and(|announced| {
        let mut body = Map::new();
        announced.lay_into(&mut body, desired);
        let request = patch(link, source, copy, Change::Merge(body));
        request.is_some_and(|request| pass.done(&request))
    })
}

/// What is to be remembered before a change is made.
fn announcement(
    pass: &Pass<'_>,
    link: &Link,
    copy: &Copy,
    desired: &Object,
    change: &Change,
) -> Option<Entry> {
    let Change::Merge(body) = change else {
        return None;
    };
    if body.is_empty() || !pass.remembers() {
        return None;
    }
    if pass.entry(link)?.snapshot.as_ref()?.remembers(desired) {
        return None;
    }
    Some(Entry {
        snapshot: Some(Snapshot::whole(desired.clone())),
        copy: record(copy),
        announced: Some(Announced::of(body, &copy.object)?),
    })
}

/// The content is as it should be: what is left is to remember that, and the status.
fn in_step(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    copy: &Copy,
    memory: Option<Recorded>,
) -> Result<Turn, Reason> {
    let Copy { key, object, .. } = copy;
    let rest = if object.in_deletion() {
        Code::WaitingForDeletion
    } else {
        Code::InStep
    };
    let mut turn = Turn::end(rest).of(key);
    turn.memory = memory;
    status(pass, link, source, object, key, &mut turn)?;
    if !turn.ended() && turn.reason.code == Code::InStep {
        turn.reason = Code::Working.into();
    }
    Ok(turn)
}

/// What is left to do about a copy in deletion.
pub(super) fn last_words(
    pass: &Pass<'_>,
    link: &Link,
    source: Option<&Object>,
    key: &Key,
    object: &Object,
) -> Turn {
    if let Some(turn) = shed(pass, link, key, object) {
        return turn.of(key);
    }
    let mut turn = Turn::end(Code::WaitingForDeletion).of(key);
    if let (LastWords::Carry, Some(source)) = (link.policy.last_words, source)
        && let Err(reason) = status(pass, link, source, object, key, &mut turn)
    {
        return Turn::end(reason).of(key);
    }
    turn
}

/// A copy with exactly the content that is desired, and everything else of it as it was; none where
/// that is what it has.
fn exact(link: &Link, live: &Object, desired: &Object, marks: &Marks) -> Option<Object> {
    let mut whole = without_shed(link, live).unwrap_or_else(|| live.clone());
    for (field, value) in desired.root() {
        if NOT_CONTENT.contains(&field.as_str()) {
            continue;
        }
        match (live.root().get(field), value) {
            (None | Some(Value::Null), Value::Null) => {}
            (Some(_), Value::Null) => {
                whole.root_mut().remove(field);
            }
            (Some(live), value) if numbers::same(live, value) => {}
            _ => {
                whole.root_mut().insert(field.clone(), value.clone());
            }
        }
    }
    for field in ["labels", "annotations"] {
        let found = string_map(live, field);
        let mut wanted = string_map(desired, field);
        let (extra, identity) = match field {
            "labels" => (&marks.extra.labels, &marks.identity.labels),
            _ => (&marks.extra.annotations, &marks.identity.annotations),
        };
        let kept = extra.keys().filter_map(|k| Some((k, found.get(k)?)));
        wanted.extend(kept.map(|(k, v)| (k.clone(), v.clone())));
        wanted.extend(identity.iter().map(|(k, v)| (k.clone(), v.clone().into())));
        if wanted == found {
            continue;
        }
        if wanted.is_empty() {
            whole.metadata_mut().remove(field);
        } else {
            whole.metadata_mut().insert(field.into(), wanted.into());
        }
    }
    (whole != *live).then_some(whole)
}

/// A change of content, and whether it holds for one version of the copy only.
enum Change {
    Merge(Map<String, Value>),
    Overwrite(Map<String, Value>),
}

fn change(
    pass: &Pass<'_>,
    link: &Link,
    key: &Key,
    object: &Object,
    desired: &Object,
) -> Result<Change, Request> {
    match (link.policy.content, &pass.subject.memory) {
        (Content::Once | Content::Exact, _) => Ok(Change::Merge(Map::new())),
        (Content::Overwrite, _) | (Content::Merge | Content::Restore, None) => {
            Ok(Change::Overwrite(overwrite(object, desired)))
        }
        (mode @ (Content::Merge | Content::Restore), Some(memory)) => {
            let snapshot = pass.entry(link).and_then(|entry| entry.snapshot.as_ref());
            if let Some(snapshot) = snapshot {
                let mut body = if snapshot.remembers(desired) {
                    Map::new()
                } else {
                    merge(&snapshot.base_for(desired), desired)
                };
                if let Some(announced) = outstanding(pass, link, key, object)? {
                    announced.lay_into(&mut body, desired);
                }
                if mode == Content::Restore {
                    lay_over(&mut body, overwrite(object, desired));
                }
                // A patch without effect is not sent. That it has none is not believed of a cache, and
                // one that has some is sent whole.
                if !body.is_empty() && effective(&body, Some(object.as_value())).is_empty() {
                    if let Sight::Look(request) = pass.witness(key) {
                        return Err(request);
                    }
                    body.clear();
                }
                return Ok(Change::Merge(body));
            }
            // The state is lost. That is not believed of caches, neither of the state's nor of
            // the copy's: what agrees is recorded without a write that could be refused.
            for key in [&memory.key, key] {
                if let Sight::Look(request) = pass.witness(key) {
                    return Err(request);
                }
            }
            Ok(Change::Overwrite(overwrite(object, desired)))
        }
    }
}

/// What was announced and not made. That another process did not make it is not believed of a cache.
fn outstanding<'a>(
    pass: &'a Pass<'_>,
    link: &Link,
    key: &Key,
    object: &Object,
) -> Result<Option<&'a Announced>, Request> {
    let entry = pass.entry(link);
    let announced = entry.and_then(|entry| entry.announced.as_ref());
    let Some(announced) = announced.filter(|announced| announced.is_outstanding(object)) else {
        return Ok(None);
    };
    if pass.rested() {
        return Ok(None);
    }
    match pass.witness(key) {
        Sight::Look(request) if !pass.wrote_memory() => Err(request),
        _ => Ok(Some(announced)),
    }
}

/// The request for a change, with missing or wrong marks put right by the same patch.
fn patch(link: &Link, source: &Object, copy: &Copy, change: Change) -> Option<Request> {
    let Copy { key, object, .. } = copy;
    let (mut body, versioned) = match change {
        Change::Merge(body) => (body, false),
        Change::Overwrite(body) => {
            let versioned = !body.is_empty();
            (body, versioned)
        }
    };
    let marks = link.rules.marks(source, copy.made).identity;
    for (name, value) in &marks.labels {
        if object.label(name) != Some(value) {
            set_metadata(&mut body, "labels", name, value);
        }
    }
    for (name, value) in &marks.annotations {
        if object.annotation(name) != Some(value) {
            set_metadata(&mut body, "annotations", name, value);
        }
    }
    if body.is_empty() {
        return None;
    }
    let body = Value::Object(body);
    Some(if versioned {
        locked(key, object, body)
    } else {
        unlocked(key, object, body)
    })
}

fn set_metadata(body: &mut Map<String, Value>, field: &str, name: &str, value: &str) {
    let metadata = body.entry("metadata").or_insert_with(|| Map::new().into());
    metadata[field][name] = value.into();
}

/// What is to be remembered now that the copy is in step; nothing where it is known already.
///
/// That an announced change was made shows on the copy, for as long as nobody puts back what was there
/// before. So it is told where it does not show, and where it had to be made twice: nobody has to
/// insist more than once.
fn remember(
    pass: &Pass<'_>,
    link: &Link,
    copy: &Copy,
    desired: Object,
    again: bool,
) -> Option<Recorded> {
    let entry = pass.entry(link);
    let known = entry.is_some_and(|entry| {
        let snapshot = entry.snapshot.as_ref();
        // What is known by the memory alone has to be found by it when nothing else leads there.
        let loose = matches!(entry.copy, CopyRecord::Intended(_) | CopyRecord::Unrecorded);
        let announced = entry.announced.as_ref();
        let doubted = announced.is_some_and(|one| again || one.is_outstanding(&copy.object));
        snapshot.is_some_and(|snapshot| snapshot.remembers(&desired))
            && !(loose && link.policy.identity == Identity::Memory)
            && !doubted
    });
    if known {
        return None;
    }
    Some(Recorded(Some(Entry {
        snapshot: Some(Snapshot::whole(desired)),
        copy: record(copy),
        announced: None,
    })))
}

fn record(copy: &Copy) -> CopyRecord {
    let key = copy.key.clone();
    let uid = copy.object.uid().unwrap_or_default().into();
    match copy.made {
        Made::Created => CopyRecord::Created { key, uid },
        Made::Adopted => CopyRecord::Adopted { key, uid },
    }
}

fn status(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    copy: &Object,
    copy_key: &Key,
    turn: &mut Turn,
) -> Result<(), Reason> {
    let flow = link.policy.status;
    let (from, to, key) = match (flow, &link.source) {
        (StatusFlow::Back | StatusFlow::BackWhole, Source::Live(key)) => (copy, source, key),
        (StatusFlow::Forward, _) => (source, copy, copy_key),
        (StatusFlow::None | StatusFlow::Back | StatusFlow::BackWhole, _) => return Ok(()),
    };
    if from.is_fragment() || to.is_fragment() {
        return Ok(());
    }
    let marks = link.rules.status_marks(from, to);
    let present = |value: &&Value| !value.is_null();
    let wanted = link.rules.status(from, to)?.filter(|v| !v.is_null());
    let agree = match (&wanted, to.root().get("status").filter(present)) {
        (Some(wanted), Some(found)) => numbers::same(wanted, found),
        (wanted, found) => wanted.as_ref() == found,
    };
    if agree && (flow != StatusFlow::BackWhole || carries(to, &marks)) {
        return Ok(());
    }
    let mut object = to.clone();
    for (name, value) in &marks.labels {
        object.set_label(name, value);
    }
    for (name, value) in &marks.annotations {
        object.set_annotation(name, value);
    }
    match wanted {
        Some(status) => object.root_mut().insert("status".into(), status),
        None => object.root_mut().remove("status"),
    };
    let key = key.clone();
    let request = match flow {
        StatusFlow::BackWhole => Request::Replace { key, object },
        _ => Request::ReplaceStatus { key, object },
    };
    match pass.failure(&request) {
        // Kinds without a status subresource are found out by asking once a pass.
        Some(failure @ Failure::NotFound) => turn.reason = reason_of(&request, &failure),
        _ if pass.done(&request) => {}
        _ => turn.steps.push((request, Effect::StatusSynced)),
    }
    Ok(())
}

/// Whether an object has all of these labels and annotations, whatever their values are.
fn carries(object: &Object, marks: &Metadata) -> bool {
    let labels = marks.labels.keys().all(|name| object.label(name).is_some());
    let annotations = marks.annotations.keys();
    labels
        && annotations
            .into_iter()
            .all(|name| object.annotation(name).is_some())
}
