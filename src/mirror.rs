//! The second dialect: robots and their cloud, a drop-in for Cloud Robotics' cr-syncer.
//!
//! It synchronizes custom resources between a cloud cluster and the robot cluster that it runs in. Annotations on the
//! robot's CRDs select them, and the side that owns each.
//!
//! | module | content |
//! |---|---|
//! | [`advice`] | what to do about each reason |
//! | [`agent`] | the active part |
//! | [`definition`] | the annotations of a definition, and the reasons why it is skipped |
//! | [`options`] | the validated options of the process |
//! | [`rules`] | the engine's rules for one object, and its subject |
//! | [`status`] | the status on its way back |

pub mod advice;
pub mod agent;
pub mod definition;
pub mod options;
pub mod rules;
pub mod status;

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
