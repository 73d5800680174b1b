//! The agent: what ties the pure parts of publishing to control planes.
//!
//! | module | what it knows |
//! |---|---|
//! | [`schemas`] | from a published resource to its schema in kcp |

pub mod schemas;

#[cfg(test)]
mod ground;
