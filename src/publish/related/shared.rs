//! Related copies that several published objects may want.

use super::context::RelatedContext;
use super::entry::Entry;
use super::ledger::{ClaimOwner, MadeByOther, ObjectClaim};
use crate::publish::types::Origin;
use hawser_sync::link::{Adoption, Claims, Content, Fate, StatusFlow};
use hawser_sync::{CopyOrigin, CopyRecord, Key, Link, Policy, Seen, Target, View};

/// What a published object does with related copies that others may want too.
#[derive(Clone, Copy)]
pub(super) struct SharedCopies<'a> {
    pub(super) around: RelatedContext<'a>,
    pub(super) view: &'a dyn View,
    pub(super) by: &'a ClaimOwner,
    /// The key of the published object's memory.
    pub(super) memory: &'a Key,
}

impl SharedCopies<'_> {
    /// An object in the place of a copy is adopted if it equals the copy. It is ours if the caller knows that, or if
    /// it was created for another object.
    pub(super) fn adoption(&self, target: &Key, is_ours: bool) -> Adoption {
        if is_ours {
            return Adoption::Equal(CopyOrigin::Created);
        }
        let made = match self.view.get(target) {
            Seen::Present(there) => {
                let ledger = self.around.ledger;
                ledger.made_by_other(self.by, target, there.uid())
            }
            Seen::Absent | Seen::Unknown => MadeByOther::No,
        };
        let origin = match made {
            MadeByOther::Yes => CopyOrigin::Created,
            MadeByOther::No => CopyOrigin::Adopted,
            MadeByOther::Perhaps(owners) => {
                // Another pass follows when one of these memories says more.
                for owner in owners {
                    self.view.get(&self.memory.place.key(owner.memory));
                }
                CopyOrigin::Adopted
            }
        };
        Adoption::Equal(origin)
    }

    /// The last owner of claims on an object deletes it, and releases its original. A copy that was created a moment ago
    /// is left to others once one of them records it.
    pub(super) fn count(&self, record: Option<&CopyRecord>, link: &mut Link) {
        let ledger = self.around.ledger;
        keep_shared(link, |claim| ledger.is_shared(self.by, claim));
        let Target::Named(target) = &link.target else {
            return;
        };
        if link.policy.claims == Claims::Shared
            && link.policy.retract == Fate::Delete
            && let Seen::Present(there) = self.view.get(target)
            && record.is_some_and(|record| {
                let uid = record.uid();
                record.is_made() && (uid.is_none() || uid == there.uid())
            })
            && !ledger.is_recorded_by_heir(self.by, target, there.uid())
            && !self.around.quiet.is_settled(target, &there)
        {
            link.policy.claims = Claims::Unrecorded;
        }
    }
}

/// The copy of a link.
fn copy(link: &Link) -> Option<ObjectClaim> {
    match &link.target {
        Target::Named(key) => Some(ObjectClaim::copy(key)),
        Target::Marked { .. } => None,
    }
}

/// The original of a link, if the link adds a finalizer to it.
fn held(link: &Link) -> Option<ObjectClaim> {
    let finalizer = link.policy.source_finalizer.as_ref()?;
    Some(ObjectClaim::held(link.source.key()?, &finalizer.0))
}

/// The claims of a link.
pub(super) fn claims(link: &Link) -> impl Iterator<Item = ObjectClaim> {
    let original = || Some(ObjectClaim::original(link.source.key()?));
    let pair = match (&link.target, link.source.key()) {
        (Target::Named(copy), Some(original)) => Some(ObjectClaim::made_from(copy, original)),
        (Target::Marked { .. }, _) | (_, None) => None,
    };
    let ends = copy(link).into_iter().chain(held(link).or_else(original));
    ends.chain(pair)
}

/// Keeps objects that others claim too: the copy stays, and its original keeps the finalizer.
pub(super) fn keep_shared(link: &mut Link, wanted: impl Fn(&ObjectClaim) -> bool) {
    if copy(link).is_some_and(|claim| wanted(&claim)) {
        link.policy.claims = Claims::Shared;
    }
    if held(link).is_some_and(|claim| wanted(&claim)) {
        link.policy.source_finalizer = None;
    }
}

/// The policy of the links of an entry.
pub(super) fn policy(entry: &Entry) -> Policy {
    let from_kcp = entry.origin == Origin::Kcp;
    let core = entry.target.group.is_empty()
        && matches!(&*entry.target.resource, "secrets" | "configmaps");
    Policy {
        retract: if from_kcp || entry.choices.cleanup {
            Fate::Delete
        } else {
            Fate::Keep
        },
        // What the provider hands out stays as it is handed out. Of other kinds nobody knows what
        // their servers make of a value.
        content: if !from_kcp && core {
            Content::Restore
        } else {
            Content::Merge
        },
        status: if entry.choices.sync_status {
            StatusFlow::Forward
        } else {
            StatusFlow::None
        },
        ..Policy::related()
    }
}
