//! Related objects: the Secret with the credentials, the `ConfigMap` with the endpoint, and whatever else is copied
//! with a published object, in either direction.
//!
//! In every round of a pass, the entries are resolved again with the known objects; each pair of original and copy is
//! one more link of the subject. A pair that only the memory records is a link too, until it is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use hawser_sync::link::{self as sync, Fate};
use hawser_sync::{
    CopyRecord, Found, Intent, Key, LinkId, Memory, Owner, Request, Rules as _, Seen, Subject, View,
};
use kube_lang::object::{Gvk, Object};

use super::marks::Remote;
use super::memory::codec::has_related;
use super::rules::{ObjectRules, PRIMARY, Sides};
use super::types::Origin;

mod claim_visibility;
mod entry;
mod guard;
mod identity;
mod leads;
mod ledger;
mod left;
mod links;
mod report;
mod resolve;
mod rules;
mod stray;

pub use claim_visibility::{binding_kind, show_all};
pub use entry::{Author, Authors, Entry, NameAuthors, Premises, TypeName};
pub use guard::reserved;
pub use leads::{End, EntryExplanation, leads};
pub use ledger::{ClaimIndex, ClaimOwner, MadeCopies, ObjectClaim};
pub use report::annotations;
pub use stray::{DanglingReference, dangling_references};

use identity::Identity;
use left::{Left, Leftover};
use links::LinkBuilder;

/// A type, as the side that serves it describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedKind {
    pub kind: Arc<Gvk>,
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub status: bool,
}

/// Types by the side that serves them and by name. Secrets and `ConfigMap`s need no discovery.
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

/// A kind of the service cluster whose objects may be copies, each of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedKind {
    pub group: String,
    pub kind: String,
    /// The kind of the watch on its copies, and whether they are namespaced; `None` without a watch.
    pub watched: Option<(Arc<Gvk>, bool)>,
}

impl PublishedKind {
    /// Whether an owner reference names an object of this kind, in any version.
    fn is_named_by(&self, owner: &Value) -> bool {
        let group = owner["apiVersion"].as_str().unwrap_or_default();
        let group = group.split_once('/').map_or("", |(group, _)| group);
        self.group == group && owner["kind"].as_str() == Some(&*self.kind)
    }
}

/// Whether a while has passed since something happened to an object.
pub trait Quiet: Send + Sync {
    /// Since it was changed.
    fn is_quiet(&self, key: &Key, object: &Object) -> bool;

    /// Since it was created, however often it changes.
    fn is_settled(&self, key: &Key, object: &Object) -> bool;
}

/// Every object counts as unchanged.
pub struct AlwaysQuiet;

impl Quiet for AlwaysQuiet {
    fn is_quiet(&self, _key: &Key, _object: &Object) -> bool {
        true
    }

    fn is_settled(&self, _key: &Key, _object: &Object) -> bool {
        true
    }
}

/// The inputs of related objects beside the rules of the published one.
#[derive(Clone, Copy)]
pub struct RelatedContext<'a> {
    pub kinds: &'a Kinds,
    pub ledger: &'a ClaimIndex,
    /// All kinds that the agent publishes.
    pub published: &'a [PublishedKind],
    pub quiet: &'a dyn Quiet,
}

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

/// The two ends of a related link, each with the plural of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedEnds {
    pub origin: Origin,
    pub source: (Key, String),
    pub target: (Key, String),
    /// The finalizer on the original.
    hold: Option<String>,
}

impl RelatedEnds {
    /// Reads the name of the link in the memory; `None` for other links.
    pub fn read(id: &LinkId, sides: &Sides, remote: &Remote) -> Option<Self> {
        let identity = Identity::read(id)?;
        let (source, target) = identity.resources();
        Some(Self {
            origin: identity.origin,
            source: (identity.source(sides, remote), source.to_owned()),
            target: (identity.target(sides, remote), target.to_owned()),
            hold: identity.hold().map(str::to_owned),
        })
    }

    /// The finalizer on the original, if it has one of the agent.
    pub fn hold(&self) -> Option<&str> {
        self.hold.as_deref()
    }

    /// The claims of the link: the copy, the original, and that one is made from the other.
    pub fn claims(&self) -> impl Iterator<Item = ObjectClaim> {
        let (original, copy) = (&self.source.0, &self.target.0);
        let original = match &self.hold {
            Some(finalizer) => ObjectClaim::held(original, finalizer),
            None => ObjectClaim::original(original),
        };
        let pair = ObjectClaim::made_from(copy, &self.source.0);
        [original, ObjectClaim::copy(copy), pair].into_iter()
    }
}

/// The claims of records in a memory, and the copies among them that were created.
pub fn recorded_claims<'a>(
    records: impl Iterator<Item = (&'a LinkId, &'a CopyRecord)>,
    sides: &Sides,
    remote: &Remote,
) -> (BTreeSet<ObjectClaim>, MadeCopies) {
    let (mut claims, mut made) = (BTreeSet::new(), MadeCopies::default());
    for (id, copy) in records {
        if let Some(ends) = RelatedEnds::read(id, sides, remote) {
            claims.extend(ends.claims());
            made.add(&ends.target.0, copy);
        }
    }
    (claims, made)
}

#[cfg(test)]
mod tests;
