//! The second dialect: robots and their cloud, a drop-in for Cloud Robotics' cr-syncer.
//!
//! Custom resources are kept in step between a cloud cluster and the robot cluster that this runs in.
//! Annotations on the robot's definitions say which, and which side owns what.
//!
//! | module | what it knows |
//! |---|---|
//! | [`agent`] | the part that acts |
//! | [`definition`] | what the annotations of a definition say, and why it is not followed |
//! | [`options`] | what the process is told on its command line |
//! | [`rules`] | what the engine asks about one object; the subject that it is |
//! | [`status`] | what becomes of a status on its way back |

pub mod agent;
pub mod definition;
pub mod options;
pub mod rules;
pub mod status;

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
