//! Releases objects, on request and while an agent may run: their copies stay, and every mark of the agent is removed.
//!
//! An [`Explainer`] finds the objects and evaluates filters and pauses as the agent does. It writes nothing; the writes
//! have connections of their own. [`release`](crate::publish::release) has their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::explain::{ExplainError, Explainer, Selection};
use super::options::AgentOptions;
use super::orphans::{OrphansError, list, object};
use super::plan::{LISTED, listed};
use super::process::{AgentError, Connections};
use super::publication::{Publication, SubjectId, secret_kind};
use super::schemas::{Manifest, PUBLISHED_RESOURCES};
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::pause::Pause;
use crate::publish::related::RelatedEnds;
use crate::publish::release::{LiveObject, Marked, ReleaseWrite};
use hawser_runtime::cluster::connection::{Call, Connection};
use hawser_runtime::cluster::wire::{collection, segment};
use hawser_runtime::process::dedicated_thread::DedicatedThread;
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::{Found, Key, Owner, Scope, Seen, Store as _};
use kube_lang::object::{Gvk, Object};

/// How often an object that changes meanwhile is read.
const ATTEMPTS: usize = 2;

/// The reason why nothing can be released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Read(#[from] OrphansError),
    #[error(
        "the PublishedResource {0} exists: leave out its file, and set spec.synchronization.enabled: false in the stored one"
    )]
    Exists(String),
    #[error(
        "the PublishedResource {0} is not active: check its condition Ready, and add -f with its file if it was deleted"
    )]
    NotActive(String),
    #[error("the objects of the PublishedResource {name} are not completely known: {unlisted}")]
    Unlisted { name: String, unlisted: String },
}

/// An object of a workspace, with the published resources that concern it.
pub struct Releasable {
    pub object: Key,
    publications: Vec<(Arc<Publication>, SubjectId)>,
}

/// The result for one object.
#[derive(Debug, Default)]
pub struct Release {
    /// The writes that were made, or would be.
    pub writes: Vec<ReleaseWrite>,
    /// Recorded related originals that the workspace does not show: a finalizer on them stays.
    pub unseen: Vec<Key>,
    /// The reason why marks are left.
    pub problem: Option<String>,
}

/// Finds and releases objects on behalf of the agent with these options.
pub struct Releaser {
    explainer: Explainer,
    planes: Connections,
    /// Published resources of which no agent syncs objects: disabled or gone.
    idle: BTreeSet<String>,
    /// The states that this process deleted. The watch may still show them.
    forgotten: Mutex<BTreeSet<Arc<str>>>,
}

/// The answer to a write.
enum Sent {
    Done,
    /// The object is not as it was read.
    Changed,
}

impl Releaser {
    /// Lists everything that the agent watches. `gone` are `PublishedResource`s that no longer exist.
    pub async fn begin(options: AgentOptions, gone: &[Value]) -> Result<Self, ReleaseError> {
        let dedicated = DedicatedThread::start("apart").map_err(AgentError::DedicatedThread)?;
        let metrics = Arc::new(Metrics::new());
        let planes = Connections::connect(&options, &metrics, &Fence::always_open(), &dedicated)?;
        let mut stand_ins = gone.to_vec();
        let kind = Gvk::new("syncagent.kcp.io", "v1alpha1", "PublishedResource");
        for stored in list(&planes.service, &kind, PUBLISHED_RESOURCES, "").await? {
            let is_stored = |one: &Value| one["metadata"]["name"] == *stored.name();
            if gone.iter().any(is_stored) {
                return Err(ReleaseError::Exists(stored.name().to_owned()));
            }
            if options.selects(&stored) && !synchronizes(&stored) {
                let mut enabled = stored.into_value();
                if let Some(spec) = enabled["spec"].as_object_mut() {
                    spec.remove("synchronization");
                }
                stand_ins.push(enabled);
            }
        }
        let names = stand_ins.iter().map(|one| &one["metadata"]["name"]);
        let idle = names.filter_map(|name| name.as_str().map(str::to_owned));
        let idle = idle.collect();
        let explainer = Explainer::begin(options, &stand_ins).await?;
        let running = explainer.agent.dispatch.running();
        let publications: Vec<_> = running.values().cloned().collect();
        // What is not listed by then is an error below.
        let _ = timeout(LISTED, listed(&publications)).await;
        Ok(Self {
            explainer,
            planes,
            idle,
            forgotten: Mutex::default(),
        })
    }

