//! The engine: subjects, links, views and pure decisions.
//!
//! A [`Subject`] is an anchor object with one or more [`Link`]s, each a source, a target, pure [`Rules`] and a closed
//! [`Policy`]. `decide` maps a [`View`] to the requests that may be sent now; `act` sends them and puts each answer
//! into the view, until nothing is left to do. The five phases have a file each: locate, delete, create, content and
//! related.
//!
//! The engine knows no label, annotation, finalizer or Secret of any dialect: names come from the
//! subject, marks from the rules, the format of the memory from the [`Codec`]. Only `look` and
//! `act` are asynchronous; neither knows a client.

mod act;
mod author;
mod content;
pub mod contest;
mod create;
mod decide;
mod delete;
pub mod drift;
mod facts;
mod fingerprint;
mod key;
pub mod link;
mod locate;
mod look;
mod memory;
mod merge;
mod pass;
mod pending;
pub mod reason;
mod related;
mod report;
mod request;
mod rules;
mod settled;
mod subject;
mod view;

pub use act::{Cluster, Dialect, run};
pub use author::Author;
pub use contest::{WriteConflict, WriteHistory, WrittenFields};
pub use decide::{Decision, decide};
pub use drift::{Drift, DriftMode, DriftRules, DriftedField};
pub use facts::Facts;
pub use fingerprint::{Fingerprint, ValueHash};
pub use key::{Finalizer, Key, KeyParts, KeyPlace, Labels, LinkId, Scope, Side};
pub use link::{Link, Policy, Source, Target};
pub use look::{PassView, Store};
pub use memory::{Codec, CopyRecord, Entry, LostCopy, Memory, MemoryPlace, Snapshot};
pub use merge::equals;
pub use pass::unread;
pub use pending::PendingChange;
pub use reason::{Code, Reason};
pub use report::{Outcome, Report};
pub use request::{Answer, Effect, Failure, Request, Step};
pub use rules::{CopyOrigin, Marks, Metadata, Owner, Rules};
pub use settled::{FingerprintSource, Settled};
pub use subject::{Intent, Subject};
pub use view::{Found, Freshness, Note, Question, Seen, View};

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
