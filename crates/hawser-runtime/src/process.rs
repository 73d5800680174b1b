//! What every long-running process of Hawser has around its work: a log, metrics, probes, a lease, an end.
//!
//! Knows no dialect and no kind of object but the Lease that it elects by.
//!
//! | module | what it knows |
//! |---|---|
//! | [`apart`] | a thread for what must not wait for anything else |
//! | [`lease`] | who of several processes works, and until when it may write |
//! | [`logging`] | one line an event on stderr, as JSON or for people |
//! | [`metrics`] | what is counted, and how it is written down |
//! | [`serve`] | the pages for metrics and probes |
//! | [`shutdown`] | signals, and how long the end may take |

pub mod apart;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod serve;
pub mod shutdown;
