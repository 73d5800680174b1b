//! Passes with dry runs in place of writes: what the agent would do about objects, and why.
//!
//! The rest of a pass finds the result of a dry run in memory, so nothing changes on either side. Several trials have the
//! claims on related objects in common, as the passes of the agent have, and the brakes, but nothing with real passes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::approvals;
use super::explained::{Exclusion, Explained, ExplainedLink};
use super::feeds::{logical_cluster_kind, namespace_kind};
use super::passes::{ObjectPass, Passes};
use super::publication::Publication;
use super::publishing::Publishing;
use super::router::PublishRouter;
use super::share::Share;
use super::subject::SubjectId;
use crate::explain::{TrialLimits, Tried, TriedWrites};
use crate::publish::filters::NAMESPACE_FILTER;
use crate::publish::marks::Remote;
use crate::publish::memory;
use crate::publish::rules::{PRIMARY, drift_policy};
use hawser_runtime::cluster::cache::{Change, ChangeType};
use hawser_runtime::controller::{BrakeRegistry, PassDialect as _};
use hawser_sync::link::DriftPolicy;
use hawser_sync::{
    Code, Dialect, DriftedField, Effect, Key, LinkId, Outcome, Reason, Report, Request, Scope,
    Seen, Step, Store as _, Subject, View,
};
use kube_lang::object::Object;

/// The number of states that are read without a break.
const TOGETHER: usize = 4;
/// The longest trial: a pass has up to 24 rounds, each as long as a request.
const LONGEST_TRIAL: Duration = Duration::from_mins(1);

/// The drift that a pass finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriftFinding {
    /// The drift that the agent reverts or reports.
    AsConfigured,
    /// Drift that is kept, too.
    All,
}

/// Trials that belong together.
pub(super) struct Trials {
    passes: Arc<Passes>,
    router: Arc<PublishRouter>,
    /// Of these trials only; `None` if deletions are not held.
    brakes: Option<Arc<BrakeRegistry>>,
    /// Whether the fields that writes change are shown.
    compares: bool,
    limits: TrialLimits,
}

impl Trials {
    /// Trials with the claims of all recorded states.
    pub(super) async fn new(
        passes: &Arc<Passes>,
        router: &Arc<PublishRouter>,
        publishing: &Publishing,
    ) -> Self {
        let related = passes.related.for_trials(publishing.published_kinds());
        let running = passes.dispatch.running();
        // All publications have the states of one namespace.
        let states = running.values().find_map(|one| one.states());
        let states = states.map(|states| states.keys()).unwrap_or_default();
        for (number, key) in states.into_iter().enumerate() {
            if number % TOGETHER == 0 {
                tokio::task::yield_now().await;
            }
            if let Seen::Present(object) = passes.cache.get(&key) {
                let change = Change {
                    what: ChangeType::Initial,
                    key,
                    object,
                };
                let (sides, names) = (&passes.sides, &router.names);
                related.learn_claims(sides, &change, names, &Share::All);
            }
        }
        Self {
            passes: Arc::new(Passes {
                related: Arc::new(related),
                ..Passes::clone(passes)
            }),
            router: Arc::clone(router),
            brakes: None,
            compares: true,
            limits: TrialLimits::new(),
        }
    }

    /// Trials that hold deletions as the agent does.
    pub(super) fn with_brakes(self, publishing: &Publishing) -> Self {
        let options = approvals::options(publishing.options.deletion_brake);
        Self {
            brakes: Some(BrakeRegistry::new(options, |_| {})),
            ..self
        }
    }

    /// Trials whose writes are only counted.
    pub(super) fn without_comparisons(self) -> Self {
        Self {
            compares: false,
            ..self
        }
    }

    /// Tries the objects of publications, several at once, and hands on each. Workspaces take turns, as in the queue of
    /// the agent, because the brakes count. What cannot be tried in time is an error with the name of the published
    /// resource.
    pub(super) async fn each(
        &self,
        selected: Vec<(Arc<Publication>, SubjectId)>,
        at_once: usize,
        until: Option<Instant>,
        mut take: impl FnMut(Result<Explained, String>),
    ) {
        let mut before = TriedBefore::default();
        let mut found = futures::stream::iter(in_turns(selected))
            .map(|(publication, id)| async move {
                // A pass without a request waits for nothing.
                tokio::task::yield_now().await;
                let drift = DriftFinding::AsConfigured;
                let left = until.map_or(LONGEST_TRIAL, |until| {
                    LONGEST_TRIAL.min(until.saturating_duration_since(Instant::now()))
                });
                let explained = timeout(left, self.one(&publication, &id, drift)).await;
                explained
                    .ok()
                    .flatten()
                    .ok_or_else(|| publication.plan.name.clone())
            })
            .buffered(at_once);
        while let Some(mut found) = found.next().await {
            if let Ok(explained) = &mut found {
                before.resolve(explained);
            }
            take(found);
        }
    }

