//! What the engine may know about the world: the questions it asks and the answers it gets.
//!
//! A view never reads anything while it is asked. It is filled between rounds, from caches and
//! from the answers to requests.

use std::sync::Arc;

use kube_lang::object::Object;

use super::request::{Failure, Request};
use super::subject::{Key, Labels, Scope};

/// What is known about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Present(Arc<Object>),
    /// A complete list, an answer or an event says that it does not exist.
    Absent,
    /// Nobody has looked, or nobody could. Nothing may be concluded.
    Unknown,
}

/// What is known about the objects that carry some labels.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    All(Vec<(Key, Arc<Object>)>),
    Unknown,
}

/// How much an answer of the view is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A request was refused because what we knew is out of date: look before anything else.
    Doubtful,
    /// A cache says so, which may be behind.
    Cached,
    /// A live read or the answer to a write of this pass, or, of an absence, the event that
    /// reported the deletion.
    Witnessed,
}

/// What became of a request of this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Done,
    Failed(Failure),
}

/// The world as one pass knows it.
pub trait View {
    fn get(&self, key: &Key) -> Seen;
    /// Everything in the scope that carries all of the labels, in all namespaces.
    fn find(&self, scope: &Scope, labels: &Labels) -> Found;
    /// What the answer of `get` for this key rests on.
    fn proof(&self, key: &Key) -> Proof;
    /// Whether an object that is absent was seen to end: it was in deletion, or held by nobody.
    fn ended(&self, key: &Key) -> bool;
    /// What became of this very request in this pass: done while it is the last write to its object,
    /// failed where it, or a write to its object that nobody may repeat in this pass, failed.
    fn note(&self, request: &Request) -> Option<Note>;
    /// Whether this object was written in this pass.
    fn wrote(&self, key: &Key) -> bool;
}
