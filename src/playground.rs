//! The embedded control plane: a development and test tool, never production.
//!
//! | module | what it knows |
//! |---|---|
//! | [`store`] | objects of all logical clusters, one revision, transactions, watches; nothing of HTTP or kinds |
//! | [`status`] | refusals, as the `Status` documents that Kubernetes clients know |

pub mod status;
pub mod store;
