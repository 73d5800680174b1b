//! The result of a pass.

use std::sync::Arc;
use std::time::Duration;

use super::drift::{Drift, DriftedField};
use super::fingerprint::Fingerprint;
use super::key::{Key, LinkId};
use super::reason::Reason;
use super::request::Effect;
use super::view::Question;

/// The state of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub link: LinkId,
    pub reason: Reason,
    /// The copy, or its intended place, if known.
    pub copy: Option<Key>,
    /// Whether the copy has the content of its source, whatever else is to be done.
    pub current: bool,
    /// The drift of the copy, if the policy asks for it and there is any.
    pub drift: Option<Arc<Drift>>,
}

/// The result of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    /// The effects of the pass, in order.
    pub happened: Vec<(Option<LinkId>, Effect)>,
    /// The fields of copies to which the value of the source was written again.
    pub reverted: Vec<DriftedField>,
    pub requests: usize,
    pub recheck: Option<Duration>,
    /// The questions of the last decision: the input of the reverse index.
    pub asked: Vec<Question>,
    /// The fingerprint of each answer; `None` if the answer was unknown.
    pub fingerprints: Vec<Option<Fingerprint>>,
}

impl Report {
    /// Replaces keys by equal ones that others hold, so that what is kept of the report takes less memory.
    pub fn share_keys(&mut self, shared: impl Fn(&Key) -> Option<Key>) {
        let asked = self.asked.iter_mut().filter_map(|question| match question {
            Question::Object(key) => Some(key),
            Question::Marked(..) => None,
        });
        let copies = self.outcomes.iter_mut().filter_map(|one| one.copy.as_mut());
        for key in asked.chain(copies) {
            if let Some(known) = shared(key) {
                *key = known;
            }
        }
    }
}
