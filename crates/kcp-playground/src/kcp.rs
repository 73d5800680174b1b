//! The parts that make logical clusters a kcp: workspaces and their types, exported and bound APIs, permission claims,
//! virtual workspaces.
//!
//! | module | content |
//! |---|---|
//! | [`ids`], [`paths`], [`types`], [`conditions`], [`convert`], [`claims`] | the pure rules |
//! | [`definitions`], `system` | the kinds of kcp itself |
//! | [`tree`] | the cluster of a path |
//! | `home`, `waiting` | home workspaces; clusters that wait for initializers and terminators |
//! | `clusters`, `workspaces`, `type_status`, `exports`, `bindings`, `labels`, `root_ca` | the controllers |
//! | `apis` | admission to `apis.kcp.io` |
//! | `established` | when APIs begin to be served, and simulated delays |
//! | `bound`, `views`, `scopes`, `router` | which APIs are served to whom, and where |

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

mod apis;
mod bindings;
mod bootstrap;
mod bound;
pub(crate) mod claims;
mod clusters;
pub(crate) mod conditions;
pub(crate) mod convert;
pub(crate) mod definitions;
mod established;
mod exports;
mod home;
pub(crate) mod ids;
mod labels;
mod objects;
pub(crate) mod paths;
mod root_ca;
mod router;
mod scopes;
mod system;
pub(crate) mod tree;
mod type_status;
pub(crate) mod types;
mod views;
mod waiting;
mod workspaces;

#[cfg(test)]
mod tests;

pub(crate) use workspaces::BaseUrl;

use established::{Delays, Later};

use super::api::Api;
use super::catalog::{Resource, Scopes};
use super::rest::Rest;
use super::server::Router;
use super::status::Status;
use super::store::{Name, Store, Tx};

/// The kinds whose changes affect catalogs, for [`super::store::StoreOptions::definitions`].
pub(crate) fn definitions_of_apis() -> HashSet<(Name, Name)> {
    [
        ("apis.kcp.io", "apiexports"),
        ("apis.kcp.io", "apibindings"),
        ("apis.kcp.io", "apiresourceschemas"),
        ("core.kcp.io", "logicalclusters"),
    ]
    .into_iter()
    .map(|(group, resource)| (group.into(), resource.into()))
    .collect()
}

/// A kcp over a store.
pub(crate) struct Kcp {
    store: Arc<Store>,
    scopes: Arc<dyn Scopes>,
    base_url: BaseUrl,
    delays: Arc<Delays>,
    shards: NonZeroUsize,
    labels: Arc<labels::ClaimLabelSettler>,
}

/// The settings of a kcp.
pub(crate) struct KcpOptions {
    /// Has to be known before [`Kcp::bootstrap`].
    pub base_url: BaseUrl,
    /// The CA certificate of the server, in PEM.
    pub certificate: String,
    /// The delay until a new API is established.
    pub delays: Duration,
    /// The number of shards that logical clusters are spread over.
    pub shards: NonZeroUsize,
}

impl Kcp {
    /// Adds the controllers of kcp to the store.
    pub(crate) fn new(
        store: Arc<Store>,
        builtin: Vec<Arc<Resource>>,
        options: KcpOptions,
    ) -> Result<Self, Status> {
        let KcpOptions {
            base_url,
            certificate,
            delays,
            shards,
        } = options;
        let delays = Arc::new(Delays::new(delays));
        let labels = Arc::new(labels::ClaimLabelSettler::new(Arc::clone(&delays)));
        let scopes = Arc::new(scopes::KcpScopes::new(builtin)?);
        store.add_settler(Arc::new(exports::ExportSettler {
            base_url: Arc::clone(&base_url),
            shards,
        }));
        store.add_settler(Arc::new(bindings::BindingSettler {
            delays: Arc::clone(&delays),
        }));
        store.add_settler(Arc::new(workspaces::WorkspaceLifecycle));
        store.add_settler(Arc::new(type_status::WorkspaceTypeSettler {
            base_url: Arc::clone(&base_url),
        }));
        store.add_settler(Arc::new(root_ca::RootCa { certificate }));
        // The last one, so that it labels the writes of the others in the same round.
        store.add_settler(labels.clone());
        Ok(Self {
            store,
            scopes,
            base_url,
            delays,
            shards,
            labels,
        })
    }

    pub(crate) fn scopes(&self) -> Arc<dyn Scopes> {
        Arc::clone(&self.scopes)
    }

    /// The API: `rest`, which has to use the scopes of this kcp, and home workspaces.
    pub(crate) fn api(&self, rest: Rest) -> impl Api + use<> {
        home::HomeApi {
            rest,
            store: Arc::clone(&self.store),
            base_url: Arc::clone(&self.base_url),
        }
    }

    pub(crate) fn router(&self) -> Box<dyn Router> {
        Box::new(router::KcpRouter {
            store: Arc::clone(&self.store),
            shards: self.shards,
        })
    }

    fn base_url(&self) -> &str {
        self.base_url.get().map_or("", String::as_str)
    }

    /// Creates `root` unless it exists.
    pub(crate) fn bootstrap(&self, tx: &mut Tx<'_>) -> Result<(), Status> {
        bootstrap::bootstrap(tx, self.base_url())
    }

    /// Creates the clusters of new workspaces, in a transaction each, so that a failure affects one workspace only.
    pub(crate) fn schedule(&self) {
        for key in self.store.read(workspaces::waiting) {
            let scheduled = self
                .store
                .write(|tx| workspaces::schedule(tx, &key, self.base_url()));
            if let Err(status) = scheduled {
                tracing::error!(%status, workspace = %key.name(), "a workspace could not be scheduled");
            }
        }
    }

    /// Runs delayed work of controllers, and never returns.
    pub(crate) async fn run(&self) {
        tokio::join!(self.schedule_all(), self.catch_up());
    }

    async fn catch_up(&self) {
        loop {
            let later = self.delays.next().await;
            let done = self.store.write(|tx| match &later {
                Later::Establish(key) => established::finish(tx, key),
                Later::Label(cluster) => self.labels.relabel_cluster(tx, cluster),
            });
            if let Err(status) = done {
                tracing::error!(%status, "what was due could not be done");
            }
        }
    }

    async fn schedule_all(&self) {
        let mut revision = self.store.watch_revision();
        loop {
            revision.borrow_and_update();
            if !self.delays.are_none() {
                tokio::time::sleep(self.delays.short()).await;
            }
            self.schedule();
            if revision.changed().await.is_err() {
                return;
            }
        }
    }
}
