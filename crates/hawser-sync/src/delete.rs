//! Phase two: take back what was made.
//!
//! A copy counts as gone only by what was witnessed. What is not ours is left alone, and letting
//! go of the source comes last.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use super::content::last_words;
use super::locate::{Located, locate};
use super::memory::CopyRecord;
use super::pass::{Pass, Sight, Turn, locked, release, shed};
use super::reason::Code;
use super::request::{Effect, Request};
use super::rules::Made;
use super::subject::{AdoptedOnDelete, Claims, Fate, Identity, Key, Link, Source};
use super::view::Seen;

/// Whether the whole subject goes, or this link alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
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
    extent: Extent,
) -> Turn {
    if let (Source::Live(key), Some(source)) = (&link.source, source)
        && let Some(turn) = shed(pass, link, key, source)
    {
        return turn;
    }
    if fate == Fate::Delete
        && link.policy.claims == Claims::Sole
        && let Some(turn) = remove(pass, link, source)
    {
        return turn;
    }
    let unwanted = matches!(link.source, Source::Unwanted(_));
    let known = extent == Extent::Link && pass.remembers() && pass.entry(link).is_some();
    // What is remembered leads back to the source for as long as it is held, also when nothing else does
    // any more.
    if let Some(turn) = let_go(link, source) {
        return turn;
    }
    // With the subject, or with the last word of an entry that is no more, goes what is known of
    // this source being held.
    if (extent == Extent::Subject || unwanted && known)
        && let (Some(key), Some(_)) = (link.source.key(), &link.policy.hold)
    {
        let hidden = is_hidden(pass, link);
        match pass.witness(key) {
            Sight::Look(request)
                if extent == Extent::Subject && hidden && pass.forbids(&request) => {}
            // Of a subject that is gone nothing waits for it to show again.
            Sight::Look(_) if hidden && pass.subject.finalizer.is_none() => {}
            Sight::Look(request) => return Turn::look(request),
            Sight::Present(_) | Sight::Absent => {}
        }
        if hidden {
            return Turn::end(Code::NoSource);
        }
    }
    if known {
        return Turn::remember(None);
    }
    Turn::end(match fate {
        Fate::Delete => Code::Gone,
        Fate::Keep => Code::Kept,
    })
}

/// Whether a source that we hold is out of sight though nobody saw it end: what is remembered of it has
/// to lead back to it when it shows again.
pub(super) fn is_hidden(pass: &Pass<'_>, link: &Link) -> bool {
    let (Some(key), Some(_)) = (link.source.key(), &link.policy.hold) else {
        return false;
    };
    let away = match pass.get(key) {
        Seen::Absent => !pass.ended(key),
        Seen::Unknown => pass.forbids(&Request::Read { key: key.clone() }),
        Seen::Present(_) => false,
    };
    // What was only about to be made may not have come to be held: of that nothing is kept.
    let intended = |copy: &CopyRecord| matches!(copy, CopyRecord::Intended(_));
    away && pass.entry(link).is_some_and(|entry| !intended(&entry.copy))
}

/// What follows from a source that is not there although a copy was made of it; nothing where that is
/// its end.
///
/// One that we hold cannot end unseen. Of one that we do not hold, a cache is not enough to tell.
pub(super) fn vanished(pass: &Pass<'_>, link: &Link) -> Option<Turn> {
    let Source::Live(key) = &link.source else {
        return None;
    };
    if is_hidden(pass, link) {
        // A process that was killed after it let go of the source has taken the copy away before.
        let gone = matches!(locate(pass, link, None), Located::Missing { .. });
        return (!gone).then(|| Turn::end(Code::NoSource));
    }
    match pass.witness(key) {
        Sight::Look(request) if pass.entry(link).is_some() => Some(Turn::look(request)),
        _ => None,
    }
}

/// The next step towards the copy being gone; none where nothing of ours is left.
fn remove(pass: &Pass<'_>, link: &Link, source: LastSource<'_>) -> Option<Turn> {
    // Where its copy would be is not told by a source of which only the metadata is known.
    let place = source.map(|s| &**s).filter(|s| !s.is_fragment());
    match locate(pass, link, place) {
        Located::Look(request) => Some(Turn::look(request)),
        Located::Copy {
            key,
            object,
            made,
            marked,
        } => remove_copy(
            pass,
            link,
            source,
            &Copy {
                key,
                object,
                made,
                marked,
            },
        ),
        Located::Missing { key, witnessed } => {
            let held = held(pass, link, source);
            (held && !witnessed).then(|| Turn::look(Request::Read { key }))
        }
        Located::Unclaimed { .. } | Located::Foreign { .. } | Located::Unplaced(_) => None,
    }
}

struct Copy {
    key: Key,
    object: Arc<Object>,
    made: Made,
    marked: bool,
}

fn remove_copy(pass: &Pass<'_>, link: &Link, source: LastSource<'_>, copy: &Copy) -> Option<Turn> {
    let Copy { key, object, .. } = copy;
    if copy.made == Made::Adopted && link.policy.adopted_on_delete == AdoptedOnDelete::Release {
        if !copy.marked || link.policy.identity == Identity::Memory {
            return None;
        }
        let last = pass.entry(link).and_then(|entry| entry.snapshot.as_ref());
        let last = last.map(super::memory::Snapshot::object);
        let source = source.map(|s| &**s).or(last)?;
        let patch = unmark(link, source, object)?;
        return Some(Turn::step(locked(key, object, patch), Effect::LetGo).of(key));
    }
    if object.in_deletion() {
        return Some(last_words(pass, link, source.map(|s| &**s), key, object));
    }
    // Without a uid nothing says which incarnation would go.
    let Some(uid) = object.uid().map(Into::into) else {
        return Some(Turn::end(Code::NotSeen).of(key));
    };
    let key = key.clone();
    Some(
        Turn::step(
            Request::Delete {
                key: key.clone(),
                uid,
            },
            Effect::Cleanup,
        )
        .of(&key),
    )
}

/// The patch that takes our marks off an object; none where it carries none.
fn unmark(link: &Link, source: &Object, object: &Object) -> Option<Value> {
    let marks = link.rules.marks(source, Made::Adopted);
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

/// Whether a finalizer of ours keeps the source, so that a copy may have been made.
fn held(pass: &Pass<'_>, link: &Link, source: LastSource<'_>) -> bool {
    let holds = [&link.policy.hold, &pass.subject.finalizer];
    match source {
        Some(source) => holds
            .into_iter()
            .flatten()
            .any(|finalizer| source.has_finalizer(&finalizer.0)),
        None => pass.entry(link).is_some(),
    }
}

/// The patch that takes the link's own finalizer off its source.
fn let_go(link: &Link, source: LastSource<'_>) -> Option<Turn> {
    let (Some(key), Some(finalizer), Some(source)) = (link.source.key(), &link.policy.hold, source)
    else {
        return None;
    };
    source
        .has_finalizer(&finalizer.0)
        .then(|| Turn::step(release(key, source, finalizer), Effect::Released))
}
