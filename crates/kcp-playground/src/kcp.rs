//! What makes a set of logical clusters a kcp: workspaces and their types, exported and bound APIs,
//! permission claims, virtual workspaces.
//!
//! | module | what it knows |
//! |---|---|
//! | [`ids`], [`paths`], [`types`], [`conditions`], [`convert`], [`claims`] | the pure rules |
//! | [`definitions`], `system` | the kinds that kcp brings |
//! | [`tree`] | which cluster a path means |
//! | `home`, `waiting` | everybody's own workspace; clusters that wait for initializers and terminators |
//! | `clusters`, `workspaces`, `type_status`, `exports`, `bindings`, `labels` | the controllers |
//! | `apis` | admission to `apis.kcp.io` |
//! | `bound`, `views`, `scopes`, `router` | who is served what, and where |

use std::collections::HashSet;
use std::sync::Arc;

mod apis;
mod bindings;
mod bootstrap;
mod bound;
pub mod claims;
mod clusters;
pub mod conditions;
pub mod convert;
pub mod definitions;
mod exports;
mod home;
pub mod ids;
mod labels;
mod objects;
pub mod paths;
mod router;
mod scopes;
mod system;
pub mod tree;
mod type_status;
pub mod types;
mod views;
mod waiting;
mod workspaces;

#[cfg(test)]
mod tests;

pub use workspaces::BaseUrl;

use super::api::Api;
use super::catalog::{Resource, Scopes};
use super::rest::Rest;
use super::server::Router;
use super::status::Status;
use super::store::{Name, Store, Tx};

/// What changes catalogs here, for [`super::store::StoreOptions::definitions`].
pub fn definitions_of_apis() -> HashSet<(Name, Name)> {
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
pub struct Kcp {
    store: Arc<Store>,
    scopes: Arc<dyn Scopes>,
    base_url: BaseUrl,
}

impl Kcp {
    /// Adds the controllers of kcp to the store. `base_url` is to be known before [`Self::bootstrap`].
    pub fn new(
        store: Arc<Store>,
        builtin: Vec<Arc<Resource>>,
        base_url: BaseUrl,
    ) -> Result<Self, Status> {
        let scopes = Arc::new(scopes::KcpScopes::new(builtin)?);
        store.add_settler(Arc::new(exports::Exports {
            base_url: Arc::clone(&base_url),
        }));
        store.add_settler(Arc::new(bindings::Bindings));
        store.add_settler(Arc::new(workspaces::Lifecycle));
        store.add_settler(Arc::new(type_status::Types {
            base_url: Arc::clone(&base_url),
        }));
        // Last, so that what the others write is labelled in the same round.
        store.add_settler(Arc::new(labels::Labels::default()));
        Ok(Self {
            store,
            scopes,
            base_url,
        })
    }

    pub fn scopes(&self) -> Arc<dyn Scopes> {
        Arc::clone(&self.scopes)
    }

    /// What answers requests: `rest`, which is to have the scopes of this kcp, and home workspaces.
    pub fn api(&self, rest: Rest) -> impl Api + use<> {
        home::HomeApi {
            rest,
            store: Arc::clone(&self.store),
            base_url: Arc::clone(&self.base_url),
        }
    }

    pub fn router(&self) -> Box<dyn Router> {
        Box::new(router::KcpRouter {
            store: Arc::clone(&self.store),
        })
    }

    fn base_url(&self) -> &str {
        self.base_url.get().map_or("", String::as_str)
    }

    /// Makes `root`, unless it is there.
    pub fn bootstrap(&self, tx: &mut Tx<'_>) -> Result<(), Status> {
        bootstrap::bootstrap(tx, self.base_url())
    }

    /// Gives workspaces that wait for it their clusters, in a transaction each: one that fails holds up
    /// no other.
    pub fn schedule(&self) {
        for key in self.store.read(workspaces::waiting) {
            let scheduled = self
                .store
                .write(|tx| workspaces::schedule(tx, &key, self.base_url()));
            if let Err(status) = scheduled {
                tracing::error!(%status, workspace = %key.name(), "a workspace could not be scheduled");
            }
        }
    }

    /// Schedules workspaces as they come, for ever.
    pub async fn run(&self) {
        let mut revision = self.store.watch_revision();
        loop {
            revision.borrow_and_update();
            self.schedule();
            if revision.changed().await.is_err() {
                return;
            }
        }
    }
}
