//! The kinds that every logical cluster serves without anyone having defined them.
//!
//! A table says what there is; one file a family says how its kinds behave. Knows neither bindings nor
//! how custom resources are served, and nothing of HTTP.

use std::sync::Arc;

mod accounts;
mod data;
mod events;
mod kinds;
mod leases;
mod members;
pub(crate) mod namespaces;
mod quotas;
mod rbac;
mod reviews;
mod shapes;
#[cfg(test)]
mod tests;
mod typed;

pub(crate) use reviews::Identify;

use super::catalog::Resource;
use super::store::Settler;

/// All built-in kinds. To be made once and shared by all catalogs; `identify` answers token reviews.
pub(crate) fn resources(identify: &Identify) -> Vec<Arc<Resource>> {
    kinds::TABLE
        .iter()
        .map(|row| row.resource(identify))
        .collect()
}

/// The controllers of the built-in kinds, for a store to run.
pub(crate) fn settlers() -> Vec<Arc<dyn Settler>> {
    vec![
        Arc::new(namespaces::Lifecycle),
        Arc::new(events::Expiry::default()),
    ]
}