    /// The object in the cache.
    pub(super) fn present(&self, key: &Key) -> Option<Arc<Object>> {
        match self.passes.cache.get(key) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// The path of a workspace, if the agent knows it.
    pub(super) fn path_of(&self, cluster: &str) -> Option<String> {
        let kcp = &self.passes.sides.kcp;
        let key = Scope::new(kcp, &logical_cluster_kind(), cluster).key(None, "cluster");
        let found = self.present(&key)?;
        found.annotation("kcp.io/path").map(str::to_owned)
    }

    /// Tries an object. What cannot be tried has the reason.
    pub(super) async fn explain(
        &self,
        publication: &Arc<Publication>,
        id: &SubjectId,
        drift: DriftFinding,
    ) -> Explained {
        match timeout(LONGEST_TRIAL, self.one(publication, id, drift)).await {
            Ok(Some(explained)) => explained,
            Ok(None) => self.untried(publication, id),
            Err(_) => {
                let why = format!("the servers did not answer within {LONGEST_TRIAL:?}");
                self.without_trial(publication, id, Some(Reason::new(Code::NoAnswer, why)))
            }
        }
    }

    /// An object without a pass: its workspace does not take part, or something that the pass needs is not known.
    fn untried(&self, publication: &Arc<Publication>, id: &SubjectId) -> Explained {
        let workspaces = &self.passes.workspaces;
        if workspaces.are_nowhere() || workspaces.has_left(&id.cluster) {
            let mut explained = self.without_trial(publication, id, None);
            explained.not_synced = Some(Exclusion::Unbound);
            return explained;
        }
        let unlisted = Vec::from_iter(publication.unlisted());
        let why = if unlisted.is_empty() {
            "the APIBinding of its workspace is not bound or cannot be read".to_owned()
        } else {
            format!("cannot list {}", unlisted.join("; "))
        };
        self.without_trial(publication, id, Some(Reason::new(Code::NotSeen, why)))
    }

    fn without_trial(
        &self,
        publication: &Publication,
        id: &SubjectId,
        reason: Option<Reason>,
    ) -> Explained {
        Explained {
            path: self.path_of(&id.cluster),
            ..Explained::untried(&publication.plan.name, publication.anchor(id), reason)
        }
    }

    /// `None` if the object is not of a bound workspace.
    pub(super) async fn one(
        &self,
        publication: &Arc<Publication>,
        id: &SubjectId,
        drift: DriftFinding,
    ) -> Option<Explained> {
        if publication.is_stopped() {
            return None;
        }
        if drift == DriftFinding::All {
            self.router.names.keep_authors(publication);
        }
        let pass = self.passes.pass(id)?;
        pass.prepare().await;
        let front = TriedPass { pass: &pass, drift };
        let tried = Tried {
            pass: &pass,
            front: &front,
            tenant: &id.cluster,
            router: &*self.router,
            cache: &self.passes.cache,
            brakes: self.brakes.as_deref(),
            compares: self.compares,
        };
        let writes = self.limits.run(tried).await;
        // Later changes of these objects make another plan.
        if publication.plan.plans_only && pass.note_related(&writes.report) {
            publication.note_change();
        }
        Some(self.explained(&pass, writes))
    }

    fn explained(&self, pass: &ObjectPass, writes: TriedWrites) -> Explained {
        let TriedWrites {
            report,
            due,
            has_secrets,
        } = writes;
        let (publication, id) = (&pass.publication, &pass.id);
        let drift = drifted(&report);
        let is_adoption = |(link, effect): &(Option<LinkId>, Effect)| {
            let is_primary = link.as_ref().is_some_and(|link| *link.0 == *PRIMARY);
            is_primary && *effect == Effect::Adopted
        };
        let adopts = report.happened.iter().any(is_adoption);
        let state = pass.state_key();
        let stored = state.as_ref().and_then(|key| self.present(key));
        let recorded = stored.as_ref().map(|state| memory::codec::copies(state));
        let recorded: BTreeMap<_, _> = recorded.into_iter().flatten().collect();
        let link = |outcome: Outcome| {
            let copy = outcome.copy.as_ref().and_then(|key| self.present(key));
            let record = recorded.get(&outcome.link);
            let found_by = copy.and_then(|copy| {
                if record.is_some_and(|record| record.uid() == copy.uid()) {
                    Some("the record in its state")
                } else if Remote::read(&copy).is_some_and(|remote| remote == id.remote()) {
                    Some("its labels")
                } else {
                    None
                }
            });
            ExplainedLink {
                found_by,
                ..outcome.into()
            }
        };
        let mut links: Vec<_> = report.outcomes.into_iter().map(link).collect();
        // A status that cannot be copied is no problem of the object, but worth more than that all else is in sync.
        links.sort_by_key(|link| {
            let code = link.reason.code;
            (Reverse(code.class()), code != Code::StatusNotServed)
        });
        let kcp = &self.passes.sides.kcp;
        let namespace = id.namespace.as_deref().map(|namespace| {
            let scope = Scope::new(kcp, &namespace_kind(), &id.cluster);
            self.passes.cache.get(&scope.key(None, namespace))
        });
        let (namespace, is_known) = match namespace {
            Some(Seen::Present(namespace)) => (Some(namespace), true),
            Some(Seen::Unknown) => (None, false),
            Some(Seen::Absent) | None => (None, true),
        };
        let object = self.present(&pass.anchor);
        let mut filters = object.map_or_else(Vec::new, |object| {
            let compiled = publication.compiled();
            compiled.filter_results(&object, namespace.as_deref())
        });
        filters.retain(|filter| is_known || filter.field != NAMESPACE_FILTER);
        let plan = &publication.plan;
        let left_out_by = filters.iter().find(|filter| !filter.matches);
        let not_synced = match left_out_by {
            _ if plan.plans_only => Some(Exclusion::PlansOnly(plan.name.clone())),
            Some(filter) => Some(Exclusion::Filter(filter.field)),
            None => None,
        };
        Explained {
            published_resource: publication.plan.name.clone(),
            object: pass.anchor.clone(),
            path: self.path_of(&id.cluster),
            pauses: pass.pauses(),
            filters,
            not_synced,
            has_state: stored.is_some(),
            state,
            drift,
            adopts,
            links,
            due,
            has_secrets,
        }
    }
}

/// The same, the first object of each workspace before the second of any.
fn in_turns(selected: Vec<(Arc<Publication>, SubjectId)>) -> Vec<(Arc<Publication>, SubjectId)> {
    let mut turns: HashMap<Arc<str>, usize> = HashMap::new();
    let mut selected: Vec<_> = selected
        .into_iter()
        .map(|one| {
            let turn = turns.entry(Arc::clone(&one.1.cluster)).or_default();
            *turn += 1;
            (*turn, one)
        })
        .collect();
    selected.sort_by_key(|(turn, _)| *turn);
    selected.into_iter().map(|(_, one)| one).collect()
}

/// The writes of earlier trials that concern later ones: a pass does not see the writes of other passes.
#[derive(Default)]
struct TriedBefore {
    /// The object whose pass first creates or changes an object, and a hash of the change.
    written: BTreeMap<(Key, &'static str), (Key, u64)>,
    deleted: BTreeSet<Key>,
}

impl TriedBefore {
    /// What is deleted is gone, and what several passes would do to an object that they share is done once. Another
    /// object belongs to the first that creates it.
    fn resolve(&mut self, explained: &mut Explained) {
        let object = &explained.object;
        explained.due.retain_mut(|write| {
            if write.refusal.is_some() {
                return true;
            }
            if write.verb == "delete" {
                return self.deleted.insert(write.object.clone());
            }
            let mut hasher = DefaultHasher::new();
            let change = write.change.as_ref().map(Value::to_string);
            change.hash(&mut hasher);
            let written = (object.clone(), hasher.finish());
            let place = (write.object.clone(), write.verb);
            let (first, change) = self.written.entry(place).or_insert(written.clone());
            if *first == written.0 {
                return true;
            }
            let creates = write.verb == "create";
            if creates {
                write.refusal = Some(format!(
                    "{first} would create an object with this name first"
                ));
            }
            *change != written.1 && !(creates && write.object.kind == namespace_kind())
        });
    }
}

/// A pass of the agent that may find more drift.
struct TriedPass<'a> {
    pass: &'a ObjectPass,
    drift: DriftFinding,
}

impl Dialect for TriedPass<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let mut subject = self.pass.subject(view)?;
        let compiled = self.pass.publication.compiled();
        let mut links = subject.links.iter_mut();
        if self.drift == DriftFinding::All
            && let Some(primary) = links.find(|link| *link.id.0 == *PRIMARY)
        {
            primary.policy.drift = Some(DriftPolicy {
                finds_kept: true,
                ..drift_policy(compiled)
            });
        }
        Ok(subject)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        self.pass.report(subject, outcomes, view)
    }
}

/// The drift at the end of a pass, and the drift that it reverted.
fn drifted(report: &Report) -> Vec<DriftedField> {
    let mut fields = report.reverted.clone();
    let found = report.outcomes.iter().filter_map(|one| one.drift.as_ref());
    fields.extend(found.flat_map(|drift| drift.fields.clone()));
    fields.sort_by(|a, b| a.keys.cmp(&b.keys));
    fields
}
