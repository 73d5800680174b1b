//! Passes over objects of workspaces: their subject, the requests they may send, the notes at the end.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tracing::{debug, info, warn};

use super::binding_reader::{BindingReader, BindingState};
use super::dispatch::Dispatch;
use super::events::Announcer;
use super::feeds::logical_cluster_kind;
use super::numbers::AgentMetrics;
use super::publication::Publication;
use super::related::{Presence, RelatedShared};
use super::share::ShareWork;
use super::subject::SubjectId;
use super::workspaces::Workspaces;
use crate::publish::marks;
use crate::publish::pause::PauseProblem;
use crate::publish::related;
use crate::publish::rules::{ObjectRules, Sides, subject_of};
use hawser_runtime::cluster::cache::{Cache, Change};
use hawser_runtime::cluster::connection::Guard;
use hawser_runtime::cluster::queue::{self, Urgency};
use hawser_runtime::cluster::trace::TraceContext;
use hawser_runtime::cluster::troubles::DueTrouble;
use hawser_runtime::controller::telemetry::count;
use hawser_runtime::controller::{self, Deletion, FinishedPass, PassDialect, Withheld};
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::Question;
use hawser_sync::link::Fate;
use hawser_sync::reason::Class;
use hawser_sync::{
    Answer, Code, Dialect, Failure, Fingerprint, FingerprintSource as _, Key, Outcome, Report,
    Request, Scope, Seen, Step, Subject, View,
};
use kube_lang::object::{Gvk, Object};

/// The name of the controller in metrics, as in api-syncagent.
pub const CONTROLLER: &str = "syncagent-sync";

/// An object whose tree has this many bytes is evaluated on a separate thread.
const LARGE: usize = 256 << 10;

/// The state that all passes share.
#[derive(Clone)]
pub struct Passes {
    pub sides: Sides,
    pub cache: Arc<Cache>,
    pub dispatch: Arc<Dispatch>,
    pub related: Arc<RelatedShared>,
    pub workspaces: Arc<Workspaces>,
    pub metrics: Arc<Metrics>,
    pub numbers: Arc<AgentMetrics>,
    pub announcer: Announcer,
    pub bindings: Arc<BindingReader>,
    /// The longest pause of a consumer.
    pub longest_pause: SignedDuration,
    /// Notified when the conditions of owners may change.
    pub owners: watch::Sender<()>,
}

impl controller::Dialect for Passes {
    type Id = SubjectId;
    type Pass = ObjectPass;

    const REFUSED: Option<Duration> = Some(Duration::from_mins(1));

    fn begin(self: &Arc<Self>, id: &SubjectId) -> Option<ObjectPass> {
        let work = self.dispatch.share.begin(&id.cluster)?;
        let pass = self.pass(id)?;
        (!pass.publication.plan.plans_only).then(|| ObjectPass { work, ..pass })
    }

    fn learned(&self, by: &SubjectId, change: &Change) {
        if let Some(source) = self.cache.source(&change.key.side, &change.key.cluster) {
            self.dispatch.handle(&source, change, Some(by));
        }
    }

    fn worked(&self, waited: Duration, took: Duration, outcome: Option<queue::Outcome>) {
        self.metrics.worked(CONTROLLER, waited, took, outcome);
    }
}

impl Passes {
    /// `None` if something that the pass needs is unknown, or if the object does not take part.
    pub(super) fn pass(self: &Arc<Self>, id: &SubjectId) -> Option<ObjectPass> {
        let publication = self.dispatch.publication(&id.publication)?;
        // Objects that are not completely known are queued by their list, or when their workspace takes part.
        let source = self.cache.source(&self.sides.kcp, &id.cluster)?;
        publication.has_synced(&source).then(|| ObjectPass {
            passes: Arc::clone(self),
            anchor: publication.anchor(id),
            id: id.clone(),
            retraction: Mutex::default(),
            binding_state: OnceCell::new(),
            consumer_pause: Mutex::default(),
            began: Timestamp::now(),
            trace: Mutex::default(),
            work: ShareWork::anywhere(),
            publication,
        })
    }
}

