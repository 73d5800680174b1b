//! The bound workspaces, and the endpoint of each: slices name endpoints, and bindings at an endpoint name workspaces.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::bindings::{Binding, BindingChange, Bindings, has_bound};
use super::share::Share;
use crate::publish::pause::Pause;
use crate::publish::related::binding_kind;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, Coverage, TenantMark};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_runtime::controller::{SharedWatch, WatchRegistry, WatchSpec};
use kube_lang::object::{Gvk, Object};

/// The annotation with the workspace of an object.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

/// The workspaces of one export.
pub struct Workspaces {
    sides: Sides,
    cache: Arc<Cache>,
    watches: Arc<WatchRegistry>,
    /// The connection whose credentials lead to endpoints.
    slices: Connection,
    state: Mutex<WorkspacesState>,
}

/// The number of times that changes of bindings cause a retry of a workspace's objects,
const RETRIES: u32 = 8;
/// within this time. kcp changes a binding several times until a claim is applied.
const RETRY_WINDOW: Duration = Duration::from_secs(10);

/// Pauses by logical cluster and binding.
type PausedBindings = BTreeMap<(Arc<str>, Arc<str>), Pause>;

#[derive(Default)]
struct WorkspacesState {
    endpoints: BTreeMap<Arc<str>, Endpoint>,
    bindings: HashMap<Arc<str>, Bindings>,
    /// The pauses of whole workspaces, by endpoint.
    pauses: HashMap<Arc<str>, PausedBindings>,
    /// How often the objects of a workspace were retried because of its bindings, and since when.
    retried: HashMap<Arc<str>, (Instant, u32)>,
}

/// An endpoint that serves workspaces.
#[derive(Clone)]
pub struct Endpoint {
    pub url: Arc<str>,
    /// At the address itself.
    pub connection: Connection,
    bindings: Option<Arc<SharedWatch>>,
}

impl Endpoint {
    /// At all of its workspaces.
    pub fn everywhere(&self) -> Connection {
        self.connection.below("/clusters/*")
    }

    fn knows_bindings(&self) -> bool {
        let bindings = self.bindings.as_ref();
        bindings.is_some_and(|bindings| bindings.is_complete())
    }

    pub fn workspace(&self, cluster: &str) -> Connection {
        self.connection.below(&format!("/clusters/{cluster}"))
    }

    /// A feed of a kind in all workspaces of this endpoint, or in those of a share.
    pub fn wanted(
        &self,
        sides: &Sides,
        kind: &Arc<Gvk>,
        resource: &str,
        share: &Share,
    ) -> WatchSpec {
        let mark = TenantMark::Cluster(CLUSTER_ANNOTATION);
        WatchSpec {
            side: sides.kcp.clone(),
            kind: Arc::clone(kind),
            source: Arc::clone(&self.url),
            coverage: Coverage {
                partition: share.partition(mark, None),
                ..Coverage::default()
            },
            selection: Selection {
                connection: self.everywhere(),
                resource: resource.into(),
                namespace: None,
                query: None,
                clusters: Clusters::Annotation(CLUSTER_ANNOTATION),
                content: Content::Whole,
            },
        }
    }
}

/// A change of workspaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceChange {
    pub endpoints: bool,
    pub engaged: Vec<Arc<str>>,
    /// Its bindings are in deletion.
    pub leaving: Vec<Arc<str>>,
    /// Its pause is another one, or ended.
    pub paused: Vec<Arc<str>>,
    /// One of its bindings is another one, or ended: what was refused may be allowed now.
    pub rebound: Vec<Arc<str>>,
    pub disengaged: Vec<Arc<str>>,
}

