//! Orphans: objects on the service cluster of workspaces that no longer bind the API. They are listed and removed on
//! request, whether or not an agent is running.
//!
//! An agent's orphans are the copies and states with its name, and the related copies that its states record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::feeds::secret_kind;
use super::options::AgentOptions;
use super::place::{PlaceError, check_place, first_of, other_agents};
use super::process::{AgentError, Connections};
use super::schemas::{Manifest, PUBLISHED_RESOURCES};
use super::startup::SLICES;
use super::workspaces::{CLUSTER_ANNOTATION, endpoint_urls};
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::related::{RelatedEnds, binding_kind};
use crate::publish::rules::Sides;
use crate::publish::types::AdoptedOnDelete;
use hawser_runtime::cluster::connection::{
    Call, CallError, ConnectError, Connection, REQUEST_TIMEOUT, RequestError,
};
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError};
use hawser_runtime::cluster::document;
use hawser_runtime::cluster::wire::collection;
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::CopyRecord;
use kube_lang::object::{Gvk, Object};

/// The page size of lists.
const PAGE: usize = 500;
/// The bindings are read again before a deletion if they were read longer ago than this.
const FRESH: Duration = Duration::from_secs(1);

/// The reason why orphans cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum OrphansError {
    #[error(transparent)]
    AgentIdentity(#[from] AgentError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(
        "no workspace with the logical cluster {asked:?} binds the API, and no copy is of it; bound workspaces: {bound}"
    )]
    NotBound { asked: String, bound: String },
    #[error("reading {what}")]
    Read {
        what: String,
        #[source]
        source: RequestError,
    },
    #[error("connecting to the endpoint {url}")]
    Endpoint {
        url: String,
        #[source]
        source: ConnectError,
    },
    #[error(
        "the APIExportEndpointSlice {0} has no endpoints, so the bound workspaces are unknown: check that it names the right APIExport, and that a workspace binds it"
    )]
    NoEndpoints(String),
    #[error("{what} cannot be read: the server returned a malformed object")]
    NoObject { what: String },
    #[error("the PublishedResource {name} is invalid: {problem}")]
    Invalid { name: String, problem: String },
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error("the kind {kind} of group {group:?} is not served: its copies cannot be listed")]
    NotServed { group: String, kind: String },
}

/// The sort of an orphan. Removed in this order, because a state records the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    RelatedCopy,
    Copy,
    State,
}

/// An object of the service cluster that was created for a workspace that has left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// The logical cluster.
    pub workspace: String,
    pub sort: Sort,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    path: String,
    uid: String,
    version: String,
}

/// The orphans that exist.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub orphans: Vec<Orphan>,
    /// Copies without a state in workspaces that bind the API: their objects are gone, or a copy was duplicated with
    /// its labels. They are listed and never removed.
    pub without_state: Vec<Orphan>,
    /// Adopted objects of workspaces that have left, which the policy leaves where they are. They are listed and never
    /// removed, and their states stay.
    pub adopted: Vec<Orphan>,
    /// The number of workspaces that bind the API.
    pub bound: usize,
    /// The warning that another agent was probably meant.
    pub other_agents: Option<String>,
}

/// The fate of an orphan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// Its deletion was requested, and a foreign finalizer keeps it.
    InDeletion,
    /// Its workspace binds the API again, or another orphan of it could not be removed.
    Left,
    Failed(String),
}

/// Finds orphans on behalf of the agent with these options.
pub struct Search {
    options: AgentOptions,
    planes: Connections,
}

impl Search {
    pub fn new(options: AgentOptions) -> Result<Self, AgentError> {
        let metrics = Arc::new(Metrics::new());
        let planes = Connections::of_command(&options, &metrics, &Fence::always_open())?;
        Ok(Self { options, planes })
    }

