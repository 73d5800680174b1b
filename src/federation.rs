//! The third dialect at work: federated types, members, and objects that are propagated to them, as KubeFed does.
//!
//! What is to be done is decided by the crate `hawser_federation`, which is pure; this room watches, asks it, and acts.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config`] | the `KubeFedConfig`: created, or replaced for another scope |
//! | [`controllers`] | reconciles, counted under the names of KubeFed's controllers |
//! | [`events`] | events on federated objects and members, sent aside |
//! | [`host`] | the host: kinds, paths, the settings of the control plane |
//! | [`members`] | members: clients, probes, conditions; which of them are ready now |
//! | [`numbers`] | what is counted, by the names that dashboards of KubeFed know |
//! | [`options`] | what the command line says |
//! | [`pages`] | the pages at `--healthz-addr`: probes, and what the process is doing |
//! | [`passes`] | the work on one federated object |
//! | [`process`] | all of it together, from start to end |
//! | [`propagation`] | the types at work: watches, the queue of federated objects, workers |
//! | [`scheduling`] | replicas of federated workloads: preferences, capacities, what is written of them |
//! | [`types`] | `FederatedTypeConfig`s, and which types are at work by them |
//! | [`webhook`] | the admission webhook, its certificate, and the configurations by which it is called |

pub mod config;
pub mod controllers;
pub mod events;
pub mod host;
pub mod members;
pub mod numbers;
pub mod options;
pub mod pages;
pub mod passes;
pub mod process;
pub mod propagation;
pub mod scheduling;
pub mod types;
#[cfg(feature = "webhook")]
pub mod webhook;
