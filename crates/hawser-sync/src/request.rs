//! What decide may ask for, and what comes back: the whole vocabulary between deciding and acting.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Object;

use super::subject::{Key, Labels, LinkId, Scope};

/// One request that may run now, next to all others of the same decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The link it is for; none where it is for the subject as a whole.
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
    },
}

/// What tells one request from another within a pass. The resourceVersion is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

impl Request {
    /// The object the request is about; a list is about none.
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

    pub fn ticket(&self) -> Ticket {
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
            Self::Delete { uid, .. } => uid.hash(&mut hasher),
        }
        Ticket(hasher.finish())
    }
}

/// Hashes a body without the resourceVersion that it happens to be locked on.
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

/// What a request achieves when it succeeds: what a dialect may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Something was looked at.
    Looked,
    /// Our finalizer is on the source.
    Accepted,
    /// A namespace was made for the copy.
    NamespaceMade,
    /// The memory was written.
    Remembered,
    /// The copy was made.
    Placed,
    /// An existing object became the copy.
    Adopted,
    /// The copy's content was brought in step.
    Synced,
    /// The status was carried over.
    StatusSynced,
    /// The copy's deletion was asked for.
    Cleanup,
    /// An adopted copy was left to itself, without our marks.
    LetGo,
    /// The memory was deleted.
    Forgotten,
    /// A finalizer that nobody else will take off is off.
    Shed,
    /// Our finalizer is off the source: nothing of ours is left.
    Released,
    /// Something was reported on the anchor.
    Reported,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object as it is now: read, written, or in deletion and still there.
    Object(Arc<Object>),
    /// It does not exist: not found by a read or a delete, or gone with the delete.
    Gone,
    Listed(Vec<(Key, Arc<Object>)>),
    Failed(Failure),
}

/// Why a request failed, by what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A write to something that does not exist.
    #[error("not found")]
    NotFound,
    #[error("changed in the meantime")]
    Conflict,
    #[error("exists already")]
    AlreadyExists,
    /// The uid named is not the object's: another incarnation.
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
    /// Not sent: somebody has to allow it first.
    #[error("held: {0}")]
    Held(String),
    /// Not sent: what it rests on is not known, or was found to be otherwise.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Not sent: more may come in a moment.
    #[error("not sent yet: more may come in a moment")]
    Early,
    /// Not sent yet: somebody else has taken it back each time.
    #[error("{}", contested(.0))]
    Contested(String),
    /// No answer, or one that says to come back. Whether a write was executed is not known.
    #[error("no answer: {0}")]
    Unavailable(String),
}

fn contested(place: &str) -> String {
    match place {
        "" => "somebody else undoes it each time it is made or deleted".to_owned(),
        place => format!("somebody else changes {place} each time it is written"),
    }
}

impl Failure {
    /// Whether it says that something else is there than was known.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Conflict | Self::AlreadyExists | Self::OtherIncarnation
        )
    }
}
