#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | what it knows |
//! |---|---|
//! | `api` | requests and answers, independent of HTTP |
//! | `catalog` | what a scope serves: resources, versions, their rules |
//! | `builtin` | the kinds that every cluster serves: a table, and how each family behaves |
//! | `custom` | definitions of custom resources in a cluster: their life, and what they serve |
//! | `collect` | garbage collection by owner references |
//! | `plain` | clusters that are no kcp workspaces: their catalogs |
//! | `planes` | a kcp and a service cluster, started and stopped |
//! | `kcp` | workspaces, exports, bindings, claims |
//! | `rest` | verbs, lists, watches and discovery over a store and its catalogs |
//! | [`server`] | TLS and HTTP, who is asking, faults, the request log, kubeconfigs |
//! | `store` | objects of all logical clusters, one revision, transactions, watches; nothing of HTTP or kinds |
//! | `status` | refusals, as the `Status` documents that Kubernetes clients know |
//! | `table` | objects as the rows of tables, for people |
//! | `openapi` | the documents that describe what a scope serves |
//! | `patch`, `protobuf` | bodies other than whole JSON objects |
//! | `yaml`, `select` | bodies in YAML, and selectors, as clients know them |
//!
//! Schemas, definitions, names and errors of fields are in the crate `kube_schema`.

pub(crate) mod api;
pub(crate) mod builtin;
pub(crate) mod catalog;
pub(crate) mod collect;
pub(crate) mod custom;
pub(crate) mod fields;
pub(crate) mod kcp;
pub(crate) mod openapi;
pub(crate) mod patch;
pub(crate) mod pieces;
pub(crate) mod plain;
mod planes;
pub mod protobuf;
pub(crate) mod rest;
pub(crate) mod select;
pub mod server;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod yaml;

pub use planes::{Playground, PlaygroundError, PlaygroundOptions, StandIn};
