//! Subjects at rest: an inexpensive check that nothing has changed.
//!
//! A decision is a pure function of the answers to its questions. At rest, it holds as long as every answer has the
//! same fingerprint, and fingerprints are compared without parsing anything.

use super::fingerprint::Fingerprint;
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
    answers: Box<[(Question, Fingerprint)]>,
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
        let asked = report.asked.iter().zip(&report.fingerprints);
        let answer = |(question, fingerprint): (&Question, &Option<Fingerprint>)| {
            Some((question.clone(), (*fingerprint)?))
        };
        let answers = asked.map(answer).collect::<Option<_>>()?;
        Some(Self { rules, answers })
    }

    /// The fingerprint of one of its answers.
    pub fn answer(&self, question: &Question) -> Option<Fingerprint> {
        let mut answers = self.answers.iter();
        answers
            .find(|(asked, _)| asked == question)
            .map(|(_, fingerprint)| *fingerprint)
    }

    /// Whether another pass would come to the same result.
    pub fn holds(&self, rules: u64, fingerprints: &dyn FingerprintSource) -> bool {
        let same = |(question, fingerprint): &(Question, Fingerprint)| {
            fingerprints.fingerprint(question) == Some(*fingerprint)
        };
        self.rules == rules && self.answers.iter().all(same)
    }
}
