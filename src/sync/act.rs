//! The loop of a pass: decide, send what may be sent now side by side, learn the answers, decide
//! again, until nothing is left to do or the rounds are used up.

use std::future::Future;

use futures::future::join_all;

use super::decide::{Decision, Outcome, Question, decide};
use super::look::{PassView, Store};
use super::reason::{Code, Reason};
use super::request::{Answer, Effect, Request, Step};
use super::subject::{LinkId, Subject};
use super::view::View;

/// Where requests go. Implemented over real control planes, and over a model in tests.
pub trait Cluster: Sync {
    fn send(&self, request: &Request) -> impl Future<Output = Answer> + Send;
}

/// What a front end adds to a pass.
pub trait Reporter: Sync {
    /// The subject as the view now shows it; its links may change from round to round.
    fn subject(&self, view: &dyn View) -> Subject;

    /// What is to be reported on the anchor once the links have nothing left to do.
    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step>;
}

/// What came of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    /// What was achieved, in order.
    pub happened: Vec<(Option<LinkId>, Effect)>,
    pub requests: usize,
    pub recheck: Option<std::time::Duration>,
    /// Everything the last decision asked: the reverse index of the subject.
    pub asked: Vec<Question>,
}

/// A pass of an object that changes under our hands ends after this many rounds and is tried
/// again. The longest quiet one (finalizer, look, state, create, look, state, marks, content,
/// state, status, report) takes eleven.
pub const ROUNDS: usize = 24;

/// Runs one pass.
pub async fn run(front: &impl Reporter, store: &dyn Store, cluster: &impl Cluster) -> Report {
    let mut view = PassView::new(store);
    let mut happened = Vec::new();
    let mut requests = 0;
    for _ in 0..ROUNDS {
        let subject = front.subject(&view);
        let mut decision = decide(&subject, &view);
        if decision.steps.is_empty() {
            decision.steps = reported(front, &subject, &decision, &view);
        }
        if decision.steps.is_empty() {
            return finished(decision, happened, requests);
        }
        requests += decision.steps.len();
        let answers = join_all(
            decision
                .steps
                .iter()
                .map(|step| cluster.send(&step.request)),
        );
        for (step, answer) in decision.steps.iter().zip(answers.await) {
            if step.request.writes() && !matches!(answer, Answer::Failed(_)) {
                happened.push((step.link.clone(), step.effect));
            }
            view.learn(&step.request, answer);
        }
    }
    let mut decision = decide(&front.subject(&view), &view);
    for outcome in &mut decision.outcomes {
        if matches!(outcome.reason.code, Code::Working | Code::NeedsToSee) {
            outcome.reason = Reason::from(Code::TooManyChanges);
        }
    }
    decision.recheck = Some(std::time::Duration::from_secs(1));
    finished(decision, happened, requests)
}

/// The report, without what has been tried in this pass already.
fn reported(
    front: &impl Reporter,
    subject: &Subject,
    decision: &Decision,
    view: &PassView<'_>,
) -> Vec<Step> {
    let mut steps = front.report(subject, &decision.outcomes, view);
    steps.retain(|step| view.note(&step.request).is_none());
    steps
}

fn finished(
    decision: Decision,
    happened: Vec<(Option<LinkId>, Effect)>,
    requests: usize,
) -> Report {
    Report {
        outcomes: decision.outcomes,
        happened,
        requests,
        recheck: decision.recheck,
        asked: decision.asked,
    }
}
