//! Turns entries into links: wanted, waiting and refused pairs, and the remains of earlier ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::context::{PublishedKind, RelatedContext, RelatedKind};
use super::entry::{Entry, TypeName};
use super::guard::Guard;
use super::identity::{Identity, RelatedEnds, recorded_claims, same_object};
use super::ledger::{ClaimOwner, ObjectClaim};
use super::left::{AbsenceReason, Left};
use super::resolve::{EntryProblem, RelatedNames, Rendering, ResolveInputs, Resolved};
use super::rules::{LeftoverRules, PairRules};
use super::shared::{SharedCopies, claims, keep_shared, policy};
use crate::publish::compiled::Compiled;
use crate::publish::marks;
use crate::publish::naming::LocalScope;
use crate::publish::rules::{ObjectRules, PRIMARY, Sides};
use crate::publish::types::Origin;
use hawser_sync::link::Adoption;
use hawser_sync::reason::Class;
use hawser_sync::{
    Code, CopyRecord, Finalizer, Key, Link, LinkId, Memory, Policy, Reason, Request, Scope, Seen,
    Side, Source, Subject, Target, View, equals,
};
use kube_lang::object::{Gvk, Object};

pub(super) struct LinkBuilder<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) rules: &'a ObjectRules,
    pub(super) around: RelatedContext<'a>,
    pub(super) view: &'a dyn View,
    pub(super) anchor: &'a Object,
    pub(super) memory: &'a Memory,
    /// The key of the memory.
    pub(super) place: Key,
    pub(super) by: ClaimOwner,
}

/// The results of the entries.
#[derive(Default)]
struct BuiltLinks {
    links: Vec<Link>,
    needs: Vec<Request>,
    /// Entries whose targets are unknown: their copies stay unchanged.
    unknown: BTreeSet<String>,
    /// Pairs that wait.
    waiting: BTreeSet<LinkId>,
}