    /// The orphans of all workspaces, or of one.
    pub async fn find(&self, workspace: Option<&str>) -> Result<Found, OrphansError> {
        check_place(&self.planes, &self.options).await?;
        // The copies are read before the bindings, so that a workspace that binds meanwhile counts as bound.
        let (copies, others) = self.copies().await?;
        let states = self.states().await?;
        let bound = self.bound().await?;
        if let Some(asked) = workspace
            && !bound.contains(asked)
            && copies.iter().all(|(_, copy, _)| copy.workspace != asked)
            && states.iter().all(|(workspace, _)| workspace != asked)
        {
            return Err(OrphansError::NotBound {
                asked: asked.to_owned(),
                bound: first_of(bound.into_iter().collect()),
            });
        }
        let has_none = copies.is_empty() && states.is_empty();
        let other_agents = other_agents(&self.options.agent_name, &others).filter(|_| has_none);
        let is_asked = |cluster: &str| workspace.is_none_or(|only| only == cluster);
        let has_left = |cluster: &str| !bound.contains(cluster) && is_asked(cluster);
        let told: BTreeSet<_> = states.iter().map(|(_, state)| whose(state)).collect();
        let (mut orphans, mut without_state) = (Vec::new(), Vec::new());
        let (mut adopted, mut kept) = (Vec::new(), BTreeSet::new());
        for (whose, copy, is_released) in copies {
            if has_left(&copy.workspace) && is_released {
                kept.insert(whose);
                adopted.push(copy);
            } else if has_left(&copy.workspace) {
                orphans.push(copy);
            } else if is_asked(&copy.workspace) && !told.contains(&whose) {
                without_state.push(copy);
            }
        }
        without_state.sort();
        for (workspace, state) in states {
            if has_left(&workspace) && !kept.contains(&whose(&state)) {
                orphans.extend(self.recorded_copies(&workspace, &state).await?);
                let path = collection(&secret_kind(), state.namespace(), "secrets");
                orphans.push(orphan(Sort::State, workspace, &path, &state));
            }
        }
        orphans.sort();
        // Several objects may share one related copy.
        orphans.dedup_by(|a, b| a.path == b.path);
        adopted.sort();
        Ok(Found {
            orphans,
            without_state,
            adopted,
            bound: bound.len(),
            other_agents,
        })
    }

    /// Removes orphans in the state in which they were found. Nothing is removed of a workspace that binds the API
    /// again.
    pub async fn remove(
        &self,
        orphans: &[Orphan],
        mut told: impl FnMut(&Orphan, &Removal),
    ) -> Result<(), OrphansError> {
        let mut spared = self.bound().await?;
        let mut read = Instant::now();
        for orphan in orphans {
            // Deletions take their time, and a workspace may bind the API again meanwhile.
            if read.elapsed() > FRESH {
                spared.extend(self.bound().await?);
                read = Instant::now();
            }
            let removal = if spared.contains(&orphan.workspace) {
                Removal::Left
            } else {
                self.delete(orphan).await
            };
            // The record of a workspace's copies stays as long as any of them does.
            if removal != Removal::Removed {
                spared.insert(orphan.workspace.clone());
            }
            told(orphan, &removal);
        }
        Ok(())
    }