impl Workspaces {
    pub fn new(
        sides: &Sides,
        cache: &Arc<Cache>,
        watches: &Arc<WatchRegistry>,
        slices: Connection,
    ) -> Self {
        Self {
            sides: sides.clone(),
            cache: Arc::clone(cache),
            watches: Arc::clone(watches),
            slices,
            state: Mutex::default(),
        }
    }

    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.state.lock().endpoints.values().cloned().collect()
    }

    pub fn engaged(&self) -> usize {
        let state = self.state.lock();
        state.bindings.values().map(Bindings::engaged).sum()
    }

    /// The workspaces that take part.
    pub fn engaged_clusters(&self) -> HashSet<Arc<str>> {
        let state = self.state.lock();
        let engaged = state.bindings.values().flat_map(Bindings::engaged_clusters);
        engaged.cloned().collect()
    }

    /// Whether a workspace is bound and not unbinding.
    pub fn is_bound(&self, cluster: &str) -> bool {
        let state = self.state.lock();
        let mut endpoints = state.bindings.values();
        endpoints.any(|bindings| bindings.is_bound(cluster))
    }

    /// Endpoints may serve other kinds any moment: the export has changed, or a binding of this one.
    pub fn expect(&self, source: Option<&Arc<str>>) {
        self.watches.expect(source);
    }

    /// The export was deleted or replaced. Watches of its objects stay open without events.
    pub fn doubt(&self) {
        for endpoint in self.state.lock().endpoints.keys() {
            self.watches.doubt(endpoint);
        }
    }

    /// The pauses that consumers have written on the bindings of a workspace.
    pub fn pauses(&self, cluster: &str) -> Vec<Pause> {
        let state = self.state.lock();
        let pauses = state.pauses.values().flatten();
        let of_cluster = pauses.filter(|((of, _), _)| **of == *cluster);
        of_cluster.map(|(_, pause)| pause.clone()).collect()
    }

    /// Whether a workspace no longer binds the API, according to all endpoints.
    pub fn has_left(&self, cluster: &str) -> bool {
        let state = self.state.lock();
        let mut endpoints = state.endpoints.values();
        !state.endpoints.is_empty()
            && endpoints.all(Endpoint::knows_bindings)
            && !state
                .bindings
                .values()
                .any(|bindings| bindings.are_in(cluster))
    }

    /// Whether the slice has no endpoints, as long as no workspace binds the API.
    pub fn are_nowhere(&self) -> bool {
        self.state.lock().endpoints.is_empty()
    }

    /// The connection to a workspace; `None` if it is not bound.
    pub fn connection(&self, cluster: &str) -> Option<Connection> {
        let source = self.cache.source(&self.sides.kcp, cluster)?;
        let state = self.state.lock();
        Some(state.endpoints.get(&source)?.workspace(cluster))
    }

    /// Stores the current slice; `None` if it is gone.
    pub fn slice(&self, slice: Option<&Object>) -> WorkspaceChange {
        let urls = slice.map(endpoint_urls).unwrap_or_default();
        let mut moved = WorkspaceChange::default();
        let mut state = self.state.lock();
        let vanished = state.endpoints.keys().filter(|url| !urls.contains(&***url));
        for url in vanished.cloned().collect::<Vec<_>>() {
            info!(endpoint = %url, "an endpoint is no longer served");
            state.endpoints.remove(&url);
            state.pauses.remove(&url);
            let bindings = state.bindings.remove(&url).unwrap_or_default();
            for cluster in bindings.into_engaged() {
                self.leave(&state, &cluster, &mut moved);
            }
            moved.endpoints = true;
        }
        for url in urls {
            if state.endpoints.contains_key(&*url) {
                continue;
            }
            match self.endpoint(&url) {
                Ok(endpoint) => {
                    info!(endpoint = url, "an endpoint is served");
                    state.endpoints.insert(url.as_str().into(), endpoint);
                    moved.endpoints = true;
                }
                Err(problem) => warn!(endpoint = url, problem, "an endpoint cannot be used"),
            }
        }
        moved
    }

    fn endpoint(&self, url: &str) -> Result<Endpoint, String> {
        let connection = self.slices.at(url).map_err(|error| error.to_string())?;
        let endpoint = Endpoint {
            url: url.into(),
            connection,
            bindings: None,
        };
        let bindings = endpoint.wanted(&self.sides, &binding_kind(), "apibindings", &Share::All);
        Ok(Endpoint {
            bindings: Some(self.watches.watch(bindings)),
            ..endpoint
        })
    }

    /// Handles the event of a binding at the endpoint `source`.
    pub fn binding(&self, source: &Arc<str>, change: &Change) -> WorkspaceChange {
        let mut state = self.state.lock();
        let mut moved = WorkspaceChange::default();
        if !state.endpoints.contains_key(source) {
            return moved;
        }
        let cluster = &change.key.cluster;
        if state.note_pause(source, change) {
            moved.paused.push(Arc::clone(cluster));
        }
        let bindings = state.bindings.entry(Arc::clone(source)).or_default();
        let binding = match change.what {
            ChangeType::Gone => Binding::Gone,
            _ if change.object.in_deletion() => Binding::Leaving,
            _ if has_bound(change.object.as_value()) => Binding::Ready,
            _ => Binding::Pending,
        };
        match bindings.observe(cluster, &change.key.name, binding) {
            BindingChange::Same if change.what == ChangeType::Initial => {}
            BindingChange::Same if !state.may_retry(cluster) => {}
            BindingChange::Same => moved.rebound.push(Arc::clone(cluster)),
            BindingChange::Leaving => {
                info!(workspace = %cluster, "a workspace is unbinding");
                moved.leaving.push(Arc::clone(cluster));
            }
            BindingChange::Engaged => {
                info!(workspace = %cluster, "a workspace is bound");
                self.cache.route(&self.sides.kcp, cluster, source);
                moved.engaged.push(Arc::clone(cluster));
            }
            BindingChange::Disengaged => {
                self.leave(&state, cluster, &mut moved);
            }
        }
        moved
    }

    /// A workspace is no longer served by an endpoint. If it has moved, another endpoint serves it already.
    fn leave(&self, state: &WorkspacesState, cluster: &Arc<str>, moved: &mut WorkspaceChange) {
        let mut others = state.bindings.iter();
        let other = others.find(|(_, bindings)| bindings.takes_part(cluster));
        if let Some((url, _)) = other {
            info!(workspace = %cluster, endpoint = %url, "a workspace moved to another endpoint");
            self.cache.route(&self.sides.kcp, cluster, url);
            moved.engaged.push(Arc::clone(cluster));
        } else {
            info!(workspace = %cluster, "a workspace is no longer bound; keeping its copies");
            self.cache.unroute(&self.sides.kcp, cluster);
            moved.disengaged.push(Arc::clone(cluster));
        }
    }
}

