//! Events on the objects of consumers: the result of a pass, in plain words.
//!
//! A pass causes one event at most, and another one for an invalid pause. An event reveals nothing of the provider's
//! side except the parts of a refusal that [`plain`] returns.

use crate::publish::related;
use crate::publish::rules::PRIMARY;
use hawser_sync::reason::Class;
use hawser_sync::{Code, Effect, Key, LinkId, Outcome, Report};

mod announcer;
pub mod plain;

pub use announcer::{Announcer, COMPONENT};
use plain::Hidden;

/// The beginnings of a refusal: of the object itself, and of one that belongs to it.
const OWN: &str = "The object";
const BELONGING: &str = "An object that belongs to this one";
/// The refusal of a request in the workspace.
const NEEDS_CLAIM: &str = "cannot be processed: this workspace does not let the service write it; its APIBinding has \
                           to accept the permission claim";

/// The number of different refusals that are reported for an object.
const MAX_REFUSALS: usize = 3;

/// The text of an event: a reason from a closed list, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerEvent {
    pub reason: Reason,
    pub message: String,
}

impl ConsumerEvent {
    fn synced() -> Self {
        Self {
            reason: Reason::Synced,
            message: Reason::Synced.sentence().to_owned(),
        }
    }
}

/// The reasons of events, as consumers know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The least informative first.
    Accepted,
    StatusSynced,
    Synced,
    Placed,
    Cleanup,
    Deleted,
    Paused,
    PauseIgnored,
    StatusMissing,
    Refused,
}

impl Reason {
    pub const ALL: [Self; 10] = [
        Self::Accepted,
        Self::StatusSynced,
        Self::Synced,
        Self::Placed,
        Self::Cleanup,
        Self::Deleted,
        Self::Paused,
        Self::PauseIgnored,
        Self::StatusMissing,
        Self::Refused,
    ];

    /// Whether the event is the result of a pass over the object, and no remark beside it.
    pub fn is_result(self) -> bool {
        !matches!(self, Self::PauseIgnored | Self::StatusMissing)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ObjectAccepted",
            Self::StatusSynced => "ObjectStatusSynced",
            Self::Synced => "ObjectSynced",
            Self::Placed => "ObjectPlaced",
            Self::Cleanup => "ObjectCleanup",
            Self::Deleted => "ObjectDeleted",
            Self::Paused => "ObjectPaused",
            Self::PauseIgnored => "ObjectPauseIgnored",
            Self::StatusMissing => "StatusSubresourceMissing",
            Self::Refused => "ReconcilingError",
        }
    }

    /// `Normal` or `Warning`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::PauseIgnored | Self::StatusMissing | Self::Refused => "Warning",
            _ => "Normal",
        }
    }

    fn of(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Accepted => Some(Self::Accepted),
            Effect::StatusSynced => Some(Self::StatusSynced),
            Effect::Synced => Some(Self::Synced),
            Effect::Placed | Effect::Adopted => Some(Self::Placed),
            Effect::Cleanup | Effect::LetGo => Some(Self::Cleanup),
            Effect::Released => Some(Self::Deleted),
            Effect::Looked
            | Effect::NamespaceMade
            | Effect::Remembered
            | Effect::Forgotten
            | Effect::Reverted
            | Effect::Shed
            | Effect::Reported => None,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Accepted => "The object was accepted and will be processed.",
            Self::StatusSynced => "The status of the object was updated.",
            Self::Synced => "The latest change of the object was passed to the service.",
            Self::Placed => "The object was passed to the service.",
            Self::Cleanup => "The service is deleting its copy of the object.",
            Self::Deleted => "The service has deleted its copy of the object.",
            Self::Paused => "The object is paused, and its latest changes wait.",
            Self::PauseIgnored => "The pause is ignored.",
            Self::StatusMissing => "A status cannot be copied.",
            Self::Refused => "The object could not be processed.",
        }
    }
}

