//! Pauses: annotations that hold the writes of an object, of its copy, or of all objects of a published resource.
//!
//! A pause names its author, its reason and its end. An incomplete pause holds nothing and is reported.

use std::fmt;

use jiff::Timestamp;
use kube_lang::object::Object;

pub const UNTIL: &str = "syncagent.kcp.io/pause-until";
pub const BY: &str = "syncagent.kcp.io/pause-by";
pub const REASON: &str = "syncagent.kcp.io/pause-reason";
pub const DIRECTION: &str = "syncagent.kcp.io/pause-direction";

/// The maximum number of characters shown of an author or a reason.
const SHOWN: usize = 200;

/// The direction of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// To the service cluster, including the writes that prepare it.
    Spec,
    /// To the workspace.
    Status,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pause {
    pub until: Timestamp,
    pub by: String,
    pub reason: String,
    /// The direction that is paused; `None` for both.
    pub only: Option<Way>,
}

/// The reason why annotations are not a valid pause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PauseProblem {
    #[error("the annotation {0} is missing")]
    Missing(&'static str),
    #[error(
        "the annotation syncagent.kcp.io/pause-until must be a time such as 2030-01-31T18:00:00Z"
    )]
    Until,
    #[error("the annotation syncagent.kcp.io/pause-direction must be spec or status")]
    Direction,
}

impl Pause {
    /// The pause in the annotations of an object.
    pub fn of(object: &Object) -> Result<Option<Self>, PauseProblem> {
        let given = |name| {
            let text = object.annotation(name).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let names = [UNTIL, BY, REASON, DIRECTION];
        if names.into_iter().all(|name| given(name).is_none()) {
            return Ok(None);
        }
        let required = |name| given(name).ok_or(PauseProblem::Missing(name));
        let until = required(UNTIL)?.parse::<Timestamp>();
        let only = match given(DIRECTION) {
            None => None,
            Some("spec") => Some(Way::Spec),
            Some("status") => Some(Way::Status),
            Some(_) => return Err(PauseProblem::Direction),
        };
        Ok(Some(Self {
            until: until.map_err(|_| PauseProblem::Until)?,
            by: shown(required(BY)?),
            reason: shown(required(REASON)?),
            only,
        }))
    }

    /// Whether the pause holds writes in this direction.
    pub fn holds(&self, way: Way, now: Timestamp) -> bool {
        now < self.until && self.only.is_none_or(|only| only == way)
    }
}

fn shown(text: &str) -> String {
    let plain = text.chars().filter(|one| !one.is_control());
    plain.take(SHOWN).collect()
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            until, by, reason, ..
        } = self;
        write!(f, "until {until} by {by}: {reason}")
    }
}

#[cfg(test)]
mod tests;
