//! The pass over one object: the requests that it may send, and the time of the next pass.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::numbers::EventSource;
use super::syncer::{Conflict, PendingEvents, Syncer};
use crate::mirror::definition::{Plane, Status};
use crate::mirror::rules::{Id, side, subject_of};
use crate::mirror::status::LinkedUids;
use hawser_runtime::cluster::brake::CopyCounts;
use hawser_runtime::cluster::queue::{self, QueueKey as _};
use hawser_runtime::cluster::trace::TraceContext;
use hawser_runtime::cluster::troubles::DueTrouble;
use hawser_runtime::controller::{self, Deletion, FinishedPass, PassDialect, Withheld, telemetry};
use hawser_runtime::overview::recent::Direction;
use hawser_sync::reason::Class;
use hawser_sync::{
    Answer, Code, Dialect, Effect, Failure, Key, Outcome, Reason, Request, Seen, Step, Store as _,
    Subject, View,
};
use kube_lang::object::Gvk;

/// Events within this time on either side are carried to the cloud together.
const GATHER: Duration = Duration::from_millis(500);
/// A failed request to the cloud is retried after this time, up to this number of times,
const SOON: (Duration, u32) = (Duration::from_millis(500), 5);
/// and then after this time, without end.
const LATER: Duration = Duration::from_secs(5);

/// The wait after this many consecutive failures in the cloud.
fn wait_after(failures: u32) -> Duration {
    let (soon, times) = SOON;
    if failures < times { soon } else { LATER }
}

