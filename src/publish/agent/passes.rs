//! Passes: workers take objects from the queue, run the engine over them, and give them back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::atlas::Places;
use super::bonds::Bonds;
use super::braking::Braking;
use super::dispatch::Dispatch;
use super::evaluation::Evaluation;
use super::publication::{Publication, SubjectId, logical_cluster_kind};
use super::related::{Company, Standing};
use super::retraction::{Guards, Retraction};
use super::workspaces::Workspaces;
use crate::publish::marks;
use crate::publish::related;
use crate::publish::rules::{ObjectRules, Sides, subject_of};
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::queue::{self, Urgency, Work};
use hawser_runtime::cluster::troubles::{self, Troubles};
use hawser_runtime::cluster::wire::Wire;
use hawser_sync::decide::Question;
use hawser_sync::reason::Class;
use hawser_sync::subject::{Fate, Labels};
use hawser_sync::{
    Answer, Cluster, Code, Contests, Dialect, Failure, Found, Key, Memo, Outcome, Print,
    Prints as _, Reason, Report, Request, Scope, Seen, Step, Store, Subject, View, run,
};
use kube_lang::object::Object;

/// Passes that may be under way at the same time. Most of them wait for an answer.
pub const WORKERS: usize = 64;

/// A pass that was run.
pub struct Pass<'a> {
    pub publication: &'a Publication,
    pub id: &'a SubjectId,
    pub urgency: Urgency,
    pub report: &'a Report,
    /// Before it was run, from the time it was ready.
    pub waited: Duration,
    pub took: Duration,
}

