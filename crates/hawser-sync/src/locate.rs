//! Phase one: find the copy of a link, and say whose it is.

use std::sync::Arc;

use kube_lang::object::Object;

use super::memory::{CopyRecord, Entry};
use super::merge::{agrees, equals};
use super::pass::{Pass, Sight};
use super::reason::Reason;
use super::request::Request;
use super::rules::{Made, Owner};
use super::subject::{Identity, Key, Link, Source, Target};
use super::view::{Found, Proof, Seen};

/// What stands where the copy should be.
pub(super) enum Located {
    /// Our copy. `marked` is false where it was known by its uid only and has to be marked again.
    Copy {
        key: Key,
        object: Arc<Object>,
        made: Made,
        marked: bool,
    },
    /// An object that nobody owns.
    Unclaimed {
        key: Key,
        object: Arc<Object>,
    },
    /// An object that belongs to somebody else.
    Foreign {
        key: Key,
        who: String,
    },
    /// No copy; `witnessed` where that is certain enough to let go of the source.
    Missing {
        key: Key,
        witnessed: bool,
    },
    /// No copy is known, and the rules cannot say where one would be.
    Unplaced(Reason),
    Look(Request),
}

pub(super) fn locate(pass: &Pass<'_>, link: &Link, source: Option<&Object>) -> Located {
    match &link.target {
        Target::Named(key) => at(pass, link, key),
        Target::Marked { scope, labels } => {
            let candidates = match pass.find(scope, labels) {
                Found::All(candidates) => candidates,
                Found::Unknown => {
                    return Located::Look(Request::Find {
                        scope: scope.clone(),
                        labels: labels.clone(),
                    });
                }
            };
            let ours = candidates.into_iter().filter_map(|(key, object)| {
                match link.rules.owner(&object) {
                    Owner::Ours(made) => Some((key, object, made)),
                    Owner::Nobody | Owner::Other(_) => None,
                }
            });
            match choose(pass, link, source, ours.collect()) {
                Some((key, ..)) if pass.proof(&key) == Proof::Doubtful => {
                    Located::Look(Request::Read { key })
                }
                Some((key, object, made)) => Located::Copy {
                    key,
                    object,
                    made,
                    marked: true,
                },
                None => unmarked(pass, link, source),
            }
        }
    }
}

/// Of the objects with our marks, the one that was made as the copy: by its recorded uid, by its
/// recorded name, by the name that the rules give, or, where nothing is recorded, the oldest. The others
/// are copies of the copy that somebody made with its labels, also once the copy itself is gone.
fn choose(
    pass: &Pass<'_>,
    link: &Link,
    source: Option<&Object>,
    mut ours: Vec<(Key, Arc<Object>, Made)>,
) -> Option<(Key, Arc<Object>, Made)> {
    let record = pass.entry(link).map(|entry| &entry.copy);
    let uid = record.and_then(CopyRecord::uid);
    let recorded = record.and_then(CopyRecord::key);
    let is_recorded =
        |key: &Key, object: &Object| recorded == Some(key) || uid.is_some() && object.uid() == uid;
    if let [(key, object, _)] = &*ours
        && is_recorded(key, object)
    {
        return ours.pop();
    }
    let placed = source.and_then(|source| link.rules.place(source).ok());
    let is_gone = |key: &Key| pass.proof(key) == Proof::Witnessed && pass.get(key) == Seen::Absent;
    if recorded.is_some() || placed.as_ref().is_some_and(is_gone) {
        ours.retain(|(key, object, _)| is_recorded(key, object) || placed.as_ref() == Some(key));
    }
    ours.into_iter().min_by_key(|(key, object, _)| {
        (
            uid.is_none() || object.uid() != uid,
            recorded != Some(key),
            placed.as_ref() != Some(key),
            born(object),
            key.clone(),
        )
    })
}

fn born(object: &Object) -> String {
    let born = object.as_value().pointer("/metadata/creationTimestamp");
    born.and_then(|b| b.as_str()).unwrap_or_default().to_owned()
}