    async fn delete(&self, orphan: &Orphan) -> Removal {
        let preconditions = json!({"uid": orphan.uid, "resourceVersion": orphan.version});
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
        });
        let call = Call::delete(&orphan.path, &options);
        match self.planes.service.call(call).await {
            Ok(reply) if reply.status == 404 => Removal::Removed,
            Ok(reply) if !reply.is_success() => Removal::Failed(reply.refusal().to_string()),
            Ok(reply) if is_in_deletion(&reply.body) => Removal::InDeletion,
            Ok(_) => Removal::Removed,
            Err(error) => Removal::Failed(error.to_string()),
        }
    }

    /// The workspaces that have a binding, ready or not.
    async fn bound(&self) -> Result<BTreeSet<String>, OrphansError> {
        let slice = &self.options.slice;
        let what = format!("the APIExportEndpointSlice {slice}");
        let call = Call::get(format!("{SLICES}/{slice}"));
        let found = self.planes.kcp.ask(call).await;
        let found = found.map_err(|source| OrphansError::Read {
            what: what.clone(),
            source,
        })?;
        let found = Object::new(found).map_err(|_| OrphansError::NoObject { what })?;
        let urls = endpoint_urls(&found);
        if urls.is_empty() {
            return Err(OrphansError::NoEndpoints(slice.clone()));
        }
        let mut bound = BTreeSet::new();
        for url in urls {
            let endpoint = self.planes.kcp.at(&url);
            let endpoint = endpoint.map_err(|source| OrphansError::Endpoint {
                url: url.clone(),
                source,
            })?;
            let path = collection(&binding_kind(), None, "apibindings");
            let bindings = list(&endpoint.below("/clusters/*"), &binding_kind(), &path, "").await?;
            let clusters = bindings
                .iter()
                .filter_map(|one| one.annotation(CLUSTER_ANNOTATION));
            bound.extend(clusters.map(str::to_owned));
        }
        Ok(bound)
    }

    /// The copies of all published kinds, and whether the policy leaves them where they are. If there are none, also the
    /// names of the agents that have some.
    async fn copies(&self) -> Result<(Vec<FoundCopy>, BTreeSet<String>), OrphansError> {
        let service = &self.planes.service;
        let discovery = Discovery::new(service.clone());
        let kind = Gvk::new("syncagent.kcp.io", "v1alpha1", "PublishedResource");
        let mut kinds = BTreeMap::new();
        for published in list(service, &kind, PUBLISHED_RESOURCES, "").await? {
            let manifest = Manifest::read(published.as_value());
            let manifest = manifest.map_err(|problem| OrphansError::Invalid {
                name: published.name().to_owned(),
                problem,
            })?;
            let resource = &manifest.spec.resource;
            let policy = manifest.spec.safety().adopted_on_delete;
            let releases = policy.unwrap_or_default() == AdoptedOnDelete::Release;
            let kind = (resource.api_group.clone(), resource.kind.clone());
            *kinds.entry(kind).or_default() |= releases;
        }
        let (mut copies, mut others) = (Vec::new(), BTreeSet::new());
        for ((group, name), releases) in kinds {
            let kind = discovery.kind(&group, &name).await?;
            let not_served = || OrphansError::NotServed {
                group: group.clone(),
                kind: name.clone(),
            };
            let kind = kind.ok_or_else(not_served)?;
            let gvk = Gvk::new(&group, &kind.preferred, &name);
            let path = collection(&gvk, None, &kind.plural);
            for copy in list(service, &gvk, &path, &self.of_agent(marks::CLUSTER)).await? {
                if let Some(Remote { cluster, .. }) = Remote::read(&copy) {
                    let path = collection(&gvk, copy.namespace(), &kind.plural);
                    let is_released: bool = releases && copy.annotation(marks::ADOPTED).is_some();
                    let found = orphan(Sort::Copy, cluster, &path, &copy);
                    copies.push((whose(&copy), found, is_released));
                }
            }
            if copies.is_empty() {
                let all = format!("&labelSelector={}", marks::CLUSTER.replace('/', "%2F"));
                let all = list(service, &gvk, &path, &all).await?;
                let agents = all.iter().filter_map(|copy| copy.label(marks::AGENT_NAME));
                others.extend(agents.map(str::to_owned));
            }
        }
        Ok((copies, others))
    }

    /// The states of this agent, with their workspaces.
    async fn states(&self) -> Result<Vec<(String, Object)>, OrphansError> {
        let kind = secret_kind();
        let path = collection(&kind, Some(&self.options.namespace), "secrets");
        let query = self.of_agent(marks::OBJECT_STATE);
        let states = list(&self.planes.service, &kind, &path, &query).await?;
        let of = |state: Object| Some((state.label(marks::CLUSTER)?.to_owned(), state));
        Ok(states.into_iter().filter_map(of).collect())
    }

    /// The related copies on the service cluster that a state records, as they were created.
    async fn recorded_copies(
        &self,
        workspace: &str,
        state: &Object,
    ) -> Result<Vec<Orphan>, OrphansError> {
        let sides = Sides::default();
        let remote = Remote {
            cluster: workspace.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let mut found = Vec::new();
        for (link, copy) in memory::codec::copies(state) {
            let CopyRecord::Created { key, uid } = copy else {
                continue;
            };
            let Some(ends) = RelatedEnds::read(&link, &sides, &remote) else {
                continue;
            };
            if key.side != sides.service {
                continue;
            }
            let kind = &key.kind;
            let path = collection(kind, key.namespace.as_deref(), &ends.target.1);
            let what = format!("{path}/{}", key.name);
            let reply = self.planes.service.call(Call::get(&*what)).await;
            let object = match reply {
                Ok(reply) if reply.status == 404 => continue,
                Ok(reply) if reply.is_success() => object(&reply.body, kind),
                Ok(reply) => {
                    let source = reply.refusal().into();
                    return Err(OrphansError::Read { what, source });
                }
                Err(error) => {
                    let source = error.into();
                    return Err(OrphansError::Read { what, source });
                }
            };
            let object = object.ok_or(OrphansError::NoObject { what })?;
            if object.uid() == Some(&uid) {
                found.push(orphan(
                    Sort::RelatedCopy,
                    workspace.to_owned(),
                    &path,
                    &object,
                ));
            }
        }
        Ok(found)
    }

    /// A query for objects of this agent that have a label.
    fn of_agent(&self, label: &str) -> String {
        let selector = format!("{}={},{label}", marks::AGENT_NAME, self.options.agent_name);
        let selector = selector
            .replace('/', "%2F")
            .replace('=', "%3D")
            .replace(',', "%2C");
        format!("&labelSelector={selector}")
    }
}

