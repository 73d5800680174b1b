//! Subjects at rest: an inexpensive check that nothing has changed.
//!
//! A decision is a pure function of the answers to its questions. At rest, it holds as long as every answer has the
//! same fingerprint, and fingerprints are compared without parsing anything.

use super::fingerprint::Fingerprint;
use super::key::{Key, Labels, Scope};
use super::reason::{Class, Code};
use super::report::{Outcome, Report};
use super::view::Question;

/// A cache that keeps the fingerprints of its objects.
pub trait FingerprintSource {
    /// The fingerprint of the answer to a question; `None` if the answer is unknown.
    fn fingerprint(&self, question: &Question) -> Option<Fingerprint>;
}

/// A pass that came to rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The fingerprint of the configuration that the subject was made from.
    rules: u64,
    /// The answers about objects, and those about labels. Each object at rest has a few of the former, in a third of
    /// the memory of the latter.
    objects: Box<[(Key, Fingerprint)]>,
    marked: Box<[(Scope, Labels, Fingerprint)]>,
}

impl Settled {
    /// Keeps a pass if it came to rest without retries. Nothing is kept for objects that are gone, because names come
    /// and go without end.
    pub fn of(report: &Report, rules: u64) -> Option<Self> {
        let settled = |outcome: &Outcome| outcome.reason.code.class() == Class::Settled;
        let mut outcomes = report.outcomes.iter();
        let gone = !report.outcomes.is_empty()
            && report
                .outcomes
                .iter()
                .all(|outcome| matches!(outcome.reason.code, Code::Gone | Code::NoSource));
        if gone || !outcomes.all(settled) {
            return None;
        }
        let (mut objects, mut marked) = (Vec::new(), Vec::new());
        for (question, fingerprint) in report.asked.iter().zip(&report.fingerprints) {
            let fingerprint = (*fingerprint)?;
            match question {
                Question::Object(key) => objects.push((key.clone(), fingerprint)),
                Question::Marked(scope, labels) => {
                    marked.push((scope.clone(), labels.clone(), fingerprint));
                }
            }
        }
        Some(Self {
            rules,
            objects: objects.into(),
            marked: marked.into(),
        })
    }

    /// The fingerprint of its answer about an object.
    pub fn object(&self, key: &Key) -> Option<Fingerprint> {
        let mut objects = self.objects.iter();
        objects
            .find(|(asked, _)| asked == key)
            .map(|(_, fingerprint)| *fingerprint)
    }

    /// Whether another pass would come to the same result.
    pub fn holds(&self, rules: u64, fingerprints: &dyn FingerprintSource) -> bool {
        let is_same = |question, fingerprint: &Fingerprint| {
            fingerprints.fingerprint(&question) == Some(*fingerprint)
        };
        let object = |(key, answer): &(Key, _)| is_same(Question::Object(key.clone()), answer);
        let marked = |(scope, labels, answer): &(Scope, Labels, _)| {
            is_same(Question::Marked(scope.clone(), labels.clone()), answer)
        };
        self.rules == rules && self.objects.iter().all(object) && self.marked.iter().all(marked)
    }
}
