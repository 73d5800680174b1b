//! Explains objects: what the agent would do about each of them now, and why.
//!
//! An [`Explainer`] fills the caches and compiles the rules like a standby, then runs the agent's passes. It sends
//! reads, and sends each write as a dry run, so that a server's refusal becomes the reason. The rest of the pass finds
//! the result of a dry run in memory. Nothing changes on either side.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::conditions::untrue;
use super::numbers::AgentMetrics;
use super::options::AgentOptions;
use super::passes::{ObjectPass, Passes};
use super::plan;
use super::process::{Agent, AgentError, Connections, LOOK_ROUND};
use super::publication::{Publication, SubjectId, logical_cluster_kind, namespace_kind};
use super::publishing::published_resource_kind;
use super::related::MOMENT;
use super::startup::{StartError, in_workspace, locate};
use crate::publish::marks::Remote;
use crate::publish::rules::{PRIMARY, drift_policy};
use hawser_runtime::cluster::connection::{Call, RequestError};
use hawser_runtime::cluster::events;
use hawser_runtime::controller::{self, PassDialect as _};
use hawser_runtime::process::dedicated_thread::DedicatedThread;
use hawser_runtime::process::lease::Fence;
use hawser_sync::link::DriftPolicy;
use hawser_sync::{
    Code, Dialect, DriftedField, Effect, Key, LinkId, Outcome, Report, Request, Scope, Seen, Step,
    Store as _, Subject, View, run,
};
use kube_lang::object::Object;

mod dry_run;
mod explained;
mod selection;

use dry_run::DryRunClient;
pub use explained::{DueWrite, Explained, ExplainedLink, Leader};
pub use selection::Selection;

/// The time limit for finding kcp, and then for filling the caches.
const PATIENCE: Duration = Duration::from_mins(1);
/// The number of objects that are explained concurrently.
pub(super) const TOGETHER: usize = 16;
/// The value in place of a Secret's data.
pub(super) const REDACTED: &str = "(hidden)";

/// The reason why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("kcp did not show the APIExportEndpointSlice {0} and its APIExport within 60 seconds")]
    KcpSilent(String),
    #[error("the objects were not listed within 60 seconds: {0}")]
    Unlisted(String),
    #[error("looking up the workspace {path}: name its logical cluster instead")]
    Workspace {
        path: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error(transparent)]
    Address(#[from] StartError),
    #[error("the PublishedResource {0} in the files cannot be read: {1}")]
    Unreadable(String, String),
    #[error(
        "the agent does not serve the PublishedResource {0}: its labels do not match --published-resource-selector"
    )]
    NotSelected(String),
    #[error("no active PublishedResource has the kind {kind} on either side; kinds: {known}")]
    KindUnknown { kind: String, known: String },
    #[error("{kind} {name} is neither in a bound workspace nor on the service cluster")]
    NotFound { kind: String, name: String },
}

/// The part of the agent that reads and evaluates.
pub struct Explainer {
    pub(super) agent: Agent,
    passes: Arc<Passes>,
    pub(super) planes: Connections,
    _publishing: AbortOnDropHandle<()>,
}

impl Explainer {
    /// Connects to both sides, and lists everything that the agent with these options watches. `PublishedResource`s in
    /// `changed` replace the stored ones of their names.
    pub async fn begin(options: AgentOptions, changed: &[Value]) -> Result<Self, ExplainError> {
        let dedicated = DedicatedThread::start("apart").map_err(AgentError::DedicatedThread)?;
        let metrics = AgentMetrics::new();
        // The fence stays closed: every request that is not a dry run is refused before it is sent.
        let planes =
            Connections::connect(&options, &metrics.metrics, &Fence::closed(), &dedicated)?;
        let located = timeout(PATIENCE, locate(&planes.kcp, &options.slice)).await;
        let located = located.map_err(|_| ExplainError::KcpSilent(options.slice.clone()))?;
        let located = located.map_err(AgentError::from)?;
        let agent = Agent::assemble(Arc::new(options), &planes, located, &metrics);
        if !changed.is_empty() {
            let listed = timeout(PATIENCE, agent.control_listed()).await;
            listed.map_err(|_| ExplainError::Unlisted("PublishedResources".to_owned()))?;
            agent.publishing.plan(plan::stand_ins(&agent, changed)?);
        }
        let publishing = tokio::spawn(Arc::clone(&agent.publishing).work());
        let passes = agent.passes(&events::line(Timestamp::now).0);
        let explainer = Self {
            agent,
            passes,
            planes,
            _publishing: AbortOnDropHandle::new(publishing),
        };
        if timeout(PATIENCE, explainer.filled()).await.is_err() {
            return Err(ExplainError::Unlisted(explainer.unseen()));
        }
        Ok(explainer)
    }

    /// Waits until everything is listed and the workspaces that take part are known.
    async fn filled(&self) {
        self.agent.control_listed().await;
        let mut engaged = usize::MAX;
        // Bindings are handled one by one after their list: waits until a round adds no workspace.
        while !self.agent.publishing.is_complete()
            || !self.has_begun()
            || engaged != self.agent.workspaces.engaged()
        {
            engaged = self.agent.workspaces.engaged();
            sleep(LOOK_ROUND).await;
        }
    }

