//! The reasons why a pass of the hub ends early.

use std::time::Duration;

use hawser_runtime::cluster::queue::Outcome;
use tracing::{debug, error};

use super::key::HubKey;

/// The reason why a pass ends early.
pub(super) enum HubPassError {
    /// A table is not complete; its completion leads here again.
    Unknown,
    /// Another writer undoes the writes.
    Contested(Duration),
    Failed(String),
    /// Something else was there than was known.
    Stale,
}

impl HubPassError {
    pub(super) fn outcome(self, about: &HubKey) -> Outcome {
        match self {
            Self::Unknown => Outcome::Settled,
            Self::Contested(wait) => Outcome::Again(wait),
            Self::Stale => {
                debug!(?about, "the cache is behind; trying again");
                Outcome::Failed(None)
            }
            Self::Failed(problem) => {
                error!(?about, problem, "retrying");
                Outcome::Failed(None)
            }
        }
    }
}
