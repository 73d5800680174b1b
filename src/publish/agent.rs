//! The agent: publishes the APIs of a service cluster into kcp workspaces.

pub mod options;
