//! The embedded control plane: a development and test tool, never production.

pub mod server;
