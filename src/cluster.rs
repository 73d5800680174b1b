//! Talking to a control plane. Knows no dialect.

pub mod queue;
