//! The fourth dialect at work: the hub and the members of a fleet, as KubeFleet does.
//!
//! What is to be done is decided by the crate `hawser_placement`, which is pure; this room watches, asks it, and acts.
//! Both sides meet only in objects of the hub.

pub(crate) mod member;
