//! The work on one object: what may be sent, and when it is looked at again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{debug, info, warn};

use super::numbers::EventSource;
use super::syncer::{Conflict, Happened, Syncer, Task};
use crate::mirror::definition::{Plane, Status};
use crate::mirror::rules::{Id, side, subject_of};
use crate::mirror::status::Pair;
use hawser_runtime::cluster::brake::Verdict;
use hawser_runtime::cluster::queue::{self, Work};
use hawser_runtime::cluster::troubles;
use hawser_sync::contest::Imposed;
use hawser_sync::reason::Class;
use hawser_sync::{
    Answer, Cluster, Code, Contest, Dialect, Effect, Failure, Memo, Outcome, Reason, Report,
    Request, Seen, Step, Store, Subject, View, run,
};

/// What happens on either side within this time is told to the cloud together.
const GATHER: Duration = Duration::from_millis(500);
/// A request to the cloud that failed is sent again after this time, until it was sent so many times,
const SOON: (Duration, u32) = (Duration::from_millis(500), 5);
/// and then after this time, for ever.
const LATER: Duration = Duration::from_secs(5);

/// How long it is until the cloud is asked again after so many failures in a row.
fn wait_after(failures: u32) -> Duration {
    let (soon, times) = SOON;
    if failures < times { soon } else { LATER }
}

