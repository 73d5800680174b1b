//! Watches of the objects that placements select.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use hawser_placement::admission::KindScope;
use hawser_placement::resources::ApiFilter;
use hawser_placement::selection::{Hub as SelectionHub, SelectionError, Settings, select};
use hawser_placement::types::placement::Placement;
use hawser_placement::types::policy::{ResourceSelectorTerm, SelectionScope};
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::Content;
use hawser_runtime::controller::{SharedWatch, WatchRegistry};
use hawser_sync::{Seen, Store as _};
use kube_lang::object::{Gvk, Object};
use serde_json::Value;

use super::catalog::Catalog;
use super::objects::{self, HUB};

/// The kinds that may be selected.
#[derive(Clone, Debug)]
pub struct SelectionRules {
    pub filter: ApiFilter,
    pub skipped_namespaces: Vec<String>,
    pub hub_runs_workloads: bool,
}

/// The watches of selected kinds.
pub struct Selectable {
    hub: Connection,
    cache: Arc<Cache>,
    watches: Arc<WatchRegistry>,
    rules: SelectionRules,
    state: RwLock<SelectableState>,
}

#[derive(Default)]
struct SelectableState {
    catalog: Arc<Catalog>,
    watched: HashMap<Gvk, Arc<SharedWatch>>,
}

impl Selectable {
    pub fn new(
        hub: &Connection,
        cache: &Arc<Cache>,
        watches: &Arc<WatchRegistry>,
        rules: SelectionRules,
    ) -> Self {
        Self {
            hub: hub.clone(),
            cache: Arc::clone(cache),
            watches: Arc::clone(watches),
            rules,
            state: RwLock::default(),
        }
    }

    /// Sets the served kinds. Returns false if they are the same as before.
    pub fn learn(&self, mut catalog: Catalog) -> bool {
        let mut state = self.state.write();
        catalog.keep_unknown(&state.catalog);
        let is_new = *state.catalog != catalog;
        state.catalog = Arc::new(catalog);
        is_new
    }

    /// Watches the kinds that are selected, and no others. Each selector says whether its placement has a namespace.
    pub fn follow(&self, selectors: &[(bool, ResourceSelectorTerm)]) {
        let mut state = self.state.write();
        let catalog = Arc::clone(&state.catalog);
        let wanted = self.wanted(&catalog, selectors);
        state.watched.retain(|kind, _| wanted.contains_key(kind));
        for (kind, resource) in wanted {
            state.watched.entry(kind).or_insert_with_key(|kind| {
                let spec = objects::watch(&self.hub, &HUB, kind.clone(), &resource, Content::Whole);
                self.watches.watch(spec)
            });
        }
    }

    /// The kinds to be watched, each with its resource.
    fn wanted(
        &self,
        catalog: &Catalog,
        selectors: &[(bool, ResourceSelectorTerm)],
    ) -> HashMap<Gvk, String> {
        let mut wanted = HashMap::new();
        let mut add = |kind: &Gvk| {
            let of = catalog.get(kind).filter(|of| of.is_watchable);
            if let Some(of) = of.filter(|_| self.rules.filter.admits(kind)) {
                wanted.insert(kind.clone(), of.resource.clone());
            }
        };
        for (is_near, term) in selectors {
            add(&Gvk::new(&term.group, &term.version, &term.kind));
            if term.kind == "Endpoints" {
                add(&Gvk::new("", "v1", "Service"));
            }
            let scope = term.selection_scope.unwrap_or_default();
            if !is_near && term.is_namespace() && scope == SelectionScope::NamespaceWithResources {
                catalog.namespaced().for_each(&mut add);
            }
        }
        wanted
    }

    pub fn scope(&self, kind: &Gvk) -> KindScope {
        self.state.read().catalog.scope(kind)
    }

    /// The resource of a kind.
    pub fn resource(&self, kind: &Gvk) -> Option<String> {
        let state = self.state.read();
        state.catalog.get(kind).map(|of| of.resource.clone())
    }

    /// The first of these kinds whose server did not answer since the process started.
    pub fn first_unknown(&self, kinds: impl IntoIterator<Item = Gvk>) -> Option<Gvk> {
        let state = self.state.read();
        if state.catalog.knows_all() {
            return None;
        }
        kinds
            .into_iter()
            .find(|kind| state.catalog.is_unknown(kind))
    }

    /// The resources that a placement selects now.
    pub fn select(&self, placement: &Placement) -> Result<Vec<Value>, SelectionError> {
        let state = self.state.read();
        let hub = KnownHub {
            cache: &self.cache,
            state: &state,
        };
        let settings = Settings {
            filter: &self.rules.filter,
            skipped_namespaces: &self.rules.skipped_namespaces,
            hub_runs_workloads: self.rules.hub_runs_workloads,
        };
        select(placement, &hub, &settings)
    }
}

/// The hub as the caches have it.
struct KnownHub<'a> {
    cache: &'a Cache,
    state: &'a SelectableState,
}

impl SelectionHub for KnownHub<'_> {
    fn scope(&self, kind: &Gvk) -> KindScope {
        self.state.catalog.scope(kind)
    }

    fn objects(&self, kind: &Gvk, namespace: Option<&str>) -> Option<Vec<Arc<Object>>> {
        let watch = self
            .state
            .watched
            .get(kind)
            .filter(|watch| watch.is_complete())?;
        let keys = watch.table().keys_of("", namespace);
        let mut objects = Vec::with_capacity(keys.len());
        for key in keys {
            match self.cache.get(&key) {
                Seen::Present(object) => objects.push(object),
                Seen::Absent => {}
                Seen::Unknown => return None,
            }
        }
        Some(objects)
    }

    fn namespaced_kinds(&self) -> Vec<Gvk> {
        self.state.catalog.namespaced().cloned().collect()
    }
}