/// What hears of every pass.
pub trait Finished: Send + Sync {
    fn finished(&self, pass: &Pass<'_>);
    /// A pass broke what worked on it.
    fn broke(&self);
}

/// Everything that passes need. One for all workers.
pub struct Passes {
    pub sides: Sides,
    pub cache: Arc<Cache>,
    pub dispatch: Arc<Dispatch>,
    pub workspaces: Arc<Workspaces>,
    pub wire: Wire<Arc<Places>>,
    pub finished: Box<dyn Finished>,
    pub bonds: Bonds,
    pub braking: Arc<Braking>,
    /// What was written of late.
    pub contests: Mutex<Contests>,
    pub troubles: Troubles,
    pub started: Instant,
    pub evaluation: Evaluation,
}

/// How long an object that was refused waits, where nothing happens to it.
const REFUSED: Duration = Duration::from_mins(1);

/// An object of so many bytes is computed about apart from everything else.
const LARGE: usize = 64 << 10;

impl Passes {
    /// Works until the queue is closed. Passes under way are ended first.
    pub async fn work(self: Arc<Self>, workers: usize) {
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let passes = Arc::clone(&self);
            tasks.spawn(async move {
                while let Some(work) = passes.dispatch.queue.next().await {
                    let outcome = whole(passes.pass(&work)).await.unwrap_or_else(|| {
                        passes.finished.broke();
                        queue::Outcome::Failed(None)
                    });
                    passes.dispatch.queue.done(work, outcome);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn pass(&self, work: &Work<SubjectId>) -> queue::Outcome {
        let id = &work.key;
        let settled = queue::Outcome::Settled;
        let Some(publication) = self.dispatch.publication(&id.publication) else {
            return settled;
        };
        // What is not known whole comes with its list, or when its workspace takes part.
        let source = self.cache.source(&self.sides.kcp, &id.cluster);
        if !source.is_some_and(|source| publication.sees(&source)) {
            return settled;
        }
        if publication.rests(id, &self.cache) {
            return settled;
        }
        self.dispatch.company.teach(self.wire.atlas());
        // Before the pass: what changes meanwhile is for the next one.
        let rules = publication.rules();
        let started = Instant::now();
        let guards = Guards {
            sides: &self.sides,
            workspaces: &self.workspaces,
            bonds: &self.bonds,
            braking: &self.braking,
        };
        let retraction = Retraction::new(guards, &publication, id);
        retraction.foresee().await;
        let front = Front {
            publication: &publication,
            id,
            sides: &self.sides,
            retraction: &retraction,
            company: &self.dispatch.company,
            plain: Mutex::default(),
        };
        let cluster = WhileAtWork {
            publication: &publication,
            workspace: &id.cluster,
            retraction: &retraction,
            passes: self,
            evaluation: self.evaluation_of(&publication, id),
        };
        let known = Known {
            cache: &self.cache,
            dispatch: &self.dispatch,
            id,
        };
        let mut report = run(&front, &known, &cluster).await;
        let took = started.elapsed();
        self.clean(&mut report);
        for copy in report.outcomes.iter().filter_map(|one| one.copy.as_ref()) {
            publication.found_copy(id, copy);
        }
        let is_contested = |outcome: &Outcome| outcome.reason.code == Code::Contested;
        if publication.contested(id, report.outcomes.iter().any(is_contested)) {
            self.braking.stir();
        }
        let anchor = publication.anchor(id);
        if retraction.takes_nothing() {
            self.braking.withdraw(&publication.local_kind, &anchor);
        }
        let anchor = Question::Object(anchor);
        let standing = match self.cache.print(&anchor) {
            Some(Print::ABSENT) => Standing::Gone,
            Some(_) | None => Standing::There,
        };
        let works = &publication.related;
        if works.note(&publication, id, &report, standing, &*self.cache) {
            let tenant = Arc::clone(&id.cluster);
            self.dispatch.queue.add(id.clone(), &tenant, work.urgency);
        }
        publication.remember(id, Memo::of(&report, rules));
        let pass = Pass {
            publication: &publication,
            id,
            urgency: work.urgency,
            report: &report,
            waited: work.waited,
            took,
        };
        self.tell(&pass);
        outcome(&report)
    }

    /// What is computed about an object that is small and copied as it is takes no longer than a turn for it would.
    fn evaluation_of(&self, publication: &Publication, id: &SubjectId) -> Option<&Evaluation> {
        let is_light = !publication.compiled().evaluates()
            && self.cache.bytes(&publication.anchor(id)) < LARGE;
        (!is_light).then_some(&self.evaluation)
    }

    fn tell(&self, pass: &Pass<'_>) {
        let Pass {
            publication,
            id,
            report,
            ..
        } = pass;
        let workspace = &*id.cluster;
        let namespace = id.namespace.as_deref().unwrap_or_default();
        let (name, resource) = (&*id.name, &*publication.plan.name);
        for outcome in &report.outcomes {
            let reason = &outcome.reason;
            let code = reason.code.as_str();
            let about = (id, &outcome.link);
            let Some(news) = self.troubles.weigh(&about, &id.cluster, reason) else {
                debug!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    requests = report.requests,
                    "{}",
                    reason.code.sentence()
                );
                continue;
            };
            let what = reason.to_string();
            let left_out = (news.left_out > 0).then_some(news.left_out);
            if reason.code.class() == Class::Refused {
                warn!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    left_out,
                    "{what}"
                );
            } else {
                info!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    left_out,
                    "{what}"
                );
            }
        }
        self.finished.finished(pass);
    }
}

impl Passes {
    /// Takes out of what is said of troubles what the objects of the pass contain: it is told to others.
    fn clean(&self, report: &mut Report) {
        let in_trouble = |reason: &Reason| {
            matches!(reason.code.class(), Class::Refused | Class::Retry)
                && !reason.detail.is_empty()
        };
        if !report.outcomes.iter().any(|o| in_trouble(&o.reason)) {
            return;
        }
        let (mut keys, mut objects) = (Vec::new(), Vec::new());
        for question in &report.asked {
            match question {
                Question::Object(key) => {
                    keys.push(key.clone());
                    if let Seen::Present(object) = self.cache.get(key) {
                        objects.push(object);
                    }
                }
                Question::Marked(scope, labels) => {
                    if let Found::All(all) = self.cache.find(scope, labels) {
                        let (found, all): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                        keys.extend(found);
                        objects.extend(all);
                    }
                }
            }
        }
        keys.extend(report.outcomes.iter().filter_map(|o| o.copy.clone()));
        for outcome in &mut report.outcomes {
            if in_trouble(&outcome.reason) {
                let objects = objects.iter().map(|object| &**object);
                outcome.reason = troubles::clean(&outcome.reason, keys.iter(), objects);
            }
        }
    }
}

/// What came of work on one thing; none where it panicked, of which the log tells. Other things must not
/// lose their worker by that.
pub(super) async fn whole<T>(work: impl Future<Output = T>) -> Option<T> {
    // What is shared is behind locks that are released, and looked at anew by the next attempt.
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// When an object is looked at again.
fn outcome(report: &Report) -> queue::Outcome {
    let classes = report
        .outcomes
        .iter()
        .map(|outcome| outcome.reason.code.class());
    match (classes.max(), report.recheck) {
        (Some(Class::Retry | Class::Working), _) | (None, Some(_)) => queue::Outcome::Failed(None),
        (Some(Class::Refused), _) => queue::Outcome::Failed(Some(REFUSED)),
        (_, Some(after)) => queue::Outcome::Again(after),
        (_, None) => queue::Outcome::Settled,
    }
}

/// The wire on behalf of a workspace, for as long as the publication is at work.
struct WhileAtWork<'a> {
    publication: &'a Publication,
    retraction: &'a Retraction<'a>,
    passes: &'a Passes,
    workspace: &'a Arc<str>,
    /// None where nothing takes long.
    evaluation: Option<&'a Evaluation>,
}

impl Cluster for WhileAtWork<'_> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        match self.evaluation {
            Some(evaluation) => evaluation.run(self.workspace, work).await,
            None => work(),
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        if let Err(why) = self.publication.goes_on() {
            return Answer::Failed(Failure::Unavailable(why));
        }
        if let Err(failure) = self.retraction.allows(request).await {
            return Answer::Failed(failure);
        }
        let written = request.key().filter(|_| request.writes());
        let live = match written.map(|key| self.passes.cache.get(key)) {
            Some(Seen::Present(live)) => Some(live),
            _ => None,
        };
        let (contests, now) = (&self.passes.contests, || self.passes.started.elapsed());
        let imposed = match contests.lock().weigh(request, live.as_deref(), now()) {
            Ok(imposed) => imposed,
            Err(contest) => return Answer::Failed(Failure::Contested(contest.place)),
        };
        // Much may have happened when its turn has come.
        let goes_on = || self.publication.goes_on();
        let errand = self.passes.wire.errand(self.workspace, &goes_on);
        let answer = errand.send(request).await;
        if !matches!(answer, Answer::Failed(_)) {
            contests.lock().made(imposed, now());
        }
        self.publication.lost_copy(request, &answer);
        if self.publication.allowed(request, &answer) {
            self.passes.braking.stir();
        }
        answer
    }
}

