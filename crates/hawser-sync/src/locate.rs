//! Phase one: find the copy of a link, and determine its owner.

use std::sync::Arc;

use kube_lang::object::Object;

use super::key::Key;
use super::link::{Adoption, Identity, Link, Target};
use super::memory::{CopyRecord, Entry};
use super::merge::{agrees, equals};
use super::pass::{Lookup, Pass};
use super::reason::{Code, Reason};
use super::request::Request;
use super::rules::{CopyOrigin, Owner};
use super::view::{Found, Freshness, Seen};

/// The copy, as it was found.
pub(super) struct LocatedCopy {
    pub(super) key: Key,
    pub(super) object: Arc<Object>,
    pub(super) made: CopyOrigin,
    /// False if it was recognised by its uid only and has to be marked again.
    pub(super) marked: bool,
}

/// The object in the place of the copy.
pub(super) enum Located {
    /// The copy.
    Copy(LocatedCopy),
    /// An object without owner.
    Unclaimed {
        key: Key,
        object: Arc<Object>,
    },
    /// An object that belongs to another owner.
    Foreign {
        key: Key,
        who: String,
    },
    /// No copy; `witnessed` if that is certain enough to release the source.
    Missing {
        key: Key,
        witnessed: bool,
    },
    /// No copy is known, and the rules cannot name its place.
    Unplaced(Reason),
    Read(Request),
}

impl Located {
    /// The key of the copy, existing or future, if the engine may write there.
    pub(super) fn place(&self) -> Option<&Key> {
        match self {
            Self::Missing { key, .. }
            | Self::Unclaimed { key, .. }
            | Self::Copy(LocatedCopy { key, .. }) => Some(key),
            Self::Foreign { .. } | Self::Unplaced(_) | Self::Read(_) => None,
        }
    }
}

