//! The part that acts: it talks to both clusters, and keeps at it.
//!
//! | module | what it knows |
//! |---|---|
//! | [`account`] | who a program is to Google where a file says it |
//! | [`credentials`] | who the robot is in the cloud: tokens that an endpoint tells, renewed in time |
//! | [`following`] | the definitions on the robot, and which syncers follow from them |
//! | [`health`] | whether the cloud takes our credentials |
//! | [`link`] | whether the cloud answers |
//! | [`numbers`] | what is counted, by the names that dashboards know |
//! | [`passes`] | the work on one object: what may be sent, and when it is looked at again |
//! | [`planes`] | the connections to both clusters |
//! | [`process`] | all of it together, from start to end |
//! | [`settling`] | deletions that look like a vanished type rather than somebody's will |
//! | [`syncer`] | one definition at work: what is watched, what waits |
//! | [`traces`] | the last calls to both clusters |
//! | [`way`] | the proxy by which the cloud is reached |

pub mod account;
pub mod credentials;
pub mod following;
pub mod health;
pub mod link;
pub mod numbers;
pub mod passes;
pub mod planes;
pub mod process;
pub mod settling;
pub mod syncer;
pub mod traces;
pub mod way;

#[cfg(test)]
mod ground;
#[cfg(test)]
mod tests;
