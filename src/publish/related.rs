//! Related objects: the Secret with the credentials, the `ConfigMap` with the endpoint, and whatever else is copied
//! with a published object, in either direction.
//!
//! In every round of a pass, the entries are resolved again with the known objects; each pair of original and copy is
//! one more link of the subject. A pair that only the memory records is a link too, until it is deleted.

use std::sync::Arc;

use hawser_sync::link::{self as sync, Fate};
use hawser_sync::{
    Found, Intent, Key, LinkId, Memory, Owner, Request, Rules as _, Seen, Subject, View,
};
use kube_lang::object::Object;

use super::memory::codec::has_related;
use super::rules::{ObjectRules, PRIMARY};

mod claim_visibility;
mod context;
pub(super) mod entry;
pub(super) mod guard;
mod identity;
mod leads;
mod ledger;
mod left;
mod links;
mod report;
mod resolve;
mod rules;
mod shared;
mod stray;

pub use claim_visibility::{binding_kind, show_all};
pub use context::{AlwaysQuiet, Kinds, PublishedKind, Quiet, RelatedContext, RelatedKind};
pub use entry::{Authors, TypeName};
pub use identity::{RelatedEnds, recorded_claims};
pub use leads::{End, EntryExplanation, leads};
pub use ledger::{ClaimIndex, ClaimOwner, ObjectClaim};
pub use report::annotations;
pub use stray::{DanglingReference, dangling_references};

use identity::Identity;
use left::{Left, Leftover};
use links::LinkBuilder;

/// The subject with the links of its related objects, given the view; the error names the reads that are needed first.
pub fn extend(
    subject: Subject,
    rules: &ObjectRules,
    around: RelatedContext<'_>,
    view: &dyn View,
) -> Result<Subject, Vec<Request>> {
    // The order of questions is that of the engine: without these nothing else is decided either.
    let Some(place) = &subject.memory else {
        return Ok(subject);
    };
    let anchor = match view.get(&subject.anchor) {
        Seen::Present(anchor) => anchor,
        Seen::Absent => return after_deletion(subject, rules, around, view),
        Seen::Unknown => return Ok(subject),
    };
    let memory = match view.get(&place.key) {
        Seen::Unknown => return Ok(subject),
        Seen::Present(stored) if rules.compiled().related.is_empty() && !has_related(&stored) => {
            return Ok(subject);
        }
        Seen::Absent => Arc::default(),
        Seen::Present(stored) => view.facts().memory(place, &stored, &subject.links),
    };
    let compiled = rules.compiled();
    if compiled.related.is_empty() && memory.entries.is_empty() {
        return Ok(subject);
    }
    let Found::All(copies) = view.find(&rules.local_scope(), rules.labels()) else {
        return Ok(subject);
    };
    let local = own_copy(copies, rules, &memory);
    // Nobody knows where entries lead that read what cannot be read.
    let readable = !anchor.is_fragment() && !local.as_ref().is_some_and(|l| l.is_fragment());
    let by = claim_owner(&place.key, rules);
    let making = LinkBuilder {
        compiled,
        rules,
        around,
        view,
        anchor: &anchor,
        memory: &memory,
        place: place.key.clone(),
        by,
    };
    if readable {
        making.links(subject, local.as_deref())
    } else {
        Ok(making.as_remembered(subject))
    }
}

/// The subject of an object that is no longer wanted. Its related copies stay, except for those without an entry, and
/// originals in deletion are released.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough in its lifetimes"
)]
pub fn unwanted(
    subject: Subject,
    rules: &ObjectRules,
    around: RelatedContext<'_>,
    view: &dyn View,
) -> Subject {
    let mut left = leftover_links(&subject, rules, around, view, |left| left.unwanted());
    let mut leaves = Subject {
        finalizer: None,
        intent: Intent::Leave,
        ..subject
    };
    if left.is_empty() {
        // Nothing is asked of it and nothing done to it.
        leaves.memory = None;
        leaves.links.clear();
    }
    leaves.links.append(&mut left);
    leaves
}

/// The subject of an object that is gone: originals that were hidden when it went are released when they appear again.
fn after_deletion(
    subject: Subject,
    rules: &ObjectRules,
    around: RelatedContext<'_>,
    view: &dyn View,
) -> Result<Subject, Vec<Request>> {
    let left = leftover_links(&subject, rules, around, view, |left| {
        Some(left.after_deletion())
    });
    let (mut left, stays) = left.transpose()?.unwrap_or_default();
    if left.is_empty() {
        return Ok(subject);
    }
    let mut gone = Subject {
        finalizer: None,
        intent: Intent::Retract,
        ..subject
    };
    for link in &mut gone.links {
        link.policy.retract = Fate::Keep;
        // Its record stays with a copy that does.
        if stays == Leftover::Copy {
            link.policy.identity = sync::Identity::Memory;
        }
    }
    gone.links.append(&mut left);
    Ok(gone)
}

/// Links of the records of a memory, beside the rules for wanted objects.
fn leftover_links<T: Default>(
    subject: &Subject,
    rules: &ObjectRules,
    around: RelatedContext<'_>,
    view: &dyn View,
    links: impl Fn(&Left<'_>) -> T,
) -> T {
    let Some(place) = &subject.memory else {
        return T::default();
    };
    let memory = match view.get(&place.key) {
        Seen::Unknown => return T::default(),
        Seen::Present(stored) if has_related(&stored) => {
            view.facts().memory(place, &stored, &subject.links)
        }
        Seen::Present(_) | Seen::Absent => Arc::default(),
    };
    let by = claim_owner(&place.key, rules);
    let left = Left {
        compiled: rules.compiled(),
        rules,
        around,
        view,
        memory: &memory,
        place: &place.key,
        by: &by,
    };
    links(&left)
}

fn claim_owner(memory: &Key, rules: &ObjectRules) -> ClaimOwner {
    ClaimOwner {
        memory: Arc::clone(&memory.name),
        cluster: rules.remote().cluster.as_str().into(),
    }
}

/// The copy of the published object: of several, the one that was created.
fn own_copy(
    copies: Vec<(Key, Arc<Object>)>,
    rules: &ObjectRules,
    memory: &Memory,
) -> Option<Arc<Object>> {
    let record = memory.entries.get(&LinkId::new(PRIMARY));
    let uid = record.and_then(|entry| entry.copy.uid());
    let mut ours: Vec<_> = copies
        .into_iter()
        .filter(|(_, object)| matches!(rules.owner(object), Owner::Ours(_)))
        .collect();
    ours.sort_by_cached_key(|(key, object)| (uid.is_none() || object.uid() != uid, key.clone()));
    ours.into_iter().next().map(|(_, object)| object)
}

/// The identifier of the entry of a link; `None` for other links.
pub fn entry_of(id: &LinkId) -> Option<String> {
    let identity = Identity::read(id);
    let made = identity.map(|identity| identity.identifier().to_owned());
    made.or_else(|| links::refused_entry(id).map(str::to_owned))
}

#[cfg(test)]
mod tests;
