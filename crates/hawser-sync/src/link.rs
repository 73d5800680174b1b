//! A link: one source, one target, the rules between them, and the policy. Data that a dialect fills in before a pass.

use std::sync::Arc;

use super::drift::{Drift, DriftRules};
use super::key::{Finalizer, Key, Labels, LinkId, Scope};
use super::reason::Reason;
use super::rules::{CopyOrigin, Rules};

/// One source, one target, and the rules between them.
#[derive(Clone, Debug)]
pub struct Link {
    pub id: LinkId,
    /// Lower waves are created first and retracted last.
    pub wave: u8,
    pub source: Source,
    pub target: Target,
    pub rules: Arc<dyn Rules>,
    pub policy: Policy,
}

/// The source of a link's content.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// An object of some cluster.
    Live(Key),
    /// The entry was removed, so the copy has to be deleted. The object that was the source may still exist: the
    /// finalizer is removed from it first, and only then is the record of it deleted.
    Unwanted(Key),
    /// The dialect does not allow this copy, for this reason.
    Refused(Reason),
}

impl Source {
    /// The object that is or was the source.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Live(key) | Self::Unwanted(key) => Some(key),
            Self::Refused(_) => None,
        }
    }
}

/// The way in which a link's copy is found.
#[derive(Clone, Debug)]
pub enum Target {
    /// By its key.
    Named(Key),
    /// By its labels. The rules name it when it has to be created.
    Marked { scope: Scope, labels: Labels },
}

impl Target {
    pub fn scope(&self) -> Scope {
        match self {
            Self::Named(key) => key.scope(),
            Self::Marked { scope, .. } => scope.clone(),
        }
    }
}

/// The closed choices of a link. Explanations show them, tests enumerate them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A finalizer on the link's own source, if that is not the anchor.
    pub source_finalizer: Option<Finalizer>,
    /// The link's own source is absent, and no object of its kind can be hidden: it has ended, even without a deletion
    /// event. Its record is deleted with the subject.
    pub source_ended: bool,
    /// The copy is absent, and may only be hidden: its record stays until it shows again.
    pub copy_hidden: bool,
    /// The fate of the copy when the link's source is gone or in deletion.
    pub source_gone: Fate,
    /// The fate of the copy when the subject is retracted.
    pub retract: Fate,
    pub identity: Identity,
    pub adoption: Adoption,
    pub adopted_on_delete: AdoptedOnDelete,
    pub content: Content,
    /// The treatment of drift, for content that is merged; `None` keeps and ignores all of it.
    pub drift: Option<DriftPolicy>,
    pub status: StatusFlow,
    pub claims: Claims,
    /// Finalizers of others that no program will remove: they are removed from source and copy.
    pub foreign_finalizers: Vec<Finalizer>,
}

/// The fate of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delete,
    Keep,
}

/// The way in which a copy is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By the marks it carries, as the rules read them.
    Marks,
    /// By the memory alone: the copy has no marks.
    Memory,
    /// By its name alone: the object at that name is the copy, whoever created it. A dialect that chooses this also
    /// looks at copies without a source, so that a copy that should not exist is always found again.
    Name,
}

/// The treatment of an object without owner in the place of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Refuse.
    Never,
    /// Adopt it if its content is exactly the desired content and not empty; else refuse. The copy counts as created by
    /// Hawser, or as adopted.
    Equal(CopyOrigin),
    /// Adopt it, keep its content, and remember the source's.
    Keep,
    /// Adopt it, and let the source win.
    Overwrite,
}

/// The fate of an adopted copy when it is retracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptedOnDelete {
    Delete,
    /// Remove the marks and leave the object.
    Release,
}

/// The way in which content is kept in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Changes of the source since the last known state are merged into the copy.
    Merge,
    /// Like `Merge`; other differences between copy and source are reverted too.
    Restore,
    /// The copy's content is the source's: labels, annotations and the fields that the rules name. Fields that only the
    /// copy has are removed; null means that a field must be absent. Written whole, for one version of the copy.
    Exact,
}

impl Content {
    /// Whether the last known state is kept.
    pub(super) fn is_remembered(self) -> bool {
        matches!(self, Self::Merge | Self::Restore)
    }
}

/// The treatment of fields that other writers of a copy changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftPolicy {
    pub rules: Arc<DriftRules>,
    /// Whether drift that is kept is an outcome too.
    pub finds_kept: bool,
    /// The field manager of the own writes.
    pub manager: &'static str,
    /// The drift that an earlier pass found. While the copy differs in the same way, it is not read again.
    pub known: Option<Arc<Drift>>,
}

/// The direction of the status. Unless it is written with the whole object, the receiving kind has to serve a status
/// subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFlow {
    None,
    /// From the copy to the source.
    Back,
    /// From the copy to the source, by writing the whole object: its kind serves no status subresource.
    BackWhole,
    /// From the source to the copy.
    Forward,
}

/// Whether other links want the same copy. The last one deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    Sole,
    Shared,
    /// Other links want it, and none of their memories has recorded it yet. Whether it is deleted is decided later.
    Unrecorded,
}

impl Policy {
    /// Whether a missing namespace of the copy is created.
    pub(super) fn makes_namespaces(&self) -> bool {
        self.identity != Identity::Name
    }

    /// Whether a copy in deletion is still synchronized: its content while the source that it was created for lives,
    /// and its status.
    pub(super) fn syncs_while_deleting(&self) -> bool {
        self.identity == Identity::Name
    }

    /// The policy of a copy that is found by name and written to equal its source; its status is copied back as long as
    /// it exists.
    pub fn mirrored() -> Self {
        Self {
            identity: Identity::Name,
            adoption: Adoption::Overwrite,
            content: Content::Exact,
            ..Self::primary()
        }
    }

    /// The policy of a copy with marks whose content is merged; its status is copied back.
    pub fn primary() -> Self {
        Self {
            source_finalizer: None,
            source_ended: false,
            copy_hidden: false,
            source_gone: Fate::Delete,
            retract: Fate::Delete,
            identity: Identity::Marks,
            adoption: Adoption::Keep,
            adopted_on_delete: AdoptedOnDelete::Delete,
            content: Content::Merge,
            drift: None,
            status: StatusFlow::Back,
            claims: Claims::Sole,
            foreign_finalizers: Vec::new(),
        }
    }

    /// The policy of a related copy: it has no marks and is found by the memory.
    pub fn related() -> Self {
        Self {
            retract: Fate::Keep,
            identity: Identity::Memory,
            adoption: Adoption::Equal(CopyOrigin::Created),
            adopted_on_delete: AdoptedOnDelete::Release,
            status: StatusFlow::None,
            ..Self::primary()
        }
    }
}
