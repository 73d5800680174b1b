//! The parts of an object that a table keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use uuid::Uuid;

use hawser_sync::Fingerprint;
use kube_lang::object::Object;

use super::body::Body;
use super::coverage::Position;
use super::places::Labelled;

/// The bytes of the index for a label of an object.
const LABEL: usize = 64;

/// The bytes that count for an object of which this much is kept. Labels count as if they were indexed.
pub(super) fn charge(kept: usize, object: &Object) -> usize {
    kept + object.labels().count() * LABEL
}

/// A uid. As a UUID it takes a third of the memory of its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Uid {
    Uuid([u8; 16]),
    /// Not the text that API servers write for a UUID.
    Text(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let parsed = Uuid::try_parse(text).ok().filter(|uuid| {
            let mut buffer = Uuid::encode_buffer();
            uuid.hyphenated().encode_lower(&mut buffer) == text
        });
        parsed.map_or_else(
            || Self::Text(text.into()),
            |uuid| Self::Uuid(uuid.into_bytes()),
        )
    }
}

pub(super) struct Entry {
    pub(super) version: u64,
    pub(super) uid: Uid,
    pub(super) fingerprint: Fingerprint,
    pub(super) in_deletion: bool,
    /// The position in the index.
    pub(super) indexed: Option<Position>,
    /// The positions by the labels that were looked for.
    pub(super) labelled: Box<[Labelled]>,
    pub(super) body: Body,
    pub(super) extent: Completeness,
    /// The bytes that are counted for its cluster.
    pub(super) charge: usize,
    /// The body has been read: it stays whole.
    pub(super) asked: AtomicBool,
    /// Known from a write response only; no watch covers the object, so it may go stale unnoticed.
    pub(super) answered: bool,
}

/// The part of an object that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    Whole,
    /// Everything that can be read of it.
    Fragment,
    /// Identity and labels only, because the body has not been read.
    Cut,
    /// Identity and labels only, because these `bytes` are too many for its cluster.
    LeftOut {
        bytes: usize,
    },
    /// The same for an object whose labels or finalizers are too many as well: only its name is kept.
    Hidden,
}

/// What an object from a list, an event or an answer was to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutOutcome {
    Different,
    /// Known already, except for what changes with every write.
    Same,
    /// A newer version is known.
    Older,
}

impl Entry {
    /// Notes that the object is used; returns whether its body is there.
    pub(super) fn ask(&self) -> bool {
        self.asked.store(true, Ordering::Relaxed);
        self.extent != Completeness::Cut
    }

    pub(super) fn is_left_out(&self) -> bool {
        matches!(
            self.extent,
            Completeness::LeftOut { .. } | Completeness::Hidden
        )
    }

    /// Whether the entry is this state of an object. After the order of versions was reset, it is none that is known.
    pub(super) fn is_state(&self, version: u64, object: &Object) -> bool {
        let uid = object.uid().unwrap_or_default();
        version > 0 && self.version == version && self.uid == Uid::from(uid)
    }

    /// Reduces the object to its identity and labels.
    pub(super) fn shrink(&mut self) {
        if self.extent != Completeness::Whole || self.asked.load(Ordering::Relaxed) {
            return;
        }
        let Some(object) = self.object() else {
            return;
        };
        if let Ok(body) = serde_json::to_vec(object.left_out().as_value()) {
            self.charge = charge(body.len(), &object);
            self.body = Body::plain(body);
            self.extent = Completeness::Cut;
        }
    }

    /// The kept part of the object.
    pub(super) fn object(&self) -> Option<Arc<Object>> {
        let value: Value = serde_json::from_slice(&self.body.text()).ok()?;
        let object = match self.extent {
            Completeness::Whole | Completeness::Cut => Object::new(value).ok()?,
            Completeness::Fragment => Object::fragment(value).ok()?,
            Completeness::LeftOut { .. } | Completeness::Hidden => {
                Object::new(value).ok()?.left_out()
            }
        };
        Some(object.into())
    }
}
