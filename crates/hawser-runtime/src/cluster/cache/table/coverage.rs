//! The part of a kind that a table covers, and what it indexes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::partition::Partition;
use hawser_sync::{Key, Labels};
use kube_lang::object::Object;

/// The hashed values of the indexed labels of an object.
pub(super) type Position = NonZeroU64;

/// The part of a kind that a table covers.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Only objects that carry this label,
    pub labelled: Option<Arc<str>>,
    /// with this value, or with any value if there is none.
    pub value: Option<Arc<str>>,
    pub namespace: Option<Arc<str>>,
    /// Labels that are indexed.
    pub indexed: Vec<Arc<str>>,
    /// Byte budget for the bodies of objects that have not been read; beyond it, only identity and labels are kept.
    /// Without a budget, all bodies are kept.
    pub idle: Option<usize>,
    /// The part that this process keeps; without it, everything.
    pub partition: Option<Partition>,
}

impl Coverage {
    /// Whether a table covers an object.
    pub(crate) fn accepts(&self, key: &Key, object: &Object) -> bool {
        let fits = |label: &Arc<str>| match (object.label(label), &self.value) {
            (Some(found), Some(only)) => found == &**only,
            (found, _) => found.is_some(),
        };
        self.labelled.as_ref().is_none_or(fits) && self.reaches(key)
    }

    /// The index entry of an object with these labels.
    pub(super) fn place<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> Option<Position> {
        if self.indexed.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for name in &self.indexed {
            label(name)?.hash(&mut hasher);
        }
        Some(Position::new(hasher.finish()).unwrap_or(Position::MAX))
    }

    /// Whether these are exactly the indexed labels.
    pub(super) fn indexes_only(&self, labels: &Labels) -> bool {
        let is_indexed = |name: &str| self.indexed.iter().any(|label| **label == *name);
        labels.iter().count() == self.indexed.len()
            && labels.iter().all(|(name, _)| is_indexed(name))
    }

    pub(super) fn reaches(&self, key: &Key) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|only| key.namespace.as_ref() == Some(only))
    }
}
