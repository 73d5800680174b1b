//! The names of related links in the memory: they contain everything that is needed to delete a copy after the rules no
//! longer lead to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::ledger::{MadeCopies, ObjectClaim};
use super::resolve::RelatedNames;
use crate::publish::marks::{self, Remote};
use crate::publish::rules::Sides;
use crate::publish::types::Origin;
use hawser_sync::{CopyRecord, Key, LinkId, Scope};
use kube_lang::object::Gvk;

/// The original, the copy and the entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Distinguishes these names from those of other links.
    related: String,
    pub(super) origin: Origin,
    source: ObjectIdentity,
    target: ObjectIdentity,
    /// The finalizer on the original, if it is not the shared one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ObjectIdentity {
    kind: Gvk,
    /// The plural of the kind, because the copy may have to be deleted without an entry that says it.
    resource: String,
    namespace: Option<String>,
    name: String,
}

impl ObjectIdentity {
    fn of(key: &Key, resource: &str) -> Self {
        Self {
            kind: (*key.kind).clone(),
            resource: resource.to_owned(),
            namespace: key.namespace.as_deref().map(str::to_owned),
            name: key.name.to_string(),
        }
    }

    fn key(&self, sides: &Sides, remote: &Remote, side: Origin) -> Key {
        let kind = Arc::new(self.kind.clone());
        let scope = match side {
            Origin::Kcp => Scope::new(&sides.kcp, &kind, &remote.cluster),
            Origin::Service => Scope::new(&sides.service, &kind, ""),
        };
        scope.key(self.namespace.as_deref(), &self.name)
    }
}

impl Identity {
    /// The names that led to the link.
    pub(super) fn pair(&self) -> RelatedNames {
        let named = |place: &ObjectIdentity| (place.namespace.clone(), place.name.clone());
        RelatedNames {
            source: named(&self.source),
            target: named(&self.target),
        }
    }

    /// `hold` is the finalizer of originals in workspaces.
    pub(super) fn new(entry: &Entry, source: &Key, target: &Key, hold: &str) -> Self {
        let held = entry.origin == Origin::Kcp && hold != marks::FINALIZER;
        Self {
            related: entry.identifier.clone(),
            origin: entry.origin,
            source: ObjectIdentity::of(source, &entry.source.resource),
            target: ObjectIdentity::of(target, &entry.target.resource),
            hold: held.then(|| hold.to_owned()),
        }
    }

    /// The plurals of the kinds of original and copy.
    pub(super) fn resources(&self) -> (&str, &str) {
        (&self.source.resource, &self.target.resource)
    }

    /// The finalizer on the original, if any.
    pub(super) fn hold(&self) -> Option<&str> {
        let held = self.hold.as_deref().unwrap_or(marks::FINALIZER);
        (self.origin == Origin::Kcp).then_some(held)
    }

    pub(super) fn identifier(&self) -> &str {
        &self.related
    }

    pub(super) fn id(&self) -> LinkId {
        LinkId::new(&serde_json::json!(self).to_string())
    }

    /// `None` for other links.
    pub(super) fn read(id: &LinkId) -> Option<Self> {
        serde_json::from_str(&id.0).ok()
    }

    pub(super) fn source(&self, sides: &Sides, remote: &Remote) -> Key {
        self.source.key(sides, remote, self.origin)
    }

    pub(super) fn target(&self, sides: &Sides, remote: &Remote) -> Key {
        let other = match self.origin {
            Origin::Kcp => Origin::Service,
            Origin::Service => Origin::Kcp,
        };
        self.target.key(sides, remote, other)
    }
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

/// Whether two keys are of one object, in any version.
pub(super) fn same_object(a: &Key, b: &Key) -> bool {
    let of = |key: &Key| {
        (
            key.side.clone(),
            key.kind.group.clone(),
            key.kind.kind.clone(),
            Arc::clone(&key.cluster),
            key.namespace.clone(),
            Arc::clone(&key.name),
        )
    };
    of(a) == of(b)
}