/// The state that the requests of a round follow from.
#[derive(Clone, Copy, Default)]
pub struct DeletionState {
    /// The published object is in deletion.
    pub retracts: bool,
    /// Copies stay.
    pub keeps: bool,
    /// The version of the published object, if that is in deletion. Related objects may have been deleted later, so
    /// their versions are not used.
    pub version: Option<u64>,
}

/// The consumer's pause, as a round read it.
#[derive(Default)]
pub struct PauseNotes {
    /// The reason why the annotations of the object are not a pause.
    pub problem: Option<PauseProblem>,
    /// Related originals, and their copies, whose deletion the pause may no longer hold.
    pub(super) overdue: Vec<Key>,
}

/// A pass over one object.
pub struct ObjectPass {
    pub(super) passes: Arc<Passes>,
    pub(super) publication: Arc<Publication>,
    pub(super) id: SubjectId,
    pub(super) anchor: Key,
    /// The state that the requests of the last round follow from.
    pub(super) retraction: Mutex<DeletionState>,
    /// Whether the workspace binds the API, once it was read.
    pub(super) binding_state: OnceCell<Result<BindingState, String>>,
    /// The consumer's pause, as the last round read it.
    pub(super) consumer_pause: Mutex<PauseNotes>,
    pub(super) began: Timestamp,
    /// The trace that the object names, as the last round read it.
    trace: Mutex<Option<TraceContext>>,
    work: ShareWork,
}

impl PassDialect for ObjectPass {
    fn rules(&self) -> u64 {
        let compiled = self.publication.compiled().fingerprint();
        let edition = self.publication.state.read().related.edition();
        let mut hasher = DefaultHasher::new();
        (compiled, edition, &self.publication.plan.pause).hash(&mut hasher);
        hasher.finish()
    }

    /// Finds out how a workspace ends whose bindings are known to be in deletion.
    async fn prepare(&self) {
        let leaves = !self.passes.workspaces.is_bound(&self.id.cluster);
        if leaves
            && self.publication.compiled().keeps_on_unbind()
            && let Ok(binding_state) = self.passes.bindings.end(&self.id.cluster).await
        {
            // The cell is empty: only rounds set it, and they come later.
            let _ = self.binding_state.set(Ok(binding_state));
        }
    }

    fn check_active(&self) -> Result<(), String> {
        self.publication.check_active()?;
        self.work.check()
    }

    /// The deletion that a request belongs to. Everything that is deleted along with the published object counts once.
    fn deletion(&self, request: &Request) -> Option<Deletion> {
        let DeletionState {
            retracts, keeps, ..
        } = *self.retraction.lock();
        let deletes = retracts && !keeps && self.is_retraction(request, retracts);
        deletes.then(|| Deletion {
            kind: Arc::clone(&self.publication.local_kind),
            key: self.anchor.clone(),
            tenant: Arc::clone(&self.id.cluster),
            stock: self
                .publication
                .stock_of_share(&self.id.cluster, &self.passes.dispatch.share),
        })
    }

    /// Refuses writes during a pause, and deletions while it is not known whether the workspace still binds the API.
    async fn allows(&self, request: &Request) -> Result<(), Withheld> {
        self.check_paused(request)?;
        let DeletionState {
            retracts,
            keeps,
            version,
        } = *self.retraction.lock();
        if keeps
            || !self.is_retraction(request, retracts)
            || !self.publication.compiled().keeps_on_unbind()
        {
            return Ok(());
        }
        let ask = || self.passes.bindings.ask(&self.id.cluster, version);
        let why = match self.binding_state.get_or_init(ask).await {
            Ok(BindingState::Bound | BindingState::Deleted) => return Ok(()),
            Ok(BindingState::Unbinding) => "the workspace no longer binds the API".to_owned(),
            Err(why) => format!("the bindings of the workspace: {why}"),
        };
        Err(Failure::NotSent(why).into())
    }

    fn trace(&self) -> Option<TraceContext> {
        self.trace.lock().clone()
    }

    fn answered(&self, request: &Request, answer: &Answer) {
        if self.publication.answered(request, answer) {
            self.passes.owners.send_replace(());
        }
    }

    fn tree_bytes(&self) -> usize {
        self.passes.cache.object_size(&self.anchor).tree
    }

