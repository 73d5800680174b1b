//! The loop of a pass: decide, send the requests that may run now concurrently, then those that follow from their
//! success; put the answers into the view, and decide again, until nothing is left to do or the rounds are used up.

use std::future::Future;

use futures::future::join_all;

use super::decide::{Decision, RETRY, decide};
use super::drift::DriftMode;
use super::look::{PassView, Store};
use super::pass::{reason_of, stored_otherwise};
use super::reason::{Class, Code, Reason};
use super::report::{Outcome, Report};
use super::request::{Answer, Effect, Request, Step};
use super::settled::Settled;
use super::subject::Subject;
use super::view::{Note, Question, View};

/// The receiver of requests. Implemented over real control planes, and over a model in tests.
pub trait Cluster: Sync {
    /// Sends a request. An implementation with a [`Store`] updates it with the answer.
    fn send(&self, request: &Request) -> impl Future<Output = Answer> + Send;

    /// Runs the computing part of a pass between its requests: taking in answers, and deciding. An implementation for
    /// many passes may make it wait for its turn, and run it where it blocks nothing else.
    fn compute(&self, work: &mut (dyn FnMut() + Send)) -> impl Future<Output = ()> + Send {
        async move { work() }
    }
}

/// The part of a pass that a dialect adds.
pub trait Dialect: Sync {
    /// The subject as the view now shows it; its links may change from round to round. The error names the reads that
    /// are needed first.
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>>;

    /// The requests that report on the anchor, once the links have nothing left to do.
    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step>;
}

/// A pass over an object that keeps changing ends after this many rounds and is retried. The longest pass without
/// interference (finalizer, look, state, create, look, state, marks, content, state, status, report) takes eleven.
const ROUNDS: usize = 24;

/// Runs one pass. `rested` is the last one over the subject, if it came to rest in this process.
pub async fn run(
    front: &impl Dialect,
    rested: Option<&Settled>,
    store: &dyn Store,
    cluster: &impl Cluster,
) -> Report {
    let mut view = PassView::after(rested, store);
    let (mut happened, mut reverted) = (Vec::new(), Vec::new());
    let mut requests = 0;
    let mut last = Decision::default();
    let (mut answers, mut asked, mut fingerprints) = (Vec::new(), Vec::new(), Vec::new());
    for rounds_left in (0..=ROUNDS).rev() {
        let mut compute = || {
            for (step, answer) in last.steps.iter().zip(std::mem::take(&mut answers)) {
                view.learn(&step.request, answer);
            }
            if rounds_left > 0 {
                (last, asked) = round(front, &view);
            }
            if rounds_left == 0 || last.steps.is_empty() {
                fingerprints = asked.iter().map(|one| view.fingerprint(one)).collect();
            }
        };
        cluster.compute(&mut compute).await;
        if rounds_left == 0 || last.steps.is_empty() {
            break;
        }
        let sent = last.steps.iter().map(|step| cluster.send(&step.request));
        answers = join_all(sent).await;
        let is_failed = |answer: &Answer| matches!(answer, Answer::Failed(_));
        if !last.then.is_empty() && !answers.iter().any(is_failed) {
            let sent = last.then.iter().map(|step| cluster.send(&step.request));
            answers.extend(join_all(sent).await);
            last.steps.append(&mut last.then);
        }
        requests += last.steps.len();
        for (step, answer) in last.steps.iter().zip(&answers) {
            if step.request.writes() && !is_failed(answer) {
                happened.push((step.link.clone(), step.effect));
                if step.effect == Effect::Reverted {
                    let mut outcomes = last.outcomes.iter();
                    let outcome =
                        outcomes.find(|outcome| Some(&outcome.link) == step.link.as_ref());
                    let drift = outcome.and_then(|outcome| outcome.drift.as_ref());
                    let fields = drift
                        .into_iter()
                        .flat_map(|drift| drift.fields_to(DriftMode::Revert));
                    reverted.extend(fields.cloned());
                }
            }
        }
    }
    if !last.steps.is_empty() {
        for outcome in &mut last.outcomes {
            if matches!(outcome.reason.code, Code::Working | Code::NeedsToSee) {
                outcome.reason = Reason::from(Code::TooManyChanges);
            }
        }
        last.recheck = Some(RETRY);
    }
    Report {
        outcomes: last.outcomes,
        happened,
        reverted,
        requests,
        recheck: last.recheck,
        asked,
        fingerprints,
    }
}

/// One round: creates the subject, decides about it, reports on it. Returns every question of the decision, answered or
/// not. A decision changes only if one of these answers changes.
fn round(front: &impl Dialect, view: &PassView<'_>) -> (Decision, Vec<Question>) {
    // Drops earlier questions: those of a report decide nothing.
    view.take_asked();
    let subject = front.subject(view);
    let decided = subject.map(|subject| (decide(&subject, view), subject));
    let asked = view.take_asked();
    let decision = match decided {
        Ok((mut decision, subject)) => {
            if decision.steps.is_empty() {
                report(front, &subject, &mut decision, view);
            }
            decision
        }
        Err(reads) => Decision {
            // A read that failed in this pass is repeated in another pass.
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
    (decision, asked)
}

/// Adds the report, except for requests that were already sent in this pass. Requests that failed and may succeed later
/// are left to another pass, because links at rest would not lead to one.
fn report(front: &impl Dialect, subject: &Subject, decision: &mut Decision, view: &PassView<'_>) {
    for step in front.report(subject, &decision.outcomes, view) {
        let reason = match view.note(&step.request) {
            None => {
                decision.steps.push(step);
                continue;
            }
            Some(Note::Done) => stored_otherwise(&subject.anchor),
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
