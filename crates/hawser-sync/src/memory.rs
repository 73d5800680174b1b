//! The memory of a subject between passes: the last known state of each source, and the identity of each copy.
//!
//! The dialect stores it: its [`Codec`] maps entries to one stored object and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Object;
use kube_lang::object::pointer::escape;

use super::fingerprint::{ValueHash, value_hash};
use super::key::{Key, LinkId};
use super::link::Link;
use super::pending::PendingChange;
use super::reason::Reason;
use super::rules::CopyOrigin;

/// The place and the format of a subject's memory.
#[derive(Clone, Debug)]
pub struct MemoryPlace {
    pub key: Key,
    pub codec: Arc<dyn Codec>,
}

/// The format of a subject's memory. One stored object holds the entries of all links.
pub trait Codec: Send + Sync + fmt::Debug {
    /// Decodes the stored object. Entries that cannot be read are left out; entries of links that no longer exist are
    /// returned under the ids they were written with, if the format has these.
    fn read(&self, stored: &Object, links: &[Link]) -> Memory;

    /// Encodes the stored object with these entries set (`Some`) or removed (`None`); everything else stays. Creates
    /// one if there is none. If the object would be too large, the codec reduces the given snapshots
    /// ([`Snapshot::reduced`]).
    fn write(
        &self,
        stored: Option<&Object>,
        links: &[Link],
        changes: &BTreeMap<LinkId, Option<Entry>>,
    ) -> Result<Object, Reason>;
}

/// The entries of a subject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    pub entries: BTreeMap<LinkId, Entry>,
}

/// The entry of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The content that [`Rules::desired`](super::Rules::desired) gave when the copy was last in sync, or about to be.
    /// `None` if the stored one could not be read.
    pub snapshot: Option<Snapshot>,
    pub copy: CopyRecord,
    /// The part of the snapshot that was about to be carried over when this was written.
    pub pending: Option<PendingChange>,
}

/// The identity of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyRecord {
    /// The format or its writer did not record it. Any object with the target's name counts.
    Unrecorded,
    /// The copy was about to be created under this key.
    Intended {
        key: Key,
        /// An earlier copy under this key may have gone out of sight.
        lost: Option<LostCopy>,
        /// Another object was there first, and nothing has been created since.
        taken: bool,
    },
    /// The copy was created under this key with this uid.
    Created { key: Key, uid: Arc<str> },
    /// The copy existed before and was adopted.
    Adopted { key: Key, uid: Arc<str> },
}

/// A copy that was deleted, or hidden from the agent: its absence does not show which of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCopy {
    pub uid: Arc<str>,
    pub made: CopyOrigin,
}

impl CopyRecord {
    pub(super) fn of(key: &Key, copy: &Object, made: CopyOrigin) -> Self {
        let (key, uid) = (key.clone(), copy.uid().unwrap_or_default().into());
        match made {
            CopyOrigin::Created => Self::Created { key, uid },
            CopyOrigin::Adopted => Self::Adopted { key, uid },
        }
    }

    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Unrecorded => None,
            Self::Intended { key, .. } | Self::Created { key, .. } | Self::Adopted { key, .. } => {
                Some(key)
            }
        }
    }

    /// Whether Hawser created the copy instead of adopting it.
    pub fn is_made(&self) -> bool {
        match self {
            Self::Adopted { .. } | Self::Intended { taken: true, .. } => false,
            Self::Unrecorded | Self::Created { .. } | Self::Intended { lost: None, .. } => true,
            Self::Intended {
                lost: Some(lost), ..
            } => lost.made == CopyOrigin::Created,
        }
    }

    /// The copy that existed under this key when the next one was about to be created.
    pub(super) fn lost(&self, at: &Key) -> Option<LostCopy> {
        let lost = match self {
            Self::Unrecorded => None,
            Self::Intended { lost, .. } => lost.clone(),
            Self::Created { uid, .. } => Some(LostCopy {
                uid: Arc::clone(uid),
                made: CopyOrigin::Created,
            }),
            Self::Adopted { uid, .. } => Some(LostCopy {
                uid: Arc::clone(uid),
                made: CopyOrigin::Adopted,
            }),
        };
        lost.filter(|_| self.key() == Some(at))
    }

    /// Whether a copy may have been created under this key since this was recorded.
    pub(super) fn may_be_created(&self, at: &Key) -> bool {
        matches!(self, Self::Intended { key, taken: false, .. } if key == at)
    }

    /// The way in which the copy with this uid became ours, if it was hidden when another one was about to be created.
    pub(super) fn found_again(&self, found: Option<&str>) -> Option<CopyOrigin> {
        match self {
            Self::Intended {
                lost: Some(LostCopy { uid, made }),
                ..
            } => (found == Some(uid)).then_some(*made),
            _ => None,
        }
    }

    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Unrecorded | Self::Intended { .. } => None,
            Self::Created { uid, .. } | Self::Adopted { uid, .. } => Some(uid),
        }
    }
}

