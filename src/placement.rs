//! The fourth dialect at work: placements of a fleet, as KubeFleet does.
//!
//! What is to be done is decided by the crate `hawser_placement`, which is pure.
//!
//! | module | what it knows |
//! |---|---|
//! | [`hub`] | the control cluster: placements, snapshots, bindings, Works, and who joins |

pub(crate) mod hub;