    /// The selected objects, with those of which only a copy or a state is left, unless one is named.
    pub async fn find(
        &self,
        selection: &Selection,
        published: Option<&str>,
    ) -> Result<Vec<Releasable>, ReleaseError> {
        let running = self.explainer.agent.dispatch.running();
        let is_asked = |publication: &Publication| {
            published.is_none_or(|published| publication.plan.name == published)
        };
        if let Some(name) = published
            && !running.values().any(|publication| is_asked(publication))
        {
            return Err(ReleaseError::NotActive(name.to_owned()));
        }
        for publication in running.values().filter(|one| is_asked(one)) {
            let unlisted: Vec<_> = publication.unlisted().into_iter().collect();
            if !unlisted.is_empty() {
                return Err(ReleaseError::Unlisted {
                    name: publication.plan.name.clone(),
                    unlisted: unlisted.join("; "),
                });
            }
        }
        let cluster = match &selection.workspace {
            Some(workspace) => Some(self.explainer.cluster_of(workspace).await?),
            None => None,
        };
        let mut found = self.explainer.select(selection, cluster.as_deref())?;
        if selection.name.is_none() {
            for publication in running.values() {
                let left = self.left(publication).into_iter();
                let left = left.filter(|id| cluster.as_deref().is_none_or(|c| *id.cluster == *c));
                found.extend(left.map(|id| (Arc::clone(publication), id)));
            }
        }
        let mut objects: BTreeMap<Key, BTreeMap<SubjectId, Arc<Publication>>> = BTreeMap::new();
        for (publication, id) in found {
            let of_object = objects.entry(publication.anchor(&id)).or_default();
            of_object.insert(id, publication);
        }
        objects.retain(|_, publications| publications.values().any(|one| is_asked(one)));
        let objects = objects.into_iter().map(|(object, publications)| {
            let publications = publications.into_iter().map(|(id, one)| (one, id));
            Releasable {
                object,
                publications: publications.collect(),
            }
        });
        Ok(objects.collect())
    }

    /// The objects that a copy or a state of this agent names.
    fn left(&self, publication: &Publication) -> Vec<SubjectId> {
        let copies = publication.copies().into_iter();
        let copies = copies.filter(|(_, copy)| self.is_ours(copy));
        let copies = copies.filter_map(|(_, copy)| Remote::read(&copy));
        let states = publication.states().map(|states| states.all());
        let states = states.into_iter().flatten();
        let states = states.filter(|(_, state)| self.is_ours(state));
        let states = states.filter_map(|(_, state)| memory::primary_of(&state));
        let states = states.filter(|(_, kind)| *kind == *publication.remote_kind);
        let all = copies.chain(states.map(|(remote, _)| remote));
        all.map(|remote| SubjectId {
            publication: Arc::clone(&publication.plan.uid),
            cluster: remote.cluster.into(),
            namespace: remote.namespace.map(Into::into),
            name: remote.name.into(),
        })
        .collect()
    }

    fn is_ours(&self, object: &Object) -> bool {
        let agent = object.label(marks::AGENT_NAME);
        agent.is_none_or(|agent| agent == self.explainer.agent.options.agent_name)
    }

    /// Releases an object, or finds the writes that this takes.
    pub async fn release(&self, one: &Releasable, is_dry_run: bool) -> Release {
        let mut release = Release::default();
        for _ in 0..ATTEMPTS {
            match self.attempt(one, is_dry_run, &mut release).await {
                Ok(Sent::Done) => return release,
                Ok(Sent::Changed) => {}
                Err(problem) => {
                    release.problem = Some(problem);
                    return release;
                }
            }
        }
        release.problem = Some("it changes all the time: repeat the command".to_owned());
        release
    }

    async fn attempt(
        &self,
        one: &Releasable,
        is_dry_run: bool,
        release: &mut Release,
    ) -> Result<Sent, String> {
        let marked = self.look(one, release).await?;
        let writes = marked.writes();
        if writes.is_empty() {
            return Ok(Sent::Done);
        }
        self.check_unsynced(one, marked.object.as_ref()).await?;
        for write in writes {
            if !is_dry_run && matches!(self.send(&write).await?, Sent::Changed) {
                return Ok(Sent::Changed);
            }
            if let Some(state) = write.deleted_state().filter(|_| !is_dry_run) {
                self.forgotten.lock().insert(Arc::clone(state));
            }
            release.writes.push(write);
        }
        Ok(Sent::Done)
    }

