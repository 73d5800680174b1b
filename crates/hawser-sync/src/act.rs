//! The loop of a pass: decide, send what may be sent now side by side, learn the answers, decide
//! again, until nothing is left to do or the rounds are used up.

use std::future::Future;

use futures::future::join_all;

use super::decide::{Decision, Outcome, Question, RETRY, decide};
use super::look::{Listening, PassView, Store};
use super::memo::Print;
use super::pass::reason_of;
use super::reason::{Class, Code, Reason};
use super::request::{Answer, Effect, Request, Step};
use super::subject::{LinkId, Subject};
use super::view::{Note, View};

/// Where requests go. Implemented over real control planes, and over a model in tests.
pub trait Cluster: Sync {
    fn send(&self, request: &Request) -> impl Future<Output = Answer> + Send;

    /// Does once what a pass does between its requests, which only computes: learns what was answered, and decides.
    /// Whoever runs many passes may let it wait for its turn, and do it where nothing else waits for it.
    fn compute(&self, work: &mut (dyn FnMut() + Send)) -> impl Future<Output = ()> + Send {
        async move { work() }
    }
}

/// What a front end adds to a pass over one of its subjects.
pub trait Dialect: Sync {
    /// The subject as the view now shows it; its links may change from round to round. An error
    /// names the reads without which it cannot be made up.
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>>;

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
    /// The print of each answer that it was given; none where nothing was known.
    pub prints: Vec<Option<Print>>,
}

/// A pass of an object that changes under our hands ends after this many rounds and is tried
/// again. The longest quiet one (finalizer, look, state, create, look, state, marks, content,
/// state, status, report) takes eleven.
pub const ROUNDS: usize = 24;

/// Runs one pass.
pub async fn run(front: &impl Dialect, store: &dyn Store, cluster: &impl Cluster) -> Report {
    let mut view = PassView::new(store);
    let mut happened = Vec::new();
    let mut requests = 0;
    let mut last = Decision::default();
    let mut answers = Vec::new();
    let mut prints = Vec::new();
    for _ in 0..ROUNDS {
        let mut decide = || {
            learn(&mut view, &last, std::mem::take(&mut answers));
            last = round(front, &view);
            if last.steps.is_empty() {
                prints = printed(&last, &view);
            }
        };
        cluster.compute(&mut decide).await;
        if last.steps.is_empty() {
            return finished(last, prints, happened, requests);
        }
        requests += last.steps.len();
        answers = join_all(last.steps.iter().map(|step| cluster.send(&step.request))).await;
        for (step, answer) in last.steps.iter().zip(&answers) {
            if step.request.writes() && !matches!(answer, Answer::Failed(_)) {
                happened.push((step.link.clone(), step.effect));
            }
        }
    }
    let mut end = || {
        learn(&mut view, &last, std::mem::take(&mut answers));
        prints = printed(&last, &view);
    };
    cluster.compute(&mut end).await;
    for outcome in &mut last.outcomes {
        if matches!(outcome.reason.code, Code::Working | Code::NeedsToSee) {
            outcome.reason = Reason::from(Code::TooManyChanges);
        }
    }
    last.recheck = Some(RETRY);
    finished(last, prints, happened, requests)
}

/// Takes in what the steps of a decision were answered.
fn learn(view: &mut PassView<'_>, decision: &Decision, answers: Vec<Answer>) {
    for (step, answer) in decision.steps.iter().zip(answers) {
        view.learn(&step.request, answer);
    }
}

fn printed(decision: &Decision, view: &PassView<'_>) -> Vec<Option<Print>> {
    let asked = decision.asked.iter();
    asked.map(|question| view.print(question)).collect()
}

/// One round: make up the subject, decide about it, report on it.
fn round(front: &impl Dialect, view: &PassView<'_>) -> Decision {
    let listening = Listening::new(view);
    let mut decision = match front.subject(&listening) {
        Ok(subject) => {
            let mut decision = decide(&subject, view);
            if decision.steps.is_empty() {
                report(front, &subject, &mut decision, view);
            }
            decision
        }
        Err(reads) => Decision {
            // What could not be read in this pass is tried again in another one.
            steps: reads
                .into_iter()
                .filter(|request| view.note(request).is_none())
                .map(|request| Step {
                    link: None,
                    request,
                    effect: Effect::Looked,
                })
                .collect(),
            recheck: Some(RETRY),
            ..Decision::default()
        },
    };
    for question in listening.into_asked() {
        if !decision.asked.contains(&question) {
            decision.asked.push(question);
        }
    }
    decision
}

/// Adds the report, without what has been done in this pass already. What failed and may go better is
/// for another pass, which links that are at rest would not lead to.
fn report(front: &impl Dialect, subject: &Subject, decision: &mut Decision, view: &PassView<'_>) {
    for step in front.report(subject, &decision.outcomes, view) {
        let reason = match view.note(&step.request) {
            None => {
                decision.steps.push(step);
                continue;
            }
            Some(Note::Done) => continue,
            Some(Note::Failed(failure)) => reason_of(&step.request, &failure),
        };
        if reason.code.class() != Class::Retry {
            continue;
        }
        decision.recheck = Some(RETRY);
        let outcomes = decision.outcomes.iter_mut();
        for outcome in outcomes.filter(|outcome| outcome.reason.code.class() == Class::Settled) {
            outcome.reason = reason.clone();
        }
    }
}

fn finished(
    decision: Decision,
    prints: Vec<Option<Print>>,
    happened: Vec<(Option<LinkId>, Effect)>,
    requests: usize,
) -> Report {
    Report {
        outcomes: decision.outcomes,
        happened,
        requests,
        recheck: decision.recheck,
        prints,
        asked: decision.asked,
    }
}
