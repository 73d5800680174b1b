//! What makes a set of logical clusters a kcp: workspaces and their types, exported and bound APIs,
//! permission claims, virtual workspaces.
//!
//! | module | what it knows |
//! |---|---|
//! | [`ids`], [`paths`], [`types`], [`conditions`], [`convert`], [`claims`] | the pure rules |
//! | [`definitions`], [`system`] | the kinds that kcp brings |
//! | [`tree`] | which cluster a path means |
//! | [`clusters`], [`workspaces`], [`exports`], [`bindings`], [`labels`] | the controllers |
//! | [`apis`] | admission to `apis.kcp.io` |
//! | [`bound`], [`views`], [`scopes`], [`router`] | who is served what, and where |

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
pub mod ids;
mod labels;
mod objects;
pub mod paths;
mod router;
mod scopes;
mod system;
pub mod tree;
pub mod types;
mod views;
mod workspaces;

#[cfg(test)]
mod tests;

pub use workspaces::{BaseUrl, schedule};

use super::catalog::{Resource, Scopes};
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

    /// Gives workspaces that wait for it their clusters, one transaction each time some do.
    pub fn schedule(&self) -> Result<(), Status> {
        self.store.write(|tx| schedule(tx, self.base_url()))?;
        Ok(())
    }

    /// Schedules workspaces as they come, for ever.
    pub async fn run(&self) {
        let mut revision = self.store.watch_revision();
        loop {
            revision.borrow_and_update();
            let waiting = self.store.read(workspaces::any_waiting);
            if waiting && let Err(status) = self.schedule() {
                tracing::error!(%status, "workspaces could not be scheduled");
            }
            if revision.changed().await.is_err() {
                return;
            }
        }
    }
}
