//! Identifiers: control planes, objects, labels, finalizers, links.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use kube_lang::object::{Gvk, Object};

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
        self.key_of(namespace.map(Into::into), name.into())
    }

    /// The same with names that are shared already.
    pub fn key_of(&self, namespace: Option<Arc<str>>, name: Arc<str>) -> Key {
        let place = KeyPlace {
            side: self.side.clone(),
            kind: Arc::clone(&self.kind),
            cluster: Arc::clone(&self.cluster),
            namespace,
        };
        Arc::new(place).key(name)
    }
}

static NAMESPACE: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Namespace").into());

/// The identity of an object, for caches, queues and requests. The uid distinguishes incarnations of one key and is
/// sent as a precondition of requests. Caches and indexes hold one key many times, so that a clone shares its parts, and
/// have many keys in one place, so that these can share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<KeyParts>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyParts {
    pub place: Arc<KeyPlace>,
    pub name: Arc<str>,
}

/// All objects of a kind in one namespace, or those of a cluster-scoped kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPlace {
    pub side: Side,
    pub kind: Arc<Gvk>,
    pub cluster: Arc<str>,
    pub namespace: Option<Arc<str>>,
}

impl Key {
    pub fn scope(&self) -> Scope {
        Scope {
            side: self.side.clone(),
            kind: Arc::clone(&self.kind),
            cluster: Arc::clone(&self.cluster),
        }
    }

    /// The key of this object's namespace, in the same cluster.
    pub fn namespace_key(&self) -> Option<Self> {
        let name = self.namespace.as_ref()?;
        let scope = Scope {
            kind: Arc::clone(&NAMESPACE),
            ..self.scope()
        };
        Some(scope.key_of(None, Arc::clone(name)))
    }

    /// The object of the same name at this place.
    #[must_use]
    pub fn at(&self, place: &Arc<KeyPlace>) -> Self {
        place.key(Arc::clone(&self.name))
    }

    /// The key with another kind.
    #[must_use]
    pub fn of_kind(&self, kind: &Arc<Gvk>) -> Self {
        let place = KeyPlace {
            kind: Arc::clone(kind),
            ..KeyPlace::clone(&self.place)
        };
        self.at(&place.into())
    }
}

impl KeyPlace {
    /// The object of this name.
    pub fn key(self: &Arc<Self>, name: Arc<str>) -> Key {
        let place = Arc::clone(self);
        Key(KeyParts { place, name }.into())
    }
}

impl Deref for Key {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.0
    }
}

impl Deref for KeyParts {
    type Target = KeyPlace;

    fn deref(&self) -> &KeyPlace {
        &self.place
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

/// Labels that must all be present with these values, each name once, sorted. Immutable, so that passes, their notes
/// and indexes share one. There is one of them for each copy, and their names are nearly always constants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(LabelName, Box<str>)]>);

type LabelName = Cow<'static, str>;

impl Labels {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }

    /// Whether an object has all of these labels.
    pub fn fit(&self, object: &Object) -> bool {
        self.iter()
            .all(|(name, value)| object.label(name) == Some(value))
    }
}

impl<N: Into<LabelName>, const L: usize> From<[(N, String); L]> for Labels {
    fn from(labels: [(N, String); L]) -> Self {
        labels.into_iter().collect()
    }
}

/// If a name comes twice, the last value counts.
impl<N: Into<LabelName>> FromIterator<(N, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (N, String)>>(labels: I) -> Self {
        let boxed = |(name, value): (N, String)| (name.into(), value.into());
        let once: BTreeMap<_, _> = labels.into_iter().map(boxed).collect();
        Self(once.into_iter().collect())
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
