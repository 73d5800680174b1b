//! The runtime that dialects share. Knows no dialect.
//!
//! | module | content |
//! |---|---|
//! | [`cluster`] | control planes: connections, discovery, caches, queues |
//! | [`controller`] | workers that run the engine over the subjects of a dialect |
//! | [`process`] | logs, metrics, probes, leader election, shutdown |
//! | [`overview`] | what a running process tells people, as a page and in a terminal |
//! | [`errors`] | errors as text |

pub mod cluster;
pub mod controller;
pub mod errors;
pub mod overview;
pub mod process;

#[cfg(test)]
mod simulation;
