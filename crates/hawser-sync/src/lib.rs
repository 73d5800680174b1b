//! The engine: subjects, links, views and pure decisions.
//!
//! A [`Subject`] is an anchor object with one or more [`Link`]s, each a source, a target, pure
//! [`Rules`] and a closed [`Policy`]. `decide` maps what a [`View`] shows to the
//! requests that may be sent now; `act` sends them and puts each answer into the view, until
//! nothing is left to do. The five phases have a file each: locate, delete, create,
//! content and related.
//!
//! The engine knows no label, annotation, finalizer or Secret of any dialect: names come from the
//! subject, marks from the rules, the format of the memory from the [`Codec`]. Only `look` and
//! `act` are asynchronous; neither knows a client.

pub mod act;
mod announce;
mod content;
pub mod contest;
mod create;
pub mod decide;
mod delete;
mod locate;
pub mod look;
pub mod memo;
pub mod memory;
mod merge;
mod pass;
pub mod reason;
mod related;
pub mod request;
pub mod rules;
pub mod subject;
pub mod view;

pub use act::{Cluster, Dialect, Report, run};
pub use announce::Announced;
pub use contest::{Contest, Contests};
pub use decide::{Decision, Outcome, decide};
#[cfg(test)]
use kube_lang::object::Object;
pub use look::{PassView, Store};
pub use memo::{Memo, Print, Prints};
pub use memory::{Codec, CopyRecord, Entry, Memory, MemoryPlace, Snapshot};
pub use merge::equals;
pub use reason::{Code, Reason};
pub use request::{Answer, Effect, Failure, Request, Step};
pub use rules::{Made, Marks, Metadata, Owner, Rules};
pub use subject::{
    Finalizer, Intent, Key, Link, LinkId, Policy, Scope, Side, Source, Subject, Target,
};
pub use view::{Found, Seen, View};

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
