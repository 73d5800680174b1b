//! The work on one object: what may be sent, and when it is looked at again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::numbers::EventSource;
use super::syncer::{Conflict, Syncer, Task};
use crate::mirror::definition::{Plane, Status};
use crate::mirror::rules::{Carry, Id, side, subject_of};
use crate::mirror::status::Pair;
use hawser_runtime::cluster::brake::Verdict;
use hawser_runtime::cluster::queue::{self, Work};
use hawser_sync::reason::Class;
use hawser_sync::{
    Answer, Cluster, Dialect, Effect, Failure, Memo, Outcome, Report, Request, Seen, Step, Store,
    Subject, View, run,
};

/// What happens on the robot within this time is told to the cloud together.
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

/// When a pass may send what is for the cloud.
enum Turn {
    Now,
    After(Duration),
}

impl Syncer {
    pub(super) async fn pass(&self, work: &Work<Id>) -> queue::Outcome {
        let id = &work.key;
        // What is not known whole comes with its lists.
        if !self.is_open() {
            return queue::Outcome::Settled;
        }
        let (turn, because, since) = self.take(id);
        if let (Turn::After(wait), Plane::Robot) = (&turn, self.definition.owner) {
            return queue::Outcome::Again(*wait);
        }
        let resource = &*self.definition.name;
        self.numbers.synced(because, resource);
        let carry = match turn {
            Turn::Now => Carry::Now,
            Turn::After(_) => Carry::Later,
        };
        let seen = {
            let mut tasks = self.tasks.lock();
            let task = tasks.entry(id.clone()).or_default();
            let rests = task
                .memo
                .as_ref()
                .is_some_and(|memo| memo.holds(0, &*self.cache));
            if rests && carry == Carry::Now {
                return queue::Outcome::Settled;
            }
            task.pair.clone()
        };
        let front = Front {
            syncer: self,
            id,
            seen,
            carry,
        };
        let sending = Sending {
            syncer: self,
            id,
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
        self.note(id, &report, &sending, carry);
        self.next(id, &report, &sending, &turn)
    }

    /// What a pass is because of, and whether it may write to the cloud.
    fn take(&self, id: &Id) -> (Turn, EventSource, Option<Instant>) {
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(id.clone()).or_default();
        let because = Self::because(task);
        let since = task.upstream.or(task.downstream);
        let is_owned_by_robot = self.definition.owner == Plane::Robot;
        let on_robot = if is_owned_by_robot {
            &mut task.upstream
        } else {
            &mut task.downstream
        };
        let left = on_robot.map_or(Duration::ZERO, |at| GATHER.saturating_sub(at.elapsed()));
        if !left.is_zero() && task.gone.is_none() {
            if !is_owned_by_robot {
                task.upstream = None;
            }
            return (Turn::After(left), because, since);
        }
        task.upstream = None;
        task.downstream = None;
        (Turn::Now, because, since)
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
            let (code, what) = (reason.code.as_str(), reason.to_string());
            match reason.code.class() {
                Class::Refused | Class::Retry => {
                    self.numbers.failed(because, resource);
                    let key = match namespace {
                        "" => name.to_owned(),
                        namespace => format!("{namespace}/{name}"),
                    };
                    let kind = &self.definition.kind.kind;
                    let what = match self.version(id, because) {
                        Some(version) => format!("{kind} {key} @ {version}: {what}"),
                        None => format!("{kind} {key}: {what}"),
                    };
                    // What the link is to blame for is told once, not for each object.
                    if self.planes.link.is_up() || reason.code.class() == Class::Refused {
                        warn!(
                            CRD = resource,
                            Key = key,
                            Queue = because.as_str(),
                            reason = code,
                            Error = what,
                            "Syncing key from queue failed"
                        );
                    }
                }
                Class::Settled | Class::Working | Class::Waiting => {
                    debug!(CRD = resource, namespace, name, reason = code, "{what}");
                }
            }
        }
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
    fn note(&self, id: &Id, report: &Report, sending: &Sending<'_>, carry: Carry) {
        let owner = id.at(&self.definition, self.definition.owner);
        let copy = id.at(&self.definition, self.definition.owner.other());
        let pair = match (self.cache.get(&owner), self.cache.get(&copy)) {
            (Seen::Present(owner), Seen::Present(copy)) if !copy.in_deletion() => {
                Pair::of(&owner, &copy)
            }
            (Seen::Absent, Seen::Absent) => {
                let mut tasks = self.tasks.lock();
                let idle = |task: &Task| task.upstream.is_none() && task.downstream.is_none();
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
        task.memo = match carry {
            Carry::Now => Memo::of(report, 0),
            Carry::Later => None,
        };
    }

    /// When a name is looked at again.
    fn next(&self, id: &Id, report: &Report, sending: &Sending<'_>, turn: &Turn) -> queue::Outcome {
        if let Some(wait) = *sending.settles.lock() {
            // It does not lose its place before what is only to be written.
            self.await_deletion(id, wait);
            return queue::Outcome::Settled;
        }
        if sending.failed_in_cloud.load(Ordering::Relaxed) {
            let failures = self.tasks.lock().get(id).map_or(0, |task| task.failures);
            return queue::Outcome::Again(wait_after(failures));
        }
        let classes = report.outcomes.iter().map(|o| o.reason.code.class());
        match (classes.max(), turn, report.recheck) {
            // What is refused may be taken in a moment: a server that just began knows nobody's rights yet.
            (Some(Class::Retry | Class::Working | Class::Refused), ..) | (None, _, Some(_)) => {
                if let Some(task) = self.tasks.lock().get_mut(id) {
                    task.is_stuck = true;
                }
                queue::Outcome::Failed(None)
            }
            (_, Turn::After(wait), _) => queue::Outcome::Again(*wait),
            (_, Turn::Now, Some(after)) => queue::Outcome::Again(after),
            (_, Turn::Now, None) => queue::Outcome::Settled,
        }
    }
}

/// What the engine asks about one name.
struct Front<'a> {
    syncer: &'a Syncer,
    id: &'a Id,
    seen: Option<Pair>,
    carry: Carry,
}

impl Dialect for Front<'_> {
    fn subject(&self, _: &dyn View) -> Result<Subject, Vec<Request>> {
        let definition: &Arc<_> = &self.syncer.definition;
        Ok(subject_of(
            definition,
            self.id,
            self.seen.clone(),
            self.carry,
        ))
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

/// The way to both clusters, for what is allowed there.
struct Sending<'a> {
    syncer: &'a Syncer,
    id: &'a Id,
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

    /// Whether a write to the cloud does nothing but take off a finalizer.
    fn only_sheds(&self, request: &Request) -> bool {
        let definition = &self.syncer.definition;
        let whole = definition.owner == Plane::Robot || definition.status == Status::InObject;
        !whole && matches!(request, Request::Replace { .. })
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
        let answer = if in_cloud {
            self.to_cloud(request).await
        } else {
            self.syncer.wire.send(request).await
        };
        if request.writes() && !matches!(answer, Answer::Failed(_)) {
            self.wrote.store(true, Ordering::Relaxed);
        } else if let Answer::Failed(Failure::Forbidden(why)) = &answer {
            info!(
                CRD = &*self.syncer.definition.name,
                name = &*self.id.name,
                verb = request.verb(),
                why,
                "not allowed"
            );
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
