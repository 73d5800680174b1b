//! Explains objects: what the agent would do about each of them now, and why.
//!
//! An [`Explainer`] fills the caches and compiles the rules like a standby, then tries the agent's passes: it sends
//! reads, and each write as a dry run, so that a server's refusal becomes the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::conditions::untrue;
pub use super::explained::{Explained, ExplainedLink, workspace_name};
use super::inactive::Inactive;
use super::numbers::AgentMetrics;
use super::options::AgentOptions;
use super::passes::Passes;
use super::place::{PlaceError, cached_other_agents, check_place, first_of};
use super::process::{Agent, AgentError, Connections};
use super::publication::Publication;
use super::share::Share;
use super::startup::{StartError, in_workspace, locate};
use super::subject::SubjectId;
use super::trial::{DriftFinding, Trials};
use crate::explain::is_of_kind;
use crate::explain::progress::ObjectProgress;
use crate::publish::marks::{self, LAST_APPLIED, Remote};
use hawser_runtime::cluster::connection::{Call, RequestError};
use hawser_runtime::cluster::events;
use hawser_runtime::cluster::wire::{collection, segment};
use hawser_runtime::process::lease::Fence;
use kube_lang::object::{Gvk, Object};

/// The time limit for finding kcp, and then for filling the caches.
const PATIENCE: Duration = Duration::from_mins(1);
/// The number of published resources that an error names.
const MOST_INACTIVE: usize = 5;
/// The number of objects that are explained concurrently.
pub(super) const TOGETHER: usize = 16;

/// The reason why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("kcp did not show the APIExportEndpointSlice {0} and its APIExport within 60 seconds")]
    KcpSilent(String),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(
        "no workspace {asked:?} binds the API, and no copy is of it; bound workspaces: {bound}"
    )]
    NotBound { asked: String, bound: String },
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
    #[error(
        "no active PublishedResource has the kind {kind} on either side; kinds: {known}{inactive}"
    )]
    KindUnknown {
        kind: String,
        known: String,
        /// Sentences about published resources that do not run, each after a full stop.
        inactive: String,
    },
    #[error(
        "{kind} {name} is neither in a bound workspace nor a copy on the service cluster{inactive}"
    )]
    NotFound {
        kind: String,
        name: String,
        inactive: String,
    },
    #[error("{0} on the service cluster is no copy of this agent")]
    NoCopy(String),
}

/// Which objects to explain.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Kind or plural name, on either side; all kinds without it.
    pub kind: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    /// The path or logical cluster of a workspace. Without it, the object may be a copy on the service cluster.
    pub workspace: Option<String>,
}

/// The leader.
#[derive(Debug)]
pub enum Leader {
    /// This agent, and the time since it renewed its lease.
    Present { identity: String, renewed: Duration },
    /// No agent: the last one stopped, or its lease has expired.
    Missing,
    /// The lease cannot be read.
    Unknown(String),
}

/// A reason why objects of a published resource may not be in sync.
#[derive(Debug)]
pub struct ResourceProblem {
    pub name: String,
    /// The type of a condition that is not true; `None` if the published resource is not active.
    pub condition: Option<String>,
    pub message: String,
}

impl Leader {
    fn of(lease: &Value, now: Timestamp) -> Self {
        let spec = &lease["spec"];
        let identity = spec["holderIdentity"].as_str().unwrap_or_default();
        let renewed: Option<Timestamp> = spec["renewTime"]
            .as_str()
            .and_then(|time| time.parse().ok());
        let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default();
        // The clock of the leader may be ahead.
        let age = renewed.map(|renewed| now.max(renewed).duration_since(renewed).unsigned_abs());
        match age {
            Some(renewed) if !identity.is_empty() && renewed.as_secs() <= seconds => {
                Self::Present {
                    identity: identity.to_owned(),
                    renewed,
                }
            }
            _ => Self::Missing,
        }
    }
}

/// The part of the agent that reads and evaluates.
pub struct Explainer {
    pub(super) agent: Agent,
    passes: Arc<Passes>,
    pub(super) trials: Trials,
    pub(super) planes: Connections,
    _publishing: AbortOnDropHandle<()>,
}

