//! The active part of the third dialect: federated types, members, and objects that are propagated to them, as in KubeFed.
//!
//! The crate `hawser_federation` is pure and makes the decisions; this module watches and sends requests.
//!
//! | module | content |
//! |---|---|
//! | [`config`] | the `KubeFedConfig`: created, or replaced for another scope |
//! | [`controllers`] | metrics of reconciles, under the names of KubeFed's controllers |
//! | [`events`] | events on federated objects and members |
//! | [`host`] | the host: kinds, paths, the settings of the control plane |
//! | [`members`] | members: clients, probes, conditions, readiness |
//! | [`numbers`] | the metrics, under the names that dashboards of KubeFed use |
//! | [`options`] | the validated options |
//! | [`pages`] | the pages at `--healthz-addr`: probes, running reconciles, threads |
//! | [`passes`] | the pass over one federated object |
//! | [`process`] | the whole process, from start to end |
//! | [`propagation`] | the running types and their watches |
//! | [`queues`] | the queues of federated objects and of workloads to be scheduled |
//! | [`scheduling`] | replicas of federated workloads: preferences, capacities, results |
//! | [`types`] | `FederatedTypeConfig`s, which start and stop types |
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
pub mod queues;
pub mod scheduling;
pub mod types;
#[cfg(feature = "webhook")]
pub mod webhook;
