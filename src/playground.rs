//! The embedded control plane: a development and test tool, never production.

pub mod crd;
pub mod field;
pub mod json;
pub mod names;
pub mod patch;
pub mod protobuf;
pub mod schema;
pub mod select;

#[cfg(test)]
pub(crate) mod fuzz;
