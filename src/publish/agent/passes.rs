//! Passes: workers take objects from the queue, run the engine over them, and give them back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::atlas::Places;
use super::braking::Braking;
use super::dispatch::Dispatch;
use super::evaluation::Evaluation;
use super::publication::{Publication, SubjectId, logical_cluster_kind};
use super::related::{Company, Standing};
use super::workspaces::Workspaces;
use crate::publish::marks;
use crate::publish::related;
use crate::publish::rules::{ObjectRules, Sides, subject_of};
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::queue::{self, Urgency, Work};
use hawser_runtime::cluster::wire::Wire;
use hawser_runtime::process::lease::Fence;
use hawser_sync::decide::Question;
use hawser_sync::reason::Class;
use hawser_sync::subject::Fate;
use hawser_sync::{
    Answer, Cluster, Dialect, Failure, Key, Memo, Outcome, Print, Prints as _, Report, Request,
    Scope, Seen, Step, Subject, View, run,
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
    pub braking: Arc<Braking>,
    pub evaluation: Evaluation,
    /// Closes when another agent may be the one to write.
    pub fence: Fence,
}

/// How long the deletion of a copy waits for the news that its workspace unbinds.
const BINDINGS_WORD: Duration = Duration::from_millis(150);

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
        let started = tokio::time::Instant::now();
        let front = Front {
            publication: &publication,
            id,
            sides: &self.sides,
            workspaces: &self.workspaces,
            company: &self.dispatch.company,
            plain: Mutex::default(),
        };
        let cluster = WhileAtWork {
            wire: &self.wire,
            publication: &publication,
            fence: &self.fence,
            braking: &self.braking,
            workspaces: &self.workspaces,
            workspace: &id.cluster,
            evaluation: self.evaluation_of(&publication, id),
            asked: AtomicBool::new(false),
        };
        let report = run(&front, &*self.cache, &cluster).await;
        let took = started.elapsed();
        let asked = cluster.asked.into_inner();
        for outcome in &report.outcomes {
            let Some(copy) = &outcome.copy else {
                continue;
            };
            publication.found_copy(id, copy);
            if !asked {
                self.braking.withdraw(copy);
            }
        }
        let anchor = Question::Object(publication.anchor(id));
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
            let (code, what) = (reason.code.as_str(), reason.to_string());
            match reason.code.class() {
                Class::Refused => warn!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    "{what}"
                ),
                Class::Retry => info!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    "{what}"
                ),
                Class::Settled | Class::Working | Class::Waiting => debug!(
                    workspace,
                    namespace,
                    name,
                    publishedresource = resource,
                    reason = code,
                    requests = report.requests,
                    "{what}"
                ),
            }
        }
        self.finished.finished(pass);
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

/// The wire, for as long as the publication is at work and this is the agent to do it.
struct WhileAtWork<'a> {
    wire: &'a Wire<Arc<Places>>,
    publication: &'a Publication,
    fence: &'a Fence,
    braking: &'a Braking,
    workspaces: &'a Workspaces,
    workspace: &'a Arc<str>,
    /// None where nothing takes long.
    evaluation: Option<&'a Evaluation>,
    /// Whether a copy was to be deleted.
    asked: AtomicBool,
}

impl WhileAtWork<'_> {
    /// Objects go into deletion with the binding that brought them, and the two are told by watches
    /// that know nothing of each other: the binding's word is waited for.
    async fn stays_bound(&self) -> Result<(), Failure> {
        if !self.publication.compiled().keeps_on_unbind() {
            return Ok(());
        }
        tokio::time::sleep(BINDINGS_WORD).await;
        if !self.workspaces.is_bound(self.workspace) {
            return Err(Failure::Conflict);
        }
        Ok(())
    }
}

impl Cluster for WhileAtWork<'_> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        match self.evaluation {
            Some(evaluation) => evaluation.run(self.workspace, work).await,
            None => work(),
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        if self.publication.is_stopped() {
            return Answer::Failed(Failure::Unavailable("no longer published so".to_owned()));
        }
        if request.writes()
            && let Err(fenced) = self.fence.check()
        {
            return Answer::Failed(Failure::Unavailable(fenced.to_string()));
        }
        if let Request::Delete { key, .. } = request
            && *key.kind == *self.publication.local_kind
        {
            self.asked.store(true, Ordering::Relaxed);
            if let Err(failure) = self.stays_bound().await {
                return Answer::Failed(failure);
            }
            let copies = self.publication.copies();
            if let Err(hold) = self.braking.ask(key, self.workspace, copies) {
                return Answer::Failed(Failure::Held(format!("{hold} has to be approved first")));
            }
        }
        let answer = self.wire.send(request).await;
        self.publication.lost_copy(request, &answer);
        if self.publication.allowed(request, &answer) {
            self.braking.stir();
        }
        answer
    }
}

/// What the engine asks about one object.
struct Front<'a> {
    publication: &'a Publication,
    id: &'a SubjectId,
    sides: &'a Sides,
    workspaces: &'a Workspaces,
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

    fn path(&self, view: &dyn View) -> Result<Option<String>, Vec<Request>> {
        if !self.publication.compiled().needs_path() {
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
        let anchor = self.publication.anchor(self.id);
        if let Seen::Present(object) = view.get(&anchor)
            && !self.wanted(&object, view)?
        {
            // Nothing is asked of it and nothing done to it.
            return Ok(Subject {
                finalizer: None,
                memory: None,
                links: Vec::new(),
                ..subject_of(self.rules(None))
            });
        }
        let path = self.path(view)?;
        let (rules, plain) = self.plain(path.as_deref());
        let kinds = self.publication.related.kinds();
        let published = self.company.published();
        let around = self.company.around(&kinds, &published);
        let mut subject = related::extend(plain, &rules, around, view)?;
        if !self.workspaces.is_bound(&self.id.cluster)
            && self.publication.compiled().keeps_on_unbind()
        {
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