/// The caches as one pass reads them. What it learns, everybody else who depends on it hears of at once:
/// the event that follows brings nothing new.
struct Known<'a> {
    cache: &'a Cache,
    dispatch: &'a Dispatch,
    id: &'a SubjectId,
}

impl Store for Known<'_> {
    fn get(&self, key: &Key) -> Seen {
        self.cache.get(key)
    }

    fn find(&self, scope: &Scope, labels: &Labels) -> Found {
        self.cache.find(scope, labels)
    }

    fn saw_deletion(&self, key: &Key) -> bool {
        self.cache.saw_deletion(key)
    }

    fn saw_end(&self, key: &Key) -> bool {
        self.cache.saw_end(key)
    }

    fn learn(&self, request: &Request, answer: &Answer) {
        for change in self.cache.take(request, answer) {
            self.dispatch.learned(self.id, &change);
        }
    }
}

/// What the engine asks about one object.
struct Front<'a> {
    publication: &'a Publication,
    id: &'a SubjectId,
    sides: &'a Sides,
    retraction: &'a Retraction<'a>,
    company: &'a Company,
    /// The subject without its related objects, which stays the same all through the pass.
    plain: Mutex<Option<(ObjectRules, Subject)>>,
}

impl Front<'_> {
    /// An object that passes depend on; it is read where nothing is known of it.
    fn known(view: &dyn View, key: Key) -> Result<Option<Arc<Object>>, Vec<Request>> {
        match view.get(&key) {
            Seen::Present(object) => Ok(Some(object)),
            Seen::Absent => Ok(None),
            Seen::Unknown => Err(vec![Request::Read { key }]),
        }
    }

    /// Whether this object is to be kept in step, or was until it went into deletion.
    fn wanted(&self, anchor: &Object, view: &dyn View) -> Result<bool, Vec<Request>> {
        let compiled = self.publication.compiled();
        if anchor.in_deletion() && anchor.has_finalizer(marks::FINALIZER) {
            return Ok(true);
        }
        let namespace = match self.publication.anchor(self.id).namespace_key() {
            Some(key) if compiled.needs_namespace() => Self::known(view, key)?,
            _ => None,
        };
        Ok(compiled.wants(anchor, namespace.as_deref()))
    }

    fn rules(&self, path: Option<&str>) -> ObjectRules {
        let remote = self.id.remote();
        ObjectRules::new(self.publication.compiled(), self.sides, remote, path)
    }

    fn plain(&self, path: Option<&str>) -> (ObjectRules, Subject) {
        let mut plain = self.plain.lock();
        let known = plain.take().filter(|(rules, _)| rules.is_at(path));
        let made = known.unwrap_or_else(|| {
            let rules = self.rules(path);
            let mut subject = subject_of(rules.clone());
            if let Some(memory) = &mut subject.memory {
                let question = Question::Object(memory.key.clone());
                memory.rested = self.publication.rested_with(self.id, &question);
            }
            (rules, subject)
        });
        plain.insert(made).clone()
    }

    fn path(&self, anchor: &Seen, view: &dyn View) -> Result<Option<String>, Vec<Request>> {
        // To be taken back nothing needs a name, and a workspace that leaves tells its path to nobody.
        let lives = !matches!(anchor, Seen::Present(anchor) if anchor.in_deletion());
        if !self.publication.compiled().needs_path() || !lives {
            return Ok(None);
        }
        let scope = Scope::new(&self.sides.kcp, &logical_cluster_kind(), &self.id.cluster);
        let key = scope.key(None, "cluster");
        let found = Self::known(view, key.clone())?;
        let path = found.and_then(|found| found.annotation("kcp.io/path").map(str::to_owned));
        // Nothing is made before the path is known.
        path.map(Some).ok_or_else(|| vec![Request::Read { key }])
    }
}

