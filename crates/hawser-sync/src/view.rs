//! The view: the questions that the engine asks about the world, and the answers.
//!
//! A view reads nothing when it is asked. It is filled between rounds, from caches and from answers to requests.

use std::sync::Arc;

use kube_lang::object::Object;

use super::facts::Facts;
use super::key::{Key, Labels, Scope};
use super::request::{Failure, Request};

/// A question to a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    Object(Key),
    Marked(Scope, Labels),
}

/// The known state of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Present(Arc<Object>),
    /// A complete list, an answer or an event says that it does not exist.
    Absent,
    /// It has not been read, or cannot be read. Nothing may be concluded.
    Unknown,
}

/// The known objects with some labels.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    All(Vec<(Key, Arc<Object>)>),
    Unknown,
}

/// The reliability of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A request failed because the cache was stale: read the object before anything else.
    Stale,
    /// From a cache, which may be stale.
    Cached,
    /// From a live read or the answer to a write of this pass; for an absence also from the event of the deletion.
    Live,
}

/// The fate of a request in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Done,
    Failed(Failure),
}

/// The world as one pass sees it.
pub trait View {
    fn get(&self, key: &Key) -> Seen;
    /// Everything in the scope that carries all of the labels, in all namespaces.
    fn find(&self, scope: &Scope, labels: &Labels) -> Found;
    /// The freshness of the answer of `get` for this key.
    fn freshness(&self, key: &Key) -> Freshness;
    /// Whether an absent object was seen to end: it was in deletion, or had no finalizer.
    fn ended(&self, key: &Key) -> bool;
    /// Whether this object was read or written in this pass, with an answer.
    fn answered(&self, key: &Key) -> bool;
    /// The fate of this very request in this pass: done while it is the last write to its object; failed if it failed,
    /// or if a write to its object failed that must not be repeated in this pass.
    fn note(&self, request: &Request) -> Option<Note>;
    /// The object before the first write to it in this pass; `None` if it was not written.
    fn before(&self, key: &Key) -> Option<Seen>;
    /// Whether a create of this pass was refused because there was an object already.
    fn was_there(&self, key: &Key) -> bool;
    /// Whether this pass created the object, even if a webhook changed it.
    fn created(&self, key: &Key, object: &Object) -> bool;
    /// Whether the last pass of this process over the subject came to rest with this state of the object.
    fn rested(&self, key: &Key, object: &Object) -> bool;
    /// The facts that were derived from the answers in this pass.
    fn facts(&self) -> &Facts;
}