impl WorkspacesState {
    /// Whether what was refused for a workspace is retried because of a binding: consumers may change these at any rate.
    fn may_retry(&mut self, cluster: &Arc<str>) -> bool {
        let now = Instant::now();
        self.retried
            .retain(|_, (since, _)| now - *since < RETRY_WINDOW);
        let (_, times) = self.retried.entry(Arc::clone(cluster)).or_insert((now, 0));
        *times += 1;
        *times <= RETRIES
    }

    /// Notes the pause on a binding at an endpoint; returns whether it is another one.
    fn note_pause(&mut self, source: &Arc<str>, change: &Change) -> bool {
        let key = (
            Arc::clone(&change.key.cluster),
            Arc::clone(&change.key.name),
        );
        let pause = match change.what {
            ChangeType::Gone => Ok(None),
            ChangeType::Initial | ChangeType::Changed => Pause::of(&change.object),
        };
        let pause = pause.unwrap_or_else(|problem| {
            let (workspace, binding) = &key;
            debug!(%workspace, %binding, %problem, "ignoring the pause of a workspace");
            None
        });
        let pauses = self.pauses.entry(Arc::clone(source)).or_default();
        let before = match &pause {
            Some(pause) => pauses.insert(key, pause.clone()),
            None => pauses.remove(&key),
        };
        before != pause
    }
}

pub(super) fn endpoint_urls(slice: &Object) -> BTreeSet<String> {
    let endpoints = slice
        .root()
        .get("status")
        .and_then(|status| status.get("endpoints"));
    let urls = endpoints.and_then(Value::as_array).into_iter().flatten();
    let url = |endpoint: &Value| {
        Some(
            endpoint
                .get("url")?
                .as_str()?
                .trim_end_matches('/')
                .to_owned(),
        )
    };
    urls.filter_map(url).filter(|url| !url.is_empty()).collect()
}

#[cfg(test)]
mod tests;