impl Explainer {
    /// Connects to both sides, and lists everything that the agent with these options watches. `PublishedResource`s in
    /// `changed` replace the stored ones of their names.
    pub async fn begin(options: AgentOptions, changed: &[Value]) -> Result<Self, ExplainError> {
        let metrics = AgentMetrics::new();
        // The fence stays closed: every request that is not a dry run is refused before it is sent.
        let planes = Connections::of_command(&options, &metrics.metrics, &Fence::closed())?;
        check_place(&planes, &options).await?;
        let located = timeout(PATIENCE, locate(&planes.kcp, &options.slice)).await;
        let located = located.map_err(|_| ExplainError::KcpSilent(options.slice.clone()))?;
        let located = located.map_err(AgentError::from)?;
        let share = Share::All;
        let agent = Agent::assemble(Arc::new(options), &planes, located, &metrics, share);
        if !changed.is_empty() {
            let listed = timeout(PATIENCE, agent.control_listed()).await;
            listed.map_err(|_| ExplainError::Unlisted("PublishedResources".to_owned()))?;
            agent.publishing.plan(stand_ins(&agent, changed)?);
        }
        let publishing = tokio::spawn(Arc::clone(&agent.publishing).work());
        let passes = agent.passes(&events::line(Timestamp::now).0);
        let publishing = AbortOnDropHandle::new(publishing);
        let filled = async {
            agent.control_listed().await;
            agent.publishing.filled().await;
        };
        if timeout(PATIENCE, filled).await.is_err() {
            return Err(ExplainError::Unlisted(unseen(&agent)));
        }
        let trials = Trials::new(&passes, &agent.router, &agent.publishing).await;
        Ok(Self {
            agent,
            passes,
            trials,
            planes,
            _publishing: publishing,
        })
    }

    /// Trials of a plan: with the claims that are known now, and with brakes.
    pub(super) async fn trials_of_plan(&self) -> Trials {
        let (router, publishing) = (&self.agent.router, &self.agent.publishing);
        let trials = Trials::new(&self.passes, router, publishing).await;
        trials.with_brakes(publishing)
    }

    /// What is wrong with the published resources of this agent.
    pub fn problems(&self) -> Vec<ResourceProblem> {
        let mut published = self.agent.publishing.objects();
        published.sort_by(|a, b| a.name().cmp(b.name()));
        let mut problems = Vec::new();
        for object in &published {
            let problem = |condition: Option<&str>, message: &str| ResourceProblem {
                name: object.name().to_owned(),
                condition: condition.map(str::to_owned),
                message: message.to_owned(),
            };
            if let Some(inactive) = Inactive::of(object, &self.agent, false) {
                problems.push(problem(None, &inactive.why));
            }
            problems.extend(
                untrue(object).map(|(condition, message)| problem(Some(condition), message)),
            );
        }
        problems
    }

    /// The published resources of a kind that do not run, and why, as sentences after a full stop.
    fn inactive(&self, kind: &str) -> String {
        let stored = self.agent.publishing.published.table().all();
        let inactive = stored.iter().filter_map(|(_, object)| {
            Inactive::of(object, &self.agent, false).filter(|one| one.is_of_kind(kind))
        });
        let told = inactive.map(|one| {
            let Inactive { name, why, .. } = one;
            format!(". The PublishedResource {name} is not active: {why}")
        });
        told.take(MOST_INACTIVE).collect()
    }

    /// The leader, according to the Lease.
    pub async fn leader(&self) -> Leader {
        let (namespace, name) = (
            &self.agent.options.namespace,
            &self.agent.options.agent_name,
        );
        let path =
            format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/syncagent.{name}");
        let reply = match self.planes.service.call(Call::get(path)).await {
            Ok(reply) => reply,
            Err(error) => return Leader::Unknown(error.to_string()),
        };
        // The clock of this machine may be wrong.
        let now = reply.time().unwrap_or_else(Timestamp::now);
        match reply.ok() {
            Ok(lease) => Leader::of(&lease, now),
            Err(refusal) if refusal.code == 404 => Leader::Missing,
            Err(refusal) => Leader::Unknown(refusal.to_string()),
        }
    }

