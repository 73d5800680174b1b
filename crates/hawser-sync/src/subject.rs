//! The unit of a pass: an anchor and its links. Data that a dialect fills in before a pass.

use super::key::{Finalizer, Key};
use super::link::Link;
use super::memory::MemoryPlace;

/// The unit of a pass: an anchor and the links that hang on it. The finalizer on the anchor, the
/// memory and the request budget belong to the subject.
#[derive(Clone, Debug)]
pub struct Subject {
    pub anchor: Key,
    /// Added to the anchor before anything is created, removed when nothing is left.
    pub finalizer: Option<Finalizer>,
    /// The place of the last known states; without it, content is compared with the copy itself.
    pub memory: Option<MemoryPlace>,
    pub intent: Intent,
    pub links: Vec<Link>,
}

/// The intent for the whole subject while its anchor lives. An anchor in deletion is retracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Sync,
    /// Copies do not change while their sources live; only unwanted ones are deleted.
    Leave,
    /// Delete everything and release the anchor although it lives: it left the filter.
    Retract,
}
