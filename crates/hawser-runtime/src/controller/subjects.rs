//! The subjects of a dialect between passes: waiting keys, the answers of subjects at rest, and the problems of those
//! that are out of sync.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::queue::{Queue, QueueKey};
use crate::overview::AttemptsOverview;
use hawser_sync::reason::Class;
use hawser_sync::{Reason, Report, Settled};

/// The subjects of a tenant whose messages are kept,
const MESSAGES: usize = 200;
/// and the characters of each.
const LONGEST_MESSAGE: usize = 512;

/// The answers of the last pass over each subject of a tenant that is at rest.
type SettledSubjects<Id> = HashMap<Id, Arc<Settled>>;

/// The subjects of a tenant that are out of sync.
#[derive(Debug)]
struct UnsettledSubjects<Id> {
    problems: HashMap<Id, Unsettled>,
    messages: usize,
}

/// A subject that was out of sync at the end of its last pass.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// The worst reason, without contents of objects. Its detail is empty if the tenant has too many problems.
    pub reason: Reason,
    /// The end of the first pass with this code.
    pub since: Instant,
    /// The end of the last pass.
    pub last: Instant,
    /// The number of passes with this code.
    pub attempts: u32,
}

/// The subjects of a dialect.
#[derive(Debug)]
pub struct Subjects<Id> {
    pub queue: Queue<Id>,
    /// By tenant.
    rested: Mutex<HashMap<Arc<str>, SettledSubjects<Id>>>,
    /// By tenant.
    unsettled: Mutex<HashMap<Arc<str>, UnsettledSubjects<Id>>>,
}

impl<Id: QueueKey> Subjects<Id> {
    pub fn new(queue: Queue<Id>) -> Arc<Self> {
        Arc::new(Self {
            queue,
            rested: Mutex::default(),
            unsettled: Mutex::default(),
        })
    }

    /// The rules of these subjects changed: their answers are forgotten, and failed subjects are retried at once.
    pub fn renew(&self, meant: impl Fn(&Id) -> bool) {
        self.queue.retry(&meant);
        self.forget_rested(meant);
    }

    /// Removes these subjects: nothing of them waits or is remembered any longer.
    pub fn forget(&self, is_gone: impl Fn(&Id) -> bool) {
        self.queue.forget(&is_gone);
        let mut unsettled = self.unsettled.lock();
        for of_tenant in unsettled.values_mut() {
            of_tenant.retain(|id| !is_gone(id));
        }
        unsettled.retain(|_, of_tenant| !of_tenant.problems.is_empty());
        drop(unsettled);
        self.forget_rested(is_gone);
    }

    /// Removes all subjects of a tenant.
    pub fn forget_tenant(&self, tenant: &str) {
        self.queue.forget_tenant(tenant);
        self.rested.lock().remove(tenant);
        self.unsettled.lock().remove(tenant);
    }

    fn forget_rested(&self, meant: impl Fn(&Id) -> bool) {
        let mut rested = self.rested.lock();
        for of_tenant in rested.values_mut() {
            of_tenant.retain(|id, _| !meant(id));
        }
    }

    pub(super) fn rested(&self, id: &Id) -> Option<Arc<Settled>> {
        self.rested.lock().get(id.tenant())?.get(id).cloned()
    }

    pub(super) fn remember(&self, id: &Id, settled: Option<Settled>) {
        let mut rested = self.rested.lock();
        // Whoever forgets a subject tells the queue first.
        if let Some(settled) = settled.filter(|_| !self.queue.is_forgotten(id)) {
            let of_tenant = rested.entry(Arc::clone(id.tenant())).or_default();
            of_tenant.insert(id.clone(), Arc::new(settled));
        } else if let Some(of_tenant) = rested.get_mut(id.tenant()) {
            of_tenant.remove(id);
        }
    }

    /// Notes the problem of a subject at the end of a pass, or that it has none.
    pub(super) fn note(&self, id: &Id, report: &Report) {
        let reasons = report.outcomes.iter().map(|outcome| &outcome.reason);
        let worst = reasons.max_by_key(|reason| reason.code.class());
        let worst = worst.filter(|reason| reason.code.class() != Class::Settled);
        self.set_problem(id, worst);
    }