    /// Reads everything live that may have marks because of an object.
    async fn look(&self, one: &Releasable, release: &mut Release) -> Result<Marked, String> {
        let agent = &self.explainer.agent;
        let (publication, id) = one.publications.first().ok_or("nothing publishes it")?;
        let (remote, plan) = (id.remote(), &publication.plan);
        let object = self.read(&one.object, &plan.remote_resource).await?;
        let service = &agent.sides.service;
        let remote_kind = &publication.remote_kind;
        let name = memory::secret_name(&remote, &remote_kind.api_version(), &remote_kind.kind);
        let state = Scope::new(service, &secret_kind(), "");
        let state = state.key(Some(&agent.options.namespace), &name);
        let state = self.read(&state, "secrets").await?;
        if state.as_ref().is_some_and(|one| !self.is_ours(&one.object)) {
            return Err(format!("the state Secret {name} is of another agent"));
        }
        let scope = Scope::new(service, &publication.local_kind, "");
        let Found::All(known) = agent.cache.find(&scope, &remote.marked()) else {
            return Err("the copies are not known".to_owned());
        };
        let mut copies = Vec::new();
        for (key, _) in known {
            let copy = self.read(&key, &plan.local_resource).await?;
            let is_own = |copy: &LiveObject| {
                let owner = marks::owner(&copy.object, &remote, &agent.options.agent_name);
                matches!(owner, Owner::Ours(_))
            };
            copies.extend(copy.filter(is_own));
        }
        let mut originals = Vec::new();
        release.unseen.clear();
        for (ends, finalizer) in self.held_originals(publication, &remote, state.as_ref()) {
            let (key, resource) = ends.source;
            match self.read(&key, &resource).await? {
                Some(original) => originals.push((original, finalizer)),
                None => release.unseen.push(key),
            }
        }
        Ok(Marked {
            originals,
            state,
            copies,
            object,
        })
    }

    /// The related originals that only this state records, each with the finalizer.
    fn held_originals(
        &self,
        publication: &Publication,
        remote: &Remote,
        state: Option<&LiveObject>,
    ) -> Vec<(RelatedEnds, String)> {
        let sides = &self.explainer.agent.sides;
        let ends_of = |state: &Object| {
            let links = memory::codec::copies(state).into_iter();
            let ends = links.filter_map(|(link, _)| RelatedEnds::read(&link, sides, remote));
            let held = ends.filter_map(|ends| {
                let claim = ends.claims().next()?;
                Some((claim, ends))
            });
            held.filter(|(_, ends)| ends.hold().is_some())
                .collect::<BTreeMap<_, _>>()
        };
        let Some(state) = state else {
            return Vec::new();
        };
        let mut held = ends_of(&state.object);
        let forgotten = self.forgotten.lock();
        let others = publication.states().map(|states| states.all());
        for (key, other) in others.into_iter().flatten() {
            let is_of_workspace = other.label(marks::CLUSTER) == Some(&*remote.cluster);
            if is_of_workspace && key != state.key && !forgotten.contains(&key.name) {
                for claim in ends_of(&other).keys() {
                    held.remove(claim);
                }
            }
        }
        let held = held.into_values();
        held.filter_map(|ends| Some((ends.clone(), ends.hold()?.to_owned())))
            .collect()
    }

    /// Fails if a running agent syncs the object, or might.
    async fn check_unsynced(
        &self,
        one: &Releasable,
        object: Option<&LiveObject>,
    ) -> Result<(), String> {
        for (publication, id) in &one.publications {
            let name = &publication.plan.name;
            if self.idle.contains(name) {
                self.check_idle(name).await?;
            } else if publication.is_stopped() {
                return Err(format!(
                    "the PublishedResource {name} has changed: repeat the command"
                ));
            } else if self.is_synced(publication, id, object)? {
                return Err(format!(
                    "the agent syncs it, because of the PublishedResource {name}: leave it out with spec.filter, \
                     disable spec.synchronization, or pause the PublishedResource or the object in both directions"
                ));
            }
        }
        Ok(())
    }