/// The event of a pass over an object: the refusal of the object or of something that belongs to it, else the most
/// informative effect. `None` if nothing changed and nothing is refused.
pub fn consumer_event(report: &Report, own: &Key) -> Option<ConsumerEvent> {
    let refused = |outcome: &&Outcome| outcome.reason.code.class() == Class::Refused;
    let mut told: Vec<String> = Vec::new();
    for outcome in report.outcomes.iter().filter(refused) {
        let message = refusal(outcome, report, own);
        if !told.contains(&message) {
            told.push(message);
        }
    }
    if !told.is_empty() {
        told.truncate(MAX_REFUSALS);
        return Some(ConsumerEvent {
            reason: Reason::Refused,
            message: told.join(" "),
        });
    }
    // Reported now, because a missing status subresource is not noticed again until the status changes.
    let lacks_status = |o: &&Outcome| o.reason.code == Code::StatusNotServed && !is_its_own(o);
    if let Some(outcome) = report.outcomes.iter().find(lacks_status) {
        return Some(ConsumerEvent {
            reason: Reason::StatusMissing,
            message: format!(
                "The status of {} cannot be copied: the target kind has no status subresource.",
                belonging(&outcome.link)
            ),
        });
    }
    let is_paused = |outcome: &Outcome| outcome.reason.code == Code::Paused;
    if report.outcomes.iter().any(is_paused) {
        return Some(ConsumerEvent {
            reason: Reason::Paused,
            message: Reason::Paused.sentence().to_owned(),
        });
    }
    // Effects on related objects are not effects on this object.
    let its_own = |link: Option<&LinkId>| link.is_none_or(|link| *link.0 == *PRIMARY);
    let happened = report.happened.iter();
    let effects = happened.filter(|(link, _)| its_own(link.as_ref()));
    let reason = effects.filter_map(|(_, e)| Reason::of(*e)).max()?;
    Some(ConsumerEvent {
        reason,
        message: reason.sentence().to_owned(),
    })
}

fn is_its_own(outcome: &Outcome) -> bool {
    *outcome.link.0 == *PRIMARY
}

/// A refusal in the message of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldRefusal<'a> {
    /// Of several codes with the same words, the first one.
    pub code: Code,
    pub sentence: &'a str,
    /// The consumer has to accept a permission claim.
    pub needs_claim: bool,
}

/// The refusals that a message tells of, in its order. Others word theirs differently, and have none.
pub fn refusals_in(message: &str) -> Vec<ToldRefusal<'_>> {
    let mut begins: Vec<usize> = [OWN, BELONGING]
        .iter()
        .flat_map(|whose| message.match_indices(whose).map(|(at, _)| at))
        .filter(|at| *at == 0 || message[..*at].ends_with(". "))
        .collect();
    begins.sort_unstable();
    let ends = begins.iter().skip(1).copied().chain([message.len()]);
    let sentences = begins.iter().zip(ends);
    let sentences = sentences.map(|(begin, end)| message[*begin..end].trim_end());
    sentences.filter_map(told_refusal).collect()
}

fn told_refusal(sentence: &str) -> Option<ToldRefusal<'_>> {
    let words = if let Some(words) = sentence.strip_prefix(OWN) {
        words
    } else {
        let words = sentence.strip_prefix(BELONGING)?;
        // The entry, in brackets.
        let entry = words
            .strip_prefix(" (")
            .and_then(|words| words.split_once(") "));
        entry.map_or(words, |(_, words)| words)
    };
    let words = words.trim_start();
    let told = |code, needs_claim| ToldRefusal {
        code,
        sentence,
        needs_claim,
    };
    if words.starts_with(NEEDS_CLAIM) {
        return Some(told(Code::Forbidden, true));
    }
    let refused = Code::ALL.iter().rev().copied();
    let refused = refused.filter(|code| code.class() == Class::Refused);
    let fits = refused.filter(|code| words.starts_with(refusal_text(*code)));
    // One text may begin with another.
    let code = fits.max_by_key(|code| refusal_text(*code).len())?;
    Some(told(code, false))
}