    /// There is no pass over a subject: it has no problem.
    pub(super) fn note_absent(&self, id: &Id) {
        self.set_problem(id, None);
    }

    fn set_problem(&self, id: &Id, problem: Option<&Reason>) {
        let mut unsettled = self.unsettled.lock();
        if let Some(reason) = problem.filter(|_| !self.queue.is_forgotten(id)) {
            let of_tenant = unsettled.entry(Arc::clone(id.tenant())).or_default();
            of_tenant.note(id, reason);
        } else if let Some(of_tenant) = unsettled.get_mut(id.tenant()) {
            of_tenant.remove(id);
            if of_tenant.problems.is_empty() {
                unsettled.remove(id.tenant());
            }
        }
    }

    /// Calls back with each subject that is out of sync.
    pub fn each_unsettled(&self, mut call: impl FnMut(&Id, &Unsettled)) {
        for of_tenant in self.unsettled.lock().values() {
            for (id, problem) in &of_tenant.problems {
                call(id, problem);
            }
        }
    }

    /// What is known of a subject that is out of sync.
    pub fn attempts(&self, id: &Id) -> Option<AttemptsOverview> {
        let problem = {
            let unsettled = self.unsettled.lock();
            unsettled.get(id.tenant())?.problems.get(id)?.clone()
        };
        let next = self.queue.due(id);
        Some(AttemptsOverview {
            code: problem.reason.code.as_str().to_owned(),
            detail: problem.reason.detail,
            since_seconds: problem.since.elapsed().as_secs(),
            attempts: problem.attempts,
            last_seconds: problem.last.elapsed().as_secs(),
            next_seconds: next.map(|next| next.as_secs()),
        })
    }
}

impl<Id> Default for UnsettledSubjects<Id> {
    fn default() -> Self {
        Self {
            problems: HashMap::new(),
            messages: 0,
        }
    }
}

impl<Id: QueueKey> UnsettledSubjects<Id> {
    fn note(&mut self, id: &Id, reason: &Reason) {
        let now = Instant::now();
        let (since, attempts) = self
            .remove(id)
            .filter(|known| known.reason.code == reason.code)
            .map_or((now, 0), |known| (known.since, known.attempts));
        // Others quote what people wrote, such as the reason of a pause.
        let is_clean = matches!(reason.code.class(), Class::Refused | Class::Retry);
        let detail = if is_clean && self.messages < MESSAGES {
            let end = reason.detail.floor_char_boundary(LONGEST_MESSAGE);
            reason.detail[..end].to_owned()
        } else {
            String::new()
        };
        let problem = Unsettled {
            reason: Reason::new(reason.code, detail),
            since,
            last: now,
            attempts: attempts.saturating_add(1),
        };
        self.messages += problem.messages();
        self.problems.insert(id.clone(), problem);
    }

    fn remove(&mut self, id: &Id) -> Option<Unsettled> {
        let known = self.problems.remove(id)?;
        self.messages -= known.messages();
        Some(known)
    }

    fn retain(&mut self, stays: impl Fn(&Id) -> bool) {
        self.problems.retain(|id, problem| {
            let stays = stays(id);
            if !stays {
                self.messages -= problem.messages();
            }
            stays
        });
    }
}

