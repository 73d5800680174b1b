//! Phase two: delete the copies.
//!
//! A copy counts as gone only if an answer, an event or a live read showed it. Objects of others do not change, and the
//! source is released last.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use super::content::status_while_deleting;
use super::link::{AdoptedOnDelete, Claims, Fate, Identity, Link, Source};
use super::locate::{Located, LocatedCopy, locate};
use super::memory::{CopyRecord, Entry};
use super::pass::{
    LinkDecision, Lookup, Pass, drop_foreign_finalizer, patch_version, remove_finalizer,
};
use super::reason::{Code, Reason};
use super::request::{Effect, Request};
use super::rules::CopyOrigin;
use super::view::Seen;

/// Whether the whole subject is deleted, or only this link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionScope {
    Subject,
    Link,
}

/// A source that may be gone already.
pub(super) type LastSource<'a> = Option<&'a Arc<Object>>;

pub(super) fn retract(
    pass: &Pass<'_>,
    link: &Link,
    source: LastSource<'_>,
    fate: Fate,
    extent: DeletionScope,
) -> LinkDecision {
    if let (Source::Live(key), Some(source)) = (&link.source, source)
        && let Some(turn) = drop_foreign_finalizer(pass, link, key, source)
    {
        return turn;
    }
    if fate == Fate::Delete && link.policy.claims == Claims::Unrecorded {
        return recorded(pass, link, source);
    }
    let unwanted = matches!(link.source, Source::Unwanted(_));
    let known = extent == DeletionScope::Link && pass.remembers() && pass.entry(link).is_some();
    let kept = known && keeps_record(pass, link, fate);
    if fate == Fate::Delete
        && link.policy.claims == Claims::Sole
        && !kept
        && let Some(turn) = remove(pass, link, source)
    {
        return turn;
    }
    // The finalizer is removed before the record: the record may be all that leads back to the source.
    if let Some(turn) = release_source(link, source) {
        return turn;
    }
    // After this step, nothing records that the source may have the finalizer. So the source is read live first.
    if (extent == DeletionScope::Subject || unwanted && known)
        && let (Some(key), Some(_)) = (link.source.key(), &link.policy.source_finalizer)
    {
        let hidden = is_hidden(pass, link);
        match pass.lookup_live(key) {
            Lookup::Read(request)
                if extent == DeletionScope::Subject && hidden && pass.forbids(&request) => {}
            // The subject is gone, so nothing waits for the source to reappear.
            Lookup::Read(_) if hidden && pass.subject.finalizer.is_none() => {}
            Lookup::Read(request) => return LinkDecision::read(request),
            Lookup::Present(_) | Lookup::Absent => {}
        }
        if hidden {
            return LinkDecision::end(Code::NoSource);
        }
    }
    if kept {
        return LinkDecision::end(Code::NoSource);
    }
    if known {
        return LinkDecision::remember(None);
    }
    LinkDecision::end(match fate {
        Fate::Delete => Code::Gone,
        Fate::Keep => Code::Kept,
    })
}

/// A copy that others are about to record. They can only if its own record names its uid.
fn recorded(pass: &Pass<'_>, link: &Link, source: LastSource<'_>) -> LinkDecision {
    let place = pass.entry(link).and_then(|entry| entry.copy.key());
    let shared = place.map(|key| format!("{key}, which other objects share"));
    let turn = LinkDecision::end(Reason::new(
        Code::SourceNotQuiet,
        shared.unwrap_or_default(),
    ));
    let Some(entry) = pass.entry(link) else {
        return turn;
    };
    match locate(pass, link, source.map(|s| &**s)) {
        Located::Read(request) => LinkDecision::read(request),
        Located::Copy(copy) => {
            let copy = CopyRecord::of(&copy.key, &copy.object, copy.made);
            let is_exact = entry.copy == copy;
            let exact = Entry {
                copy,
                ..entry.clone()
            };
            if is_exact {
                turn
            } else {
                LinkDecision::remember(Some(exact))
            }
        }
        _ => turn,
    }
}

/// Whether a source with a finalizer of Hawser is hidden, because its end was not seen: the memory has to keep it for
/// the time when it appears again.
pub(super) fn is_hidden(pass: &Pass<'_>, link: &Link) -> bool {
    let (Some(key), Some(_)) = (link.source.key(), &link.policy.source_finalizer) else {
        return false;
    };
    let away = match pass.view.get(key) {
        Seen::Absent => !link.policy.source_ended && !pass.view.ended(key),
        Seen::Unknown => pass.forbids(&Request::Read { key: key.clone() }),
        Seen::Present(_) => false,
    };
    // If the copy was only about to be created, the source may never have got the finalizer, so no record is kept.
    let intended = |copy: &CopyRecord| matches!(copy, CopyRecord::Intended { lost: None, .. });
    away && pass.entry(link).is_some_and(|entry| !intended(&entry.copy))
}