/// A last known state. If it was too large, some of its values (strings and lists, never maps) are null, with their
/// hashes beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    object: Arc<Object>,
    /// JSON pointers of the values that were left out, with their hashes.
    digests: BTreeMap<String, ValueHash>,
}

impl Snapshot {
    pub fn whole(object: impl Into<Arc<Object>>) -> Self {
        Self {
            object: object.into(),
            digests: BTreeMap::new(),
        }
    }

    /// Builds a snapshot from its stored form, with the hashes of the values that were left out.
    pub fn from_parts(object: Object, digests: BTreeMap<String, ValueHash>) -> Self {
        Self {
            object: Arc::new(object),
            digests,
        }
    }

    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn digests(&self) -> &BTreeMap<String, ValueHash> {
        &self.digests
    }

    /// The snapshot without any string or list whose JSON is longer than `limit` bytes, except for the object's
    /// identity.
    #[must_use]
    pub fn reduced(&self, limit: usize) -> Self {
        let mut value = self.object.as_value().clone();
        let mut digests = self.digests.clone();
        if let Value::Object(root) = &mut value {
            for (field, value) in root {
                let at = format!("/{}", escape(field));
                reduce(value, &at, limit, &mut digests);
            }
        }
        match Object::new(value) {
            Ok(object) => Self {
                object: Arc::new(object),
                digests,
            },
            // `Object` checks some fields and accepts null in them, so this does not happen; the snapshot then stays as
            // it is.
            Err(_) => self.clone(),
        }
    }

    /// The snapshot as a base to compare `desired` with: omitted values that `desired` still has are restored, the
    /// others stay null and so differ.
    pub(crate) fn base_for(&self, desired: &Object) -> Cow<'_, Object> {
        if self.digests.is_empty() {
            return Cow::Borrowed(&self.object);
        }
        let mut value = self.object.as_value().clone();
        for (pointer, hash) in &self.digests {
            let now = desired.as_value().pointer(pointer);
            let kept = now.filter(|now| value_hash(now) == *hash);
            if let (Some(kept), Some(slot)) = (kept, value.pointer_mut(pointer)) {
                *slot = kept.clone();
            }
        }
        Object::new(value).map_or(Cow::Borrowed(&self.object), Cow::Owned)
    }

    /// Whether this is the state of `desired`.
    pub fn remembers(&self, desired: &Object) -> bool {
        *self.base_for(desired) == *desired
    }
}

fn reduce(value: &mut Value, at: &str, limit: usize, digests: &mut BTreeMap<String, ValueHash>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if at == "/metadata" && (key == "name" || key == "namespace") {
                    continue;
                }
                reduce(value, &format!("{at}/{}", escape(key)), limit, digests);
            }
        }
        Value::String(_) | Value::Array(_)
            if at != "/apiVersion" && at != "/kind" && value.to_string().len() > limit =>
        {
            digests.insert(at.to_owned(), value_hash(value));
            *value = Value::Null;
        }
        _ => {}
    }
}
