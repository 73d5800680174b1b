//! Requests, answers and failures: the interface between deciding and acting.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value};

use kube_lang::object::Object;

use super::key::{Key, Labels, LinkId, Scope};

/// One request that may run now, concurrently with all others of the same decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The link that it is for; `None` if it is for the whole subject.
    pub link: Option<LinkId>,
    pub request: Request,
    pub effect: Effect,
}

/// A request to one control plane.
///
/// Bodies are complete: a patch carries the `metadata.uid` and, where it is locked, the
/// `metadata.resourceVersion` it was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A live read.
    Read {
        key: Key,
    },
    /// A live list by labels over all namespaces.
    Find {
        scope: Scope,
        labels: Labels,
    },
    Create {
        key: Key,
        object: Object,
    },
    /// A merge patch.
    Patch {
        key: Key,
        patch: Value,
    },
    /// A full update with the object's resourceVersion.
    Replace {
        key: Key,
        object: Object,
    },
    /// A full update of the status subresource with the object's resourceVersion.
    ReplaceStatus {
        key: Key,
        object: Object,
    },
    /// A deletion of this incarnation only.
    Delete {
        key: Key,
        uid: Arc<str>,
        /// Further fields of its `DeleteOptions`, usually none.
        options: Map<String, Value>,
    },
}

/// Identifies a request within a pass. The resourceVersion is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId(u64);

impl Request {
    /// A deletion without options.
    pub fn delete(key: Key, uid: impl Into<Arc<str>>) -> Self {
        Self::Delete {
            key,
            uid: uid.into(),
            options: Map::new(),
        }
    }

    /// The object of the request; `None` for a list.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Find { .. } => None,
            Self::Read { key }
            | Self::Create { key, .. }
            | Self::Patch { key, .. }
            | Self::Replace { key, .. }
            | Self::ReplaceStatus { key, .. }
            | Self::Delete { key, .. } => Some(key),
        }
    }

    /// The scope of the objects that the request concerns.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Find { scope, .. } => scope.clone(),
            Self::Read { key }
            | Self::Create { key, .. }
            | Self::Patch { key, .. }
            | Self::Replace { key, .. }
            | Self::ReplaceStatus { key, .. }
            | Self::Delete { key, .. } => key.scope(),
        }
    }

    /// The verb, for people and metrics.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Read { .. } => "get",
            Self::Find { .. } => "list",
            Self::Create { .. } => "create",
            Self::Patch { .. } => "patch",
            Self::Replace { .. } => "update",
            Self::ReplaceStatus { .. } => "update status",
            Self::Delete { .. } => "delete",
        }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Find { .. })
    }

    /// Whether the answer may show changes by other writers: it is a read, or a patch of any version.
    pub fn shows_others_changes(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Find { .. } => true,
            Self::Patch { patch, .. } => patch["metadata"]["resourceVersion"].is_null(),
            Self::Create { .. }
            | Self::Replace { .. }
            | Self::ReplaceStatus { .. }
            | Self::Delete { .. } => false,
        }
    }

    pub(crate) fn ticket(&self) -> RequestId {
        let mut hasher = DefaultHasher::new();
        self.verb().hash(&mut hasher);
        self.key().hash(&mut hasher);
        match self {
            Self::Read { .. } => {}
            Self::Find { scope, labels } => (scope, labels).hash(&mut hasher),
            Self::Create { object, .. }
            | Self::Replace { object, .. }
            | Self::ReplaceStatus { object, .. } => hash_unlocked(object.as_value(), &mut hasher),
            Self::Patch { patch, .. } => hash_unlocked(patch, &mut hasher),
            Self::Delete { uid, options, .. } => (uid, options).hash(&mut hasher),
        }
        RequestId(hasher.finish())
    }
}

/// Hashes a body without its resourceVersion.
fn hash_unlocked(body: &Value, hasher: &mut impl Hasher) {
    let Value::Object(root) = body else {
        return body.hash(hasher);
    };
    for (field, value) in root {
        match value {
            Value::Object(metadata) if field == "metadata" => {
                for (name, value) in metadata.iter().filter(|(n, _)| *n != "resourceVersion") {
                    (name, value).hash(hasher);
                }
            }
            _ => (field, value).hash(hasher),
        }
    }
}

/// The effect of a successful request, as a dialect may report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Something was read.
    Looked,
    /// The finalizer was added to the source.
    Accepted,
    /// A namespace was created for the copy.
    NamespaceMade,
    /// The memory was written.
    Remembered,
    /// The copy was created.
    Placed,
    /// An existing object became the copy.
    Adopted,
    /// The copy's content was synchronized.
    Synced,
    /// Drift of the copy was reverted.
    Reverted,
    /// The status was synchronized.
    StatusSynced,
    /// The deletion of the copy was requested.
    Cleanup,
    /// An adopted copy was released: its marks were removed.
    LetGo,
    /// The memory was deleted.
    Forgotten,
    /// A finalizer that no program will remove was removed.
    Shed,
    /// The finalizer was removed from the source: nothing of Hawser is left.
    Released,
    /// A report was written to the anchor.
    Reported,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The current object: read, written, or in deletion and still there.
    Object(Arc<Object>),
    /// The object does not exist: not found by a read or a delete, or gone with the delete.
    Gone,
    Listed(Vec<(Key, Arc<Object>)>),
    Failed(Failure),
}

/// The reason for a failure, by what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A write to something that does not exist.
    #[error("not found")]
    NotFound,
    #[error("changed in the meantime")]
    Conflict,
    #[error("already exists")]
    AlreadyExists,
    /// The uid is not the object's: another incarnation.
    #[error("another object of the same name")]
    OtherIncarnation,
    /// The namespace to create in is in deletion.
    #[error("namespace in deletion")]
    NamespaceTerminating,
    #[error("refused as invalid: {0}")]
    Invalid(String),
    #[error("forbidden: {0}")]
    Forbidden(String),
    #[error("too large")]
    TooLarge,
    /// Not sent: an owner has to approve it first.
    #[error("held: {0}")]
    Held(String),
    /// Not sent: the object is paused.
    #[error("paused {0}")]
    Paused(String),
    /// Not sent: its premise is unknown, or turned out to be wrong.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Not sent: more requests may be allowed in a moment.
    #[error("not sent yet: waiting for further changes")]
    Early,
    /// Not sent yet: another writer has undone it each time.
    #[error("{}", contested(.0))]
    Contested(String),
    /// No answer, or a request to come back later. Whether a write was executed is unknown.
    #[error("no answer: {0}")]
    Unavailable(String),
}

fn contested(place: &str) -> String {
    match place {
        "" => "another writer undoes each creation or deletion".to_owned(),
        place => format!("another writer changes {place} after each write"),
    }
}

impl Failure {
    /// Whether the failure shows that the cache is stale.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Conflict | Self::AlreadyExists | Self::OtherIncarnation
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::Side;

    #[test]
    fn a_patch_of_a_known_version_shows_no_changes_by_others() {
        let kind = Arc::new(kube_lang::object::Gvk::new("", "v1", "ConfigMap"));
        let key = Scope::new(&Side::new("kcp"), &kind, "a").key(Some("default"), "m");
        let patch = |metadata: Value| Request::Patch {
            key: key.clone(),
            patch: json!({"metadata": metadata}),
        };
        assert!(patch(json!({"uid": "u"})).shows_others_changes());
        assert!(!patch(json!({"resourceVersion": "7"})).shows_others_changes());
        assert!(Request::Read { key: key.clone() }.shows_others_changes());
        assert!(!Request::delete(key.clone(), "u").shows_others_changes());
    }
}
