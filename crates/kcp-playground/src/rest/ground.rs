//! Where a write looks things up: in its transaction, or ahead of it.
//!
//! Transactions take turns. What takes long and changes nothing is done before the turn comes, on what
//! the store says at that time, and counts only if the transaction finds everything as it was.

use std::sync::Arc;

use super::Rest;
use crate::catalog::{Catalog, Scope};
use crate::status::Status;
use crate::store::{Read, Store, Tx};

#[derive(Clone, Copy)]
pub(super) enum Ground<'a> {
    Inside(&'a Tx<'a>),
    /// Nothing is held while it is looked at: two looks can find two states.
    Ahead(&'a Store),
}

impl Ground<'_> {
    /// To be asked without holding anything in between.
    pub(super) fn each(&self) -> &dyn Read {
        match self {
            Self::Inside(tx) => *tx,
            Self::Ahead(store) => *store,
        }
    }

    /// What has to be seen of one state.
    pub(super) fn read<T>(self, f: impl FnOnce(&dyn Read) -> T) -> T {
        match self {
            Self::Inside(tx) => f(tx),
            Self::Ahead(store) => store.read(f),
        }
    }
}

impl Rest {
    pub(super) fn catalog(
        &self,
        ground: Ground<'_>,
        scope: &Scope,
    ) -> Result<Arc<Catalog>, Status> {
        ground.read(|read| self.scopes.catalog(read, scope))
    }
}
