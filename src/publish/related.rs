//! Related objects: the Secret with the credentials, the `ConfigMap` with the endpoint, whatever
//! travels with a published object, either way.
//!
//! In every round of a pass the entries are resolved anew over what is known; each pair that they lead
//! to is one more link of the subject. What a memory still tells of and no entry leads to any more is
//! a link too, until it is taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::object::{Gvk, Object};
use crate::sync::subject::{Adoption, Claims, Content, Fate, StatusFlow};
use crate::sync::{
    Code, CopyRecord, Finalizer, Found, Key, Link, LinkId, Memory, Owner, Policy, Reason, Request,
    Rules as _, Scope, Seen, Source, Subject, Target, View,
};

use super::compiled::Compiled;
use super::marks::{self, Remote};
use super::memory::codec::tells_of_related;
use super::rules::{ObjectRules, PRIMARY, Sides};
use super::types::Origin;

mod entry;
mod guard;
mod identity;
mod ledger;
mod report;
mod resolve;
mod rules;

pub use entry::{Entry, TypeName};
pub use guard::shares_namespaces;
pub use ledger::{Claimant, Ledger};
pub use report::annotations;
pub use resolve::FAN_OUT;

use guard::Guard;
use identity::{Identity, same_object};
use resolve::{Ground, Pair, Resolved, Trouble};
use rules::{LeftRules, PairRules};

/// What a type is, as the side that serves it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedKind {
    pub kind: Arc<Gvk>,
    pub namespaced: bool,
    /// Whether a status is served apart.
    pub status: bool,
}

/// Types by the side that serves them and by name. Secrets and `ConfigMap`s need not be asked for.
#[derive(Clone, Debug)]
pub struct Kinds(BTreeMap<(Origin, TypeName), RelatedKind>);

impl Default for Kinds {
    fn default() -> Self {
        let mut kinds = Self(BTreeMap::new());
        for (resource, kind) in [("secrets", "Secret"), ("configmaps", "ConfigMap")] {
            for side in [Origin::Kcp, Origin::Service] {
                let name = TypeName {
                    group: String::new(),
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                };
                let kind = RelatedKind {
                    kind: Arc::new(Gvk::new("", "v1", kind)),
                    namespaced: true,
                    status: false,
                };
                kinds.learn(side, name, kind);
            }
        }
        kinds
    }
}

impl Kinds {
    pub fn learn(&mut self, side: Origin, name: TypeName, kind: RelatedKind) {
        self.0.insert((side, name), kind);
    }

    pub fn get(&self, side: Origin, name: &TypeName) -> Option<&RelatedKind> {
        self.0.get(&(side, name.clone()))
    }
}

/// Whether an object has not been changed for a while.
pub trait Quiet: Send + Sync {
    fn is_quiet(&self, key: &Key, object: &Object) -> bool;
}

/// Every object is.
pub struct AlwaysQuiet;

impl Quiet for AlwaysQuiet {
    fn is_quiet(&self, _key: &Key, _object: &Object) -> bool {
        true
    }
}

/// What related objects need beside the rules of the published one.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub kinds: &'a Kinds,
    pub ledger: &'a Ledger,
    pub quiet: &'a dyn Quiet,
}

/// The subject with the links of its related objects, as the view now shows them; an error names what
/// has to be looked at first.
pub fn extend(
    subject: Subject,
    rules: &ObjectRules,
    around: Surroundings<'_>,
    view: &dyn View,
) -> Result<Subject, Vec<Request>> {
    // The order of questions is that of the engine: without these nothing else is decided either.
    let (Some(place), Seen::Present(anchor)) = (&subject.memory, view.get(&subject.anchor)) else {
        return Ok(subject);
    };
    let memory = match view.get(&place.key) {
        Seen::Unknown => return Ok(subject),
        Seen::Present(stored)
            if rules.compiled().related.is_empty() && !tells_of_related(&stored) =>
        {
            return Ok(subject);
        }
        Seen::Absent => Memory::default(),
        Seen::Present(stored) => place.codec.read(&stored, &subject.links),
    };
    let compiled = rules.compiled();
    if compiled.related.is_empty() && memory.entries.is_empty() {
        return Ok(subject);
    }
    let Found::All(copies) = view.find(&rules.local_scope(), &rules.remote().labels()) else {
        return Ok(subject);
    };
    let local = own_copy(copies, rules, &memory);
    let by = Claimant {
        memory: Arc::clone(&place.key.name),
        cluster: rules.remote().cluster.as_str().into(),
    };
    let making = Making {
        compiled,
        rules,
        around,
        view,
        anchor: &anchor,
        memory: &memory,
        by,
    };
    making.links(subject, local.as_deref())
}

