//! The kinds that every logical cluster serves without a definition.
//!
//! A table lists the kinds, and one file for each family implements their rules. This module does not know bindings,
//! custom resources or HTTP.

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

use kube_schema::names::NameRule;

use super::catalog::{Flavour, Resource, Verbs};
use super::fields;
use super::store::{Settler, Table};

/// All built-in kinds. Create them once and share them among all catalogs. `identify` answers token reviews.
pub(crate) fn resources(identify: &Identify) -> Vec<Arc<Resource>> {
    kinds::TABLE
        .iter()
        .map(|row| row.resource(identify))
        .collect()
}

/// A namespaced kind with a status. Its fields are not validated, and no controller acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// Empty for the core group.
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// The resource of a kind without rules of its own.
pub(crate) fn stand_in(of: StandIn) -> Arc<Resource> {
    Arc::new(Resource {
        group: of.group.into(),
        version: "v1".into(),
        plural: of.plural.into(),
        singular: of.kind.to_lowercase().into(),
        kind: of.kind.into(),
        list_kind: format!("{}List", of.kind).into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        table: Table::new(of.group, of.plural, ""),
        storage_version: "v1".into(),
        has_status: true,
        verbs: Verbs::All,
        flavour: Flavour::BuiltInWithGeneration,
        name_rule: NameRule::Dns1123Subdomain,
        schema: None,
        storage_schema: None,
        fields: fields::Type::Deduced,
        strategy: None,
        conversion: None,
        required_label: None,
        only: None,
        selectable_fields: Vec::new(),
        printer: None,
        incarnation: 0,
    })
}

/// The controllers of the built-in kinds, for a store.
pub(crate) fn settlers() -> Vec<Arc<dyn Settler>> {
    vec![
        Arc::new(namespaces::Lifecycle),
        Arc::new(events::Expiry::default()),
    ]
}
