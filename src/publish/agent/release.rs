//! Releases objects, on request and while an agent may run: their copies stay, and every mark of the agent is removed.
//!
//! An [`Explainer`] finds the objects and evaluates filters and pauses as the agent does. It writes nothing; the writes
//! have connections of their own. [`release`](crate::publish::release) has their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::explain::{ExplainError, Explainer};
use super::feeds::{published_resource_kind, secret_kind};
use super::inactive::{Inactive, synchronizes};
use super::options::AgentOptions;
use super::orphans::{OrphansError, list, object};
use super::plan::{LISTED, listed};
use super::process::{AgentError, Connections};
use super::publication::Publication;
use super::schemas::PUBLISHED_RESOURCES;
use super::subject::SubjectId;
use crate::publish::compiled::AgentIdentity;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::related::{ObjectClaim, RelatedEnds, binding_kind, show_all};
use crate::publish::release::{LiveObject, Marked, ReleaseWrite};
use crate::publish::rules::Sides;
use hawser_runtime::cluster::connection::{Call, CallClass, Connection};
use hawser_runtime::cluster::wire::{collection, segment};
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::{Found, Key, Owner, Scope, Store as _};
use kube_lang::object::Object;

mod checks;
mod finding;

/// How often an object that changes meanwhile is read.
const ATTEMPTS: usize = 5;

/// The reason why nothing can be released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Read(Box<OrphansError>),
    #[error(
        "the PublishedResource {0} exists: leave out its file, and set spec.synchronization.enabled: false in the stored one"
    )]
    Exists(String),
    #[error(
        "the PublishedResource {0} does not exist: check its name, or add -f with its file if it was deleted"
    )]
    Unknown(String),
    #[error("the PublishedResource {name} is not active, so its objects are not known: {why}")]
    NotActive { name: String, why: String },
    #[error("the objects of the PublishedResource {name} are not completely known: {unlisted}")]
    Unlisted { name: String, unlisted: String },
    #[error(
        "{kind} {name} is the name of {} objects: {}. Select one by the logical cluster and the namespace of the object, with --workspace and -n, or by the group of its kind, as in KIND.GROUP",
        .candidates.len(), .candidates.join("; ")
    )]
    Ambiguous {
        kind: String,
        name: String,
        candidates: Vec<String>,
    },
}

impl From<OrphansError> for ReleaseError {
    fn from(error: OrphansError) -> Self {
        Self::Read(Box::new(error))
    }
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
    /// Objects that keep the finalizer, and the reason.
    pub kept: BTreeMap<Key, &'static str>,
    /// Recorded related originals that the workspace may hide.
    pub unseen: BTreeSet<Key>,
    /// The reason why marks are left.
    pub problem: Option<String>,
}

/// Finds and releases objects on behalf of the agent with these options.
pub struct Releaser {
    explainer: Explainer,
    planes: Connections,
    identity: AgentIdentity,
    /// Whether the caller says that no agent runs.
    is_agent_stopped: bool,
    /// Published resources of which no agent syncs objects: disabled or gone.
    idle: BTreeSet<String>,
    /// Published resources whose objects are not known.
    inactive: Vec<Inactive>,
    /// The states that record a related original with a finalizer of the agent.
    holders: BTreeMap<ObjectClaim, BTreeSet<Arc<str>>>,
    /// The states that this process deleted, or would have. The watch may still show them.
    forgotten: Mutex<BTreeSet<Arc<str>>>,
}

/// The answer to a write.
enum Sent {
    /// The version of the object afterwards.
    Done(Option<String>),
    /// The object is not as it was read.
    Changed,
}