impl Dialect for Front<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let anchor = view.get(&self.publication.anchor(self.id));
        let keeps = self.retraction.begin(match &anchor {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        });
        if let Seen::Present(object) = &anchor
            && !self.wanted(object, view)?
        {
            let (rules, plain) = self.plain(None);
            return Ok(related::outside(plain, &rules, self.company.ledger(), view));
        }
        let path = self.path(&anchor, view)?;
        let (rules, plain) = self.plain(path.as_deref());
        let kinds = self.publication.related.kinds();
        let published = self.company.published();
        let around = self.company.around(&kinds, &published);
        let mut subject = related::extend(plain, &rules, around, view)?;
        if keeps {
            // Its objects go with the binding, by nobody's will.
            for link in &mut subject.links {
                link.policy.source_gone = Fate::Keep;
                link.policy.retract = Fate::Keep;
            }
        }
        Ok(subject)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        match view.get(&subject.anchor) {
            Seen::Present(anchor) => related::annotations(subject, outcomes, &anchor)
                .into_iter()
                .collect(),
            Seen::Absent | Seen::Unknown => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_over_and_its_worker_goes_on() {
        let broken = async {
            tokio::task::yield_now().await;
            assert_eq!(1, 2, "as a mistake would");
        };
        assert_eq!(whole(broken).await, None);
        assert_eq!(whole(async { 1 }).await, Some(1));
    }
}
