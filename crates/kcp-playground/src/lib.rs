#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `api` | requests and answers, independent of HTTP |
//! | `catalog` | the resources of a scope, with their versions and rules |
//! | `builtin` | the kinds that every cluster serves: a table, and the rules of each family |
//! | `custom` | definitions of custom resources in a cluster: their life cycle, and the resources that they serve |
//! | `collect` | garbage collection by owner references |
//! | `plain` | clusters without kcp: their catalogs |
//! | `planes` | a kcp and a service cluster, started and stopped |
//! | `kcp` | workspaces, exports, bindings, claims |
//! | `rest` | verbs, lists, watches and discovery over a store and its catalogs |
//! | [`server`] | TLS and HTTP, authentication, faults, the request log, kubeconfigs |
//! | `store` | objects of all logical clusters, one revision, transactions, watches; it does not know HTTP or kinds |
//! | `status` | errors, as the `Status` documents of Kubernetes |
//! | `table` | objects as rows of tables, for people |
//! | `openapi` | the OpenAPI documents of a scope |
//! | `patch`, `protobuf` | bodies other than whole JSON objects |
//! | `yaml`, `select` | bodies in YAML, and selectors |
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

pub use builtin::StandIn;
pub use planes::{Playground, PlaygroundError, PlaygroundOptions};
