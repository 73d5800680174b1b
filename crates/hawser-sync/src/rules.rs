//! What a dialect says about one link: where the copy goes, what is in it, whose an object is.
//!
//! Rules are pure and compiled once; the engine calls them with objects only.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use kube_lang::object::Object;

use super::reason::Reason;
use super::subject::Key;

/// The pure rules of a link.
pub trait Rules: Send + Sync + fmt::Debug {
    /// The key that a copy of this source is to be made under. Asked only while no copy is known;
    /// the name that a copy has wins over later changes of the rules.
    fn place(&self, source: &Object) -> Result<Key, Reason>;

    /// Whether a copy may be written at a key, also one that is there already. What is refused is still
    /// taken back with its source.
    fn allows(&self, _copy: &Key) -> Result<(), Reason> {
        Ok(())
    }

    /// The content that travels: every top-level field that is to be the same on both sides, and
    /// of `metadata` the labels and annotations, without marks and without status where that is a
    /// subresource. Its apiVersion, kind, name and namespace are the source's and are not synced;
    /// the answer is remembered as it is, so its numbers have one spelling
    /// ([`numbers::unify`](kube_lang::object::numbers::unify)).
    fn desired(&self, source: &Object, live: Option<&Object>) -> Result<Object, Reason>;

    /// The labels and annotations by which a copy of this source is found and known again. Empty
    /// where copies carry nothing.
    fn marks(&self, source: &Object, made: Made) -> Marks;

    /// Whose the object is, by the marks on it.
    fn owner(&self, live: &Object) -> Owner;

    /// Whether a copy in deletion was made for this source, and not for another one of its name before.
    /// Asked only where such a copy still takes part ([`LastWords::Carry`](super::subject::LastWords)).
    fn was_made_for(&self, _source: &Object, _copy: &Object) -> bool {
        true
    }

    /// The status that `to` should have, given `from`: from the copy to the source where status
    /// goes back, from the source to the copy where it goes forward. `None` is no status at all,
    /// which is not the same as an empty one.
    fn status(&self, from: &Object, to: &Object) -> Result<Option<Value>, Reason>;

    /// Whether no server ever changes this field of the top level of an object that is there.
    fn is_final(&self, _live: &Object, _field: &str) -> bool {
        false
    }

    /// What is set by the same write that carries the status. Other values than these are no reason to
    /// write; where the whole object is written, their not being there at all is.
    fn status_marks(&self, _from: &Object, _to: &Object) -> Metadata {
        Metadata::default()
    }
}

/// Labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What a copy carries to be known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Set on creation and adoption, and put right whenever it is missing or wrong.
    pub identity: Metadata,
    /// Set on creation and adoption only.
    pub extra: Metadata,
}

impl Marks {
    /// Every label, those of the identity last.
    pub fn labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.extra.labels.iter().chain(&self.identity.labels)
    }

    /// Every annotation, those of the identity last.
    pub fn annotations(&self) -> impl Iterator<Item = (&String, &String)> {
        self.extra
            .annotations
            .iter()
            .chain(&self.identity.annotations)
    }
}

/// How a copy came to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Created,
    Adopted,
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is the copy of this link's source.
    Ours(Made),
    /// It carries nobody's identity.
    Nobody,
    /// It belongs to another source, tenant or agent: who, for the owner of the service to read.
    Other(String),
}
