//! Real control planes, clients and checkers for Hawser's tests, benchmarks and examples.
//!
//! | module | what it knows |
//! |---|---|
//! | [`cluster`] | a service cluster of etcd and kube-apiserver: start, kill, restart |
//! | [`access`] | who talks to it: kubeconfigs, clients, kubectl and helm for any user and groups |
//! | [`entry`] | a way into a cluster from outside: TLS below a path, every request recorded, faults |
//! | [`link`] | a link that can be slow, deaf, refusing or cut |
//! | [`process`] | one child process: output, signals, end, memory; never outlives its owner |
//! | [`mod@eventually`] | awaiting a condition with a deadline and a message |
//! | [`ports`] | ports that nobody else takes while they are held |
//! | [`names`] | names that no other test uses |
//! | [`shared`] | what several tests use at once, and how long it is kept |
//! | [`binaries`] | where the programs are that were built for the tests |
//! | [`generated`] | files that are generated and checked in |
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use testbed::ServiceCluster;
//!
//! let cluster = ServiceCluster::shared().await?;
//! let client = cluster.user("anna", &["developers"])?.client()?;
//! # Ok(()) }
//! ```
//!
//! Everything here runs on real time: don't use it under tokio's paused clock. It needs Linux.

pub mod access;
pub mod binaries;
mod certificates;
pub mod cluster;
pub mod entry;
pub mod eventually;
pub mod generated;
pub mod link;
pub mod names;
mod place;
mod pool;
pub mod ports;
pub mod process;
mod servers;
pub mod shared;
#[cfg(test)]
mod strings;

pub use access::Access;
pub use cluster::{Component, Options, ServiceCluster};
pub use entry::Entry;
pub use eventually::{SOON, eventually, within};
pub use link::Link;
pub use names::unique;
pub use ports::Port;
pub use process::{Exit, Launch, Process, Signal};
pub use shared::{Shared, Use};
