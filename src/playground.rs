//! The embedded control plane: a development and test tool, never production.
//!
//! | module | what it knows |
//! |---|---|
//! | [`catalog`] | what a scope serves: resources, versions, their rules |
//! | [`store`] | objects of all logical clusters, one revision, transactions, watches; nothing of HTTP or kinds |
//! | [`status`] | refusals, as the `Status` documents that Kubernetes clients know |
//! | [`field`], [`names`], [`json`], [`select`] | errors of fields, names, bodies and selectors, as clients know them |
//! | [`server`] | TLS and HTTP, who is asking, faults, the request log, kubeconfigs |

pub mod catalog;
pub mod field;
pub mod json;
pub mod names;
pub mod select;
pub mod server;
pub mod status;
pub mod store;

#[cfg(test)]
pub(crate) mod fuzz;
