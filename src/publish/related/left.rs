//! What is remembered of related objects and no entry leads to now: entries that were removed, objects that
//! left the filter or are gone, originals that are out of sight.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Ends;
use super::entry::Entry;
use super::identity::Identity;
use super::ledger::{Claimant, Ledger, Wish};
use super::links::{count, is_made, policy};
use super::rules::LeftRules;
use crate::publish::compiled::Compiled;
use crate::publish::rules::{ObjectRules, PRIMARY};
use hawser_sync::subject::{Claims, Fate};
use hawser_sync::view::Proof;
use hawser_sync::{
    CopyRecord, Finalizer, Found, Key, Link, LinkId, Memory, Policy, Request, Seen, Source, Target,
    View,
};

/// See the module.
pub(super) struct Left<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) rules: &'a ObjectRules,
    pub(super) ledger: &'a Ledger,
    pub(super) view: &'a dyn View,
    pub(super) memory: &'a Memory,
    pub(super) by: &'a Claimant,
}

/// What is left of an object that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stays {
    #[default]
    Nothing,
    /// A copy, which somebody may have meant to keep.
    Copy,
}

/// Why an original is not there.
pub(super) enum Away {
    /// It was seen to end, or is there.
    No,
    /// It is out of sight, or could not be read.
    Hidden,
    /// Only a read tells.
    Unread(Request),
}

impl Left<'_> {
    /// The related links of the memory.
    pub(super) fn records(&self) -> impl Iterator<Item = (&LinkId, Identity, &CopyRecord)> {
        let entries = self.memory.entries.iter();
        entries.filter_map(|(id, record)| Some((id, Identity::read(id)?, &record.copy)))
    }

    /// The entry that a link was made by; none where it was removed.
    pub(super) fn entry(&self, identity: &Identity) -> Option<&Arc<Entry>> {
        self.compiled.related.iter().find(|entry| {
            entry.identifier == identity.identifier() && entry.origin == identity.origin
        })
    }

    pub(super) fn source(&self, identity: &Identity) -> Key {
        identity.source(self.rules.sides(), self.rules.remote())
    }

    /// A link that takes back what was made, or lets it stay where that is to outlive the subject.
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
            rules: Arc::new(LeftRules { target }),
            policy: Policy {
                hold: identity.hold().map(Finalizer::new),
                source_gone: Fate::Delete,
                retract: if stays { Fate::Keep } else { Fate::Delete },
                ..Policy::related()
            },
        };
        count(self.ledger, self.by, &mut link);
        link
    }

    /// Whether a copy stays when its subject goes.
    pub(super) fn outlives(&self, identity: &Identity) -> bool {
        let entry = self.entry(identity);
        entry.is_some_and(|entry| policy(entry).retract == Fate::Keep)
    }

    /// Why the original of a link is not there.
    pub(super) fn away(&self, identity: &Identity) -> Away {
        let source = self.source(identity);
        let view = self.view;
        if view.get(&source) != Seen::Absent {
            return Away::No;
        }
        if identity.hold().is_some() {
            return if view.ended(&source) {
                Away::No
            } else {
                Away::Hidden
            };
        }
        if view.proof(&source) == Proof::Witnessed {
            return Away::No;
        }
        let read = Request::Read { key: source };
        match view.note(&read) {
            None => Away::Unread(read),
            Some(_) => Away::Hidden,
        }
    }

    /// The links of an object that is not wanted any more: what it has stays as it is, but for what no entry
    /// tells of any more, and for originals that are in deletion.
    pub(super) fn outside(&self) -> Vec<Link> {
        let over = |identity: &Identity| {
            self.entry(identity).is_none() || identity.hold().is_some() && self.is_dying(identity)
        };
        self.records()
            .filter(|(_, identity, _)| over(identity))
            .map(|(id, identity, copy)| self.link(id, &identity, copy, false))
            .collect()
    }

    /// The links of an object that is gone, where originals may still be held on its behalf: those that were
    /// out of sight then are let go, and where a copy of the object stays, those in deletion only.
    pub(super) fn afterwards(&self) -> (Vec<Link>, Stays) {
        let copies = self
            .view
            .find(&self.rules.local_scope(), &self.rules.remote().marked());
        let stays = match copies {
            Found::All(none) if none.is_empty() => Stays::Nothing,
            Found::All(_) => Stays::Copy,
            Found::Unknown => return (Vec::new(), Stays::Copy),
        };
        let holds = self
            .records()
            .any(|(_, identity, _)| identity.hold().is_some());
        if !self.memory.entries.contains_key(&LinkId::new(PRIMARY)) || !holds {
            return (Vec::new(), stays);
        }
        let links = self.records().map(|(id, identity, copy)| {
            let over = stays == Stays::Nothing || self.is_dying(&identity);
            let goes = identity.hold().is_some() && over;
            let mut link = self.link(id, &identity, copy, !goes);
            if !goes {
                link.policy.hold = None;
            }
            // What may still be there of copies is nobody's to delete.
            link.policy.claims = Claims::Shared;
            link
        });
        (links.collect(), stays)
    }

    fn is_dying(&self, identity: &Identity) -> bool {
        match self.view.get(&self.source(identity)) {
            Seen::Present(source) => source.in_deletion(),
            Seen::Absent | Seen::Unknown => false,
        }
    }

    /// Claims from now on what the memory tells of, and no more.
    pub(super) fn recall(&self) {
        let wishes = |made: &dyn Fn(&CopyRecord) -> bool| -> BTreeSet<Wish> {
            let ids = self
                .memory
                .entries
                .iter()
                .filter(|(_, record)| made(&record.copy));
            ids.filter_map(|(id, _)| Ends::read(id, self.rules.sides(), self.rules.remote()))
                .flat_map(|ends| ends.wishes().collect::<Vec<_>>())
                .collect()
        };
        self.ledger
            .recalled(self.by, wishes(&|_| true), wishes(&is_made));
    }
}
