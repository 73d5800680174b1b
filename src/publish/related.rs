//! Related objects: the Secret with the credentials, the `ConfigMap` with the endpoint, whatever
//! travels with a published object, either way.
//!
//! In every round of a pass the entries are resolved anew over what is known; each pair that they lead
//! to is one more link of the subject. What a memory still tells of and no entry leads to any more is
//! a link too, until it is taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use hawser_sync::subject::{self as sync, Fate};
use hawser_sync::{
    Found, Intent, Key, LinkId, Memory, Owner, Request, Rules as _, Seen, Subject, View,
};
use kube_lang::object::{Gvk, Object};

use super::marks::Remote;
use super::memory::codec::tells_of_related;
use super::rules::{ObjectRules, PRIMARY, Sides};
use super::types::Origin;

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

pub use entry::{Author, Authors, Entry, TypeName, Words};
pub use guard::{reserved, shares_namespaces, tells_workspaces};
pub use leads::{End, Lead, leads};
pub use ledger::{Claimant, Ledger, Wish};
pub use report::annotations;
pub use resolve::FAN_OUT;
pub use stray::{Stray, strays};

use identity::Identity;
use left::{Left, Stays};
use links::Making;

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

/// A kind of the service cluster whose objects may be copies, each of which belongs to a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub group: String,
    pub kind: String,
    /// As its copies are watched, and whether they live in namespaces; none while they are not.
    pub watched: Option<(Arc<Gvk>, bool)>,
}

impl Published {
    /// Whether an owner reference names an object of this kind, in whatever version.
    fn is_named_by(&self, owner: &Value) -> bool {
        let group = owner["apiVersion"].as_str().unwrap_or_default();
        let group = group.split_once('/').map_or("", |(group, _)| group);
        self.group == group && owner["kind"].as_str() == Some(&*self.kind)
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
    /// All kinds that the agent publishes, whichever the published object is of.
    pub published: &'a [Published],
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
    let Some(place) = &subject.memory else {
        return Ok(subject);
    };
    let anchor = match view.get(&subject.anchor) {
        Seen::Present(anchor) => anchor,
        Seen::Absent => return Ok(afterwards(subject, rules, around.ledger, view)),
        Seen::Unknown => return Ok(subject),
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
    let Found::All(copies) = view.find(&rules.local_scope(), &rules.remote().marked()) else {
        return Ok(subject);
    };
    let local = own_copy(copies, rules, &memory);
    // Nobody knows where entries lead that read what cannot be read.
    let readable = !anchor.is_fragment() && !local.as_ref().is_some_and(|l| l.is_fragment());
    let by = claimant(&place.key, rules);
    let making = Making {
        compiled,
        rules,
        around,
        view,
        anchor: &anchor,
        memory: &memory,
        by,
    };
    if readable {
        making.links(subject, local.as_deref())
    } else {
        Ok(making.as_remembered(subject))
    }
}

/// The subject of an object that is not wanted any more. What was made for it stays as it is, but for what
/// no entry tells of any more, and for originals in deletion, which are let go.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough in its lifetimes"
)]
pub fn outside(subject: Subject, rules: &ObjectRules, ledger: &Ledger, view: &dyn View) -> Subject {
    let mut left = apart(&subject, rules, ledger, view, |left| left.outside());
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

/// The subject of an object that is gone: originals that were out of sight when it went are let go when
/// they show again.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough in its lifetimes"
)]
fn afterwards(subject: Subject, rules: &ObjectRules, ledger: &Ledger, view: &dyn View) -> Subject {
    let (mut left, stays) = apart(&subject, rules, ledger, view, |left| left.afterwards());
    if left.is_empty() {
        return subject;
    }
    let mut gone = Subject {
        finalizer: None,
        intent: Intent::Retract,
        ..subject
    };
    for link in &mut gone.links {
        link.policy.retract = Fate::Keep;
        // Its record stays with a copy that does.
        if stays == Stays::Copy {
            link.policy.identity = sync::Identity::Memory;
        }
    }
    gone.links.append(&mut left);
    gone
}

/// Links of what a memory tells of, beside the rules for objects that are there and wanted. Nothing is
/// claimed any more but what the memory tells of.
fn apart<T: Default>(
    subject: &Subject,
    rules: &ObjectRules,
    ledger: &Ledger,
    view: &dyn View,
    links: impl Fn(&Left<'_>) -> T,
) -> T {
    let Some(place) = &subject.memory else {
        return T::default();
    };
    let memory = match view.get(&place.key) {
        Seen::Unknown => return T::default(),
        Seen::Present(stored) if tells_of_related(&stored) => {
            place.codec.read(&stored, &subject.links)
        }
        Seen::Present(_) | Seen::Absent => Memory::default(),
    };
    let by = claimant(&place.key, rules);
    let left = Left {
        compiled: rules.compiled(),
        rules,
        ledger,
        view,
        memory: &memory,
        by: &by,
    };
    left.recall();
    links(&left)
}

fn claimant(memory: &Key, rules: &ObjectRules) -> Claimant {
    Claimant {
        memory: Arc::clone(&memory.name),
        cluster: rules.remote().cluster.as_str().into(),
    }
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

/// The identifier of the entry that a link is of; none for links of another sort.
pub fn entry_of(id: &LinkId) -> Option<String> {
    let identity = Identity::read(id);
    let made = identity.map(|identity| identity.identifier().to_owned());
    made.or_else(|| links::refused_entry(id).map(str::to_owned))
}

/// The two ends of a related link, each with what its kind is called in paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    pub origin: Origin,
    pub source: (Key, String),
    pub target: (Key, String),
    /// The finalizer on the original.
    hold: Option<String>,
}

impl Ends {
    /// By the name that the link has in the memory; none for links of another sort.
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

    /// What is wanted of it: the copy, and the original where that is held.
    pub fn wishes(&self) -> impl Iterator<Item = Wish> {
        let hold = self.hold.as_deref();
        let held = hold.map(|finalizer| Wish::held(&self.source.0, finalizer));
        held.into_iter().chain([Wish::copy(&self.target.0)])
    }
}

#[cfg(test)]
mod tests;
