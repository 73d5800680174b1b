//! Hawser keeps objects in step between Kubernetes-style control planes.
//!
//! This page is the map of the house; `ARCHITECTURE.md` says why it is built this way.
//!
//! | room | what it knows |
//! |---|---|
//! | [`publish`] | the first dialect: publishing an API into kcp workspaces |
//! | [`mirror`] | the second dialect: robots and their cloud, by annotations on definitions |
//! | [`mutation`] | delete, regex, template and CEL steps over an object |
//! | `demo` | playground and agent in one process, with an API that is published and used |
//! | [`cli`] | one file a subcommand |
//!
//! The engine is the crate `hawser_sync`, what dialects share to act is `hawser_runtime`.

pub mod cli;
#[cfg(feature = "playground")]
pub mod demo;
#[cfg(test)]
mod house;
pub mod mirror;
pub mod mutation;
pub mod publish;