impl Releaser {
    /// Lists everything that the agent watches. `gone` are `PublishedResource`s that no longer exist.
    pub async fn begin(
        options: AgentOptions,
        gone: &[Value],
        is_agent_stopped: bool,
    ) -> Result<Self, ReleaseError> {
        let metrics = Arc::new(Metrics::new());
        let planes = Connections::of_command(&options, &metrics, &Fence::always_open())?;
        let kind = published_resource_kind();
        let stored = list(&planes.service, &kind, PUBLISHED_RESOURCES, "").await?;
        let mut stand_ins: Vec<Value> = gone.iter().cloned().map(enabled).collect();
        for one in &stored {
            let is_stored = |gone: &Value| gone["metadata"]["name"] == *one.name();
            if gone.iter().any(is_stored) {
                return Err(ReleaseError::Exists(one.name().to_owned()));
            }
            if options.selects(one) && !synchronizes(one) {
                stand_ins.push(enabled(one.as_value().clone()));
            }
        }
        let names = stand_ins.iter().map(|one| &one["metadata"]["name"]);
        let idle = names.filter_map(|name| name.as_str().map(str::to_owned));
        let idle = idle.collect();
        let identity = AgentIdentity {
            name: options.agent_name.clone(),
            namespace: options.namespace.clone(),
        };
        let explainer = Explainer::begin(options, &stand_ins).await?;
        let running = explainer.agent.dispatch.running();
        let publications: Vec<_> = running.values().cloned().collect();
        // What is not listed by then is an error below.
        let _ = timeout(LISTED, listed(&publications)).await;
        let gone: Vec<_> = gone
            .iter()
            .filter_map(|one| Object::new(one.clone()).ok())
            .collect();
        let stored = stored.iter().map(|one| (one, false));
        let all = stored.chain(gone.iter().map(|one| (one, true)));
        let inactive =
            all.filter_map(|(one, is_gone)| Inactive::of(one, &explainer.agent, is_gone));
        let inactive = inactive.collect();
        let states = publications.first().and_then(|one| one.states());
        let mut holders: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (key, state) in states.map(|states| states.all()).into_iter().flatten() {
            for claim in held_originals(&state).into_keys() {
                holders
                    .entry(claim)
                    .or_default()
                    .insert(Arc::clone(&key.name));
            }
        }
        Ok(Self {
            explainer,
            planes,
            identity,
            is_agent_stopped,
            idle,
            inactive,
            holders,
            forgotten: Mutex::default(),
        })
    }

    /// The warning that another agent was probably meant.
    pub fn other_agents(&self) -> Option<String> {
        self.explainer.other_agents()
    }

