//! The hub: it selects resources, picks clusters, and writes a Work for each member.
//!
//! | module | content |
//! |---|---|
//! | [`catalog`] | the kinds that the hub serves |
//! | [`events`] | the placements, members and overrides that an event concerns |
//! | [`members`] | the pass over one member: joining, status, leaving |
//! | [`mirrored`] | the status of placed objects, written to the objects on the hub |
//! | [`numbers`] | the metrics, under the names that dashboards of KubeFleet use |
//! | [`objects`] | the kinds of the fleet, and their paths |
//! | [`passes`] | the pass over one placement or override |
//! | [`process`] | the whole process, from start to end |
//! | [`runs`] | the pass over one staged update run |
//! | [`selectable`] | watches of the objects that placements select |
//! | `webhook` | the admission webhook |

pub(crate) mod catalog;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod forms;
pub(crate) mod key;
pub(crate) mod members;
pub(crate) mod mirrored;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod passes;
pub(crate) mod process;
pub(crate) mod runs;
pub(crate) mod selectable;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;
