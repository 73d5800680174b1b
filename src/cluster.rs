//! Talking to control planes: no dialect in here.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config`] | kubeconfigs: where they are looked for, what they mean, when they changed |
//! | [`connection`] | a server, a path below it, credentials; calls bounded in number and time |
//! | [`wire`] | the requests of passes as calls, and what answers mean |

pub mod config;
pub mod connection;
pub mod wire;

#[cfg(test)]
pub(crate) mod ground;
