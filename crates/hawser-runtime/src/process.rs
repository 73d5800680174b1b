//! The surroundings of every long-running process of Hawser: log, metrics, probes, lease, shutdown.
//!
//! Knows no dialect, and no kind of object except the Lease of the election.
//!
//! | module | content |
//! |---|---|
//! | [`dedicated_thread`] | a thread for tasks that must not wait for anything else |
//! | [`lease`] | leader election: which process works, and until when it may write |
//! | [`logging`] | one line for each event on stderr, as JSON or for people |
//! | [`metrics`] | the metrics and their text format |
//! | [`serve`] | the pages for metrics and probes |
//! | [`shards`] | work that several processes share |
//! | [`shutdown`] | signals, and the time limit of the shutdown |

pub mod dedicated_thread;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod serve;
pub mod shards;
pub mod shutdown;