/// The description of a related link, as far as the owner of the object may know it.
fn belonging(link: &LinkId) -> String {
    let entry = related::entry_of(link).map(|entry| format!(" ({entry})"));
    format!(
        "an object that belongs to this one{}",
        entry.unwrap_or_default()
    )
}

/// The reason why one link is refused.
fn refusal(outcome: &Outcome, report: &Report, own: &Key) -> String {
    let is_its_own = is_its_own(outcome);
    let whose = if is_its_own {
        OWN.to_owned()
    } else {
        belonging(&outcome.link).replacen('a', "A", 1)
    };
    let code = outcome.reason.code;
    let in_its_workspace = outcome
        .copy
        .as_ref()
        .is_some_and(|copy| copy.side == own.side);
    let words = if code == Code::Forbidden && in_its_workspace {
        NEEDS_CLAIM
    } else {
        refusal_text(code)
    };
    let mut message = format!("{whose} {words}.");
    // Messages quote nothing of related objects, because these may be Secrets.
    if code == Code::Invalid && is_its_own {
        let copies = report.outcomes.iter().filter_map(|o| o.copy.as_ref());
        let hidden = Hidden::of(own, copies);
        let detail = &outcome.reason.detail;
        // A message about any other written object concerns only the provider.
        let about = |key: &Key| detail.contains(&format!(" {key}: "));
        if outcome.copy.as_ref().is_some_and(about)
            && let Some(why) = plain::invalid(detail, &hidden)
        {
            message.pop();
            message = format!("{message}: {why}");
        }
    }
    message
}

/// The meaning of a refusal for the owner of the object, who does not know copies.
fn refusal_text(code: Code) -> &'static str {
    match code {
        Code::NameConflict => {
            "cannot be processed: the service already uses its name for another object"
        }
        Code::AdoptionRefused => {
            "cannot be processed: an object of this name already exists in the service"
        }
        Code::NameInvalid => "cannot be processed: the service cannot use its name",
        Code::NamespaceMissing => "cannot be processed: the service has no namespace for it yet",
        Code::Invalid => "was refused as invalid",
        Code::Forbidden => "cannot be processed: the service does not allow it",
        Code::TooLarge => "is too large",
        Code::TooDeep => {
            "cannot be processed: the object or its copy is nested deeper than 127 levels"
        }
        Code::CacheLimitExceeded => {
            "cannot be processed: the objects of its workspace exceed the size that the service accepts"
        }
        Code::StateTooLarge => "is too large to be copied",
        Code::StateNotKept => "has a value that cannot be copied",
        Code::MutationFailed => {
            "cannot be processed: the service failed to convert it; the provider finds the reason in the log"
        }
        Code::NamingFailed => "cannot be processed: the service could not derive a name for it",
        Code::RulesInvalid => "cannot be processed at the moment: the service is misconfigured",
        Code::NotLinked | Code::NamespaceClosed => {
            "cannot be processed: the service does not allow that namespace"
        }
        Code::ReferenceInvalid => "cannot be processed: its reference could not be resolved",
        Code::TooManyRelated => "cannot be processed: the object refers to too many of its kind",
        Code::Contested => "cannot be kept up to date: another writer undoes each change",
        Code::KindNotServed => "cannot be processed: its kind is not served here",
        Code::InStep
        | Code::SourceNotQuiet
        | Code::Gone
        | Code::Kept
        | Code::NoSource
        | Code::Working
        | Code::NeedsToSee
        | Code::WaitingForDeletion
        | Code::WaitingForNamespace
        | Code::Held
        | Code::Paused
        | Code::WaitingForOthers
        | Code::NotSeen
        | Code::NoAnswer
        | Code::TooManyChanges
        | Code::StoredOtherwise
        | Code::StatusNotServed => "cannot be processed at the moment",
    }
}

#[cfg(test)]
mod tests;
