//! What is remembered of a subject between passes: the last known state of each source, and
//! which object each copy is.
//!
//! How that is stored is the dialect's: its [`Codec`] maps entries to one stored object and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use kube_lang::object::Object;
use kube_lang::object::pointer::escape;

use super::announce::Announced;
use super::memo::Print;
use super::reason::Reason;
use super::subject::{Key, Link, LinkId};

/// Where a subject's memory is stored, and in which format.
#[derive(Clone, Debug)]
pub struct MemoryPlace {
    pub key: Key,
    pub codec: Arc<dyn Codec>,
    /// The print of the memory with which a pass of this process came to rest: all that it announces was
    /// done.
    pub rested: Option<Print>,
}

/// The format of a subject's memory. One stored object holds the entries of all links.
pub trait Codec: Send + Sync + fmt::Debug {
    /// What the stored object says. Entries that cannot be read are left out; entries of links
    /// that no longer exist are returned under the ids they were written with, where the format
    /// knows them.
    fn read(&self, stored: &Object, links: &[Link]) -> Memory;

    /// The stored object with these entries set (`Some`) or forgotten (`None`) and everything
    /// else as it was; a new one where nothing is stored. Where the whole would be too large, the
    /// codec reduces snapshots of what it is given ([`Snapshot::reduced`]).
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

/// What is remembered of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The content as [`Rules::desired`](super::Rules::desired) gave it when the copy was last
    /// brought in step, or was about to be. `None` where the stored one could not be read.
    pub snapshot: Option<Snapshot>,
    pub copy: CopyRecord,
    /// What of the snapshot was about to be carried over when this was written.
    pub announced: Option<Announced>,
}

/// Which object the copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyRecord {
    /// The format or its writer did not say. Whatever carries the target's name counts.
    Unrecorded,
    /// It was about to be made under this key.
    Intended(Key),
    /// It was made under this key with this uid.
    Created { key: Key, uid: Arc<str> },
    /// It was there before.
    Adopted { key: Key, uid: Arc<str> },
}

impl CopyRecord {
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Unrecorded => None,
            Self::Intended(key) | Self::Created { key, .. } | Self::Adopted { key, .. } => {
                Some(key)
            }
        }
    }

    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Unrecorded | Self::Intended(_) => None,
            Self::Created { uid, .. } | Self::Adopted { uid, .. } => Some(uid),
        }
    }
}

/// A last known state. Where it was too large to be kept whole, some of its values (strings and
/// lists, never maps) are null and their hashes stand beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    object: Arc<Object>,
    /// JSON pointers of values left out, with the hash of each.
    digests: BTreeMap<String, ValueHash>,
}

/// The SHA-256 of a value's compact JSON.
pub type ValueHash = [u8; 32];

/// The hash by which a value that was left out is known again.
pub fn value_hash(value: &Value) -> ValueHash {
    Sha256::digest(value.to_string().as_bytes()).into()
}

impl Snapshot {
    pub fn whole(object: Object) -> Self {
        Self {
            object: Arc::new(object),
            digests: BTreeMap::new(),
        }
    }

    /// A snapshot as it was stored, with the hashes of what was left out of it.
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

    /// The same snapshot with every string and list whose JSON is longer than `limit` bytes left
    /// out, apart from what tells which object it is.
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
            // Only values below the fields that `Object` checks could break it, and a null is
            // admitted wherever it checks.
            Err(_) => self.clone(),
        }
    }

    /// The snapshot as a base to compare `desired` with: values left out that `desired` still has
    /// are put back, the others stay null and so differ.
    pub fn base_for(&self, desired: &Object) -> Cow<'_, Object> {
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
