//! The agent: published resources at work between workspaces and the service cluster.
//!
//! | module | what it knows |
//! |---|---|
//! | [`options`] | what the agent is told when it starts |
//! | [`schemas`] | from a published resource to its schema in kcp |
//! | [`feeds`] | one watch for everybody who wants the same objects |
//! | [`workspaces`], [`bindings`] | which workspaces take part, and where each is served |
//! | [`publication`] | one published resource at work |
//! | [`dispatch`] | from what feeds tell to whose turn it is |
//! | [`passes`] | workers that run the engine |
//! | [`atlas`] | where the engine's requests go |

pub mod atlas;
pub mod bindings;
pub mod dispatch;
pub mod feeds;
pub mod options;
pub mod passes;
pub mod publication;
pub mod schemas;
pub mod workspaces;

#[cfg(test)]
mod ground;
