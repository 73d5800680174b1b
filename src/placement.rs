//! The fourth dialect at work: the hub and the members of a fleet, as KubeFleet does.
//!
//! What is to be done is decided by the crate `hawser_placement`, which is pure; this room watches, asks it, and acts.
//! Both sides meet only in objects of the hub.
//!
//! | module | content |
//! |---|---|
//! | [`hub`] | the control cluster: placements, snapshots, bindings, Works, and members that join |
//! | [`member`] | a member: heartbeat, and the application of Works |

pub(crate) mod hub;
pub(crate) mod member;
