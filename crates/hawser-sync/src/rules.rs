//! The rules of a link: the place of the copy, its content, and the owner of an object. A dialect implements them.
//!
//! Rules are pure and compiled once; the engine calls them with objects only.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Object;

use super::key::Key;
use super::reason::Reason;

/// The pure rules of a link.
pub trait Rules: Send + Sync + fmt::Debug {
    /// The mutated source, given the copy if there is one; `None` without mutations. The other rules get the result, so
    /// that mutations run once for each state of source and copy.
    fn mutated(&self, _source: &Object, _copy: Option<&Object>) -> Result<Option<Object>, Reason> {
        Ok(None)
    }

    /// The key under which a copy of this source is created. Asked only while no copy is known: the name of an existing
    /// copy wins over later changes of the rules.
    fn place(&self, mutated: &Object) -> Result<Key, Reason>;

    /// Whether a copy may be written at a key, also an existing one. A refused copy is still deleted with its source.
    fn allows(&self, _copy: &Key) -> Result<(), Reason> {
        Ok(())
    }

    /// The content to synchronize: every top-level field that is to be the same on both sides, and the labels and
    /// annotations of `metadata`, without marks, and without the status if that is a subresource. The apiVersion, kind,
    /// name and namespace are the source's and are not synchronized. The result is remembered as it is, so its numbers
    /// have one spelling ([`numbers::unify`](kube_lang::object::numbers::unify)).
    fn desired(
        &self,
        source: &Object,
        mutated: &Object,
        copy: Option<&Object>,
    ) -> Result<Object, Reason>;

    /// The labels and annotations by which a copy of this source is found and recognised. Empty if copies have none.
    fn marks(&self, source: &Object, made: CopyOrigin) -> Marks;

    /// The owner of an object, according to its marks.
    fn owner(&self, live: &Object) -> Owner;

    /// Whether a copy in deletion was created for this source, not for an earlier one of its name. Asked only for
    /// copies that are found by name, which are still synchronized then.
    fn was_made_for(&self, _source: &Object, _copy: &Object) -> bool {
        true
    }

    /// The status that `to` should have, given `from`: from the copy to the source if the status goes back, from the
    /// source to the copy if it goes forward. `None` is no status at all, which differs from an empty one. `mutated` is
    /// of the source in both cases.
    fn status(&self, from: &Object, to: &Object, mutated: &Object)
    -> Result<Option<Value>, Reason>;

    /// The status to write to `to`, given the one that [`status`](Self::status) made. A dialect may add a report on the
    /// link itself. `current` says whether the copy has the content of the source; if it has not, the reason is known
    /// at the end of the pass only, and a report that `to` has already should stay.
    fn reported(
        &self,
        status: Option<Arc<Value>>,
        _from: &Object,
        _to: &Object,
        _current: bool,
    ) -> Option<Arc<Value>> {
        status
    }

    /// Whether a server never changes this top-level field of an existing object.
    fn is_final(&self, _live: &Object, _field: &str) -> bool {
        false
    }

    /// Metadata that is set by the write of the status. Other values are no reason to write; if the whole object is
    /// written, their absence is.
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

/// The marks by which a copy is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Set on creation and adoption, and corrected whenever they are missing or wrong.
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

/// The way in which a copy became Hawser's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOrigin {
    Created,
    Adopted,
}

/// The owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is the copy of this link's source.
    Ours(CopyOrigin),
    /// It has no marks.
    Nobody,
    /// It belongs to another source, tenant or agent; the text is for the owner of the service.
    Other(String),
}
