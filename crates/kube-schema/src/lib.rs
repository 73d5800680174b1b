//! Structural schemas and definitions of custom resources, as kube-apiserver checks them. Pure.
//!
//! | module | content |
//! |---|---|
//! | [`schema`] | structural schemas: defaults, pruning, validation, rules in CEL |
//! | [`admission`] | admission webhooks: addresses and answers |
//! | [`crd`] | definitions of custom resources |
//! | [`field`] | errors of fields |
//! | [`generate`] | schemas made from Rust types |
//! | [`names`] | the valid names |
//! | [`json`] | request bodies |

pub mod admission;
pub mod crd;
pub mod field;
pub mod generate;
pub mod json;
pub mod names;
pub mod schema;
