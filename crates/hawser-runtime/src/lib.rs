//! What dialects share to act. Knows no dialect.
//!
//! | module | what it knows |
//! |---|---|
//! | [`cluster`] | control planes: connections, discovery, caches, queues |
//! | [`process`] | logs, metrics, probes, leader election, shutdown |

pub mod cluster;
pub mod process;
