//! The agent: what ties the pure parts of publishing to control planes.
//!
//! | module | what it knows |
//! |---|---|
//! | [`export`] | keeps schemas and claims in the export |
//! | [`schemas`] | from a published resource to its schema in kcp |

pub mod export;
pub mod schemas;

#[cfg(test)]
mod ground;
