//! Hawser keeps objects in step between Kubernetes-style control planes.
//!
//! This page is the map of the house; `ARCHITECTURE.md` says why it is built this way.
//!
//! | room | what it knows |
//! |---|---|
//! | [`object`] | a JSON object with typed access to what every Kubernetes object has |
//! | [`selector`] | label selectors, as strings and as objects |
//! | [`paths`] | dotted paths into JSON: read, write, delete |
//! | [`template`] | the Go-template dialect, Handlebars, one table of functions |
//! | [`mutation`] | delete, regex, template and CEL steps over an object |
//! | [`sync`] | the engine: subjects, links, views, decisions; knows no dialect |
//! | [`cluster`] | talking to control planes: connections, caches, queues; knows no dialect |
//! | [`publish`] | the first dialect: publishing an API into kcp workspaces |
//! | [`mirror`] | the second dialect: robots and their cloud, by annotations on definitions |
//! | [`playground`] | an embedded control plane for development and tests; uses nothing of the engine |
//! | [`demo`] | playground and agent in one process, with an API that is published and used |
//! | [`process`] | logging, metrics, probes, leader election, shutdown |
//! | [`cli`] | one file a subcommand |

pub mod cli;
pub mod cluster;
pub mod demo;
#[cfg(test)]
mod house;
pub mod mirror;
pub mod mutation;
pub mod object;
pub mod paths;
pub mod playground;
pub mod process;
pub mod publish;
pub mod selector;
pub mod sync;
pub mod template;