impl Unsettled {
    /// 1 if its message is kept.
    fn messages(&self) -> usize {
        usize::from(!self.reason.detail.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hawser_sync::{Code, LinkId, Outcome};

    /// A subject of a tenant.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Id(Arc<str>, usize);

    impl QueueKey for Id {
        fn tenant(&self) -> &Arc<str> {
            &self.0
        }
    }

    fn report(reasons: &[Reason]) -> Report {
        let outcome = |reason: &Reason| Outcome {
            link: LinkId::new("copy"),
            reason: reason.clone(),
            copy: None,
            current: false,
            drift: None,
        };
        Report {
            outcomes: reasons.iter().map(outcome).collect(),
            happened: Vec::new(),
            reverted: Vec::new(),
            requests: 0,
            recheck: None,
            asked: Vec::new(),
            fingerprints: Vec::new(),
        }
    }

    fn subjects() -> Arc<Subjects<Id>> {
        Subjects::new(Queue::new(4))
    }

    fn count(subjects: &Subjects<Id>) -> usize {
        let mut count = 0;
        subjects.each_unsettled(|_, _| count += 1);
        count
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_those_with_the_worst_reason_since_it_began() {
        let (subjects, id) = (subjects(), Id("team".into(), 1));
        let refused = Reason::new(Code::Invalid, "spec.size");
        let both = report(&[Code::NoAnswer.into(), refused, Code::InStep.into()]);
        subjects.note(&id, &both);
        tokio::time::advance(Duration::from_mins(1)).await;
        subjects.note(&id, &both);
        tokio::time::advance(Duration::from_secs(10)).await;
        let known = subjects.attempts(&id).unwrap();
        assert_eq!((&*known.code, &*known.detail), ("Invalid", "spec.size"));
        assert_eq!(
            (known.attempts, known.since_seconds, known.last_seconds),
            (2, 70, 10)
        );
        assert_eq!(known.next_seconds, None);

        subjects.note(&id, &report(&[Code::Forbidden.into()]));
        let known = subjects.attempts(&id).unwrap();
        assert_eq!((known.attempts, known.since_seconds), (1, 0));
        subjects.note(&id, &report(&[Code::InStep.into()]));
        assert_eq!(subjects.attempts(&id), None);
        assert_eq!(count(&subjects), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subject_in_the_queue_has_a_next_attempt() {
        let (subjects, id) = (subjects(), Id("team".into(), 1));
        subjects.note(&id, &report(&[Code::NoAnswer.into()]));
        subjects.queue.add_after(
            id.clone(),
            crate::cluster::queue::Urgency::Live,
            Duration::from_secs(40),
        );
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(subjects.attempts(&id).unwrap().next_seconds, Some(30));
    }

    #[tokio::test]
    async fn a_pass_over_a_subject_that_was_forgotten_leaves_no_problem() {
        let (subjects, id) = (subjects(), Id("team".into(), 1));
        subjects
            .queue
            .add(id.clone(), crate::cluster::queue::Urgency::Live);
        let work = subjects.queue.next().await.unwrap();
        subjects.forget_tenant("team");
        subjects.note(&id, &report(&[Code::NoAnswer.into()]));
        assert_eq!(count(&subjects), 0);
        drop(work);
        subjects.note(&id, &report(&[Code::NoAnswer.into()]));
        subjects.note_absent(&id);
        assert_eq!(count(&subjects), 0);
    }

    #[test]
    fn what_people_wrote_is_no_message() {
        let (subjects, id) = (subjects(), Id("team".into(), 1));
        subjects.note(
            &id,
            &report(&[Reason::new(Code::Paused, "until noon by anna: secret")]),
        );
        assert_eq!(subjects.attempts(&id).unwrap().detail, "");
    }

    #[test]
    fn a_tenant_with_many_problems_keeps_few_messages_of_limited_length() {
        let subjects = subjects();
        let long = Reason::new(Code::Invalid, "ä".repeat(LONGEST_MESSAGE));
        let of = |name: &str, number| Id(name.into(), number);
        for number in 0..2 * MESSAGES {
            subjects.note(&of("many", number), &report(std::slice::from_ref(&long)));
        }
        let messages = |name: &str| {
            let all = (0..2 * MESSAGES).filter_map(|number| subjects.attempts(&of(name, number)));
            all.filter(|known| !known.detail.is_empty()).count()
        };
        assert_eq!(messages("many"), MESSAGES);
        let first = subjects.attempts(&of("many", 0)).unwrap();
        assert!(first.detail.len() <= LONGEST_MESSAGE);
        // Another tenant has messages of its own, and one that is solved makes room.
        subjects.note(&of("other", 0), &report(std::slice::from_ref(&long)));
        assert_eq!(messages("other"), 1);
        subjects.note(&of("many", 0), &report(&[Code::InStep.into()]));
        subjects.note(&of("many", 2 * MESSAGES - 1), &report(&[long]));
        assert_eq!(messages("many"), MESSAGES);

        subjects.forget(|id| id.1 > 9);
        assert_eq!(count(&subjects), 9 + 1);
        subjects.forget_tenant("many");
        assert_eq!(count(&subjects), 1);
    }
}
