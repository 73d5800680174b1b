//! Talking to control planes: no dialect in here.
//!
//! | module | what it knows |
//! |---|---|
//! | [`connection`] | a server, a path below it, credentials; calls bounded in number and time |
//! | [`discovery`] | what is served: names, scope, versions and subresources of a kind |

pub mod connection;
pub mod discovery;

#[cfg(test)]
pub(crate) mod ground;