/// The owner of a copy, the copy, and whether the policy leaves it where it is.
type FoundCopy = (OwnerLabels, Orphan, bool);

/// The labels that name the object of a copy or of a state.
type OwnerLabels = [Option<String>; 3];

fn whose(object: &Object) -> OwnerLabels {
    [marks::CLUSTER, marks::NAMESPACE_HASH, marks::NAME_HASH]
        .map(|label| object.label(label).map(str::to_owned))
}

/// Orphans by workspace and sort.
pub fn counted(orphans: &[Orphan]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for orphan in orphans {
        *counts.entry(&*orphan.workspace).or_default() += 1;
    }
    counts
}

fn orphan(sort: Sort, workspace: String, path: &str, object: &Object) -> Orphan {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Orphan {
        workspace,
        sort,
        kind: object.kind().to_owned(),
        namespace: object.namespace().map(str::to_owned),
        name: object.name().to_owned(),
        path: format!("{path}/{}", object.name()),
        uid: text(object.uid()),
        version: text(object.resource_version()),
    }
}

/// All objects of a list, page by page and item by item.
pub(super) async fn list(
    at: &Connection,
    kind: &Gvk,
    path: &str,
    query: &str,
) -> Result<Vec<Object>, OrphansError> {
    let what = || path.to_owned();
    let failed = |source| OrphansError::Read {
        what: what(),
        source,
    };
    let broken = |error: CallError| failed(error.into());
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let call = Call::get(format!("{path}?limit={PAGE}{query}{next}"));
        let mut page = at.page(call, REQUEST_TIMEOUT).await.map_err(failed)?;
        while let Some(item) = page.item().await.map_err(broken)? {
            let object = object(&item, kind);
            objects.push(object.ok_or_else(|| OrphansError::NoObject { what: what() })?);
        }
        let token = page.end().map_err(broken)?.next;
        if token.is_empty() {
            return Ok(objects);
        }
        next = format!("&continue={token}");
    }
}

/// An object as the server sent it, even if it is nested too deeply to be read whole.
pub(super) fn object(text: &[u8], kind: &Gvk) -> Option<Object> {
    let text = std::str::from_utf8(text).ok()?;
    document::object(text, kind).ok()
}

fn is_in_deletion(object: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Deleted {
        metadata: DeletedMetadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct DeletedMetadata {
        deletion_timestamp: Option<String>,
        finalizers: Vec<String>,
    }
    let read = serde_json::from_slice::<Deleted>(object);
    read.is_ok_and(|Deleted { metadata }| {
        metadata.deletion_timestamp.is_some() && !metadata.finalizers.is_empty()
    })
}