pub(super) fn locate(pass: &Pass<'_>, link: &Link, source: Option<&Object>) -> Located {
    match &link.target {
        Target::Named(key) => at(pass, link, key),
        Target::Marked { scope, labels } => {
            let candidates = match pass.view.find(scope, labels) {
                Found::All(candidates) => candidates,
                Found::Unknown => {
                    return Located::Read(Request::Find {
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
                Some((key, ..)) if pass.view.freshness(&key) == Freshness::Stale => {
                    Located::Read(Request::Read { key })
                }
                Some((key, object, made)) => Located::Copy(LocatedCopy {
                    key,
                    object,
                    made,
                    marked: true,
                }),
                None => locate_unmarked(pass, link, source),
            }
        }
    }
}

/// Chooses the copy among the objects with its marks: by the recorded uid, by the recorded name, by the name from the
/// rules, or, without a record, the oldest. The others are copies of the copy that another writer created with its
/// labels. They are not the copy even when it is gone: a source in deletion may have no record because an earlier
/// process deleted its copy. And objects older than a source without a record belong to an earlier object of that name.
fn choose(
    pass: &Pass<'_>,
    link: &Link,
    source: Option<&Object>,
    mut ours: Vec<(Key, Arc<Object>, CopyOrigin)>,
) -> Option<(Key, Arc<Object>, CopyOrigin)> {
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
    let placed = source.and_then(|source| pass.facts().place(link, source).ok());
    let is_gone = |key: &Key| {
        pass.view.freshness(key) == Freshness::Live && pass.view.get(key) == Seen::Absent
    };
    let is_over = record.is_none() && source.is_some_and(Object::in_deletion);
    let others_are_clones =
        recorded.is_some() || placed.is_some() && is_over || placed.as_ref().is_some_and(is_gone);
    let is_older = |object: &Object| {
        let since = source.filter(|_| record.is_none() && placed.is_some());
        since.is_some_and(|source| created_at(object) < created_at(source))
    };
    ours.retain(|(key, object, _)| {
        is_recorded(key, object)
            || placed.as_ref() == Some(key)
            || !others_are_clones && !is_older(object)
    });
    ours.into_iter().min_by_key(|(key, object, _)| {
        (
            uid.is_none() || object.uid() != uid,
            recorded != Some(key),
            placed.as_ref() != Some(key),
            created_at(object),
            key.clone(),
        )
    })
}

fn created_at(object: &Object) -> String {
    let born = object.as_value().pointer("/metadata/creationTimestamp");
    born.and_then(|b| b.as_str()).unwrap_or_default().to_owned()
}

/// No object has the marks: there is no copy, or its marks were removed, or it is too new for the cache. The place to
/// look at is the recorded name, or else the one that the rules give.
fn locate_unmarked(pass: &Pass<'_>, link: &Link, source: Option<&Object>) -> Located {
    let placed = source.map(|source| pass.facts().place(link, source));
    let recorded = pass.entry(link).map(|entry| &entry.copy);
    // The recorded name was only intended, and the rules now give another one. A live read shows whether a copy was
    // created under the recorded name.
    if let (Some(CopyRecord::Intended { key: old, .. }), Some(Ok(new))) = (recorded, &placed)
        && old != new
    {
        return match pass.lookup_live(old) {
            Lookup::Read(request) => Located::Read(request),
            Lookup::Present(object) => match classify(pass, link, old, object) {
                copy @ Located::Copy(_) => copy,
                _ => at_unfiltered(pass, link, new),
            },
            Lookup::Absent => at_unfiltered(pass, link, new),
        };
    }
    match (recorded.and_then(CopyRecord::key), placed) {
        (Some(key), _) => at_unfiltered(pass, link, key),
        (None, Some(Ok(key))) => at_unfiltered(pass, link, &key),
        (None, Some(Err(reason))) => Located::Unplaced(reason),
        (None, None) => Located::Unplaced(Code::Gone.into()),
    }
}

/// The object at a key whose cache may be filtered by labels. If it is unknown, Hawser may try to create it, but never
/// releases anything.
fn at_unfiltered(pass: &Pass<'_>, link: &Link, key: &Key) -> Located {
    if pass.view.freshness(key) == Freshness::Stale {
        return Located::Read(Request::Read { key: key.clone() });
    }
    match pass.view.get(key) {
        Seen::Present(object) => classify(pass, link, key, object),
        seen => Located::Missing {
            key: key.clone(),
            witnessed: seen == Seen::Absent && pass.view.freshness(key) == Freshness::Live,
        },
    }
}

fn at(pass: &Pass<'_>, link: &Link, key: &Key) -> Located {
    match pass.lookup(key) {
        Lookup::Read(request) => Located::Read(request),
        Lookup::Present(object) => classify(pass, link, key, object),
        Lookup::Absent => Located::Missing {
            key: key.clone(),
            witnessed: pass.view.freshness(key) == Freshness::Live,
        },
    }
}

/// The owner of the object at a key.
fn classify(pass: &Pass<'_>, link: &Link, key: &Key, object: Arc<Object>) -> Located {
    let key = key.clone();
    let copy = |made, marked| {
        Located::Copy(LocatedCopy {
            key: key.clone(),
            object: Arc::clone(&object),
            made,
            marked,
        })
    };
    let entry = pass.entry(link);
    match link.rules.owner(&object) {
        Owner::Other(who) => Located::Foreign { key, who },
        Owner::Nobody if link.policy.identity == Identity::Name => copy(CopyOrigin::Created, true),
        Owner::Ours(made) => copy(made, true),
        Owner::Nobody => match entry.and_then(|entry| recorded(pass, link, entry, &key, &object)) {
            Some(made) => copy(made, link.policy.identity == Identity::Memory),
            None => Located::Unclaimed { key, object },
        },
    }
}

/// Whether this object is the copy according to the memory, and whether it was created or adopted.
fn recorded(
    pass: &Pass<'_>,
    link: &Link,
    entry: &Entry,
    key: &Key,
    object: &Object,
) -> Option<CopyOrigin> {
    let same = |uid: &Arc<str>| object.uid() == Some(&**uid);
    let remembered = || entry.snapshot.as_ref().map(|last| last.base_for(object));
    match &entry.copy {
        CopyRecord::Created { uid, .. } if same(uid) => Some(CopyOrigin::Created),
        // Another subject that shares the copy may have created it again, and left it to the last one that wants it.
        CopyRecord::Created { key: made, .. } => {
            let same = || remembered().is_some_and(|desired| equals(&desired, object));
            let is_there = link.policy.identity == Identity::Memory && made == key;
            // The dialect knows whether the copy is shared.
            let made = match link.policy.adoption {
                Adoption::Equal(made) => made,
                Adoption::Never | Adoption::Keep | Adoption::Overwrite => CopyOrigin::Adopted,
            };
            (is_there && same()).then_some(made)
        }
        // Another subject may have created it a moment before it was adopted for this one.
        CopyRecord::Adopted { uid, .. } => same(uid).then_some(match link.policy.adoption {
            Adoption::Equal(made) => made,
            Adoption::Never | Adoption::Keep | Adoption::Overwrite => CopyOrigin::Adopted,
        }),
        _ if link.policy.identity == Identity::Marks => None,
        CopyRecord::Unrecorded => Some(CopyOrigin::Created),
        // The copy was hidden, or a killed process created it without recording its uid. It is ours if it is what we
        // intended to create.
        CopyRecord::Intended { .. } => {
            let same = || remembered().is_some_and(|desired| agrees(&desired, object));
            // Another process that found it there may have recorded that the place was taken.
            let is_made = pass.view.created(key, object) && entry.copy.key() == Some(key);
            let may_be_made =
                || entry.copy.may_be_created(key) && same() && !pass.was_taken(link, key);
            let made = || (is_made || may_be_made()).then_some(CopyOrigin::Created);
            entry.copy.found_again(object.uid()).or_else(made)
        }
    }
}
