//! The agent: published resources at work between workspaces and the service cluster.
//!
//! | module | what it knows |
//! |---|---|
//! | [`options`] | what the agent is told when it starts |
//! | [`startup`] | where slice and export are in kcp |
//! | [`publishing`] | following published resources: schema, place in the export, objects |
//! | [`schemas`] | from a published resource to its schema in kcp |
//! | [`export`] | one task an export: keeps schemas and claims in it |
//! | [`conditions`] | the condition Ready of published resources, written once things are quiet |
//! | [`control`] | slices, bindings, published resources and types: who takes part in what |
//! | [`events`] | what consumers are told of their objects |
//! | [`bonds`] | whether a workspace is bound, as its server says now |
//! | [`retraction`] | what is asked before anything is taken back |
//! | [`braking`] | the brakes of all kinds, where passes and owners meet them |
//! | [`feeds`] | one watch for everybody who wants the same objects |
//! | [`workspaces`], [`bindings`] | which workspaces take part, and where each is served |
//! | [`publication`] | one published resource at work |
//! | [`related`] | the kinds, feeds and reverse index of related objects |
//! | [`dispatch`] | from what feeds tell to whose turn it is |
//! | [`passes`] | workers that run the engine |
//! | [`evaluation`] | where passes compute, and how much of that one workspace may do at a time |
//! | [`observing`] | what becomes known of passes: events and numbers |
//! | [`sweep`] | state Secrets whose object is gone |
//! | [`orphans`] | what workspaces that have left leave behind, listed and removed on demand |
//! | [`atlas`] | where the engine's requests go |
//! | [`process`] | all of it together, from start to end |

pub mod atlas;
pub mod bindings;
pub mod bonds;
pub mod braking;
pub mod conditions;
pub mod control;
pub mod dispatch;
pub mod evaluation;
pub mod events;
pub mod export;
pub mod feeds;
mod notices;
pub mod observing;
pub mod options;
pub mod orphans;
pub mod passes;
pub mod process;
pub mod publication;
pub mod publishing;
pub mod related;
pub mod retraction;
pub mod schemas;
pub mod startup;
pub mod sweep;
pub mod workspaces;

#[cfg(test)]
mod ground;