impl Happened {
    /// How long more may come before something is written to the cloud.
    fn gathers(&self) -> Option<Duration> {
        let left = GATHER.saturating_sub(self.first?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// On whose side it was.
    fn because(&self) -> EventSource {
        match (self.upstream, self.downstream) {
            (None, Some(_)) => EventSource::Downstream,
            _ => EventSource::Upstream,
        }
    }

    /// Adds what the cloud has yet to be told of, and was there before. What was for the robot is done.
    fn stays(&mut self, before: &Self, owner: Plane) {
        self.first = before.first.or(self.first);
        match owner {
            Plane::Cloud => self.downstream = before.downstream.or(self.downstream),
            Plane::Robot => self.upstream = before.upstream.or(self.upstream),
        }
    }
}

impl Syncer {
    pub(super) async fn pass(&self, work: &Work<Id>) -> queue::Outcome {
        let id = &work.key;
        // What is not known whole comes with its lists.
        if !self.is_open() {
            return queue::Outcome::Settled;
        }
        let resource = &*self.definition.name;
        let (happened, early, seen) = {
            let mut tasks = self.tasks.lock();
            let task = tasks.entry(id.clone()).or_default();
            let happened = std::mem::take(&mut task.happened);
            let memo = task.memo.as_ref();
            if memo.is_some_and(|memo| memo.holds(0, &*self.cache)) {
                self.numbers.synced(happened.because(), resource);
                return queue::Outcome::Settled;
            }
            // What has gone takes nothing along.
            let early = happened.gathers().filter(|_| task.gone.is_none());
            (happened, early, task.pair.clone())
        };
        let because = happened.because();
        let since = happened.upstream.or(happened.downstream);
        self.numbers.synced(because, resource);
        let front = Front {
            syncer: self,
            id,
            seen,
        };
        let sending = Sending {
            syncer: self,
            id,
            early,
            was_early: AtomicBool::new(false),
            again: Mutex::new(None),
            failed_in_cloud: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            settles: Mutex::new(None),
        };
        let report = run(&front, &*self.cache, &sending).await;
        self.settle_brake(id, &sending);
        if sending.wrote.load(Ordering::Relaxed)
            && let Some(since) = since
        {
            self.numbers.carried(because, since.elapsed());
        }
        self.tell(id, &report, because);
        if sending.was_early.load(Ordering::Relaxed) {
            let mut tasks = self.tasks.lock();
            let task = tasks.entry(id.clone()).or_default();
            task.happened.stays(&happened, self.definition.owner);
        }
        self.note(id, &report, &sending);
        self.next(id, &report, &sending)
    }

    fn settle_brake(&self, id: &Id, sending: &Sending<'_>) {
        if sending.asked.load(Ordering::Relaxed) {
            return;
        }
        let copy = id.at(&self.definition, self.definition.owner.other());
        self.with_brake(|brake, now| {
            if brake.count() > 0 {
                brake.withdraw(&copy, now);
            }
        });
    }

    fn tell(&self, id: &Id, report: &Report, because: EventSource) {
        let resource = &*self.definition.name;
        let namespace = id.namespace.as_deref().unwrap_or_default();
        let name = &*id.name;
        for (_, effect) in &report.happened {
            match effect {
                Effect::StatusSynced => {
                    debug!(CRD = resource, namespace, name, "Copied status to upstream");
                }
                effect => debug!(CRD = resource, namespace, name, ?effect, "written"),
            }
        }
        for outcome in &report.outcomes {
            let reason = &outcome.reason;
            let (code, class) = (reason.code.as_str(), reason.code.class());
            let in_trouble = matches!(class, Class::Refused | Class::Retry);
            if in_trouble {
                self.numbers.failed(because, resource);
            }
            // What the link is to blame for is told once, not for each object.
            let link_is_to_blame = class == Class::Retry && !self.planes.link.is_up();
            let news = if link_is_to_blame {
                None
            } else {
                self.troubles.weigh(&id, &self.everybody, reason)
            };
            let Some(news) = news else {
                let sentence = reason.code.sentence();
                debug!(CRD = resource, namespace, name, reason = code, "{sentence}");
                continue;
            };
            let key = match namespace {
                "" => name.to_owned(),
                namespace => format!("{namespace}/{name}"),
            };
            let kind = &self.definition.kind.kind;
            let what = self.clean(id, reason);
            let what = match self.version(id, because) {
                Some(version) => format!("{kind} {key} @ {version}: {what}"),
                None => format!("{kind} {key}: {what}"),
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
    }

    /// A reason without what the objects of this name contain.
    fn clean(&self, id: &Id, reason: &Reason) -> Reason {
        let keys = [Plane::Cloud, Plane::Robot].map(|plane| id.at(&self.definition, plane));
        let objects = keys.each_ref().map(|key| match self.cache.get(key) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        });
        let objects = objects.iter().filter_map(Option::as_deref);
        troubles::clean(reason, keys.iter(), objects)
    }

    /// Of the object on whose side something happened.
    fn version(&self, id: &Id, because: EventSource) -> Option<String> {
        let owner = self.definition.owner;
        let plane = match because {
            EventSource::Upstream => owner,
            EventSource::Downstream => owner.other(),
        };
        match self.cache.get(&id.at(&self.definition, plane)) {
            Seen::Present(object) => object.resource_version().map(str::to_owned),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// Keeps what later passes over this name want to know.
    fn note(&self, id: &Id, report: &Report, sending: &Sending<'_>) {
        let owner = id.at(&self.definition, self.definition.owner);
        let copy = id.at(&self.definition, self.definition.owner.other());
        let pair = match (self.cache.get(&owner), self.cache.get(&copy)) {
            (Seen::Present(owner), Seen::Present(copy)) if !copy.in_deletion() => {
                Pair::of(&owner, &copy)
            }
            (Seen::Absent, Seen::Absent) => {
                let mut tasks = self.tasks.lock();
                let idle = |task: &Task| task.happened.first.is_none();
                if tasks.get(id).is_some_and(idle) {
                    tasks.remove(id);
                }
                return;
            }
            _ => None,
        };
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(id.clone()).or_default();
        task.is_stuck = false;
        if pair.is_some() {
            task.pair = pair;
        }
        task.failures = if sending.failed_in_cloud.load(Ordering::Relaxed) {
            task.failures.saturating_add(1)
        } else {
            0
        };
        task.memo = Memo::of(report, 0);
    }

    /// When a name is looked at again.
    fn next(&self, id: &Id, report: &Report, sending: &Sending<'_>) -> queue::Outcome {
        let again = *sending.again.lock();
        if let Some(wait) = *sending.settles.lock() {
            // It does not lose its place before what is only to be written.
            self.await_deletion(id, again.map_or(wait, |again| again.min(wait)));
            return queue::Outcome::Settled;
        }
        if sending.failed_in_cloud.load(Ordering::Relaxed) {
            let failures = self.tasks.lock().get(id).map_or(0, |task| task.failures);
            return queue::Outcome::Again(wait_after(failures));
        }
        if let Some(wait) = again {
            return queue::Outcome::Again(wait);
        }
        let classes = report.outcomes.iter().map(|o| o.reason.code.class());
        match (classes.max(), report.recheck) {
            // What is refused may be taken in a moment: a server that just began knows nobody's rights yet.
            (Some(Class::Retry | Class::Working | Class::Refused), _) | (None, Some(_)) => {
                if let Some(task) = self.tasks.lock().get_mut(id) {
                    task.is_stuck = true;
                }
                queue::Outcome::Failed(None)
            }
            (_, Some(after)) => queue::Outcome::Again(after),
            (_, None) => queue::Outcome::Settled,
        }
    }
}

/// What the engine asks about one name.
struct Front<'a> {
    syncer: &'a Syncer,
    id: &'a Id,
    seen: Option<Pair>,
}

impl Dialect for Front<'_> {
    fn subject(&self, _: &dyn View) -> Result<Subject, Vec<Request>> {
        let definition: &Arc<_> = &self.syncer.definition;
        Ok(subject_of(definition, self.id, self.seen.clone()))
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

/// The way to both clusters, for what is allowed there.
struct Sending<'a> {
    syncer: &'a Syncer,
    id: &'a Id,
    /// How long it is until something may be written to the cloud, where more may come.
    early: Option<Duration>,
    /// Whether something was not written because of that.
    was_early: AtomicBool,
    /// When to look again at what was not sent.
    again: Mutex<Option<Duration>>,
    failed_in_cloud: AtomicBool,
    wrote: AtomicBool,
    /// Whether a copy was to be deleted.
    asked: AtomicBool,
    /// For how long a deletion is to wait for others.
    settles: Mutex<Option<Duration>>,
}

fn unavailable(why: &str) -> Answer {
    Answer::Failed(Failure::Unavailable(why.to_owned()))
}

impl Sending<'_> {
    /// Whether a copy may go now.
    fn may_delete(&self, request: &Request) -> Result<(), Answer> {
        let Request::Delete { key, .. } = request else {
            return Ok(());
        };
        self.asked.store(true, Ordering::Relaxed);
        if let Some(wait) = self.syncer.settles(self.id) {
            *self.settles.lock() = Some(wait);
            let why = "it went just now, and others may go with it".to_owned();
            return Err(Answer::Failed(Failure::Held(why)));
        }
        let copies = self.syncer.objects(self.syncer.definition.owner.other());
        let verdict = self.syncer.with_brake(|brake, now| {
            // Nobody speaks for many of them: each stands for itself.
            brake.ask(key, &key.name, now, copies)
        });
        match verdict {
            None | Some(Verdict::Go) => Ok(()),
            Some(Verdict::Held(hold)) => {
                let why = format!("{hold} has to be approved first");
                Err(Answer::Failed(Failure::Held(why)))
            }
        }
    }

    /// Whether a write may be sent now. Deletions wait for nothing that may come.
    fn may_write(&self, request: &Request, in_cloud: bool) -> Result<Imposed, Answer> {
        let put_off = |wait: Duration, failure| {
            let mut again = self.again.lock();
            *again = Some(again.map_or(wait, |known: Duration| known.min(wait)));
            Answer::Failed(failure)
        };
        if let Some(left) = self.early
            && in_cloud
            && !matches!(request, Request::Delete { .. })
        {
            self.was_early.store(true, Ordering::Relaxed);
            return Err(put_off(left, Failure::Early));
        }
        let written = request.key().filter(|_| request.writes());
        let live = match written.map(|key| self.syncer.cache.get(key)) {
            Some(Seen::Present(live)) => Some(live),
            _ => None,
        };
        let mut contests = self.syncer.contests.lock();
        let weighed = contests.weigh(request, live.as_deref(), self.syncer.now());
        weighed.map_err(|Contest { place, wait }| {
            self.syncer.numbers.contested(&self.syncer.definition.name);
            put_off(wait, Failure::Contested(place))
        })
    }

    /// Whether a write to the cloud does nothing but take off a finalizer.
    fn only_sheds(&self, request: &Request) -> bool {
        let definition = &self.syncer.definition;
        let whole = definition.owner == Plane::Robot || definition.status == Status::InObject;
        !whole && matches!(request, Request::Replace { .. })
    }

    /// That a finalizer stays is nobody's outcome.
    fn tell_of_finalizer(&self, why: &str) {
        let (syncer, about) = (self.syncer, (self.id, "finalizer"));
        let reason = Reason::new(Code::Forbidden, why);
        let news = syncer.troubles.weigh(&about, &syncer.everybody, &reason);
        if news.is_some() {
            info!(
                CRD = &*syncer.definition.name,
                name = &*self.id.name,
                why = syncer.clean(self.id, &reason).detail,
                "a finalizer of old versions stays: not allowed"
            );
        }
    }

    async fn to_cloud(&self, request: &Request) -> Answer {
        let owner = self.syncer.definition.owner;
        let allowed = match request {
            Request::Replace { .. } | Request::ReplaceStatus { .. } => true,
            Request::Create { .. } | Request::Delete { .. } => owner == Plane::Robot,
            Request::Read { .. } | Request::Find { .. } | Request::Patch { .. } => false,
        };
        let answer = if !allowed {
            unavailable("the cloud is only watched, and its watch has not told yet")
        } else if self.syncer.planes.link.pause().is_some() {
            unavailable("the cloud does not answer")
        } else {
            self.syncer.wire.send(request).await
        };
        match &answer {
            Answer::Failed(failure) => {
                // A finalizer that may not be taken off holds up nothing.
                if !matches!(failure, Failure::Forbidden(_)) || !self.only_sheds(request) {
                    self.failed_in_cloud.store(true, Ordering::Relaxed);
                }
                if *failure == Failure::Conflict {
                    self.syncer.conflicted(Conflict::Yes);
                }
            }
            _ => self.syncer.conflicted(Conflict::No),
        }
        answer
    }
}

impl Cluster for Sending<'_> {
    async fn send(&self, request: &Request) -> Answer {
        if self.syncer.stopped.is_cancelled() {
            return unavailable("this is the end");
        }
        if let Err(answer) = self.may_delete(request) {
            return answer;
        }
        let in_cloud = request
            .key()
            .is_some_and(|key| key.side == side(Plane::Cloud));
        let imposed = match self.may_write(request, in_cloud) {
            Ok(imposed) => imposed,
            Err(answer) => return answer,
        };
        let answer = if in_cloud {
            self.to_cloud(request).await
        } else {
            self.syncer.wire.send(request).await
        };
        if request.writes() && !matches!(answer, Answer::Failed(_)) {
            self.wrote.store(true, Ordering::Relaxed);
            let now = self.syncer.now();
            self.syncer.contests.lock().made(imposed, now);
        } else if let Answer::Failed(Failure::Forbidden(why)) = &answer
            && in_cloud
            && self.only_sheds(request)
        {
            self.tell_of_finalizer(why);
        }
        answer
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