    /// The warning that another agent was probably meant.
    pub fn other_agents(&self) -> Option<String> {
        cached_other_agents(&self.agent)
    }

    /// Explains the selected objects.
    pub async fn explain(
        &self,
        selection: &Selection,
        progress: &ObjectProgress,
    ) -> Result<Vec<Explained>, ExplainError> {
        // It takes a read of each copy that differs.
        let drift = match selection.name {
            Some(_) => DriftFinding::All,
            None => DriftFinding::AsConfigured,
        };
        let selected = self.selected(selection).await?;
        progress.begin(selected.len());
        let explained =
            futures::stream::iter(selected)
                .map(|(publication, id)| async move {
                    self.trials.explain(&publication, &id, drift).await
                })
                .buffered(TOGETHER)
                .inspect(|_| progress.step());
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
        let selected = self.select(selection, cluster.as_deref());
        match selected {
            Err(not_found @ ExplainError::NotFound { .. }) if cluster.is_none() => {
                let name = selection.name.as_deref().unwrap_or_default();
                Err(match self.of_nobody(selection, name).await {
                    Some(object) => ExplainError::NoCopy(object),
                    None => not_found,
                })
            }
            selected => selected,
        }
    }

    /// An object of this name on the service cluster that is no copy.
    async fn of_nobody(&self, selection: &Selection, name: &str) -> Option<String> {
        let running = self.agent.dispatch.running();
        for publication in running.values() {
            let (plan, kind) = (&publication.plan, &publication.local_kind);
            if !selection.is_of_kind(kind, &plan.local_resource) {
                continue;
            }
            let all = collection(kind, selection.namespace.as_deref(), &plan.local_resource);
            let selector = format!("metadata.name%3D{}", segment(name));
            let path = format!("{all}?fieldSelector={selector}&limit=1");
            let found = self.planes.service.ask(Call::get(path)).await.ok();
            let found = found.as_ref().map(|list| &list["items"][0]["metadata"]);
            if let Some(metadata) = found.filter(|metadata| metadata["name"] == name) {
                let namespace = metadata["namespace"].as_str();
                let namespace = namespace.map(|namespace| format!("{namespace}/"));
                let kind = &kind.kind;
                return Some(format!("{kind} {}{name}", namespace.unwrap_or_default()));
            }
        }
        None
    }

    /// The logical cluster of a workspace.
    pub(super) async fn cluster_of(&self, workspace: &str) -> Result<String, ExplainError> {
        let cluster = if !workspace.contains(':') && workspace != "root" {
            workspace.to_owned()
        } else {
            let found = in_workspace(&self.planes.kcp, workspace).await?;
            found.map_err(|source| ExplainError::Workspace {
                path: workspace.to_owned(),
                source: Box::new(source),
            })?
        };
        let running = self.agent.dispatch.running();
        let is_of = |object: &Object| object.label(marks::CLUSTER) == Some(&*cluster);
        let has_rest = |publication: &Arc<Publication>| {
            let states = publication.states().map(|states| states.all());
            let rest = states.into_iter().flatten().chain(publication.copies());
            rest.into_iter().any(|(_, object)| is_of(&object))
        };
        if !self.agent.workspaces.has_left(&cluster) || running.values().any(has_rest) {
            return Ok(cluster);
        }
        let bound = self.agent.workspaces.engaged_clusters();
        let bound = bound
            .iter()
            .map(|one| workspace_name(self.trials.path_of(one).as_deref(), one));
        Err(ExplainError::NotBound {
            asked: workspace.to_owned(),
            bound: first_of(bound.collect()),
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
            // Without a kind, the objects of workspaces are all there is.
            if selection.kind.is_some()
                && selection.is_of_kind(&publication.local_kind, &plan.local_resource)
            {
                has_kind = true;
                let copies = publication.copies().into_iter();
                let meant = copies
                    .filter(|(key, _)| selection.matches(key.namespace.as_deref(), &key.name));
                let remotes = meant.filter_map(|(_, copy)| Remote::read(&copy));
                let remotes = remotes
                    .filter(|remote| cluster.is_none_or(|cluster| cluster == remote.cluster));
                selected.extend(remotes.map(|remote| publication.subject_of(&remote)));
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
                inactive: self.inactive(&kind()),
            });
        }
        if let (true, Some(name)) = (selected.is_empty(), &selection.name) {
            return Err(ExplainError::NotFound {
                kind: kind(),
                name: name.clone(),
                inactive: self.inactive(&kind()),
            });
        }
        let with_publication = |id: SubjectId| {
            let publication = running.get(&id.publication)?;
            Some((Arc::clone(publication), id))
        };
        Ok(selected.into_iter().filter_map(with_publication).collect())
    }
}