/// The copy of the published object: of several the one that was made.
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

struct Making<'a> {
    compiled: &'a Compiled,
    rules: &'a ObjectRules,
    around: Surroundings<'a>,
    view: &'a dyn View,
    anchor: &'a Object,
    memory: &'a Memory,
    by: Claimant,
}

/// What became of the entries.
#[derive(Default)]
struct Made {
    links: Vec<Link>,
    needs: Vec<Request>,
    /// Entries of which it is not known where they lead: what they made stays as it is.
    unknown: BTreeSet<String>,
    /// Pairs that are waited with.
    waiting: BTreeSet<LinkId>,
}

impl Making<'_> {
    fn links(&self, mut subject: Subject, local: Option<&Object>) -> Result<Subject, Vec<Request>> {
        let leaving = self.anchor.in_deletion();
        let mut made = Made::default();
        if let Some(local) = local {
            for entry in &self.compiled.related {
                self.entry(entry, local, &mut made);
            }
        } else if !leaving {
            // Without a copy to read from, nobody knows where entries lead.
            return Ok(subject);
        }
        if !made.needs.is_empty() && !leaving {
            return Err(made.needs);
        }
        let wanted = made.links.iter().flat_map(|link| {
            let copy = match &link.target {
                Target::Named(key) => Some(key),
                Target::Marked { .. } => None,
            };
            let held = link.policy.hold.as_ref().and(link.source.key());
            copy.into_iter().chain(held)
        });
        let wanted: Vec<Key> = wanted.cloned().collect();
        if leaving {
            self.around.ledger.wants(&self.by, []);
        } else {
            // What of an unknown entry was made is wanted until it is known better.
            let kept: Vec<_> = self.unclear(&made).collect();
            self.around
                .ledger
                .wants(&self.by, wanted.iter().chain(&kept));
        }
        let left = self.left(&made, leaving, &wanted);
        made.links.extend(left);
        if leaving {
            for link in &mut made.links {
                self.count(link);
            }
        }
        subject.links.append(&mut made.links);
        Ok(subject)
    }

    fn entry(&self, entry: &Arc<Entry>, local: &Object, made: &mut Made) {
        let pairs = match self.resolve(entry, local) {
            Ok((resolved, kinds)) => {
                for (index, reason) in resolved.refused.into_iter().enumerate() {
                    let number = format!("refused {index}");
                    made.links
                        .push(refusal(&self.rules.sides().kcp, entry, &number, reason));
                }
                (resolved.pairs, kinds)
            }
            Err(Trouble::Needs(request)) => {
                made.unknown.insert(entry.identifier.clone());
                if self.view.note(&request).is_none() {
                    made.needs.push(request);
                } else {
                    let reason =
                        Reason::new(Code::NotSeen, format!("entry {:?}", entry.identifier));
                    let link = refusal(&self.rules.sides().kcp, entry, "unseen", reason);
                    made.links.push(link);
                }
                return;
            }
            Err(Trouble::Refused(reason)) => {
                made.unknown.insert(entry.identifier.clone());
                let link = refusal(&self.rules.sides().kcp, entry, "entry", reason);
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
                        .push(refusal(&self.rules.sides().kcp, entry, &number, reason));
                }
            }
        }
    }

    fn resolve(
        &self,
        entry: &Entry,
        local: &Object,
    ) -> Result<(Resolved, (RelatedKind, RelatedKind)), Trouble> {
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
        let ground = Ground {
            remote: self.anchor,
            local,
            cluster: &self.rules.remote().cluster,
            path: self.rules.cluster_path(),
            view: self.view,
            originals: self.scope(entry.origin, &source.kind),
            namespaced: (source.namespaced, target.namespaced),
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
        pair: &Pair,
        local: &Object,
        kinds: (&RelatedKind, &RelatedKind),
        made: &mut Made,
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
            agent: &self.compiled.agent.namespace,
        };
        let is_primary = |key: &Key| same_object(key, &self.rules.anchor());
        if is_primary(&source) || is_primary(&target) {
            let said = "the published object cannot be its own related one";
            return Err(Reason::new(Code::ReferenceInvalid, said));
        }
        match entry.origin {
            Origin::Service => {
                guard.place(&source)?;
                if let Seen::Present(object) = self.view.get(&source) {
                    guard.original(&object)?;
                }
            }
            Origin::Kcp => {
                guard.place(&target)?;
                self.around
                    .ledger
                    .claim(&self.by, &target)
                    .map_err(|holder| {
                        let said = format!("{target} is of the workspace {}", holder.cluster);
                        Reason::new(Code::NameConflict, said)
                    })?;
            }
        }
        let id = Identity::new(&entry.identifier, entry.origin, &source, &target).id();
        self.settled(entry, &source, kinds.0).inspect_err(|_| {
            made.waiting.insert(id.clone());
        })?;
        let rules = PairRules {
            entry: Arc::clone(entry),
            target: target.clone(),
            status_apart: kinds.1.status,
        };
        Ok(Link {
            id,
            wave: 1,
            source: Source::Live(source),
            target: Target::Named(target),
            rules: Arc::new(rules),
            policy: policy(entry),
        })
    }

    /// Whoever makes an object usually writes its status at once: our finalizer does not come between.
    fn settled(&self, entry: &Entry, source: &Key, kind: &RelatedKind) -> Result<(), Reason> {
        if entry.origin == Origin::Service || !kind.status {
            return Ok(());
        }
        match self.view.get(source) {
            Seen::Present(object)
                if !object.has_finalizer(marks::FINALIZER)
                    && !object.in_deletion()
                    && !self.around.quiet.is_quiet(source, &object) =>
            {
                Err(Code::SourceNotQuiet.into())
            }
            _ => Ok(()),
        }
    }

    /// What the memory tells of and no entry leads to.
    fn left(&self, made: &Made, leaving: bool, wanted: &[Key]) -> Vec<Link> {
        let (sides, remote) = (self.rules.sides(), self.rules.remote());
        let is_link = |id: &LinkId| made.links.iter().any(|link| link.id == *id);
        let mut left = Vec::new();
        for (id, record) in &self.memory.entries {
            let Some(identity) = Identity::read(id) else {
                continue;
            };
            let kept = made.unknown.contains(identity.identifier()) && !leaving;
            if is_link(id) || kept || made.waiting.contains(id) && !leaving {
                continue;
            }
            let source = identity.source(sides, remote);
            let target = match &record.copy {
                CopyRecord::Unrecorded => identity.target(sides, remote),
                recorded => recorded
                    .key()
                    .cloned()
                    .unwrap_or_else(|| identity.target(sides, remote)),
            };
            let entry = self.compiled.related.iter().find(|entry| {
                entry.identifier == identity.identifier() && entry.origin == identity.origin
            });
            let stays = leaving && entry.is_some_and(|entry| policy(entry).retract == Fate::Keep);
            let mut link = Link {
                id: id.clone(),
                wave: 1,
                source: Source::Unwanted(source),
                target: Target::Named(target.clone()),
                rules: Arc::new(LeftRules { target }),
                policy: Policy {
                    hold: (identity.origin == Origin::Kcp)
                        .then(|| Finalizer::new(marks::FINALIZER)),
                    source_gone: Fate::Delete,
                    retract: if stays { Fate::Keep } else { Fate::Delete },
                    ..Policy::related()
                },
            };
            self.count(&mut link);
            // Another entry, or another version of the kind, leads to the very same object.
            let again = |key: &Key| wanted.iter().any(|other| same_object(other, key));
            if matches!(&link.target, Target::Named(key) if again(key)) {
                link.policy.claims = Claims::Shared;
            }
            if link.source.key().is_some_and(again) {
                link.policy.hold = None;
            }
            left.push(link);
        }
        left
    }

    /// The last one who wants an object takes it away, and lets go of its original.
    fn count(&self, link: &mut Link) {
        let others = |key: &Key| self.around.ledger.is_shared(&self.by, key);
        if matches!(&link.target, Target::Named(key) if others(key)) {
            link.policy.claims = Claims::Shared;
        }
        if link.source.key().is_some_and(others) {
            link.policy.hold = None;
        }
    }

    /// The copies and originals of what is not known well enough to be judged.
    fn unclear(&self, made: &Made) -> impl Iterator<Item = Key> {
        let (sides, remote) = (self.rules.sides(), self.rules.remote());
        let identities = self.memory.entries.keys().filter_map(|id| {
            let identity = Identity::read(id)?;
            let unclear = made.unknown.contains(identity.identifier()) || made.waiting.contains(id);
            unclear.then_some(identity)
        });
        identities.flat_map(move |identity| {
            [
                identity.source(sides, remote),
                identity.target(sides, remote),
            ]
        })
    }
}