impl LinkBuilder<'_> {
    pub(super) fn links(
        &self,
        subject: Subject,
        local: Option<&Object>,
    ) -> Result<Subject, Vec<Request>> {
        let leaving = self.anchor.in_deletion();
        let mut made = BuiltLinks::default();
        if let Some(local) = local {
            let in_step = self.is_in_step(&subject, local);
            for entry in &self.compiled.related {
                self.entry(entry, (local, in_step), &mut made);
            }
        } else if !leaving {
            // Without a copy to read from, nobody knows where entries lead.
            return Ok(subject);
        }
        if !leaving {
            self.vanished(&mut made);
            if !made.needs.is_empty() {
                return Err(made.needs);
            }
        }
        let mut subject = self.gathered(subject, made);
        self.remembered()
            .note_absences(&mut subject.links, leaving)?;
        Ok(subject)
    }

    /// The links if the entries cannot be resolved: nothing more is created, and existing copies stay until the subject
    /// goes.
    pub(super) fn as_remembered(&self, subject: Subject) -> Subject {
        let known = self.memory.entries.keys().filter_map(Identity::read);
        let made = BuiltLinks {
            unknown: known.map(|known| known.identifier().to_owned()).collect(),
            ..BuiltLinks::default()
        };
        self.gathered(subject, made)
    }

    /// The subject with the links of the entries and of the remains.
    fn gathered(&self, mut subject: Subject, mut made: BuiltLinks) -> Subject {
        let leaving = self.anchor.in_deletion();
        // Who neither made a copy nor can make one has no share in what others made.
        let has_share =
            |link: &&Link| self.memory.entries.contains_key(&link.id) || self.can_make(link);
        let wanted: BTreeSet<ObjectClaim> = made
            .links
            .iter()
            .filter(has_share)
            .flat_map(claims)
            .collect();
        // What of an unknown entry was made is wanted until it is known better.
        let unclear = self.unclear(&made).chain(wanted.iter().cloned());
        let all = unclear.filter(|_| !leaving).collect();
        let entries = self.memory.entries.iter();
        let records = entries.map(|(id, entry)| (id, &entry.copy));
        let (_, recorded) = recorded_claims(records, self.rules.sides(), self.rules.remote());
        self.around.ledger.wants(&self.by, all, recorded);
        let left = self.left(&made, leaving, &wanted);
        made.links.extend(left);
        if leaving {
            for link in &mut made.links {
                let entry = self.memory.entries.get(&link.id);
                self.shared().count(entry.map(|entry| &entry.copy), link);
            }
        }
        subject.links.append(&mut made.links);
        subject
    }

    /// Whether the copy of the published object is up to date.
    ///
    /// A stale copy gives original and copy names that do not belong together. If nothing is remembered yet, the state
    /// is determined now.
    fn is_in_step(&self, subject: &Subject, local: &Object) -> bool {
        if self.memory.entries.is_empty() {
            return true;
        }
        let primary = subject.links.iter().find(|link| &*link.id.0 == PRIMARY);
        let known = primary.and_then(|link| Some((link, self.memory.entries.get(&link.id)?)));
        let Some((primary, known)) = known else {
            return false;
        };
        let facts = self.view.facts();
        let desired = facts.desired(primary, self.anchor, Some(local));
        let snapshot = known.snapshot.as_ref().zip(desired.ok());
        let outstanding = known.pending.as_ref();
        snapshot.is_some_and(|(snapshot, desired)| snapshot.remembers(&desired))
            && !outstanding.is_some_and(|pending| pending.is_outstanding(local))
    }

    fn entry(&self, entry: &Arc<Entry>, (local, in_step): (&Object, bool), made: &mut BuiltLinks) {
        let led = if in_step {
            self.resolve(entry, local)
        } else {
            self.as_before(entry).map_err(EntryProblem::Refused)
        };
        let pairs = match led {
            Ok((resolved, kinds)) => {
                for (index, reason) in resolved.refused.into_iter().enumerate() {
                    let number = format!("refused {index}");
                    made.links
                        .push(refusal(&self.rules.sides().kcp, entry, &number, &reason));
                }
                (resolved.pairs, kinds)
            }
            Err(EntryProblem::Needs(request)) => {
                made.unknown.insert(entry.identifier.clone());
                if self.view.note(&request).is_none() {
                    made.needs.push(request);
                } else {
                    let reason =
                        Reason::new(Code::NotSeen, format!("entry {:?}", entry.identifier));
                    let link = refusal(&self.rules.sides().kcp, entry, "unseen", &reason);
                    made.links.push(link);
                }
                return;
            }
            Err(EntryProblem::Refused(reason)) => {
                made.unknown.insert(entry.identifier.clone());
                let link = refusal(&self.rules.sides().kcp, entry, "entry", &reason);
                made.links.push(link);
                return;
            }
        };
        let (pairs, (source, target)) = pairs;
        for (index, pair) in pairs.iter().enumerate() {
            match self.pair(entry, pair, local, (&source, &target), made) {
                Ok(link) => made.links.push(link),
                Err(reason) => {
                    let number = format!("pair {index}");
                    made.links
                        .push(refusal(&self.rules.sides().kcp, entry, &number, &reason));
                }
            }
        }
    }

    /// The last known targets of an entry.
    fn as_before(&self, entry: &Entry) -> Result<(Resolved, (RelatedKind, RelatedKind)), Reason> {
        let known = self.memory.entries.keys().filter_map(Identity::read);
        let own = known.filter(|identity| {
            identity.identifier() == entry.identifier && identity.origin == entry.origin
        });
        let mut pairs: Vec<_> = own.map(|identity| identity.pair()).collect();
        pairs.sort();
        pairs.dedup();
        let led = Resolved {
            pairs,
            ..Resolved::default()
        };
        Ok((led, self.kinds(entry)?))
    }

    fn kinds(&self, entry: &Entry) -> Result<(RelatedKind, RelatedKind), Reason> {
        let known = |side, name: &TypeName| {
            self.around.kinds.get(side, name).cloned().ok_or_else(|| {
                let TypeName {
                    group,
                    version,
                    resource,
                } = name;
                Reason::new(
                    Code::KindNotServed,
                    format!("{resource} of {group:?} in {version}"),
                )
            })
        };
        let source = known(entry.origin, &entry.source)?;
        let target = known(other(entry.origin), &entry.target)?;
        Ok((source, target))
    }

    fn resolve(
        &self,
        entry: &Entry,
        local: &Object,
    ) -> Result<(Resolved, (RelatedKind, RelatedKind)), EntryProblem> {
        let (source, target) = self.kinds(entry)?;
        let ground = ResolveInputs {
            remote: self.anchor,
            local,
            cluster: &self.rules.remote().cluster,
            path: self.rules.cluster_path(),
            view: self.view,
            originals: self.scope(entry.origin, &source.kind),
            namespaced: (source.namespaced, target.namespaced),
            rendering: Rendering::default(),
        };
        Ok((ground.resolve(entry)?, (source, target)))
    }

    fn scope(&self, side: Origin, kind: &Arc<Gvk>) -> Scope {
        let Sides { kcp, service } = self.rules.sides();
        match side {
            Origin::Kcp => Scope::new(kcp, kind, &self.rules.remote().cluster),
            Origin::Service => Scope::new(service, kind, ""),
        }
    }

    fn pair(
        &self,
        entry: &Arc<Entry>,
        pair: &RelatedNames,
        local: &Object,
        kinds: (&RelatedKind, &RelatedKind),
        made: &mut BuiltLinks,
    ) -> Result<Link, Reason> {
        let key = |side, kind: &RelatedKind, (namespace, name): &(Option<String>, String)| {
            self.scope(side, &kind.kind).key(namespace.as_deref(), name)
        };
        let source = key(entry.origin, kinds.0, &pair.source);
        let target = key(other(entry.origin), kinds.1, &pair.target);
        let types = self.compiled.types();
        let guard = Guard {
            entry,
            remote: self.rules.remote(),
            path: self.rules.cluster_path(),
            local,
            status_is_providers: types.subresources.contains(&"status"),
            mapping_is_owners: self.compiled.naming.namespace_is_owners(),
            mapping_is_open: self.compiled.mapping_is_open(),
            agent: &self.compiled.agent.namespace,
        };
        let is_primary = |key: &Key| same_object(key, &self.rules.anchor());
        if is_primary(&source) || is_primary(&target) {
            let said = "the published object cannot be its own related object";
            return Err(Reason::new(Code::ReferenceInvalid, said));
        }
        let mut owned = Ok(());
        match entry.origin {
            Origin::Service => {
                guard.place(&source)?;
                if let Some(holder) = self.around.ledger.foreign_owner(&self.by, &source) {
                    let said = format!("{source} belongs to the workspace {}", holder.cluster);
                    return Err(Reason::new(Code::NotLinked, said));
                }
                if let Seen::Present(object) = self.view.get(&source) {
                    let named = |reason: Reason| {
                        Reason::new(reason.code, format!("{source}: {}", reason.detail))
                    };
                    guard.original(&object).map_err(named)?;
                    owned = self.owners(&source, &object);
                }
            }
            Origin::Kcp => {
                guard.place(&target)?;
                self.around
                    .ledger
                    .claim(&self.by, &target)
                    .map_err(|holder| {
                        let said = format!("{target} belongs to the workspace {}", holder.cluster);
                        Reason::new(Code::NameConflict, said)
                    })?;
            }
        }
        let finalizer = self.compiled.related_finalizer();
        let id = Identity::new(entry, &source, &target, &finalizer).id();
        // Where the first of a circle ends, the last does not begin it anew.
        if !self.memory.entries.contains_key(&id)
            && self.view.get(&target) == Seen::Absent
            && self.around.ledger.leads_back(&source, &target)
        {
            let said = format!("{target} is the original that {source} is made from");
            return Err(Reason::new(Code::AdoptionRefused, said));
        }
        owned
            .and_then(|()| self.settled(entry, &source, kinds.0, &finalizer))
            .inspect_err(|reason| {
                // What is not known takes nothing back, what is known to be another's does.
                if reason.code.class() != Class::Refused {
                    made.waiting.insert(id.clone());
                }
            })?;
        let rules = PairRules {
            entry: Arc::clone(entry),
            target: target.clone(),
            status_apart: kinds.1.status,
        };
        let policy = Policy {
            source_finalizer: (entry.origin == Origin::Kcp).then(|| Finalizer::new(&finalizer)),
            adoption: self.adoption(entry, &source, &target),
            ..policy(entry)
        };
        Ok(Link {
            id,
            wave: 1,
            source: Source::Live(source),
            target: Target::Named(target),
            rules: Arc::new(rules),
            policy,
        })
    }

    /// Objects that belong to the copy of another workspace's published object are that workspace's, whichever kind it
    /// is.
    fn owners(&self, key: &Key, object: &Object) -> Result<(), Reason> {
        let types = self.compiled.types();
        let own = PublishedKind {
            group: types.local.group.clone(),
            kind: types.local.kind.clone(),
            watched: Some((
                Arc::clone(&types.local),
                types.local_scope == LocalScope::Namespaced,
            )),
        };
        let owners = object.as_value().pointer("/metadata/ownerReferences");
        for owner in owners
            .and_then(|owners| owners.as_array())
            .into_iter()
            .flatten()
        {
            let Some(name) = owner["name"].as_str() else {
                continue;
            };
            let others = self.around.published.iter();
            let others = others.filter(|one| (&one.group, &one.kind) != (&own.group, &own.kind));
            for published in others.chain([&own]).filter(|one| one.is_named_by(owner)) {
                let Some((kind, namespaced)) = &published.watched else {
                    let said = format!("{key} belongs to an object that is not known yet");
                    return Err(Reason::new(Code::NotSeen, said));
                };
                let namespace = key.namespace.as_deref().filter(|_| *namespaced);
                let owner = self.scope(Origin::Service, kind).key(namespace, name);
                // Copies are all watched: one of which nothing is known is none.
                let Seen::Present(owner) = self.view.get(&owner) else {
                    continue;
                };
                let cluster = owner.label(marks::CLUSTER);
                if cluster.is_some_and(|cluster| cluster != self.rules.remote().cluster) {
                    let said = format!("{key} belongs to an object of another workspace");
                    return Err(Reason::new(Code::NotLinked, said));
                }
            }
        }
        Ok(())
    }

    /// The creator of an object usually writes its status at once: the finalizer must not come in between.
    fn settled(
        &self,
        entry: &Entry,
        source: &Key,
        kind: &RelatedKind,
        finalizer: &str,
    ) -> Result<(), Reason> {
        if entry.origin == Origin::Service || !kind.status {
            return Ok(());
        }
        match self.view.get(source) {
            Seen::Present(object)
                if !object.has_finalizer(finalizer)
                    && !object.in_deletion()
                    && !self.around.quiet.is_quiet(source, &object) =>
            {
                Err(Code::SourceNotQuiet.into())
            }
            _ => Ok(()),
        }
    }

    fn remembered(&self) -> Left<'_> {
        Left {
            compiled: self.compiled,
            rules: self.rules,
            around: self.around,
            view: self.view,
            memory: self.memory,
            place: &self.place,
            by: &self.by,
        }
    }

    /// Reads absent originals to which an entry may no longer lead only because they are absent: labels that cannot be
    /// seen select nothing.
    fn vanished(&self, made: &mut BuiltLinks) {
        let left = self.remembered();
        for (id, identity, _) in left.records() {
            let is_link = made.links.iter().any(|link| link.id == *id);
            if is_link || left.entry(&identity).is_none() {
                continue;
            }
            match left.away(&identity) {
                AbsenceReason::No => continue,
                AbsenceReason::Hidden => {}
                AbsenceReason::Unread(read) => made.needs.push(read),
            }
            made.waiting.insert(id.clone());
        }
    }

    /// The records of the memory that no entry leads to.
    fn left(&self, made: &BuiltLinks, leaving: bool, wanted: &BTreeSet<ObjectClaim>) -> Vec<Link> {
        let is_link = |id: &LinkId| made.links.iter().any(|link| link.id == *id);
        let remembered = self.remembered();
        let mut left = Vec::new();
        for (id, identity, copy) in remembered.records() {
            let kept = made.unknown.contains(identity.identifier()) && !leaving;
            if is_link(id) || kept || made.waiting.contains(id) && !leaving {
                continue;
            }
            let stays = leaving && remembered.outlives(&identity);
            let mut link = remembered.link(id, &identity, copy, stays);
            // Another entry, or another version of the kind, leads to the very same object.
            keep_shared(&mut link, |claim| wanted.contains(claim));
            left.push(link);
        }
        left
    }

    /// Whether a link without a copy can create one.
    fn can_make(&self, link: &Link) -> bool {
        let present = |key: &Key| match self.view.get(key) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        };
        let source = link.source.key().and_then(present);
        let readable = |source: &Arc<Object>| !source.in_deletion() && !source.is_fragment();
        let Some(source) = source.filter(readable) else {
            return false;
        };
        let there = match &link.target {
            Target::Named(key) => present(key),
            Target::Marked { .. } => None,
        };
        there.is_none_or(|there| match link.policy.adoption {
            Adoption::Keep | Adoption::Overwrite => true,
            Adoption::Never => false,
            Adoption::Equal(_) => {
                let desired = self.view.facts().desired(link, &source, Some(&there));
                desired.is_ok_and(|desired| equals(&desired, &there))
            }
        })
    }

    /// The treatment of an object in the place of a copy that no memory records.
    ///
    /// A copy is created after the memory records it. So an object without a record, while the memory exists, is not
    /// Hawser's, unless another object of the same workspace created it. It is adopted if its content is the desired
    /// one already, and stays when it is no longer wanted.
    fn adoption(&self, entry: &Entry, source: &Key, target: &Key) -> Adoption {
        if self.around.ledger.leads_back(source, target) {
            return Adoption::Never;
        }
        let (sides, remote) = (self.rules.sides(), self.rules.remote());
        let there = match self.view.get(target) {
            Seen::Present(object) => object.uid().map(str::to_owned),
            Seen::Absent | Seen::Unknown => None,
        };
        // What was made may be gone, and somebody else may have made another one.
        let is_there = |copy: &CopyRecord| {
            let uids = copy.uid().zip(there.as_deref());
            copy.is_made() && uids.is_none_or(|(made, there)| made == there)
        };
        let is_known = |(id, record): (&LinkId, &hawser_sync::Entry)| {
            let known = Identity::read(id).map(|identity| identity.target(sides, remote));
            is_there(&record.copy) && known.is_some_and(|known| same_object(&known, target))
        };
        let ours = self.memory.entries.is_empty() || self.memory.entries.iter().any(is_known);
        if entry.choices.adopt {
            Adoption::Overwrite
        } else {
            self.shared().adoption(target, ours)
        }
    }

    fn shared(&self) -> SharedCopies<'_> {
        SharedCopies {
            around: self.around,
            view: self.view,
            by: &self.by,
            memory: &self.place,
        }
    }

    /// The claims of pairs that are not known well enough to be judged.
    fn unclear(&self, made: &BuiltLinks) -> impl Iterator<Item = ObjectClaim> {
        let (sides, remote) = (self.rules.sides(), self.rules.remote());
        let unclear = self.memory.entries.keys().filter(|id| {
            let identity = Identity::read(id);
            let unknown = |one: Identity| made.unknown.contains(one.identifier());
            made.waiting.contains(id) || identity.is_some_and(unknown)
        });
        let ends: Vec<_> = unclear
            .filter_map(|id| RelatedEnds::read(id, sides, remote))
            .collect();
        ends.into_iter()
            .flat_map(|ends| ends.claims().collect::<Vec<_>>())
    }
}

fn other(side: Origin) -> Origin {
    match side {
        Origin::Kcp => Origin::Service,
        Origin::Service => Origin::Kcp,
    }
}

/// The entry of a link that only explains why nothing is done.
pub(super) fn refused_entry(id: &LinkId) -> Option<&str> {
    id.0.rsplit_once(": ").map(|(entry, _)| entry)
}

/// A link that only explains why nothing is done.
fn refusal(kcp: &Side, entry: &Entry, number: &str, reason: &Reason) -> Link {
    let detail = format!("related {:?}: {}", entry.identifier, reason.detail);
    let reason = Reason::new(reason.code, detail);
    let nowhere = Scope::new(kcp, &Arc::new(Gvk::new("", "", "")), "").key(None, "");
    Link {
        id: LinkId::new(&format!("{}: {number}", entry.identifier)),
        wave: 1,
        source: Source::Refused(reason),
        target: Target::Named(nowhere.clone()),
        rules: Arc::new(LeftoverRules { target: nowhere }),
        policy: Policy::related(),
    }
}
