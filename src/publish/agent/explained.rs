//! What the agent would do about one object, and why.

use std::fmt;

pub use crate::explain::DueWrite;
use crate::explain::is_left;
use crate::publish::filters::FilterResult;
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
    /// The filters, as far as their results are known.
    pub filters: Vec<FilterResult>,
    pub not_synced: Option<Exclusion>,
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
    /// Whether contents of Secrets are copied, so that servers' words may quote them.
    pub has_secrets: bool,
}

/// Why the agent does not sync an object at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// This field leaves the object out.
    Filter(&'static str),
    /// No workspace with the object takes part.
    Unbound,
    /// The mode of this published resource is `Plan`.
    PlansOnly(String),
}

/// The object itself, or one that travels with it.
#[derive(Debug)]
pub struct ExplainedLink {
    /// The related entry; `None` for the object itself.
    pub entry: Option<String>,
    pub reason: Reason,
    pub copy: Option<Key>,
    /// How the copy was found, if it exists.
    pub found_by: Option<&'static str>,
}

/// The path of a workspace, if it is known, and its logical cluster.
pub fn workspace_name(path: Option<&str>, cluster: &str) -> String {
    match path {
        Some(path) => format!("{path} ({cluster})"),
        None => cluster.to_owned(),
    }
}

impl Explained {
    /// An object without a pass, perhaps with the reason.
    pub fn untried(published_resource: &str, object: Key, reason: Option<Reason>) -> Self {
        let link = reason.map(|reason| ExplainedLink {
            entry: None,
            reason,
            copy: None,
            found_by: None,
        });
        Self {
            published_resource: published_resource.to_owned(),
            object,
            path: None,
            pauses: Vec::new(),
            filters: Vec::new(),
            not_synced: None,
            state: None,
            has_state: false,
            drift: Vec::new(),
            adopts: false,
            links: link.into_iter().collect(),
            due: Vec::new(),
            has_secrets: false,
        }
    }

    /// Whether the object is in sync.
    pub fn is_in_step(&self) -> bool {
        self.is_settled() && self.not_synced.is_none()
    }

    /// Whether nothing is left to do for the agent.
    pub fn is_settled(&self) -> bool {
        !is_left(&self.due) && self.reason().code.class() == Class::Settled
    }

    /// Whether a pass cannot see something that decides about its writes.
    pub fn is_unknown(&self) -> bool {
        let mut links = self.links.iter();
        self.due.is_empty() && links.any(|link| link.reason.code.class() == Class::Retry)
    }

    /// Why the agent leaves the object as it is. It takes back what it made for an object that a filter leaves out now.
    pub fn left_alone(&self) -> Option<&Exclusion> {
        self.not_synced.as_ref().filter(|why| match why {
            Exclusion::Filter(_) => self.is_settled(),
            Exclusion::Unbound | Exclusion::PlansOnly(_) => true,
        })
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

impl Exclusion {
    /// The next step.
    pub fn advice(&self) -> String {
        match self {
            Self::Filter(field) => {
                format!("change the labels or {field}, if the object is to be synced")
            }
            Self::Unbound => {
                "bind the API in the workspace. If the workspace left, hawser orphans list names its copies"
                    .to_owned()
            }
            Self::PlansOnly(name) => format!(
                "set spec.mode of the PublishedResource {name} to Sync, if its objects are to be synced"
            ),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter(_) => f.write_str("a filter leaves the object out"),
            Self::Unbound => f.write_str("no workspace that binds the API has the object"),
            Self::PlansOnly(name) => {
                write!(f, "the mode of the PublishedResource {name} is Plan")
            }
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
            found_by: None,
        }
    }
}
