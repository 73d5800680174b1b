//! The hub: it selects resources, picks clusters, and writes a Work for each member.
//!
//! | module | what it knows |
//! |---|---|
//! | [`catalog`] | the kinds that the hub serves |
//! | [`events`] | which placements, members and overrides an event concerns |
//! | [`members`] | the work on one member: joining, status, leaving |
//! | [`numbers`] | what is counted, by the names that dashboards of KubeFleet know |
//! | [`objects`] | the kinds of the fleet, and where they are served |
//! | [`passes`] | the work on one placement or override |
//! | [`process`] | all of it together, from start to end |
//! | [`runs`] | the work on one staged update run |
//! | [`selectable`] | the objects that placements select, watched while they do |
//! | `webhook` | the admission webhook |

pub(crate) mod catalog;
pub(crate) mod events;
pub(crate) mod members;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod passes;
pub(crate) mod process;
pub(crate) mod runs;
pub(crate) mod selectable;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;
