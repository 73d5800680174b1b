//! Placements of a fleet: a drop-in for KubeFleet's hub agent and member agent.
//!
//! The modules are pure: no client, no runtime, no clock. They decide; `src/placement` of the package `hawser` is the active part.
//!
//! | module | content |
//! |---|---|
//! | [`types`] | the API types as they are stored, and their definitions |
//! | [`names`] | names, labels, annotations and finalizers |
//! | [`hash`] | KubeFleet's hashes |
//! | [`admission`] | validation beyond the definitions |
//! | [`selection`], [`resources`] | the objects that a placement selects; which of them are placed, their content and order |
//! | [`snapshots`] | snapshots of policies and resources |
//! | [`scheduler`] | the clusters of a placement, with reasons |
//! | [`rollout`] | the bindings that may change now |
//! | [`overrides`] | the resource of one cluster |
//! | [`works`] | the Works of a binding, and envelopes |
//! | [`members`] | the members of a fleet, by name |
//! | [`hub`] | the next writes of the hub: for a placement, a member, an override |
//! | [`apply`] | a member's decision about a manifest, and its report |
//! | [`availability`] | the availability of an object in a member |
//! | [`status`] | conditions of bindings and placements, and events |

pub mod admission;
pub mod apply;
pub mod availability;
#[cfg(test)]
mod fixtures;
pub mod hash;
pub mod hub;
pub mod members;
pub mod names;
pub mod overrides;
pub mod reporting;
pub mod resources;
pub mod rollout;
pub mod scheduler;
pub mod selection;
pub mod snapshots;
pub mod status;
pub mod types;
pub mod works;