    /// Whether passes over all published resources can run. Kinds that are not served are waited for only shortly.
    fn has_begun(&self) -> bool {
        let running = self.agent.dispatch.running();
        running.values().all(|publication| publication.has_begun())
    }

    fn unseen(&self) -> String {
        let running = self.agent.dispatch.running();
        let unseen = running.values().flat_map(|publication| {
            let (unseen, unwatched) = (publication.unseen(), publication.unwatched_kinds());
            unseen.into_iter().chain(unwatched)
        });
        let unseen: BTreeSet<String> = unseen.collect();
        let unseen: Vec<_> = unseen.into_iter().collect();
        if unseen.is_empty() {
            return "a server is slow".to_owned();
        }
        unseen.join("; ")
    }

    /// The conditions of published resources that are not true: the resource, the type, and the message.
    pub fn problems(&self) -> Vec<[String; 3]> {
        let scope = Scope::new(&self.agent.sides.service, &published_resource_kind(), "");
        let names: BTreeSet<String> = self.published_names();
        let mut problems = Vec::new();
        for name in names {
            let Seen::Present(object) = self.agent.cache.get(&scope.key(None, &name)) else {
                continue;
            };
            for (condition, message) in untrue(&object) {
                problems.push([name.clone(), condition.to_owned(), message.to_owned()]);
            }
        }
        problems
    }

    fn published_names(&self) -> BTreeSet<String> {
        let running = self.agent.dispatch.running();
        let names = running
            .values()
            .map(|publication| publication.plan.name.clone());
        names.collect()
    }

    /// The leader, according to the Lease.
    pub async fn leader(&self) -> Leader {
        let (namespace, name) = (
            &self.agent.options.namespace,
            &self.agent.options.agent_name,
        );
        let path =
            format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/syncagent.{name}");
        let lease = match self.planes.service.ask(Call::get(path)).await {
            Ok(lease) => lease,
            Err(error) if error.code() == Some(404) => return Leader::Missing,
            Err(error) => return Leader::Unknown(error.to_string()),
        };
        let spec = &lease["spec"];
        let identity = spec["holderIdentity"].as_str().unwrap_or_default();
        let renewed: Option<Timestamp> = spec["renewTime"]
            .as_str()
            .and_then(|time| time.parse().ok());
        let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default();
        let age = renewed.map(|renewed| Timestamp::now().duration_since(renewed).unsigned_abs());
        match age {
            Some(renewed) if !identity.is_empty() && renewed.as_secs() <= seconds => {
                Leader::Present {
                    identity: identity.to_owned(),
                    renewed,
                }
            }
            _ => Leader::Missing,
        }
    }

    /// Explains the selected objects.
    pub async fn explain(&self, selection: &Selection) -> Result<Vec<Explained>, ExplainError> {
        // It takes a read of each copy that differs.
        let drift = match selection.name {
            Some(_) => DriftFinding::All,
            None => DriftFinding::AsConfigured,
        };
        let selected = self.selected(selection).await?;
        let explained = futures::stream::iter(selected)
            .map(|(publication, id)| async move { self.one(&publication, &id, drift).await })
            .buffered(TOGETHER)
            .filter_map(std::future::ready);
        Ok(explained.collect().await)
    }

    /// The selected objects, with their publications.
    pub(super) async fn selected(
        &self,
        selection: &Selection,
    ) -> Result<Vec<(Arc<Publication>, SubjectId)>, ExplainError> {
        let cluster = match &selection.workspace {
            Some(workspace) => Some(self.cluster_of(workspace).await?),
            None => None,
        };
        self.select(selection, cluster.as_deref())
    }

    /// The logical cluster of a workspace.
    pub(super) async fn cluster_of(&self, workspace: &str) -> Result<String, ExplainError> {
        if !workspace.contains(':') && workspace != "root" {
            return Ok(workspace.to_owned());
        }
        in_workspace(&self.planes.kcp, workspace)
            .await?
            .map_err(|source| ExplainError::Workspace {
                path: workspace.to_owned(),
                source: Box::new(source),
            })
    }

