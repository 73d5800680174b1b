//! What a pass is about: a subject, its links, and the policy of each link.
//!
//! Everything here is data that a dialect fills in before a pass. Nothing here looks at the world.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use kube_lang::object::{Gvk, Object};

use super::memory::MemoryPlace;
use super::reason::Reason;
use super::rules::{Made, Rules};

/// One of the control planes that a dialect connects, by the name the dialect gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side(pub Arc<str>);

impl Side {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All objects of a kind in one cluster. `cluster` is the logical cluster behind a shared endpoint
/// and empty where a side is one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    pub side: Side,
    pub kind: Arc<Gvk>,
    pub cluster: Arc<str>,
}

impl Scope {
    pub fn new(side: &Side, kind: &Arc<Gvk>, cluster: &str) -> Self {
        Self {
            side: side.clone(),
            kind: Arc::clone(kind),
            cluster: cluster.into(),
        }
    }

    /// The object of this scope with a namespace (cluster-scoped kinds have none) and a name.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Key {
        Key {
            side: self.side.clone(),
            kind: Arc::clone(&self.kind),
            cluster: Arc::clone(&self.cluster),
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }
}

static NAMESPACE: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Namespace").into());

/// Which object: the identity under which everything is cached, queued and asked for. The uid
/// tells incarnations of one key apart and travels as a precondition of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub side: Side,
    pub kind: Arc<Gvk>,
    pub cluster: Arc<str>,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl Key {
    pub fn scope(&self) -> Scope {
        Scope {
            side: self.side.clone(),
            kind: Arc::clone(&self.kind),
            cluster: Arc::clone(&self.cluster),
        }
    }

    /// The namespace that this object lives in, as an object of the same cluster.
    pub fn namespace_key(&self) -> Option<Self> {
        let name = self.namespace.as_ref()?;
        Some(Self {
            side: self.side.clone(),
            kind: Arc::clone(&NAMESPACE),
            cluster: Arc::clone(&self.cluster),
            namespace: None,
            name: Arc::clone(name),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.side, self.kind.kind)?;
        if !self.cluster.is_empty() {
            write!(f, "{}|", self.cluster)?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Labels that must all be there with these values, each name once, sorted. Never changed once made, so
/// that passes, what is noted of them and indexes share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Box<str>, Box<str>)]>);

impl Labels {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }

    /// Whether an object carries all of them.
    pub fn fit(&self, object: &Object) -> bool {
        self.iter()
            .all(|(name, value)| object.label(name) == Some(value))
    }
}

impl<const N: usize> From<[(String, String); N]> for Labels {
    fn from(labels: [(String, String); N]) -> Self {
        labels.into_iter().collect()
    }
}

/// Of a name that comes twice the last value counts.
impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let once: BTreeMap<String, String> = labels.into_iter().collect();
        let boxed = |(name, value): (String, String)| (name.into(), value.into());
        Self(once.into_iter().map(boxed).collect())
    }
}

/// The name of a finalizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Finalizer(pub Arc<str>);

impl Finalizer {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

/// A link's name within its subject: stable over passes and restarts, since the memory is keyed
/// by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub Arc<str>);

impl LinkId {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The unit of a pass: an anchor and the links that hang on it. The finalizer on the anchor, the
/// memory and the request budget belong to the subject.
#[derive(Clone, Debug)]
pub struct Subject {
    pub anchor: Key,
    /// Put on the anchor before anything is made, taken off when nothing is left.
    pub finalizer: Option<Finalizer>,
    /// Where the last known states are kept; without it content is compared with the copy itself.
    pub memory: Option<MemoryPlace>,
    pub intent: Intent,
    pub links: Vec<Link>,
}

/// What is wanted of the whole subject while its anchor lives. An anchor in deletion retracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Sync,
    /// Leave copies as they are while their sources live; only take back what is not wanted any more.
    Leave,
    /// Take everything back and release the anchor although it lives: it left the filter.
    Retract,
}

/// One source, one target, and the rules between them.
#[derive(Clone, Debug)]
pub struct Link {
    pub id: LinkId,
    /// Lower waves are made first and retracted last.
    pub wave: u8,
    pub source: Source,
    pub target: Target,
    pub rules: Arc<dyn Rules>,
    pub policy: Policy,
}

/// Where a link's content comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An object of some cluster.
    Live(Key),
    /// Content made by the dialect.
    Rendered(Arc<Object>),
    /// The entry was removed or the cluster deselected: what was made has to go.
    NotWanted,
    /// As before, and the object that was the source may live on: it has to be let go, and only
    /// then is it forgotten that it was held.
    Unwanted(Key),
    /// The dialect may not make this copy, and says why.
    Refused(Reason),
}

impl Source {
    /// The object that is or was the source.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Live(key) | Self::Unwanted(key) => Some(key),
            Self::Rendered(_) | Self::NotWanted | Self::Refused(_) => None,
        }
    }
}

