//! The agent of a member: joins the fleet, beats, and applies the Works in its namespace on the hub.
//!
//! | module | what it knows |
//! |---|---|
//! | [`acting`] | the agent at work for one member, or for several |
//! | [`applier`] | the queue of Works; watches of everything that is placed |
//! | [`membership`] | `InternalMemberCluster`: joining, heartbeats, leaving |
//! | [`numbers`] | what is counted, by the names that dashboards of KubeFleet know |
//! | [`options`] | what the command line and the environment say |
//! | [`pass`] | the work on one Work |
//! | [`process`] | all of it together, from start to end |
//! | [`properties`] | nodes and resources of the member |
//! | [`pushed`] | members that are acted for from outside, by Secrets with their kubeconfigs |
//! | [`sides`] | the hub and the member: connections, kinds, keys |
//!
//! Feeds, tables, the queue, workers, the lease and the guarded client are those of all dialects. The passes are not the
//! engine's: the engine merges what changed since the state that it remembered, and remembers before it writes. Here the
//! API server merges, by server-side apply: it knows which fields this manager gave. The annotations of the contract
//! travel with the object, and `AppliedWork` lists objects after the write, with the uids that they got. So a state of
//! our own would be a second truth beside both, and each apply may be repeated without it.

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
