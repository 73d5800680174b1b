//! Which workspaces take part, and where each is served: slices name endpoints, and bindings at an
//! endpoint name workspaces.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tracing::{info, warn};

use super::bindings::{Binding, Bindings, Engagement};
use super::feeds::{Feeds, Wanted, Watched};
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Change, Coverage, What};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use kube_lang::object::{Gvk, Object};

/// The annotation that says of which workspace an object is.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

/// The workspaces of one export.
pub struct Workspaces {
    sides: Sides,
    cache: Arc<Cache>,
    feeds: Arc<Feeds>,
    /// Whose credentials lead to endpoints.
    slices: Connection,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    endpoints: BTreeMap<Arc<str>, Endpoint>,
    bindings: HashMap<Arc<str>, Bindings>,
}

/// A place that serves workspaces.
#[derive(Clone)]
pub struct Endpoint {
    pub url: Arc<str>,
    /// At the address itself.
    pub connection: Connection,
    bindings: Option<Arc<Watched>>,
}

impl Endpoint {
    /// All of its workspaces at once.
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

    /// A feed of a kind as all workspaces of this endpoint show it.
    pub fn wanted(&self, sides: &Sides, kind: &Arc<Gvk>, resource: &str) -> Wanted {
        Wanted {
            side: sides.kcp.clone(),
            kind: Arc::clone(kind),
            source: Arc::clone(&self.url),
            coverage: Coverage::default(),
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

/// What became different about workspaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub endpoints: bool,
    pub engaged: Vec<Arc<str>>,
    /// What bound the API is in deletion there.
    pub leaving: Vec<Arc<str>>,
    pub disengaged: Vec<Arc<str>>,
}

pub fn binding_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new("apis.kcp.io", "v1alpha1", "APIBinding"))
}

impl Workspaces {
    pub fn new(sides: &Sides, cache: &Arc<Cache>, feeds: &Arc<Feeds>, slices: Connection) -> Self {
        Self {
            sides: sides.clone(),
            cache: Arc::clone(cache),
            feeds: Arc::clone(feeds),
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

    /// Whether a workspace takes part, and is not about to end that.
    pub fn is_bound(&self, cluster: &str) -> bool {
        let state = self.state.lock();
        let mut endpoints = state.bindings.values();
        endpoints.any(|bindings| bindings.is_bound(cluster))
    }

    /// Endpoints may serve other kinds any moment: the export has changed, or a binding of this one.
    pub fn expect(&self, source: Option<&Arc<str>>) {
        self.feeds.expect(source);
    }

    /// Whether a workspace has nothing to do with the API any more, as far as all endpoints tell.
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

    /// Where a workspace is served; none while it does not take part.
    pub fn connection(&self, cluster: &str) -> Option<Connection> {
        let source = self.cache.source(&self.sides.kcp, cluster)?;
        let state = self.state.lock();
        Some(state.endpoints.get(&source)?.workspace(cluster))
    }

    /// Takes the slice as it is now; none where it is gone.
    pub fn slice(&self, slice: Option<&Object>) -> Moved {
        let urls = slice.map(endpoint_urls).unwrap_or_default();
        let mut moved = Moved::default();
        let mut state = self.state.lock();
        let vanished = state.endpoints.keys().filter(|url| !urls.contains(&***url));
        for url in vanished.cloned().collect::<Vec<_>>() {
            info!(endpoint = %url, "an endpoint is no longer served");
            state.endpoints.remove(&url);
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
        let bindings = endpoint.wanted(&self.sides, &binding_kind(), "apibindings");
        Ok(Endpoint {
            bindings: Some(self.feeds.watch(bindings)),
            ..endpoint
        })
    }

    /// Takes an event of a binding at the endpoint that `source` names.
    pub fn binding(&self, source: &Arc<str>, change: &Change) -> Moved {
        let mut state = self.state.lock();
        let mut moved = Moved::default();
        if !state.endpoints.contains_key(source) {
            return moved;
        }
        let cluster = &change.key.cluster;
        let bindings = state.bindings.entry(Arc::clone(source)).or_default();
        let binding = match change.what {
            What::Gone => Binding::Gone,
            _ if change.object.in_deletion() => Binding::Leaving,
            _ if is_ready(&change.object) => Binding::Ready,
            _ => Binding::Pending,
        };
        match bindings.heard(cluster, &change.key.name, binding) {
            Engagement::Same => {}
            Engagement::Leaving => {
                info!(cluster = %cluster, "a workspace is about to take part no longer");
                moved.leaving.push(Arc::clone(cluster));
            }
            Engagement::Engaged => {
                info!(cluster = %cluster, "a workspace takes part");
                self.cache.route(&self.sides.kcp, cluster, source);
                moved.engaged.push(Arc::clone(cluster));
            }
            Engagement::Disengaged => {
                self.leave(&state, cluster, &mut moved);
            }
        }
        moved
    }

    /// A workspace is no longer served by an endpoint. Where it has moved, another one serves it
    /// already.
    fn leave(&self, state: &State, cluster: &Arc<str>, moved: &mut Moved) {
        let mut others = state.bindings.iter();
        let other = others.find(|(_, bindings)| bindings.takes_part(cluster));
        if let Some((url, _)) = other {
            info!(cluster = %cluster, endpoint = %url, "a workspace is served elsewhere");
            self.cache.route(&self.sides.kcp, cluster, url);
            moved.engaged.push(Arc::clone(cluster));
        } else {
            info!(cluster = %cluster, "a workspace no longer takes part; copies are kept");
            self.cache.unroute(&self.sides.kcp, cluster);
            moved.disengaged.push(Arc::clone(cluster));
        }
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

fn is_ready(binding: &Object) -> bool {
    let conditions = binding
        .root()
        .get("status")
        .and_then(|status| status.get("conditions"));
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| condition["type"] == *"Ready" && condition["status"] == *"True")
}

#[cfg(test)]
mod tests;
