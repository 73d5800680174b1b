//! The active part of the mirror: the connections, watches and passes.
//!
//! | module | content |
//! |---|---|
//! | [`account`] | Google accounts from a file |
//! | [`credentials`] | the robot's tokens for the cloud, renewed in time |
//! | [`explain`] | what the mirror would do about objects now, and why |
//! | [`following`] | the controller of the CRDs on the robot |
//! | [`health`] | whether the cloud accepts the credentials |
//! | [`link`] | whether the cloud responds |
//! | [`numbers`] | the metrics, under the names that dashboards use |
//! | [`overview`] | what the page shows |
//! | [`passes`] | the pass over one object |
//! | [`planes`] | the connections to both clusters |
//! | [`process`] | the whole process, from start to end |
//! | [`deletion_delays`] | deletions that look like a vanished type rather than a request |
//! | [`syncer`] | one running definition |
//! | [`traces`] | the last calls to both clusters |
//! | [`way`] | the proxy to the cloud |

pub mod account;
pub mod credentials;
pub mod deletion_delays;
pub mod explain;
pub mod following;
pub mod health;
pub mod link;
pub mod numbers;
mod overview;
pub mod passes;
pub mod planes;
pub mod process;
pub mod syncer;
pub mod traces;
pub mod way;

#[cfg(test)]
mod ground;
#[cfg(test)]
mod tests;