    /// Whether no agent syncs the objects of this published resource, as at the beginning.
    async fn check_idle(&self, name: &str) -> Result<(), String> {
        let path = format!("{PUBLISHED_RESOURCES}/{}", segment(name));
        match self.planes.service.ask(Call::get(path)).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            Err(error) => Err(format!("reading the PublishedResource {name}: {error}")),
            Ok(found) => match Object::new(found) {
                Ok(found) if !synchronizes(&found) => Ok(()),
                _ => Err(format!(
                    "the PublishedResource {name} is active again: disable spec.synchronization"
                )),
            },
        }
    }

    /// Whether a running agent writes for the object: it is neither left out nor paused in both directions.
    fn is_synced(
        &self,
        publication: &Publication,
        id: &SubjectId,
        object: Option<&LiveObject>,
    ) -> Result<bool, String> {
        let agent = &self.explainer.agent;
        let (now, compiled) = (Timestamp::now(), publication.compiled());
        let holds = |pause: &Pause| pause.only.is_none() && now < pause.until;
        let is_paused = publication.plan.pause.as_ref().is_some_and(holds);
        let Some(LiveObject { key, object, .. }) = object else {
            return Ok(!is_paused);
        };
        if object.in_deletion() {
            return Err(
                "it is in deletion, and the agent deletes its copy: disable spec.synchronization first"
                    .to_owned(),
            );
        }
        let of_consumer = || Pause::of_consumer(object, agent.options.longest_pause, now);
        if is_paused
            || compiled.consumers_pause()
                && of_consumer().is_ok_and(|pause| pause.as_ref().is_some_and(holds))
        {
            return Ok(false);
        }
        let namespace = key.namespace_key().filter(|_| compiled.needs_namespace());
        let namespace = match namespace.map(|key| agent.cache.get(&key)) {
            Some(Seen::Present(namespace)) => Some(namespace),
            Some(Seen::Absent | Seen::Unknown) => {
                return Err(format!("the namespace of {} is not known", id.name));
            }
            None => None,
        };
        Ok(compiled.left_out_by(object, namespace.as_deref()).is_none())
    }

    async fn read(&self, key: &Key, resource: &str) -> Result<Option<LiveObject>, String> {
        let failed = |why: String| format!("reading {key}: {why}");
        let reply = self.at(key)?.call(Call::get(path(key, resource))).await;
        let reply = reply.map_err(|error| failed(error.to_string()))?;
        if reply.status == 404 {
            return Ok(None);
        }
        if !reply.is_success() {
            return Err(failed(reply.refusal().to_string()));
        }
        let object = object(&reply.body, &key.kind);
        let object = object.ok_or_else(|| failed("the object is malformed".to_owned()))?;
        Ok(Some(LiveObject {
            key: key.clone(),
            resource: resource.to_owned(),
            object,
        }))
    }

    async fn send(&self, write: &ReleaseWrite) -> Result<Sent, String> {
        let path = path(&write.key, &write.resource);
        let call = match &write.patch {
            Some(patch) => Call::merge_patch(path, patch),
            None => {
                let preconditions = json!({"uid": write.uid, "resourceVersion": write.version});
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
                });
                Call::delete(path, &options)
            }
        };
        let failed = |why: String| format!("{} {}: {why}", write.verb(), write.key);
        let reply = self.at(&write.key)?.call(call).await;
        let reply = reply.map_err(|error| failed(error.to_string()))?;
        match reply.status {
            _ if reply.is_success() => Ok(Sent::Done),
            404 | 409 => Ok(Sent::Changed),
            _ => Err(failed(reply.refusal().to_string())),
        }
    }

    /// The connection for writes to the place of an object.
    fn at(&self, key: &Key) -> Result<Connection, String> {
        let agent = &self.explainer.agent;
        if key.side == agent.sides.service {
            return Ok(self.planes.service.clone());
        }
        // The explainer's own connection sends no writes.
        let endpoint = agent.workspaces.connection(&key.cluster).ok_or_else(|| {
            format!(
                "the workspace {} does not bind the API, so the finalizers in it are out of reach",
                key.cluster
            )
        })?;
        let connection = self.planes.kcp.at(&endpoint.url());
        connection.map_err(|error| format!("connecting to the workspace: {error}"))
    }
}

fn synchronizes(published: &Object) -> bool {
    // What cannot be read may be synced by an agent that can read it.
    Manifest::read(published.as_value()).map_or(true, |manifest| manifest.spec.synchronizes())
}

fn path(key: &Key, resource: &str) -> String {
    let all = collection(&key.kind, key.namespace.as_deref(), resource);
    format!("{all}/{}", segment(&key.name))
}