/// What a memory says that was made, and what was held for it.
pub fn remembered(memory: &Memory, sides: &Sides, remote: &Remote) -> BTreeSet<Key> {
    let identities = memory.entries.keys().filter_map(Identity::read);
    identities
        .flat_map(|identity| {
            let source = identity.source(sides, remote);
            let held = (identity.origin == Origin::Kcp).then_some(source);
            held.into_iter().chain([identity.target(sides, remote)])
        })
        .collect()
}

/// The two ends of a related link, by the name that it has in the memory: original and copy.
pub fn ends(id: &LinkId, sides: &Sides, remote: &Remote) -> Option<(Origin, Key, Key)> {
    let identity = Identity::read(id)?;
    let (source, target) = (
        identity.source(sides, remote),
        identity.target(sides, remote),
    );
    Some((identity.origin, source, target))
}

fn other(side: Origin) -> Origin {
    match side {
        Origin::Kcp => Origin::Service,
        Origin::Service => Origin::Kcp,
    }
}

fn policy(entry: &Entry) -> Policy {
    let from_kcp = entry.origin == Origin::Kcp;
    let core = entry.target.group.is_empty()
        && matches!(&*entry.target.resource, "secrets" | "configmaps");
    Policy {
        hold: from_kcp.then(|| Finalizer::new(marks::FINALIZER)),
        retract: if from_kcp || entry.choices.cleanup {
            Fate::Delete
        } else {
            Fate::Keep
        },
        adoption: if entry.choices.adopt {
            Adoption::Overwrite
        } else {
            Adoption::Equal
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

/// A link that only says why nothing is done.
fn refusal(kcp: &crate::sync::Side, entry: &Entry, number: &str, reason: Reason) -> Link {
    let detail = format!("related {:?}: {}", entry.identifier, reason.detail);
    let nowhere = Scope::new(kcp, &Arc::new(Gvk::new("", "", "")), "").key(None, "");
    Link {
        id: LinkId::new(&format!("{}: {number}", entry.identifier)),
        wave: 1,
        source: Source::Refused(Reason { detail, ..reason }),
        target: Target::Named(nowhere.clone()),
        rules: Arc::new(LeftRules { target: nowhere }),
        policy: Policy::related(),
    }
}

#[cfg(test)]
mod tests;
