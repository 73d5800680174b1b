//! Maps a view to the steps that may run now, independent of each other. Pure and synchronous.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_lang::object::Object;

use super::delete::{DeletionScope, is_hidden, retract};
use super::key::LinkId;
use super::link::{Fate, Identity, Link, Source};
use super::memory::{CopyRecord, Entry};
use super::pass::{LinkDecision, Lookup, Pass, add_finalizer, reason_of, remove_finalizer};
use super::reason::{Class, Code, Reason};
use super::related::{turn, waves};
use super::report::Outcome;
use super::request::{Effect, Failure, Request, Step};
use super::subject::{Intent, Subject};
use super::view::View;

/// The steps to run now, and the state of each link. Without steps, the decision is a fixed point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub steps: Vec<Step>,
    /// The steps to run once all of `steps` succeeded: those that wait for the write of the memory.
    pub then: Vec<Step>,
    pub outcomes: Vec<Outcome>,
    /// The time after which to decide again without an event, if something waits for a retry.
    pub recheck: Option<Duration>,
}

/// The wait before a request without answer is retried; the caller adds back-off.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The wait for something that usually causes an event.
const WAIT: Duration = Duration::from_secs(30);

/// Decides about a subject, given the view: reads the memory, which everything else needs, and then follows the state
/// of the anchor.
pub fn decide(subject: &Subject, view: &dyn View) -> Decision {
    let mut pass = Pass::new(subject, view);
    let recalled = match &subject.memory {
        None => Ok(()),
        Some(place) => match pass.lookup(&place.key) {
            Lookup::Read(request) => Err(LinkDecision::read(request)),
            Lookup::Absent => Ok(()),
            Lookup::Present(stored) if stored.is_fragment() => {
                Err(LinkDecision::unread(&place.key, &stored))
            }
            Lookup::Present(stored) => {
                pass.memory = view.facts().memory(place, &stored, &subject.links);
                pass.stored = Some(stored);
                Ok(())
            }
        },
    };
    let outcomes = match recalled.map(|()| pass.lookup(&subject.anchor)) {
        Err(turn) => pass.for_all_links(turn),
        Ok(Lookup::Read(request)) => pass.for_all_links(LinkDecision::read(request)),
        // The finalizer would have kept the anchor, so somebody removed it. People have to decide about the copies.
        Ok(Lookup::Absent) if subject.finalizer.is_some() => {
            pass.for_all_links(LinkDecision::end(Code::NoSource))
        }
        Ok(Lookup::Absent) => pass.retract_all(None),
        Ok(Lookup::Present(anchor)) if pass.retracts(&anchor) => pass.retract_all(Some(&anchor)),
        Ok(Lookup::Present(anchor)) if anchor.is_fragment() => {
            pass.for_all_links(LinkDecision::unread(&subject.anchor, &anchor))
        }
        Ok(Lookup::Present(anchor)) => pass.sync_all(&anchor),
    };
    let wait = |outcome: &Outcome| match outcome.reason.code.class() {
        _ if outcome.reason.code == Code::SourceNotQuiet => Some(RETRY),
        Class::Retry => Some(RETRY),
        Class::Waiting | Class::Refused => Some(WAIT),
        Class::Settled | Class::Working => None,
    };
    let recheck = outcomes.iter().filter_map(wait).min();
    Decision {
        steps: pass.steps,
        then: pass.behind,
        outcomes,
        recheck,
    }
}

