//! The publish dialect: an API of the service cluster, offered in kcp workspaces.
pub mod types;
