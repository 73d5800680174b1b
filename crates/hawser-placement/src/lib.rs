//! The fourth dialect: placements of a fleet. A drop-in for the hub and the members of KubeFleet.
//!
//! The modules are pure: no client, no runtime, no clock. They decide; `src/placement` of the program acts.
//!
//! | module | content |
//! |---|---|
//! | [`types`] | the API types as they are stored, and their definitions |
//! | [`names`] | names, labels, annotations and finalizers |
//! | [`hash`] | hashes equal to those of the original |
//! | [`admission`] | validation beyond the definitions |
//! | [`selection`], [`resources`] | what a placement selects; which objects are placed, what is left of them, their order |
//! | [`snapshots`] | snapshots of policies and resources: split, kept, awaited |
//! | [`scheduler`] | which clusters a placement is bound to, and why |
//! | [`rollout`] | which bindings may change now |
//! | [`overrides`] | the resource of one cluster |
//! | [`works`] | the Works of a binding, and envelopes |
//! | [`members`] | the members of a fleet, by name |
//! | [`hub`] | what the hub writes next: for a placement, a member, an override |
//! | [`apply`] | what a member does about a manifest, and what it reports |
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
pub mod resources;
pub mod rollout;
pub mod scheduler;
pub mod selection;
pub mod snapshots;
pub mod status;
pub mod types;
pub mod works;