    pub(super) fn select(
        &self,
        selection: &Selection,
        cluster: Option<&str>,
    ) -> Result<Vec<(Arc<Publication>, SubjectId)>, ExplainError> {
        let running = self.agent.dispatch.running();
        let mut publications: Vec<_> = running.values().cloned().collect();
        publications.sort_by(|a, b| a.plan.name.cmp(&b.plan.name));
        let (mut selected, mut has_kind) = (BTreeSet::new(), selection.kind.is_none());
        for publication in &publications {
            let plan = &publication.plan;
            if selection.is_of_kind(&publication.remote_kind, &plan.remote_resource) {
                has_kind = true;
                let sources = publication.sources();
                let of_source = |source| publication.subjects(source, cluster);
                selected.extend(
                    sources
                        .iter()
                        .flat_map(of_source)
                        .filter(|id| selection.matches(id.namespace.as_deref(), &id.name)),
                );
            }
            if cluster.is_none()
                && selection.name.is_some()
                && selection.is_of_kind(&publication.local_kind, &plan.local_resource)
            {
                has_kind = true;
                selected.extend(publication.copies().into_iter().filter_map(|(key, copy)| {
                    let is_meant = selection.matches(key.namespace.as_deref(), &key.name);
                    is_meant
                        .then(|| Remote::read(&copy))
                        .flatten()
                        .map(|remote| SubjectId {
                            publication: Arc::clone(&plan.uid),
                            cluster: remote.cluster.into(),
                            namespace: remote.namespace.map(Into::into),
                            name: remote.name.into(),
                        })
                }));
            }
        }
        let kind = || selection.kind.clone().unwrap_or_default();
        if !has_kind {
            let known = publications.iter().flat_map(|publication| {
                [&publication.remote_kind, &publication.local_kind].map(|kind| kind.kind.clone())
            });
            let known: BTreeSet<String> = known.collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(ExplainError::KindUnknown {
                kind: kind(),
                known,
            });
        }
        if let (true, Some(name)) = (selected.is_empty(), &selection.name) {
            return Err(ExplainError::NotFound {
                kind: kind(),
                name: name.clone(),
            });
        }
        let with_publication = |id: SubjectId| {
            let publication = running.get(&id.publication)?;
            Some((Arc::clone(publication), id))
        };
        Ok(selected.into_iter().filter_map(with_publication).collect())
    }

    /// The path of a workspace, if the agent knows it.
    pub(super) fn path_of(&self, cluster: &str) -> Option<String> {
        let kcp = &self.agent.sides.kcp;
        let key = Scope::new(kcp, &logical_cluster_kind(), cluster).key(None, "cluster");
        let found = self.present(&key)?;
        found.annotation("kcp.io/path").map(str::to_owned)
    }

    /// The object in the cache.
    pub(super) fn present(&self, key: &Key) -> Option<Arc<Object>> {
        match self.agent.cache.get(key) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// `None` if the object is not of a bound workspace.
    pub(super) async fn one(
        &self,
        publication: &Arc<Publication>,
        id: &SubjectId,
        drift: DriftFinding,
    ) -> Option<Explained> {
        if drift == DriftFinding::All {
            self.agent.router.names.keep_authors(publication);
        }
        let pass = controller::Dialect::begin(&self.passes, id)?;
        pass.prepare().await;
        let front = ExplainedPass { pass: &pass, drift };
        let (mut report, mut due) = self.rehearse(&front).await;
        let is_unsettled = |one: &Outcome| one.reason.code == Code::SourceNotQuiet;
        if report.outcomes.iter().any(is_unsettled) {
            // The first pass began to watch the originals; the second one knows whether they change.
            sleep(MOMENT).await;
            (report, due) = self.rehearse(&front).await;
        }
        let drift = drifted(&report);
        let is_adoption = |(link, effect): &(Option<LinkId>, Effect)| {
            let is_primary = link.as_ref().is_some_and(|link| *link.0 == *PRIMARY);
            is_primary && *effect == Effect::Adopted
        };
        let adopts = report.happened.iter().any(is_adoption);
        let mut links: Vec<_> = report
            .outcomes
            .into_iter()
            .map(ExplainedLink::from)
            .collect();
        // A status that cannot be copied is no problem of the object, but worth more than that all else is in sync.
        links.sort_by_key(|link| {
            let code = link.reason.code;
            (Reverse(code.class()), code != Code::StatusNotServed)
        });
        let kcp = &self.agent.sides.kcp;
        let namespace = id.namespace.as_deref().map(|namespace| {
            self.present(&Scope::new(kcp, &namespace_kind(), &id.cluster).key(None, namespace))
        });
        let left_out_by = self
            .present(&pass.anchor)
            .filter(|object| !object.in_deletion())
            .and_then(|object| {
                let namespace = namespace.flatten();
                publication
                    .compiled()
                    .left_out_by(&object, namespace.as_deref())
            });
        let state = pass.state_key();
        Some(Explained {
            published_resource: publication.plan.name.clone(),
            object: pass.anchor.clone(),
            path: self.path_of(&id.cluster),
            pauses: pass.pauses(),
            left_out_by,
            has_state: state.as_ref().and_then(|key| self.present(key)).is_some(),
            state,
            drift,
            adopts,
            links,
            due,
        })
    }

    /// Runs a pass with dry runs: its report, and the writes that are due.
    async fn rehearse(&self, front: &ExplainedPass<'_>) -> (Report, Vec<DueWrite>) {
        let trial = DryRunClient::new(self, front.pass);
        let report = run(front, None, &*self.agent.cache, &trial).await;
        (report, trial.into_due())
    }
}

/// The drift that a pass finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriftFinding {
    /// The drift that the agent reverts or reports.
    AsConfigured,
    /// Drift that is kept, too.
    All,
}

/// A pass of the agent that may find more drift.
struct ExplainedPass<'a> {
    pass: &'a ObjectPass,
    drift: DriftFinding,
}

impl Dialect for ExplainedPass<'_> {
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
