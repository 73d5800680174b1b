//! The third dialect: federated types, members, replicas. A drop-in for the control plane of KubeFed.
//!
//! The modules are pure: no client, no runtime, no clock. The active part is `src/federation` of the package `hawser`.
//!
//! | module | content |
//! |---|---|
//! | [`types`] | the API types as they are stored, their definitions, the definition of a federated type |
//! | [`admission`] | validation and defaults of these types, in process and as answers of the webhook |
//! | [`decide`] | the decision about one copy, from the state of its member |
//! | [`placement`] | the members that a federated object is placed on |
//! | [`overrides`] | overrides by member, and the JSON patches that they are |
//! | [`render`], [`retention`] | the object of one member; the fields that a copy keeps |
//! | [`versions`] | hashes, versions of copies, `PropagatedVersion` |
//! | [`status`], [`events`] | condition, reasons and status by member; events |
//! | [`health`] | probes and thresholds of members |
//! | [`replicas`] | the planner: as in KubeFed's code, and as in its design |
//! | [`pods`], [`scheduling`] | capacity by pods; placement and overrides by plan |
//! | [`check`] | a check of a workload with preferences in its annotation |
//! | [`kubefedctl`] | type lookup, generated objects and printed lines of the subcommands |
//!
//! # Why the engine does not run the passes
//!
//! The engine (`hawser-sync`) stores content: it remembers its writes, and copies each difference from one side to the
//! other. KubeFed stores versions: a copy is written whole if it does not have the version of the last write. KubeFed
//! stores the version after the write, the engine stores content before it. The engine would need that second order of
//! writes, a fourth answer of its view for members that are not ready, a memory by link, outcomes of links while others
//! wait, and an intent that removes a label. No other dialect needs any of these. [`decide`] is one function of two hundred lines
//! without phases: a member with a copy needs one request at most.
//!
//! Both use `hawser-runtime` and its dependencies: caches with feeds, the fair queue, worker loops, shared watches, the
//! guarded client with its fence, and events. `Controller` is for passes of the engine.

pub mod admission;
pub mod check;
pub mod decide;
pub mod events;
pub mod health;
pub mod kubefedctl;
pub mod overrides;
pub mod placement;
pub mod pods;
pub mod render;
pub mod replicas;
pub mod retention;
pub mod scheduling;
pub mod status;
pub mod types;
pub mod versions;
