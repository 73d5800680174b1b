//! The publish dialect: an API of the service cluster, offered in kcp workspaces.
//!
//! Everything in here but [`agent`] knows no client, clock or file: types, names, marks, the format of the memory,
//! projected types. Passes share one table behind a lock, the claims of [`related::ClaimIndex`].

pub mod advice;
pub mod agent;
pub mod claims;
pub mod compiled;
pub mod crd;
pub mod drift;
pub mod export;
pub mod filters;
pub mod hashes;
pub mod latest;
pub mod marks;
pub mod memory;
pub mod names;
pub mod naming;
pub mod openapi;
pub mod pause;
pub mod problem;
pub mod projection;
pub mod publishers;
pub mod ready;
pub mod related;
pub mod release;
pub mod rights;
pub mod rules;
pub mod schema;
pub mod synced;
pub mod types;
pub mod versions;
