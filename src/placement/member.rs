//! The agent of a member: it joins the fleet, sends heartbeats, and applies the Works in its namespace on the hub.
//!
//! | module | content |
//! |---|---|
//! | [`acting`] | the running agent of one member, or of several |
//! | [`applier`] | the queue of Works; watches of placed objects |
//! | [`membership`] | `InternalMemberCluster`: joining, heartbeats, leaving |
//! | [`numbers`] | the metrics, under the names that dashboards of KubeFleet use |
//! | [`options`] | the validated options, from flags and environment |
//! | [`pass`] | the pass over one Work |
//! | [`process`] | the whole process, from start to end |
//! | [`properties`] | nodes and resources of the member |
//! | [`pushed`] | agents of members that run outside, with kubeconfigs from Secrets |
//! | [`sides`] | the hub and the member: connections, kinds, keys |
//!
//! Feeds, tables, the queue, workers, the lease and the guarded client are those of all dialects. The passes do not use
//! the engine. The engine merges the changes since a remembered state, which it stores before it writes. Here the API
//! server merges, by server-side apply: it records the fields of this manager. The annotations of the contract are part
//! of the object, and `AppliedWork` lists objects with their uids after the write. A state of our own would duplicate
//! both, and an apply can be repeated without it.

pub mod acting;
pub mod applier;
pub mod membership;
pub mod numbers;
pub mod options;
pub mod pass;
pub mod process;
pub mod properties;
pub mod pushed;
pub mod sides;