    /// Small objects without evaluated rules are computed at once: waiting for a turn would take as long.
    fn is_heavy(&self) -> bool {
        self.publication.compiled().evaluates() || self.tree_bytes() >= LARGE
    }

    /// The published object, if nothing that was created for it has to be deleted.
    fn keeps(&self) -> Option<(Arc<Gvk>, Key)> {
        let DeletionState {
            retracts, keeps, ..
        } = *self.retraction.lock();
        let kind = || Arc::clone(&self.publication.local_kind);
        (!retracts || keeps).then(|| (kind(), self.anchor.clone()))
    }

    fn log(&self, outcome: &Outcome, news: Option<DueTrouble>) {
        let workspace = &*self.id.cluster;
        let namespace = self.id.namespace.as_deref().unwrap_or_default();
        let (name, resource) = (&*self.id.name, &*self.publication.plan.name);
        let reason = &outcome.reason;
        let code = reason.code.as_str();
        macro_rules! tell {
            ($level:ident, $($more:tt)*) => {
                $level!(
                    workspace, namespace, name, publishedresource = resource, reason = code,
                    $($more)*
                )
            };
        }
        let Some(news) = news else {
            return tell!(debug, "{}", reason.code.sentence());
        };
        let left_out = (news.left_out > 0).then_some(news.left_out);
        if reason.code.class() == Class::Refused {
            tell!(warn, left_out, "{reason}");
        } else {
            tell!(info, left_out, "{reason}");
        }
    }

    fn settled(&self, ended: &FinishedPass<'_>) -> queue::Outcome {
        // Another replica may be at work on it already, and notes of this one would stay.
        if self.work.check().is_err() {
            let cluster = &self.id.cluster;
            if self.passes.dispatch.share.has(cluster) {
                // The Lease was renewed too late, and nobody else took the shard: what was not sent is still due.
                return queue::Outcome::Failed(None);
            }
            self.passes
                .dispatch
                .leave_claims(|other| *other == **cluster);
            return queue::Outcome::Settled;
        }
        let (publication, id, report) = (&self.publication, &self.id, ended.report);
        let copies = report.outcomes.iter().filter_map(|one| one.copy.as_ref());
        let is_contested = |outcome: &Outcome| outcome.reason.code == Code::Contested;
        let is_contested = report.outcomes.iter().any(is_contested);
        let is_paused = |outcome: &Outcome| outcome.reason.code == Code::Paused;
        let is_paused = report.outcomes.iter().any(is_paused);
        let is_news = publication.note_paused(id, is_paused);
        if publication.passed(id, copies, is_contested) || is_news {
            self.passes.owners.send_replace(());
        }
        if self.note_related(report) {
            let queue = &self.passes.dispatch.subjects.queue;
            queue.add(id.clone(), ended.urgency);
        }
        count(&self.passes.metrics, ended);
        let announcer = &self.passes.announcer;
        let (dispatch, uid) = (
            Arc::clone(&self.passes.dispatch),
            Arc::clone(&id.publication),
        );
        let is_ours = self.work.guard();
        let guard: Arc<Guard<'static>> = Arc::new(move || {
            dispatch.check_running(&uid)?;
            is_ours()
        });
        announcer.announce(self.anchor.clone(), report, &guard);
        self.settle_drift(report, &guard);
        if let Some(problem) = self.consumer_pause.lock().problem.take() {
            announcer.warn_of_pause(self.anchor.clone(), &problem, &guard);
        }
        // If something else failed too, the pass is still queued for the end of the pause.
        if is_paused
            && let (queue::Outcome::Failed(_), Some(wait)) = (ended.next, ended.put_off)
            && wait <= queue::LONGEST
        {
            let queue = &self.passes.dispatch.subjects.queue;
            queue.add_after(id.clone(), Urgency::Live, wait);
        }
        ended.next
    }
}

impl ObjectPass {
    /// Records what the pass asked for. Returns whether something of it changed without being reported.
    pub(super) fn note_related(&self, report: &Report) -> bool {
        let cache = &*self.passes.cache;
        let presence = match cache.fingerprint(&Question::Object(self.anchor.clone())) {
            Some(Fingerprint::ABSENT) => Presence::Gone,
            Some(_) | None => Presence::There,
        };
        self.publication
            .note_related(&self.id, report, presence, || self.state_key(), cache)
    }

