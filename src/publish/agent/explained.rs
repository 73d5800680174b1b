//! What the agent would do about one object, and why.

pub use crate::explain::DueWrite;
use crate::explain::is_left;
use crate::publish::related;
use crate::publish::rules::PRIMARY;
use hawser_sync::reason::Class;
use hawser_sync::{Code, DriftedField, Key, Outcome, Reason};

/// An object, and what the agent would do about it.
#[derive(Debug)]
pub struct Explained {
    pub published_resource: String,
    /// The object of the workspace.
    pub object: Key,
    /// The path of its workspace, if the agent knows it.
    pub path: Option<String>,
    /// The pauses in force. Writes that they hold are still listed as due.
    pub pauses: Vec<String>,
    /// The filter that leaves the object out.
    pub left_out_by: Option<&'static str>,
    /// The state Secret of the object.
    pub state: Option<Key>,
    /// Whether the state Secret exists.
    pub has_state: bool,
    /// The fields of the copy that other writers changed, if they were asked for.
    pub drift: Vec<DriftedField>,
    /// Whether an existing object would become the copy.
    pub adopts: bool,
    /// The most serious reason first.
    pub links: Vec<ExplainedLink>,
    /// The writes that are due, in the order in which they would be sent.
    pub due: Vec<DueWrite>,
}

/// The object itself, or one that travels with it.
#[derive(Debug)]
pub struct ExplainedLink {
    /// The related entry; `None` for the object itself.
    pub entry: Option<String>,
    pub reason: Reason,
    pub copy: Option<Key>,
}

impl Explained {
    /// Whether the object is in sync.
    pub fn is_in_step(&self) -> bool {
        !is_left(&self.due) && self.reason().code.class() == Class::Settled
    }

    /// The most serious reason.
    pub fn reason(&self) -> Reason {
        let settled = || Reason::from(Code::NoSource);
        let first = self.links.first().map(|link| link.reason.clone());
        match first.unwrap_or_else(settled) {
            reason if reason.code.class() == Class::Settled && is_left(&self.due) => {
                match self.pauses.first() {
                    Some(pause) => Reason::new(Code::Paused, pause.clone()),
                    None => Code::Working.into(),
                }
            }
            reason => reason,
        }
    }
}

impl From<Outcome> for ExplainedLink {
    fn from(outcome: Outcome) -> Self {
        let entry = if *outcome.link.0 == *PRIMARY {
            None
        } else {
            let entry = related::entry_of(&outcome.link);
            Some(entry.unwrap_or_else(|| outcome.link.0.to_string()))
        };
        Self {
            entry,
            reason: outcome.reason,
            copy: outcome.copy,
        }
    }
}
