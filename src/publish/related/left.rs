//! Related objects that the memory records and no entry finds: entries that were removed, objects that no longer match
//! the filter or are gone, originals that are hidden.

use std::sync::Arc;

use super::claim_visibility::{has_ended, may_be_hidden};
use super::context::RelatedContext;
use super::entry::Entry;
use super::identity::{Identity, recorded_claims};
use super::ledger::ClaimOwner;
use super::rules::LeftoverRules;
use super::shared::{SharedCopies, policy};
use crate::publish::compiled::Compiled;
use crate::publish::rules::{ObjectRules, PRIMARY};
use hawser_sync::Freshness;
use hawser_sync::link::{Claims, Fate};
use hawser_sync::{
    CopyRecord, Finalizer, Found, Key, Link, LinkId, Memory, Policy, Request, Seen, Source, Target,
    View,
};

/// The records of related objects.
pub(super) struct Left<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) rules: &'a ObjectRules,
    pub(super) around: RelatedContext<'a>,
    pub(super) view: &'a dyn View,
    pub(super) memory: &'a Memory,
    /// The key of the memory.
    pub(super) place: &'a Key,
    pub(super) by: &'a ClaimOwner,
}

/// The remains of an object that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leftover {
    #[default]
    Nothing,
    /// A copy that its owner may want to keep.
    Copy,
}

/// The reason why an original is absent.
pub(super) enum AbsenceReason {
    /// It was seen to end, or exists.
    No,
    /// It is hidden, or could not be read.
    Hidden,
    /// Only a read can decide.
    Unread(Request),
}

