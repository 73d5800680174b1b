//! Pauses: annotations that hold the writes of an object, of its copy, or of all objects of a published resource.
//!
//! A pause names its author, its reason and its end. An incomplete pause holds nothing and is reported, and so is one of
//! a consumer that would last too long.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use kube_lang::object::Object;

pub const UNTIL: &str = "syncagent.kcp.io/pause-until";
pub const BY: &str = "syncagent.kcp.io/pause-by";
pub const REASON: &str = "syncagent.kcp.io/pause-reason";
pub const DIRECTION: &str = "syncagent.kcp.io/pause-direction";

/// The default of the longest pause of a consumer.
pub const LONGEST_OF_CONSUMERS: SignedDuration = SignedDuration::from_hours(24);

/// The maximum number of characters shown of an author or a reason.
const SHOWN: usize = 200;

/// The direction of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteDirection {
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
    pub only: Option<WriteDirection>,
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
    #[error("the annotation syncagent.kcp.io/pause-until must be a time within {0:#} from now")]
    TooLong(SignedDuration),
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
            Some("spec") => Some(WriteDirection::Spec),
            Some("status") => Some(WriteDirection::Status),
            Some(_) => return Err(PauseProblem::Direction),
        };
        Ok(Some(Self {
            until: until.map_err(|_| PauseProblem::Until)?,
            by: shown(required(BY)?),
            reason: shown(required(REASON)?),
            only,
        }))
    }

    /// The pause in the annotations of a consumer's object. It ends within this time.
    pub fn of_consumer(
        object: &Object,
        longest: SignedDuration,
        now: Timestamp,
    ) -> Result<Option<Self>, PauseProblem> {
        match Self::of(object)? {
            Some(pause) if pause.is_too_long(longest, now) => Err(PauseProblem::TooLong(longest)),
            pause => Ok(pause),
        }
    }

    /// Whether the pause lasts longer from now than a consumer's may.
    pub fn is_too_long(&self, longest: SignedDuration, now: Timestamp) -> bool {
        self.until.duration_since(now) > longest
    }

    /// Whether the pause holds writes in this direction.
    pub fn holds(&self, way: WriteDirection, now: Timestamp) -> bool {
        now < self.until && self.only.is_none_or(|only| only == way)
    }
}

/// Whether an object has been in deletion for this time: no pause of a consumer may hold it any longer.
pub fn is_overdue(object: &Object, longest: SignedDuration, now: Timestamp) -> bool {
    let metadata = object.root().get("metadata");
    let deleted = metadata.and_then(|metadata| metadata.get("deletionTimestamp")?.as_str());
    let deleted = deleted.and_then(|text| text.parse::<Timestamp>().ok());
    deleted.is_some_and(|deleted| now.duration_since(deleted) >= longest)
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