/// Whether a copy that has to be deleted may only be hidden. Its record identifies it when it shows again.
fn keeps_record(pass: &Pass<'_>, link: &Link, fate: Fate) -> bool {
    let copy = pass.entry(link).map(|entry| &entry.copy);
    let lost = copy.and_then(|copy| copy.lost(copy.key()?));
    link.policy.copy_hidden
        && fate == Fate::Delete
        && link.policy.claims == Claims::Sole
        && lost.is_some_and(|lost| lost.made == CopyOrigin::Created)
}

/// The turn for a missing source of which a copy was created; `None` if the source has ended.
///
/// A source with a finalizer of Hawser cannot end unnoticed. For one without, a cache is no proof.
pub(super) fn vanished(pass: &Pass<'_>, link: &Link) -> Option<LinkDecision> {
    let Source::Live(key) = &link.source else {
        return None;
    };
    if is_hidden(pass, link) {
        // A process deletes the copy before it removes the finalizer. Without a copy, the finalizer may be gone
        // already.
        let gone = matches!(locate(pass, link, None), Located::Missing { .. });
        return (!gone).then(|| LinkDecision::end(Code::NoSource));
    }
    match pass.lookup_live(key) {
        Lookup::Read(request) if pass.entry(link).is_some() => Some(LinkDecision::read(request)),
        _ => None,
    }
}

/// The next step of the copy's deletion; `None` if nothing of Hawser is left.
fn remove(pass: &Pass<'_>, link: &Link, source: LastSource<'_>) -> Option<LinkDecision> {
    // A source of which only the metadata is known does not determine the place of its copy.
    let place = source.map(|s| &**s).filter(|s| !s.is_fragment());
    match locate(pass, link, place) {
        Located::Read(request) => Some(LinkDecision::read(request)),
        Located::Copy(copy) => remove_copy(pass, link, source, &copy),
        Located::Missing { key, witnessed } => {
            let held = held(pass, link, source);
            (held && !witnessed).then(|| LinkDecision::read(Request::Read { key }))
        }
        Located::Unclaimed { .. } | Located::Foreign { .. } | Located::Unplaced(_) => None,
    }
}

fn remove_copy(
    pass: &Pass<'_>,
    link: &Link,
    source: LastSource<'_>,
    copy: &LocatedCopy,
) -> Option<LinkDecision> {
    let LocatedCopy { key, object, .. } = copy;
    if copy.made == CopyOrigin::Adopted && link.policy.adopted_on_delete == AdoptedOnDelete::Release
    {
        if !copy.marked || link.policy.identity == Identity::Memory {
            return None;
        }
        let last = pass.entry(link).and_then(|entry| entry.snapshot.as_ref());
        let last = last.map(super::memory::Snapshot::object);
        let source = source.map(|s| &**s).or(last)?;
        let patch = unmark(link, source, object)?;
        return Some(LinkDecision::step(patch_version(key, object, patch), Effect::LetGo).of(key));
    }
    if object.in_deletion() {
        return Some(status_while_deleting(
            pass,
            link,
            source.map(|s| &**s),
            copy,
        ));
    }
    // Without a uid, the request could delete another incarnation.
    let Some(uid) = object.uid() else {
        return Some(LinkDecision::end(Code::NotSeen).of(key));
    };
    let request = Request::delete(key.clone(), uid);
    Some(LinkDecision::step(request, Effect::Cleanup).of(key))
}

/// The patch that removes the marks from an object; `None` if it has none.
fn unmark(link: &Link, source: &Object, object: &Object) -> Option<Value> {
    let marks = link.rules.marks(source, CopyOrigin::Adopted);
    let nulls = |keys: Vec<&String>| -> Map<String, Value> {
        keys.into_iter().map(|k| (k.clone(), Value::Null)).collect()
    };
    let labels = marks.labels().map(|(k, _)| k);
    let labels = nulls(labels.filter(|k| object.label(k).is_some()).collect());
    let annotations = marks.annotations().map(|(k, _)| k);
    let annotations = nulls(
        annotations
            .filter(|k| object.annotation(k).is_some())
            .collect(),
    );
    (!labels.is_empty() || !annotations.is_empty())
        .then(|| json!({"metadata": {"labels": labels, "annotations": annotations}}))
}

/// Whether a copy may have been created: there is a record of it, or a finalizer of Hawser is on the source.
fn held(pass: &Pass<'_>, link: &Link, source: LastSource<'_>) -> bool {
    let holds = [&link.policy.source_finalizer, &pass.subject.finalizer];
    let mut holds = holds.into_iter().flatten();
    pass.entry(link).is_some()
        || source.is_some_and(|source| holds.any(|it| source.has_finalizer(&it.0)))
}

/// The patch that removes the link's own finalizer from its source.
fn release_source(link: &Link, source: LastSource<'_>) -> Option<LinkDecision> {
    let (Some(key), Some(finalizer), Some(source)) =
        (link.source.key(), &link.policy.source_finalizer, source)
    else {
        return None;
    };
    source
        .has_finalizer(&finalizer.0)
        .then(|| LinkDecision::step(remove_finalizer(key, source, finalizer), Effect::Released))
}