impl Left<'_> {
    /// The related links of the memory.
    pub(super) fn records(&self) -> impl Iterator<Item = (&LinkId, Identity, &CopyRecord)> {
        let entries = self.memory.entries.iter();
        entries.filter_map(|(id, record)| Some((id, Identity::read(id)?, &record.copy)))
    }

    /// The entry of a link; `None` if it was removed.
    pub(super) fn entry(&self, identity: &Identity) -> Option<&Arc<Entry>> {
        self.compiled.related.iter().find(|entry| {
            entry.identifier == identity.identifier() && entry.origin == identity.origin
        })
    }

    fn shared(&self) -> SharedCopies<'_> {
        SharedCopies {
            around: self.around,
            view: self.view,
            by: self.by,
            memory: self.place,
        }
    }

    pub(super) fn source(&self, identity: &Identity) -> Key {
        identity.source(self.rules.sides(), self.rules.remote())
    }

    /// A link that deletes its copy, or keeps it if the copy is to outlive the subject.
    pub(super) fn link(
        &self,
        id: &LinkId,
        identity: &Identity,
        copy: &CopyRecord,
        stays: bool,
    ) -> Link {
        let target = match copy {
            CopyRecord::Unrecorded => None,
            recorded => recorded.key().cloned(),
        };
        let target =
            target.unwrap_or_else(|| identity.target(self.rules.sides(), self.rules.remote()));
        let mut link = Link {
            id: id.clone(),
            wave: 1,
            source: Source::Unwanted(self.source(identity)),
            target: Target::Named(target.clone()),
            rules: Arc::new(LeftoverRules {
                target: target.clone(),
            }),
            policy: Policy {
                source_finalizer: identity.hold().map(Finalizer::new),
                source_gone: Fate::Delete,
                retract: if stays { Fate::Keep } else { Fate::Delete },
                ..Policy::related()
            },
        };
        let shared = self.shared();
        link.policy.adoption = shared.adoption(&target, false);
        shared.count(Some(copy), &mut link);
        link
    }

    /// Whether a copy stays when its subject is deleted.
    pub(super) fn outlives(&self, identity: &Identity) -> bool {
        let entry = self.entry(identity);
        entry.is_some_and(|entry| policy(entry).retract == Fate::Keep)
    }

    /// The reason why the original of a link is absent.
    pub(super) fn away(&self, identity: &Identity) -> AbsenceReason {
        let source = self.source(identity);
        let view = self.view;
        if view.get(&source) != Seen::Absent {
            return AbsenceReason::No;
        }
        if identity.hold().is_some() {
            return if view.ended(&source) {
                AbsenceReason::No
            } else {
                AbsenceReason::Hidden
            };
        }
        if view.freshness(&source) == Freshness::Live {
            return AbsenceReason::No;
        }
        let read = Request::Read { key: source };
        match view.note(&read) {
            None => AbsenceReason::Unread(read),
            Some(_) => AbsenceReason::Hidden,
        }
    }

    /// Marks links with an end that was not seen. When the object is deleted: those whose originals have ended without
    /// a deletion event, because their records are deleted with the object. Before that: those whose copies are not
    /// wanted and may only be hidden. The error names the reads that are needed first.
    pub(super) fn note_absences(
        &self,
        links: &mut [Link],
        leaving: bool,
    ) -> Result<(), Vec<Request>> {
        let mut needs = Vec::new();
        for link in links {
            let known = self.memory.entries.contains_key(&link.id);
            if !known || !leaving && !self.is_over(&link.source) {
                continue;
            }
            let Some(identity) = Identity::read(&link.id) else {
                continue;
            };
            let (told, absent) = if leaving {
                let ended = has_ended(&identity, self.rules, self.view);
                (ended, &mut link.policy.source_ended)
            } else {
                let hidden = may_be_hidden(&identity, self.rules, self.view);
                (hidden, &mut link.policy.copy_hidden)
            };
            match told {
                Ok(told) => *absent = told,
                Err(mut reads) => needs.append(&mut reads),
            }
        }
        if needs.is_empty() { Ok(()) } else { Err(needs) }
    }

    /// Whether the copy of a source is no longer wanted.
    fn is_over(&self, source: &Source) -> bool {
        match source {
            Source::Unwanted(_) => true,
            Source::Live(key) => match self.view.get(key) {
                Seen::Present(source) => source.in_deletion(),
                Seen::Absent => true,
                Seen::Unknown => false,
            },
            Source::Refused(_) => false,
        }
    }

    /// The links of an object that is no longer wanted: its copies stay, except for those without an entry and those of
    /// originals in deletion.
    pub(super) fn unwanted(&self) -> Vec<Link> {
        let over = |identity: &Identity| {
            self.entry(identity).is_none() || identity.hold().is_some() && self.is_dying(identity)
        };
        // Before others are asked: of several that give up an object at once, the last one finds no other.
        self.claim_recorded(|identity| !over(identity));
        self.records()
            .filter(|(_, identity, _)| over(identity))
            .map(|(id, identity, copy)| self.link(id, &identity, copy, false))
            .collect()
    }

    /// The links of an object that is gone, while originals may still have a finalizer for it: hidden ones are
    /// released, and if a copy of the object stays, only those in deletion.
    pub(super) fn after_deletion(&self) -> Result<(Vec<Link>, Leftover), Vec<Request>> {
        self.claim_recorded(|_| true);
        let copies = self
            .view
            .find(&self.rules.local_scope(), self.rules.labels());
        let stays = match copies {
            Found::All(none) if none.is_empty() => Leftover::Nothing,
            Found::All(_) => Leftover::Copy,
            Found::Unknown => return Ok((Vec::new(), Leftover::Copy)),
        };
        let holds = self
            .records()
            .any(|(_, identity, _)| identity.hold().is_some());
        if !self.memory.entries.contains_key(&LinkId::new(PRIMARY)) || !holds {
            return Ok((Vec::new(), stays));
        }
        let links = self.records().map(|(id, identity, copy)| {
            let over = stays == Leftover::Nothing || self.is_dying(&identity);
            let goes = identity.hold().is_some() && over;
            let mut link = self.link(id, &identity, copy, !goes);
            if !goes {
                link.policy.source_finalizer = None;
            }
            // What may still be there of copies is nobody's to delete.
            link.policy.claims = Claims::Shared;
            link
        });
        let mut links: Vec<_> = links.collect();
        self.note_absences(&mut links, true)?;
        Ok((links, stays))
    }

    fn is_dying(&self, identity: &Identity) -> bool {
        match self.view.get(&self.source(identity)) {
            Seen::Present(source) => source.in_deletion(),
            Seen::Absent | Seen::Unknown => false,
        }
    }

    /// Claims exactly these records of the memory.
    fn claim_recorded(&self, keeps: impl Fn(&Identity) -> bool) {
        let (sides, remote) = (self.rules.sides(), self.rules.remote());
        let kept = self.records().filter(|(_, identity, _)| keeps(identity));
        let (claims, _) = recorded_claims(kept.map(|(id, _, copy)| (id, copy)), sides, remote);
        let all = self.records().map(|(id, _, copy)| (id, copy));
        let (_, made) = recorded_claims(all, sides, remote);
        let ledger = self.around.ledger;
        ledger.set_recorded_claims(self.by, claims, made);
    }
}