impl PendingEvents {
    /// The time for which more events are collected before a write to the cloud.
    fn gathers(&self) -> Option<Duration> {
        let left = GATHER.saturating_sub(self.first?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// The side of the event.
    fn because(&self) -> EventSource {
        match (self.upstream, self.downstream) {
            (None, Some(_)) => EventSource::Downstream,
            _ => EventSource::Upstream,
        }
    }

    /// Adds earlier events that were not carried to the cloud yet. Those for the robot are done.
    fn carry_over(&mut self, before: &Self, owner: Plane) {
        self.first = before.first.or(self.first);
        match owner {
            Plane::Cloud => self.downstream = before.downstream.or(self.downstream),
            Plane::Robot => self.upstream = before.upstream.or(self.upstream),
        }
    }
}

impl controller::Dialect for Syncer {
    type Id = Id;
    type Pass = MirrorPass;

    /// A refusal may be temporary: a server that has just started does not know all rights yet.
    const REFUSED: Option<Duration> = None;

    fn begin(self: &Arc<Self>, id: &Id) -> Option<MirrorPass> {
        let mut state = self.state.lock();
        // What is not known whole comes with its lists.
        if !state.open {
            return None;
        }
        let task = state.tasks.entry(id.clone()).or_default();
        let happened = std::mem::take(&mut task.happened);
        // What has gone takes nothing along.
        let early = happened.gathers().filter(|_| task.gone.is_none());
        let seen = task.pair.clone();
        drop(state);
        self.numbers
            .synced(happened.because(), &self.definition.name);
        Some(MirrorPass {
            syncer: Arc::clone(self),
            id: id.clone(),
            happened,
            early,
            seen,
            notes: Mutex::default(),
            trace: Mutex::default(),
        })
    }
}

/// A pass over one name.
pub struct MirrorPass {
    syncer: Arc<Syncer>,
    id: Id,
    /// The events of the name since the last pass.
    happened: PendingEvents,
    /// The time until a write to the cloud is allowed, while more events may come.
    early: Option<Duration>,
    seen: Option<LinkedUids>,
    notes: Mutex<RequestOutcomes>,
    /// The trace that the owner's object names, as the last round read it.
    trace: Mutex<Option<TraceContext>>,
}

/// The fate of the requests of a pass.
#[derive(Clone, Copy, Debug, Default)]
struct RequestOutcomes {
    /// A write to the cloud was postponed because more events may come.
    was_early: bool,
    failed_in_cloud: bool,
    /// The time for which a deletion is to wait for others.
    deletion_delay: Option<Duration>,
}

impl Dialect for MirrorPass {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let definition = &self.syncer.definition;
        let subject = subject_of(definition, &self.id, self.seen.clone());
        if let Seen::Present(object) = view.get(&subject.anchor) {
            *self.trace.lock() = TraceContext::of(&object);
        }
        Ok(subject)
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

impl PassDialect for MirrorPass {
    fn trace(&self) -> Option<TraceContext> {
        self.trace.lock().clone()
    }

    /// The larger object of both sides.
    fn tree_bytes(&self) -> usize {
        let Syncer {
            definition, cache, ..
        } = &*self.syncer;
        let keys = [Plane::Cloud, Plane::Robot].map(|plane| self.id.at(definition, plane));
        let trees = keys.iter().map(|key| cache.object_size(key).tree);
        trees.max().unwrap_or_default()
    }

    fn check_active(&self) -> Result<(), String> {
        if self.syncer.stopped.is_cancelled() {
            return Err("shutting down".to_owned());
        }
        Ok(())
    }

    fn deletion(&self, request: &Request) -> Option<Deletion> {
        let Request::Delete { key, .. } = request else {
            return None;
        };
        let copies = self.syncer.definition.owner.other();
        Some(Deletion {
            kind: Arc::clone(&self.syncer.definition.kind),
            key: key.clone(),
            // Nobody speaks for many of them: each stands for itself.
            tenant: key.to_string().into(),
            stock: CopyCounts::of_nobody(self.syncer.state.lock().objects(copies)),
        })
    }

    /// Deletions wait until their cause is known, other writes to the cloud for further events.
    async fn allows(&self, request: &Request) -> Result<(), Withheld> {
        let deletes = matches!(request, Request::Delete { .. });
        if deletes && let Some(wait) = self.syncer.deletion_delay(&self.id) {
            self.notes.lock().deletion_delay = Some(wait);
            let why = "the object vanished a moment ago; waiting in case others follow".to_owned();
            return Err(Failure::Held(why).into());
        }
        if !is_in_cloud(request) {
            return Ok(());
        }
        if let Some(left) = self.early.filter(|_| !deletes) {
            self.notes.lock().was_early = true;
            return Err(Withheld {
                failure: Failure::Early,
                put_off: Some(left),
            });
        }
        let why = if !self.is_allowed_in_cloud(request) {
            "waiting for the watch on the cloud"
        } else if self.syncer.planes.link.pause().is_some() {
            "the cloud does not answer"
        } else {
            return Ok(());
        };
        self.notes.lock().failed_in_cloud = true;
        Err(Failure::Unavailable(why.to_owned()).into())
    }

    fn contested(&self) {
        self.syncer.numbers.contested(&self.syncer.definition.name);
    }

    fn answered(&self, request: &Request, answer: &Answer) {
        if !is_in_cloud(request) {
            return;
        }
        let conflict = match answer {
            // A finalizer that may not be taken off holds up nothing.
            Answer::Failed(Failure::Forbidden(why)) if self.only_removes_finalizer(request) => {
                return self.report_finalizer(why);
            }
            Answer::Failed(failure) => {
                self.notes.lock().failed_in_cloud = true;
                if *failure != Failure::Conflict {
                    return;
                }
                Conflict::Yes
            }
            _ => Conflict::No,
        };
        self.syncer.conflicted(conflict);
    }

    fn takes_turns(&self) -> bool {
        false
    }

    fn keeps(&self) -> Option<(Arc<Gvk>, Key)> {
        let definition = &self.syncer.definition;
        let copy = self.id.at(definition, definition.owner.other());
        Some((Arc::clone(&definition.kind), copy))
    }

    /// Failures of the link are logged once, not for each object.
    fn is_own(&self, reason: &Reason) -> bool {
        reason.code.class() != Class::Retry || self.syncer.planes.link.is_up()
    }

    fn log(&self, outcome: &Outcome, news: Option<DueTrouble>) {
        let resource = &*self.syncer.definition.name;
        let namespace = self.id.namespace.as_deref().unwrap_or_default();
        let (name, reason) = (&*self.id.name, &outcome.reason);
        let code = reason.code.as_str();
        let Some(news) = news else {
            let sentence = reason.code.sentence();
            debug!(CRD = resource, namespace, name, reason = code, "{sentence}");
            return;
        };
        let key = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        let kind = &self.syncer.definition.kind.kind;
        let because = self.happened.because();
        let what = match self.version(because) {
            Some(version) => format!("{kind} {key} @ {version}: {reason}"),
            None => format!("{kind} {key}: {reason}"),
        };
        warn!(
            CRD = resource,
            Key = key,
            Queue = because.as_str(),
            reason = code,
            left_out = (news.left_out > 0).then_some(news.left_out),
            Error = what,
            "Syncing key from queue failed"
        );
    }

    fn settled(&self, ended: &FinishedPass<'_>) -> queue::Outcome {
        self.count(ended);
        let notes = *self.notes.lock();
        let failures = self.note(ended, notes);
        if let Some(wait) = notes.deletion_delay {
            // It does not lose its place before what is only to be written.
            let wait = ended.put_off.map_or(wait, |put_off| put_off.min(wait));
            self.syncer.await_deletion(&self.id, wait);
            return queue::Outcome::Settled;
        }
        if notes.failed_in_cloud {
            return queue::Outcome::Again(wait_after(failures));
        }
        ended.put_off.map_or(ended.next, queue::Outcome::Again)
    }
}

fn is_in_cloud(request: &Request) -> bool {
    let key = request.key();
    key.is_some_and(|key| key.side == side(Plane::Cloud))
}

impl MirrorPass {
    fn is_allowed_in_cloud(&self, request: &Request) -> bool {
        match request {
            Request::Replace { .. } | Request::ReplaceStatus { .. } => true,
            Request::Create { .. } | Request::Delete { .. } => {
                self.syncer.definition.owner == Plane::Robot
            }
            Request::Read { .. } | Request::Find { .. } | Request::Patch { .. } => false,
        }
    }

    /// Whether a write to the cloud only removes a finalizer.
    fn only_removes_finalizer(&self, request: &Request) -> bool {
        let definition = &self.syncer.definition;
        let whole = definition.owner == Plane::Robot || definition.status == Status::InObject;
        !whole && matches!(request, Request::Replace { .. })
    }

    /// A finalizer that stays is not an outcome.
    fn report_finalizer(&self, why: &str) {
        let (syncer, about) = (&self.syncer, (&self.id, "finalizer"));
        let mut reason = Reason::new(Code::Forbidden, why);
        let news = syncer.troubles.note(&about, self.id.tenant(), &reason);
        if news.is_some() {
            let keys = [Plane::Cloud, Plane::Robot].map(|p| self.id.at(&syncer.definition, p));
            controller::clean(&syncer.cache, keys, &mut reason);
            info!(
                CRD = &*syncer.definition.name,
                name = &*self.id.name,
                why = reason.detail,
                "cannot remove the finalizer of an old version: forbidden"
            );
        }
    }

    /// The version of the object on the side of the event.
    fn version(&self, because: EventSource) -> Option<String> {
        let owner = self.syncer.definition.owner;
        let plane = match because {
            EventSource::Upstream => owner,
            EventSource::Downstream => owner.other(),
        };
        match self
            .syncer
            .cache
            .get(&self.id.at(&self.syncer.definition, plane))
        {
            Seen::Present(object) => object.resource_version().map(str::to_owned),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    fn count(&self, ended: &FinishedPass<'_>) {
        let resource = &*self.syncer.definition.name;
        let numbers = &self.syncer.numbers;
        let because = self.happened.because();
        if ended.wrote
            && let Some(since) = self.happened.upstream.or(self.happened.downstream)
        {
            numbers.carried(because, since.elapsed());
        }
        let namespace = self.id.namespace.as_deref().unwrap_or_default();
        let name = &*self.id.name;
        for (_, effect) in &ended.report.happened {
            match effect {
                Effect::StatusSynced => {
                    debug!(CRD = resource, namespace, name, "Copied status to upstream");
                }
                effect => debug!(CRD = resource, namespace, name, ?effect, "written"),
            }
        }
        let (upstream, downstream) = (self.happened.upstream, self.happened.downstream);
        let age = |since: Option<Instant>| since.map(|since| since.elapsed());
        for direction in telemetry::carried(ended.report) {
            let since = match direction {
                Direction::Spec => upstream.or(downstream),
                Direction::Status => downstream.or(upstream),
            };
            numbers.recent.changed(direction, age(since));
        }
        let outcomes = ended.report.outcomes.iter();
        for _ in outcomes.filter(|outcome| telemetry::is_failure(outcome)) {
            numbers.failed(because, resource);
            numbers.recent.problem();
        }
    }

    /// Keeps the notes for later passes over this name; returns the number of consecutive failures in the cloud.
    fn note(&self, ended: &FinishedPass<'_>, notes: RequestOutcomes) -> u32 {
        let syncer = &self.syncer;
        let owner_plane = syncer.definition.owner;
        let owner = self.id.at(&syncer.definition, owner_plane);
        let copy = self.id.at(&syncer.definition, owner_plane.other());
        let (owner, copy) = (syncer.cache.get(&owner), syncer.cache.get(&copy));
        let is_gone = (&owner, &copy) == (&Seen::Absent, &Seen::Absent);
        let pair = match (owner, copy) {
            (Seen::Present(owner), Seen::Present(copy)) if !copy.in_deletion() => {
                LinkedUids::of(&owner, &copy)
            }
            _ => None,
        };
        let mut state = syncer.state.lock();
        let task = state.tasks.entry(self.id.clone()).or_default();
        if notes.was_early {
            task.happened.carry_over(&self.happened, owner_plane);
        }
        if is_gone && task.happened.first.is_none() {
            state.tasks.remove(&self.id);
            return 0;
        }
        task.failures = if notes.failed_in_cloud {
            task.failures.saturating_add(1)
        } else {
            0
        };
        let waits =
            notes.deletion_delay.is_some() || notes.failed_in_cloud || ended.put_off.is_some();
        task.is_stuck = !waits && ended.next == queue::Outcome::Failed(None);
        if pair.is_some() {
            task.pair = pair;
        }
        task.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cloud_is_asked_five_times_in_a_row_and_then_every_five_seconds() {
        // The first time half a second after something happened.
        let mut at = GATHER;
        let mut asked = vec![at.as_millis()];
        for failures in 1..8 {
            at += wait_after(failures);
            asked.push(at.as_millis());
        }
        assert_eq!(asked, [500, 1000, 1500, 2000, 2500, 7500, 12_500, 17_500]);
    }
}
