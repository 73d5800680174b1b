//! The agent of the publish dialect.

pub mod brake;
pub mod events;
