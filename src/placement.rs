//! The active part of the fourth dialect: the hub and the members of a fleet, as in KubeFleet.
//!
//! The crate `hawser_placement` is pure and makes the decisions; this module watches and sends requests. Hub and members
//! communicate only by objects of the hub.
//!
//! | module | content |
//! |---|---|
//! | [`hub`] | the control cluster: placements, snapshots, bindings, Works, and members that join |
//! | [`member`] | a member: heartbeat, and the application of Works |

pub(crate) mod hub;
pub(crate) mod member;