    /// An object that passes depend on; it is read if it is unknown.
    fn known(view: &dyn View, key: Key) -> Result<Option<Arc<Object>>, Vec<Request>> {
        match view.get(&key) {
            Seen::Present(object) => Ok(Some(object)),
            Seen::Absent => Ok(None),
            Seen::Unknown => Err(vec![Request::Read { key }]),
        }
    }

    /// Whether this object is synchronized. An object in deletion with the finalizer counts: it was synchronized
    /// before.
    fn wanted(&self, anchor: &Object, view: &dyn View) -> Result<bool, Vec<Request>> {
        let compiled = self.publication.compiled();
        if anchor.in_deletion() && anchor.has_finalizer(marks::FINALIZER) {
            return Ok(true);
        }
        let namespace = match self.anchor.namespace_key() {
            Some(key) if compiled.needs_namespace() => Self::known(view, key)?,
            _ => None,
        };
        Ok(compiled.wants(anchor, namespace.as_deref()))
    }

    /// The key of the object's state Secret.
    pub(super) fn state_key(&self) -> Option<Key> {
        let (_, subject) = self.plain(None);
        subject.memory.map(|memory| memory.key)
    }

    /// The rules and the subject without its related objects, for a workspace with this path.
    fn plain(&self, path: Option<&str>) -> (ObjectRules, Subject) {
        let compiled = self.publication.compiled();
        let rules = ObjectRules::new(compiled, &self.passes.sides, self.id.remote(), path);
        let rules = rules.reporting(self.synced_context());
        let subject = subject_of(rules.clone());
        (rules, subject)
    }

    fn path(&self, anchor: &Seen, view: &dyn View) -> Result<Option<String>, Vec<Request>> {
        // Deletion needs no names, and a workspace that is unbinding does not show its path.
        let lives = !matches!(anchor, Seen::Present(anchor) if anchor.in_deletion());
        if !self.publication.compiled().needs_path() || !lives {
            return Ok(None);
        }
        let scope = Scope::new(
            &self.passes.sides.kcp,
            &logical_cluster_kind(),
            &self.id.cluster,
        );
        let key = scope.key(None, "cluster");
        let found = Self::known(view, key.clone())?;
        let path = found.and_then(|found| found.annotation("kcp.io/path").map(str::to_owned));
        // Nothing is created before the path is known.
        path.map(Some).ok_or_else(|| vec![Request::Read { key }])
    }
}

impl Dialect for ObjectPass {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let anchor = view.get(&self.anchor);
        let keeps = self.begin_round(match &anchor {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        });
        if let Seen::Present(object) = &anchor {
            *self.trace.lock() = TraceContext::of(object);
        }
        let shared = &self.passes.related;
        let (kinds, published) = (self.publication.related_kinds(), shared.published());
        let around = shared.around(&kinds, &published);
        if let Seen::Present(object) = &anchor
            && !self.wanted(object, view)?
        {
            let (rules, plain) = self.plain(None);
            return Ok(related::unwanted(plain, &rules, around, view));
        }
        let path = self.path(&anchor, view)?;
        let (rules, plain) = self.plain(path.as_deref());
        let mut subject = related::extend(plain, &rules, around, view)?;
        if let Seen::Present(object) = &anchor {
            self.note_pause(object, &subject.links, view);
        }
        self.recall_drift(&mut subject);
        if keeps {
            // The workspace is unbinding: kcp deletes the objects with the binding, and no consumer deleted them.
            for link in &mut subject.links {
                link.policy.source_gone = Fate::Keep;
                link.policy.retract = Fate::Keep;
            }
        }
        Ok(subject)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        let anchor = match view.get(&subject.anchor) {
            Seen::Present(anchor) => anchor,
            Seen::Absent => {
                self.publication.note_report(&self.id, None);
                return Vec::new();
            }
            Seen::Unknown => return Vec::new(),
        };
        // One write at a time: the write of the status would conflict with the patch.
        related::annotations(subject, outcomes, &anchor)
            .or_else(|| self.report_synced(&anchor, outcomes, view))
            .into_iter()
            .collect()
    }
}