/// Nothing carries our marks: either there is no copy, or the marks are gone from it, or it is
/// too new for the cache. The recorded name, and else the one of the rules, says where to look.
fn unmarked(pass: &Pass<'_>, link: &Link, source: Option<&Object>) -> Located {
    let placed = source.map(|source| link.rules.place(source));
    let recorded = pass.entry(link).map(|entry| &entry.copy);
    match (recorded, placed) {
        // The name was given and never used, and the rules would give another one now: only a
        // live read says whether the copy was made after all.
        (Some(CopyRecord::Intended(old)), Some(Ok(new))) if *old != new => {
            match pass.witness(old) {
                Sight::Look(request) => Located::Look(request),
                Sight::Present(object) => match classify(pass, link, old, object) {
                    copy @ Located::Copy { .. } => copy,
                    _ => at_unfiltered(pass, link, &new),
                },
                Sight::Absent => at_unfiltered(pass, link, &new),
            }
        }
        (Some(record), placed) => match (record.key(), placed) {
            (Some(key), _) => at_unfiltered(pass, link, key),
            (None, Some(Ok(key))) => at_unfiltered(pass, link, &key),
            (None, Some(Err(reason))) => Located::Unplaced(reason),
            (None, None) => Located::Unplaced(super::reason::Code::Gone.into()),
        },
        (None, Some(Ok(key))) => at_unfiltered(pass, link, &key),
        (None, Some(Err(reason))) => Located::Unplaced(reason),
        (None, None) => Located::Unplaced(super::reason::Code::Gone.into()),
    }
}

/// At a key whose cache may be filtered by labels: not knowing the object is enough to try and
/// make it, and never enough to let go of anything.
fn at_unfiltered(pass: &Pass<'_>, link: &Link, key: &Key) -> Located {
    if pass.proof(key) == Proof::Doubtful {
        return Located::Look(Request::Read { key: key.clone() });
    }
    match pass.get(key) {
        Seen::Present(object) => classify(pass, link, key, object),
        seen => Located::Missing {
            key: key.clone(),
            witnessed: seen == Seen::Absent && pass.proof(key) == Proof::Witnessed,
        },
    }
}

fn at(pass: &Pass<'_>, link: &Link, key: &Key) -> Located {
    match pass.see(key) {
        Sight::Look(request) => Located::Look(request),
        Sight::Present(object) => classify(pass, link, key, object),
        Sight::Absent => Located::Missing {
            key: key.clone(),
            witnessed: pass.proof(key) == Proof::Witnessed,
        },
    }
}

/// Whose the object at a key is.
fn classify(pass: &Pass<'_>, link: &Link, key: &Key, object: Arc<Object>) -> Located {
    let key = key.clone();
    let copy = |made, marked| Located::Copy {
        key: key.clone(),
        object: Arc::clone(&object),
        made,
        marked,
    };
    let entry = pass.entry(link);
    match link.rules.owner(&object) {
        Owner::Other(who) => Located::Foreign { key, who },
        Owner::Nobody if link.policy.identity == Identity::Name => copy(Made::Created, true),
        Owner::Ours(made) => copy(made, true),
        Owner::Nobody => match entry.and_then(|entry| recorded(link, entry, &key, &object)) {
            Some(made) => copy(made, link.policy.identity == Identity::Memory),
            None => Located::Unclaimed { key, object },
        },
    }
}

/// Whether the memory says that this object is our copy, and how it became that.
fn recorded(link: &Link, entry: &Entry, key: &Key, object: &Object) -> Option<Made> {
    let same = |uid: &Arc<str>| object.uid() == Some(&**uid);
    let remembered = || entry.snapshot.as_ref().map(|last| last.base_for(object));
    match &entry.copy {
        CopyRecord::Created { uid, .. } if same(uid) => Some(Made::Created),
        // Somebody who shared it has made it anew, and may have left it to whoever wants it last.
        CopyRecord::Created { key: made, .. } => {
            let last = link.policy.identity == Identity::Memory
                && matches!(link.source, Source::Unwanted(_));
            let same = || remembered().is_some_and(|desired| equals(&desired, object));
            (last && made == key && same()).then_some(Made::Created)
        }
        CopyRecord::Adopted { uid, .. } => same(uid).then_some(Made::Adopted),
        _ if link.policy.identity == Identity::Marks => None,
        CopyRecord::Unrecorded => Some(Made::Created),
        // Killed between making it and recording its uid: it is what we were about to make.
        CopyRecord::Intended(intended) => {
            let same = || remembered().is_some_and(|desired| agrees(&desired, object));
            (intended == key && same()).then_some(Made::Created)
        }
    }
}