impl Selection {
    /// Whether a kind is selected, by its kind or plural and perhaps its group.
    pub fn is_of_kind(&self, kind: &Gvk, plural: &str) -> bool {
        self.kind
            .as_deref()
            .is_none_or(|selected| is_of_kind(selected, kind, plural))
    }

    pub(super) fn matches(&self, namespace: Option<&str>, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
            && (self.namespace.is_none() || self.namespace.as_deref() == namespace)
    }
}

/// The kinds that were not listed, as text.
fn unseen(agent: &Agent) -> String {
    let running = agent.dispatch.running();
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

/// The changed published resources as they would be stored.
fn stand_ins(
    agent: &Agent,
    changed: &[Value],
) -> Result<BTreeMap<Arc<str>, Arc<Object>>, ExplainError> {
    let publishing = &agent.publishing;
    let mut planned = BTreeMap::new();
    for document in changed {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        let stored = publishing.stored(name);
        let object = Object::new(as_stored(document, stored.as_deref()))
            .map_err(|error| ExplainError::Unreadable(name.to_owned(), error.to_string()))?;
        if !publishing.selected(&object) {
            return Err(ExplainError::NotSelected(name.to_owned()));
        }
        planned.insert(name.into(), Arc::new(object));
    }
    Ok(planned)
}

/// A document as it would be stored with the mode `Sync`.
fn as_stored(document: &Value, stored: Option<&Object>) -> Value {
    let mut document = document.clone();
    if let Some(spec) = document["spec"].as_object_mut() {
        spec.remove("mode");
    }
    let Some(stored) = stored else {
        let mut new = document.clone();
        let name = &document["metadata"]["name"];
        new["metadata"]["uid"] = json!(format!("planned-{}", name.as_str().unwrap_or_default()));
        new["metadata"]["generation"] = json!(1);
        new["metadata"]["creationTimestamp"] = json!(Timestamp::now().to_string());
        return new;
    };
    let mut changed = stored.as_value().clone();
    let applied = stored.annotation(LAST_APPLIED);
    let applied: Value = applied
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let pairs = |document: &Value, field: &str| {
        let pairs = document["metadata"][field].as_object();
        pairs.cloned().unwrap_or_default()
    };
    for field in ["labels", "annotations"] {
        let mut merged = pairs(&changed, field);
        // As `kubectl apply` does.
        for key in pairs(&applied, field).keys() {
            merged.remove(key);
        }
        merged.extend(pairs(&document, field));
        changed["metadata"][field] = merged.into();
    }
    if changed["spec"] != document["spec"] {
        changed["spec"] = document["spec"].clone();
        let generation = changed["metadata"]["generation"].as_i64();
        changed["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_leads_depends_on_the_given_time() {
        let lease = json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T12:00:00.000000Z"}});
        let leads = |lease: &Value, now: &str| {
            matches!(
                Leader::of(lease, now.parse().unwrap()),
                Leader::Present { .. }
            )
        };
        assert!(leads(&lease, "2026-01-02T12:00:15Z"));
        assert!(leads(&lease, "2026-01-02T11:59:50Z"));
        assert!(!leads(&lease, "2026-01-02T12:00:20Z"));
        let left = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T12:00:00.000000Z"}});
        assert!(!leads(&left, "2026-01-02T12:00:01Z"));
    }
}