    /// Releases an object, or finds the writes that this takes.
    pub async fn release(&self, one: &Releasable, is_dry_run: bool) -> Release {
        let mut release = Release::default();
        for _ in 0..ATTEMPTS {
            match self.attempt(one, is_dry_run, &mut release).await {
                Ok(Sent::Done(_)) => return release,
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
        let writes = marked.writes(&self.identity);
        if writes.is_empty() {
            return Ok(Sent::Done(None));
        }
        if let Some(copy) = marked.copy_without_state(&self.identity) {
            let namespace = &self.identity.namespace;
            return Err(format!(
                "{copy} is its copy, but the namespace {namespace} has no state Secret of it: check --namespace. If the \
                 state is lost, an agent that syncs the object writes it again"
            ));
        }
        if let Some(original) = release.unseen.first() {
            return Err(format!(
                "the workspace may hide {original}, and only the state Secret leads to its finalizer: accept the claim \
                 for it without a selector, and repeat the command"
            ));
        }
        let object = marked.object.as_ref();
        self.check_unsynced(one, object).await?;
        // Nothing is deleted before every server accepts the rest.
        for write in &writes {
            if let Sent::Changed = self.send(write, CallClass::DryRun, None).await? {
                return Ok(Sent::Changed);
            }
        }
        let mut versions: BTreeMap<Key, String> = BTreeMap::new();
        for write in writes {
            if !is_dry_run {
                // A pause may end meanwhile.
                self.check_unsynced(one, object).await?;
                let version = versions.get(&write.key).map(String::as_str);
                match self.send(&write, CallClass::Work, version).await? {
                    Sent::Changed => return Ok(Sent::Changed),
                    Sent::Done(version) => {
                        versions.extend(version.map(|version| (write.key.clone(), version)));
                    }
                }
            }
            if let Some(state) = write.deleted_state() {
                self.forgotten.lock().insert(Arc::clone(state));
            }
            release.writes.push(write);
        }
        Ok(Sent::Done(None))
    }

    /// Reads everything live that may have marks because of an object.
    async fn look(&self, one: &Releasable, release: &mut Release) -> Result<Marked, String> {
        let mut marked = Marked::default();
        release.unseen.clear();
        release.kept.clear();
        let mut resources = one
            .publications
            .iter()
            .map(|(one, _)| &one.plan.remote_resource);
        let resource = resources.next().ok_or("nothing publishes it")?;
        marked.object = self.read(&one.object, resource).await?;
        let (mut states, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        let mut has_other = false;
        for (publication, id) in &one.publications {
            let remote = id.remote();
            let state = self.state_key(publication, &remote);
            if states.insert(state.name.clone()) {
                marked.states.extend(self.read(&state, "secrets").await?);
            }
            if !kinds.insert((*publication.local_kind).clone()) {
                continue;
            }
            for key in self.known_copies(publication, &remote)? {
                let Some(copy) = self.read(&key, &publication.plan.local_resource).await? else {
                    continue;
                };
                let labels = remote.marked();
                match marks::owner(&copy.object, &remote, &labels, &self.identity.name) {
                    Owner::Ours(_) => {
                        let is_new = |known: &LiveObject| known.object.uid() != copy.object.uid();
                        if marked.copies.iter().all(is_new) {
                            marked.copies.push(copy);
                        }
                    }
                    Owner::Other(_) | Owner::Nobody => {
                        has_other |= !self.is_ours(&copy.object);
                    }
                }
            }
        }
        if let Some(other) = marked
            .states
            .iter()
            .find(|state| !self.is_ours(&state.object))
        {
            return Err(format!("{} is of another agent", other.key));
        }
        let held = marked
            .states
            .iter()
            .flat_map(|state| held_originals(&state.object));
        for (claim, ends) in held.collect::<BTreeMap<_, _>>() {
            let (Some(finalizer), (key, resource)) = (ends.hold(), &ends.source) else {
                continue;
            };
            if self.is_held_by_others(&claim, &states) {
                release.kept.insert(key.clone(), "another object needs it");
                continue;
            }
            match self.read(key, resource).await? {
                None if self.is_gone(key, resource).await? => {}
                None => {
                    release.unseen.insert(key.clone());
                }
                Some(original) if self.is_published(&original, finalizer).await? => {
                    release.kept.insert(key.clone(), "it is synced itself");
                }
                Some(original) => marked.originals.push((original, finalizer.to_owned())),
            }
        }
        let is_held = marked
            .object
            .as_ref()
            .filter(|one| one.object.has_finalizer(marks::FINALIZER));
        if let Some(object) = is_held {
            let claim = ObjectClaim::held(&object.key, marks::FINALIZER);
            let why = if has_other {
                Some("another agent syncs it")
            } else if self.is_held_by_others(&claim, &states) {
                Some("another object needs it")
            } else if !marked.is_ours(&self.identity) {
                Some("this agent has neither a state nor a copy of it")
            } else {
                None
            };
            marked.is_held = why.is_some();
            release
                .kept
                .extend(why.map(|why| (object.key.clone(), why)));
        }
        Ok(marked)
    }

    fn state_key(&self, publication: &Publication, remote: &Remote) -> Key {
        let kind = &publication.remote_kind;
        let name = memory::secret_name(remote, &kind.api_version(), &kind.kind);
        let scope = Scope::new(&self.explainer.agent.sides.service, &secret_kind(), "");
        scope.key(Some(&self.identity.namespace), &name)
    }

    /// The copies of an object that the watch shows, of any agent.
    fn known_copies(&self, publication: &Publication, remote: &Remote) -> Result<Vec<Key>, String> {
        let agent = &self.explainer.agent;
        let scope = Scope::new(&agent.sides.service, &publication.local_kind, "");
        match agent.cache.find(&scope, &remote.marked()) {
            Found::All(known) => Ok(known.into_iter().map(|(key, _)| key).collect()),
            Found::Unknown => Err("the copies are not known".to_owned()),
        }
    }

    fn is_ours(&self, object: &Object) -> bool {
        let agent = object.label(marks::AGENT_NAME);
        agent.is_none_or(|agent| agent == self.identity.name)
    }

    /// Whether a state other than these needs the finalizer of an original.
    fn is_held_by_others(&self, claim: &ObjectClaim, own: &BTreeSet<Arc<str>>) -> bool {
        let forgotten = self.forgotten.lock();
        let mut holders = self.holders.get(claim).into_iter().flatten();
        holders.any(|holder| !own.contains(holder) && !forgotten.contains(holder))
    }

    /// Whether an original that was not found is not only hidden by the selector of a claim. The bindings are read after
    /// the original: whoever withdraws a claim changes the binding first.
    async fn is_gone(&self, key: &Key, resource: &str) -> Result<bool, String> {
        let path = collection(&binding_kind(), None, "apibindings");
        let bindings = list(&self.at(key)?, &binding_kind(), &path, "").await;
        let bindings = bindings.map_err(|error| format!("reading the bindings: {error}"))?;
        Ok(show_all(&bindings, &key.kind.group, resource))
    }

    /// Whether an original is itself an object that the agent, or another one, syncs with this finalizer.
    async fn is_published(&self, original: &LiveObject, finalizer: &str) -> Result<bool, String> {
        if finalizer != marks::FINALIZER {
            return Ok(false);
        }
        let kind = &original.key.kind;
        let remote = Remote::of(&original.object, &original.key.cluster);
        for publication in self.explainer.agent.dispatch.running().values() {
            let published = &publication.remote_kind;
            if (&published.group, &published.kind) != (&kind.group, &kind.kind) {
                continue;
            }
            let state = self.state_key(publication, &remote);
            if self.forgotten.lock().contains(&state.name) {
                continue;
            }
            if self.read(&state, "secrets").await?.is_some()
                || !self.known_copies(publication, &remote)?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(self
            .inactive
            .iter()
            .any(|one| one.may_publish(&kind.group, &kind.kind)))
    }

    async fn read(&self, key: &Key, resource: &str) -> Result<Option<LiveObject>, String> {
        let failed = |why: String| format!("reading {key}: {why}");
        let reply = self.at(key)?.call(Call::get(path(key, resource))).await;
        let reply = reply.map_err(|error| failed(error.to_string()))?;
        if reply.status == 404 && *reply.refusal().name == *key.name {
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

    /// Sends a write. `version` is that of the object after an earlier write of this release.
    async fn send(
        &self,
        write: &ReleaseWrite,
        class: CallClass,
        version: Option<&str>,
    ) -> Result<Sent, String> {
        let (path, body) = (path(&write.key, &write.resource), write.body(version));
        let call = if write.patch.is_some() {
            Call::merge_patch(path, &body)
        } else {
            Call::delete(path, &body)
        };
        let failed = |why: String| format!("{} {}: {why}", write.verb(), write.key);
        let reply = self.at(&write.key)?.call(call.class(class)).await;
        let reply = reply.map_err(|error| failed(error.to_string()))?;
        match reply.status {
            _ if reply.is_success() => {
                let stored = object(&reply.body, &write.key.kind);
                let version = stored.and_then(|one| one.resource_version().map(str::to_owned));
                Ok(Sent::Done(version))
            }
            404 if *reply.refusal().name == *write.key.name => Ok(Sent::Changed),
            409 => Ok(Sent::Changed),
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

/// The related originals that a state records with a finalizer of the agent.
fn held_originals(state: &Object) -> BTreeMap<ObjectClaim, RelatedEnds> {
    let remote = Remote {
        cluster: state.label(marks::CLUSTER).unwrap_or_default().to_owned(),
        namespace: None,
        name: String::new(),
    };
    let sides = Sides::default();
    let links = memory::codec::copies(state).into_iter();
    let ends = links.filter_map(|(link, _)| RelatedEnds::read(&link, &sides, &remote));
    let held = ends.filter_map(|ends| {
        let claim = ObjectClaim::held(&ends.source.0, ends.hold()?);
        Some((claim, ends))
    });
    held.collect()
}

fn path(key: &Key, resource: &str) -> String {
    let all = collection(&key.kind, key.namespace.as_deref(), resource);
    format!("{all}/{}", segment(&key.name))
}

/// The published resource with synchronization enabled, so that its filters and objects are known.
fn enabled(mut published: Value) -> Value {
    if let Some(spec) = published["spec"].as_object_mut() {
        spec.remove("synchronization");
    }
    published
}
