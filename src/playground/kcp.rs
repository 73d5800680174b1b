//! What makes a set of logical clusters a kcp: workspaces and their types, exported and bound APIs,
//! permission claims, virtual workspaces.

pub mod claims;
pub mod conditions;
pub mod convert;
pub mod definitions;
pub mod ids;
pub mod paths;
pub mod types;
