//! A stored object: the JSON as it is served, and the fields that selectors and garbage collection need.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize as _;
use serde_json::Value;

use super::key::Key;
use kube_lang::object::Object;

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    fn of(object: &Object) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> = object
            .labels()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        pairs.sort();
        Self(pairs.into_boxed_slice())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.0.get(found).map(|(_, value)| &**value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Keeps an object in deletion until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object in deletion until its dependents have lost their owner reference.
pub(crate) const ORPHAN: &str = "orphan";

/// The fields of an object that link it to its owners and dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    pub(super) uid: Box<str>,
    pub(super) owners: Box<[Box<str>]>,
    /// In deletion, with a finalizer for its dependents.
    pub(super) waits: bool,
}

impl Lineage {
    /// `None` for an object that has no owners and waits for no dependents, as nearly all objects.
    pub(super) fn of(object: &Object) -> Option<Box<Self>> {
        let metadata = object.root().get("metadata")?;
        let references = metadata.get("ownerReferences").and_then(Value::as_array);
        let waits = object.in_deletion()
            && (object.has_finalizer(FOREGROUND) || object.has_finalizer(ORPHAN));
        if references.is_none_or(Vec::is_empty) && !waits {
            return None;
        }
        let owners = references.into_iter().flatten();
        let owners = owners.filter_map(|owner| owner.get("uid")?.as_str());
        Some(Box::new(Self {
            uid: object.uid().unwrap_or_default().into(),
            owners: owners.map(Into::into).collect(),
            waits,
        }))
    }
}

/// One state of one object. Immutable: a write creates another one.
#[derive(Debug)]
pub(crate) struct Stored {
    pub key: Key,
    /// The revision of the write; 0 while that is not committed.
    pub revision: u64,
    /// The schema that last pruned and defaulted the content; 0 without one.
    pub stamp: u64,
    pub labels: Labels,
    pub(super) lineage: Option<Box<Lineage>>,
    /// Empty while the state is not committed.
    body: Bytes,
    parsed: OnceLock<Object>,
    /// The object in another encoding, once a client has requested it. Empty if none had before the state was replaced.
    packed: OnceLock<Option<Bytes>>,
}

impl Stored {
    /// A state of a running transaction.
    pub(super) fn pending(key: Key, object: Object, stamp: u64) -> Self {
        Self {
            key,
            revision: 0,
            stamp,
            labels: Labels::of(&object),
            lineage: Lineage::of(&object),
            body: Bytes::new(),
            parsed: OnceLock::from(object),
            packed: OnceLock::new(),
        }
    }

    /// The same state with the revision `revision`.
    pub(super) fn committed(mut self, revision: u64) -> Self {
        let body = match self.parsed.take() {
            Some(object) => serialise(at(object, revision).as_value()),
            None => self.body_at(revision),
        };
        Self {
            revision,
            body,
            ..self
        }
    }

    /// Whether its text is the same as that of another state.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        if !self.body.is_empty() {
            return self.body == other.body();
        }
        let body = other.body();
        let mut expected = Expected(&body);
        let written = serde_json::to_writer(&mut expected, self.cached().as_value());
        written.is_ok() && expected.0.is_empty()
    }

    /// The JSON as it is served in the storage version.
    pub(crate) fn body(&self) -> Bytes {
        if self.body.is_empty() {
            return serialise(self.cached().as_value());
        }
        self.body.clone()
    }

    /// The JSON in another encoding, which is cached from now on: one encoding for each object. Replaced states keep
    /// only the encoding that they had, because its size was counted.
    pub(crate) fn packed<E>(
        &self,
        pack: impl FnOnce(&[u8]) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if self.body.is_empty() {
            return pack(&self.body());
        }
        if let Some(Some(packed)) = self.packed.get() {
            return Ok(packed.clone());
        }
        let packed = pack(&self.body)?;
        self.packed.get_or_init(|| Some(packed.clone()));
        Ok(packed)
    }

    /// Makes it a replaced state. Returns the bytes that it occupies, now and later.
    pub(super) fn pass(&self) -> usize {
        let packed = self.packed.get_or_init(|| None);
        self.body.len() + packed.as_ref().map_or(0, Bytes::len)
    }

    /// The JSON with another `metadata.resourceVersion`, for watchers of a removal.
    pub(crate) fn body_at(&self, revision: u64) -> Bytes {
        serialise(at(self.object(), revision).as_value())
    }

    /// A copy that can be changed.
    pub(crate) fn object(&self) -> Object {
        match self.parsed.get() {
            Some(object) => object.clone(),
            None => parse(&self.body),
        }
    }

    /// The parsed object, cached from now on. For the few objects that are read often (definitions, bindings), because
    /// it doubles their memory.
    pub(crate) fn cached(&self) -> &Object {
        self.parsed.get_or_init(|| parse(&self.body))
    }

    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }
}

fn at(mut object: Object, revision: u64) -> Object {
    let metadata = object.metadata_mut();
    metadata.insert("resourceVersion".into(), revision.to_string().into());
    object
}

/// Texts up to this size are written to an existing buffer.
const SCRATCH: usize = 64 * 1024;

/// An allocation of exactly its size, because it is stored for long.
fn serialise(value: &Value) -> Bytes {
    thread_local! {
        static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        serde_json::to_writer(&mut *text, value)
            .expect("a JSON value has string keys only and serialises into memory");
        let body = Bytes::copy_from_slice(text);
        text.shrink_to(SCRATCH);
        body
    })
}

/// Compares the written text with an expected one.
struct Expected<'t>(&'t [u8]);

impl Write for Expected<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                Ok(text.len())
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn parse(body: &Bytes) -> Object {
    let mut text = serde_json::Deserializer::from_slice(body);
    // A stored object is not deeper than a request may be.
    text.disable_recursion_limit();
    Object::deserialize(&mut text).expect("the body was serialised from an object")
}