/// How a link's copy is found.
#[derive(Clone, Debug)]
pub enum Target {
    /// By its key.
    Named(Key),
    /// By the labels it carries. The rules name it where it has to be made.
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

/// The closed choices of a link. Explanations print them, tests enumerate them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A finalizer on the link's own source, where that is not the anchor.
    pub hold: Option<Finalizer>,
    /// What becomes of the copy when the link's source is gone or in deletion.
    pub source_gone: Fate,
    /// What becomes of the copy when the subject is retracted.
    pub retract: Fate,
    pub identity: Identity,
    pub adoption: Adoption,
    pub adopted_on_delete: AdoptedOnDelete,
    pub content: Content,
    pub status: StatusFlow,
    pub namespace: NamespacePolicy,
    pub gate: Gate,
    pub claims: Claims,
    pub last_words: LastWords,
    /// Finalizers of others that nobody will take off any more: taken off source and copy on sight.
    pub shed: Vec<Finalizer>,
}

/// What becomes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delete,
    Keep,
}

/// How a copy is known to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By the marks it carries, as the rules read them.
    Marks,
    /// By the memory alone: the copy carries nothing of ours.
    Memory,
    /// By its name alone: what stands there is the copy, whoever made it. Whoever chooses this looks at
    /// copies without a source as well, so that one that should not be is always found again.
    Name,
}

/// What to do about an object that nobody owns and that stands where the copy should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Refuse.
    Never,
    /// Take it where its content is what it should be and nothing else, and is not empty; else refuse. As
    /// if we had made it, or as what was there.
    Equal(Made),
    /// Take it, keep its content, remember the source's.
    Keep,
    /// Take it and let the source win.
    Overwrite,
}

/// What becomes of an adopted copy when it is retracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptedOnDelete {
    Delete,
    /// Take our marks off and leave the object.
    Release,
}

/// How content is kept in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// What changed in the source since the last known state is merged into the copy.
    Merge,
    /// As `Merge`; what else differs from the source on the copy is put back as well.
    Restore,
    /// Every field of the source wins over the copy's, always.
    Overwrite,
    /// The copy is made once and its content left alone.
    Once,
    /// The copy's content is the source's: labels, annotations and the fields that the rules name. What
    /// only the copy has of them goes; a null says that a field is not to be there. Written whole, for
    /// one version of the copy.
    Exact,
}

impl Content {
    /// Whether the last known state is kept.
    pub(super) fn is_remembered(self) -> bool {
        matches!(self, Self::Merge | Self::Restore)
    }
}

/// Which way the status goes. Where it does not go with the whole object, the receiving kind has to serve
/// a status subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFlow {
    None,
    /// From the copy to the source.
    Back,
    /// From the copy to the source, with the whole of it: its kind serves no status subresource.
    BackWhole,
    /// From the source to the copy.
    Forward,
}

/// Whether a namespace that is missing on the target is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePolicy {
    Ensure,
    Expect,
}

/// What a link waits for in the waves below its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Every copy below exists.
    Placed,
    /// Every link below has come to an end, a refusal included.
    Settled,
}

/// Who else wants the same copy. The last one out deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    Sole,
    Shared,
}

/// Whether a copy in deletion still takes part: its content is kept in step for as long as the source that
/// it was made for lives, and its status travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWords {
    Carry,
    Drop,
}

impl Policy {
    /// The policy of a copy that is known by its name and made the same as its source, with its status
    /// going back for as long as it exists.
    pub fn mirrored() -> Self {
        Self {
            identity: Identity::Name,
            adoption: Adoption::Overwrite,
            content: Content::Exact,
            namespace: NamespacePolicy::Expect,
            last_words: LastWords::Carry,
            ..Self::primary()
        }
    }

    /// The policy of a copy that carries marks and is merged into, with its status going back.
    pub fn primary() -> Self {
        Self {
            hold: None,
            source_gone: Fate::Delete,
            retract: Fate::Delete,
            identity: Identity::Marks,
            adoption: Adoption::Keep,
            adopted_on_delete: AdoptedOnDelete::Delete,
            content: Content::Merge,
            status: StatusFlow::Back,
            namespace: NamespacePolicy::Ensure,
            gate: Gate::Settled,
            claims: Claims::Sole,
            last_words: LastWords::Drop,
            shed: Vec::new(),
        }
    }

    /// The policy of a related copy: it carries nothing of ours and is known by the memory.
    pub fn related() -> Self {
        Self {
            hold: None,
            source_gone: Fate::Delete,
            retract: Fate::Keep,
            identity: Identity::Memory,
            adoption: Adoption::Equal(Made::Created),
            adopted_on_delete: AdoptedOnDelete::Release,
            content: Content::Merge,
            status: StatusFlow::None,
            namespace: NamespacePolicy::Ensure,
            gate: Gate::Placed,
            claims: Claims::Sole,
            last_words: LastWords::Drop,
            shed: Vec::new(),
        }
    }
}