impl Pass<'_> {
    fn retracts(&self, anchor: &Object) -> bool {
        match self.subject.intent {
            Intent::Sync => anchor.in_deletion(),
            Intent::Leave => false,
            Intent::Retract => true,
        }
    }

    fn sync_all(&mut self, anchor: &Arc<Object>) -> Vec<Outcome> {
        let subject = self.subject;
        if let Some(finalizer) = &subject.finalizer
            && !anchor.has_finalizer(&finalizer.0)
        {
            let request = add_finalizer(&subject.anchor, anchor, finalizer);
            return self.for_all_links(LinkDecision::step(request, Effect::Accepted));
        }
        let mut placed = true;
        let mut outcomes = Vec::new();
        for wave in waves(&subject.links) {
            let mut next = placed;
            for link in wave {
                let (mut turn, exists) = turn(self, link, placed);
                self.take(Some(&link.id), &mut turn);
                let none = matches!(turn.reason.code, Code::Gone | Code::Kept | Code::NoSource);
                next &= exists || none;
                outcomes.push(outcome(link, turn));
            }
            placed = next;
        }
        self.write_memory(&mut outcomes);
        outcomes
    }

    fn retract_all(&mut self, anchor: Option<&Arc<Object>>) -> Vec<Outcome> {
        let subject = self.subject;
        let mut outcomes = Vec::new();
        let mut clear = true;
        for wave in waves(&subject.links).into_iter().rev() {
            let go = clear;
            for link in wave {
                let mut turn = if go {
                    self.retract_one(link)
                } else {
                    LinkDecision::end(Code::WaitingForOthers)
                };
                let ended = self.take(Some(&link.id), &mut turn);
                let over = matches!(turn.reason.code, Code::Gone | Code::Kept | Code::NoSource);
                clear &= ended && over;
                outcomes.push(outcome(link, turn));
            }
        }
        if clear && let Some(mut last) = self.release_all(anchor) {
            self.take(None, &mut last);
            for outcome in &mut outcomes {
                outcome.reason = last.reason.clone();
            }
        }
        self.write_memory(&mut outcomes);
        outcomes
    }

    fn retract_one(&self, link: &Link) -> LinkDecision {
        let source = match &link.source {
            Source::Unwanted(_) if link.policy.source_finalizer.is_none() => None,
            Source::Refused(_) => return LinkDecision::end(Code::Gone),
            Source::Live(key) | Source::Unwanted(key) => match self.lookup(key) {
                Lookup::Read(request) if self.forbids(&request) && is_hidden(self, link) => None,
                Lookup::Read(request) => return LinkDecision::read(request),
                Lookup::Present(object) => Some(object),
                Lookup::Absent => None,
            },
        };
        let fate = link.policy.retract;
        retract(self, link, source.as_ref(), fate, DeletionScope::Subject)
    }

    /// Nothing is left of the copies: deletes the memory, then removes the finalizer.
    fn release_all(&self, anchor: Option<&Arc<Object>>) -> Option<LinkDecision> {
        let subject = self.subject;
        let finalizer = subject.finalizer.as_ref();
        let held = anchor.zip(finalizer).filter(|(a, f)| a.has_finalizer(&f.0));
        if let Some(turn) = self.forget_all(held.is_some()) {
            return Some(turn);
        }
        let (anchor, finalizer) = held?;
        let request = remove_finalizer(&subject.anchor, anchor, finalizer);
        Some(LinkDecision::step(request, Effect::Released))
    }

    /// The next step towards a memory with only two sorts of records: those of copies that stay on purpose, since the
    /// same anchor, created again, has to recognise them, and those of sources that are held and hidden. With the last
    /// of them the memory itself is deleted.
    fn forget_all(&self, held: bool) -> Option<LinkDecision> {
        let subject = self.subject;
        let memory = subject.memory.as_ref()?;
        let Some(stored) = &self.stored else {
            return match self.lookup_live(&memory.key) {
                Lookup::Read(request) if held => Some(LinkDecision::read(request)),
                _ => None,
            };
        };
        let hides = subject.links.iter().any(|link| is_hidden(self, link));
        let stays = |link: &&Link| {
            let kept = link.policy.retract == Fate::Keep
                && link.policy.identity == Identity::Memory
                && self.entry(link).is_some();
            let whose = hides && link.source.key() == Some(&subject.anchor);
            kept || whose || is_hidden(self, link)
        };
        let stay: Vec<_> = subject
            .links
            .iter()
            .filter(stays)
            .map(|link| &link.id)
            .collect();
        let request = if stay.is_empty() {
            Request::delete(memory.key.clone(), stored.uid().unwrap_or_default())
        } else {
            let go = self.memory.entries.keys().filter(|id| !stay.contains(id));
            let go: BTreeMap<_, _> = go.map(|id| (id.clone(), None)).collect();
            if go.is_empty() {
                return None;
            }
            match memory.codec.write(Some(stored), &subject.links, &go) {
                Ok(object) if object != **stored => Request::Replace {
                    key: memory.key.clone(),
                    object,
                },
                _ => return None,
            }
        };
        // If deleting the memory is forbidden, it stays, so that the anchor is released all the same.
        if matches!(self.failure(&request), Some(Failure::Forbidden(_))) {
            return None;
        }
        Some(LinkDecision::step(request, Effect::Forgotten))
    }

    /// One write for the entries of all links.
    fn write_memory(&mut self, outcomes: &mut [Outcome]) {
        let Some(memory) = self
            .subject
            .memory
            .as_ref()
            .filter(|_| !self.changes.is_empty())
        else {
            return;
        };
        // Confirmations are written together with the results of the other steps.
        let goes_on = self.steps.iter().any(|step| step.request.writes());
        if goes_on && self.changes.iter().all(|change| self.only_confirms(change)) {
            return;
        }
        let stored = self.stored.as_deref();
        let links = &self.subject.links;
        let dying = stored.is_some_and(Object::in_deletion);
        let written = if dying {
            Err(Reason::new(
                Code::WaitingForDeletion,
                memory.key.to_string(),
            ))
        } else {
            memory.codec.write(stored, links, &self.changes)
        };
        let not_kept = || Reason::from(Code::StateNotKept);
        let problem = match written {
            Err(reason) => Some(reason),
            // The format did not take the changes: the stored object would stay as it is.
            Ok(object) if stored == Some(&object) => Some(not_kept()),
            Ok(object) => {
                let key = memory.key.clone();
                let request = match stored {
                    Some(_) => Request::Replace { key, object },
                    None => Request::Create { key, object },
                };
                let failure = self.failure(&request);
                let problem = failure.map(|failure| reason_of(&request, &failure));
                if problem.is_none() {
                    self.steps.push(Step {
                        link: None,
                        request,
                        effect: Effect::Remembered,
                    });
                }
                problem
            }
        };
        if let Some(reason) = problem {
            // A memory that cannot be written does not block changes: they are made, and the problem is reported
            // afterwards. If another pass may be able to write the memory, the changes wait.
            let behind = std::mem::take(&mut self.behind);
            if reason.code.class() != Class::Retry {
                let failed = |step: &Step| self.failure(&step.request).is_some();
                let untried = behind.into_iter().filter(|step| !failed(step));
                let untried: Vec<_> = untried.collect();
                self.steps.extend(untried);
            }
            for outcome in outcomes {
                if self.changes.contains_key(&outcome.link) {
                    outcome.reason = reason.clone();
                }
            }
        }
    }

    /// Whether an entry only records that the intended copy exists.
    fn only_confirms(&self, (id, now): (&LinkId, &Option<Entry>)) -> bool {
        if now.as_ref().is_some_and(|entry| entry.pending.is_some()) {
            return false;
        }
        let before = self.memory.entries.get(id).map(|entry| &entry.copy);
        match (before, now.as_ref().map(|entry| &entry.copy)) {
            (
                Some(CopyRecord::Intended { key: before, .. }),
                Some(CopyRecord::Created { key, .. }),
            ) => before == key,
            _ => false,
        }
    }

    /// The same state for every link: something has to happen before all of them.
    fn for_all_links(&mut self, mut turn: LinkDecision) -> Vec<Outcome> {
        self.take(None, &mut turn);
        let outcome = |link: &Link| Outcome {
            link: link.id.clone(),
            reason: turn.reason.clone(),
            copy: None,
            current: false,
            drift: None,
        };
        self.subject.links.iter().map(outcome).collect()
    }
}

fn outcome(link: &Link, turn: LinkDecision) -> Outcome {
    Outcome {
        link: link.id.clone(),
        reason: turn.reason,
        copy: turn.copy,
        current: turn.current,
        drift: turn.drift,
    }
}
