//! The state that a write reads: within its transaction, or before it.
//!
//! Transactions take turns. Slow work without changes is done before the turn, on the state at that time, and counts
//! only if the transaction finds the same state.

use std::sync::Arc;

use super::Rest;
use crate::catalog::{Catalog, Scope};
use crate::status::Status;
use crate::store::{Read, Store, Tx};

#[derive(Clone, Copy)]
pub(super) enum Ground<'a> {
    Inside(&'a Tx<'a>),
    /// Reads without a lock: two reads can see two states.
    Ahead(&'a Store),
}

impl Ground<'_> {
    /// Reads that hold no lock in between.
    pub(super) fn each(&self) -> &dyn Read {
        match self {
            Self::Inside(tx) => *tx,
            Self::Ahead(store) => *store,
        }
    }

    /// Reads that have to see one state.
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
