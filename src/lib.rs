//! Hawser keeps objects in sync between Kubernetes-style control planes.
//!
//! `ARCHITECTURE.md` explains the design.
//!
//! | module | content |
//! |---|---|
//! | `publish` | the first dialect: publishing an API into kcp workspaces |
//! | `mirror` | the second dialect: robots and their cloud, by annotations on definitions |
//! | `federation` | the active part of the third dialect: members and federated types |
//! | `placement` | the active part of the fourth dialect: hub and members of a fleet |
//! | `webhook` | the admission webhook of a control plane, for federation and placement |
//! | `mutation` | delete, regex, template and CEL steps over an object |
//! | `explain` | passes with dry runs in place of writes, for the dialects of the engine |
//! | `rehearsal` | passes over objects in memory |
//! | `demo` | playground and agent in one process, with an API that is published and used |
//! | `cli` | one file for each subcommand |
//!
//! The engine is the crate `hawser_sync`. All dialects share the crate `hawser_runtime`.

// The modules are private: what is `pub` in them is for this crate, and rustc finds what nothing uses.
#![allow(unreachable_pub)]

mod cli;
#[cfg(feature = "playground")]
mod demo;
mod explain;
mod federation;
#[cfg(test)]
mod house;
mod mirror;
mod mutation;
mod placement;
mod publish;
mod rehearsal;
#[cfg(feature = "webhook")]
mod webhook;

pub use cli::run;

/// Parts that the end-to-end tests and the benchmarks use directly.
#[doc(hidden)]
pub mod testing {
    pub use crate::mutation::{Pipeline, Step};
    pub use crate::publish::agent::schemas::{
        Manifest, PUBLISHED_RESOURCES, SchemaMode, Schemas, Watched,
    };
    pub use crate::publish::openapi::{Served, ServedVersion, definition};
}
