//! Talking to control planes: no dialect in here.
//!
//! | module | what it knows |
//! |---|---|
//! | [`connection`] | a server, a path below it, credentials; calls bounded in number and time |

pub mod connection;

#[cfg(test)]
pub(crate) mod ground;
