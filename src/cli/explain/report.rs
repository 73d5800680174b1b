//! What is told about objects of every dialect: verdicts, attempts, due writes, and lists by reason.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::sheet::{Advice, Cause, SheetHead, line};
use crate::cli::output::{differences_json, write_change};
use crate::explain::DueWrite;
use hawser_runtime::overview::fetch::fetch;
use hawser_runtime::overview::site::ObjectPath;
use hawser_runtime::overview::{AttemptsOverview, ObjectAnswer, Overview, Role, plain, span};
use hawser_sync::reason::Class;
use hawser_sync::{Code, Key, Reason};

/// The objects that are listed for each reason.
const MOST_OBJECTS: usize = 100;
/// The tenants that are listed.
const MOST_TENANTS: usize = 20;

/// The objects of a list that the page is asked about.
const MOST_ASKED: usize = 500;

/// What the running process knows of objects.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    known: Vec<Option<AttemptsOverview>>,
    /// Why some of it is unknown.
    pub(super) problem: Option<String>,
}

impl Attempts {
    /// Asks the page of the running process about objects; `None` stands for an object that is not asked about.
    pub(super) async fn ask<'o>(
        page: &str,
        name: &str,
        objects: impl Iterator<Item = Option<ObjectPath<'o>>>,
    ) -> Self {
        let (mut attempts, mut asked) = (Self::default(), 0);
        for object in objects {
            let Some(object) = object else {
                attempts.known.push(None);
                continue;
            };
            asked += 1;
            if asked > MOST_ASKED {
                attempts.problem = Some(format!("only {MOST_ASKED} objects were asked about"));
                return attempts;
            }
            let answer = match fetch::<ObjectAnswer>(page, &object.to_string()).await {
                Ok(answer) => answer,
                Err(error) => {
                    attempts.problem = Some(error.to_string());
                    return attempts;
                }
            };
            let whose = if answer.agent != name {
                format!("{:?}, not of {name:?}", answer.agent)
            } else if answer.elsewhere {
                "a replica that does not hold the shard of the workspace".to_owned()
            } else if matches!(answer.role, Role::Leading | Role::Sharing) {
                attempts.known.push(answer.attempts);
                continue;
            } else {
                "a process that does not lead".to_owned()
            };
            attempts.known.push(None);
            attempts.problem = Some(format!("{page} is the page of {whose}"));
        }
        attempts
    }

    /// Removes what a server said about an object with contents of Secrets.
    pub(super) fn withhold(&mut self, number: usize) {
        if let Some(Some(known)) = self.known.get_mut(number) {
            let is_ours = Code::named(&known.code).is_some_and(|code| {
                matches!(
                    code,
                    Code::Held | Code::Paused | Code::Contested | Code::CacheLimitExceeded
                )
            });
            if !is_ours {
                known.detail.clear();
            }
        }
    }

    /// The attempts of the object with this number.
    pub(super) fn of(&self, number: usize) -> Option<&AttemptsOverview> {
        self.known.get(number)?.as_ref()
    }

    /// The line about what is unknown.
    pub(super) fn show_problem(&self, text: &mut String) {
        if let Some(problem) = &self.problem {
            let problem = plain(problem);
            let _ = writeln!(
                text,
                "attempts and back-off are unknown: {problem}. Forward the port of the page, or set --page"
            );
        }
    }
}

/// Whether a page shows that this process runs.
pub(super) async fn is_shown(page: &str, name: &str) -> bool {
    let overview = fetch::<Overview>(page, "/overview.json").await;
    overview.is_ok_and(|overview| overview.name == name)
}

/// The reason of an object. Dry runs do not show what a due write waits for, such as an approval or the end of a contest;
/// the running process knows it.
pub(super) fn known_reason(found: Reason, attempts: Option<&AttemptsOverview>) -> Reason {
    let Some(attempts) = attempts.filter(|_| found.code == Code::Working) else {
        return found;
    };
    match Code::named(&attempts.code) {
        Some(code) if code.class() > Class::Working && !is_found_by_dry_runs(code) => {
            Reason::new(code, attempts.detail.clone())
        }
        Some(_) | None => found,
    }
}

/// Whether dry runs find this reason as long as it is one. If they find a due write instead, its cause is gone.
fn is_found_by_dry_runs(code: Code) -> bool {
    matches!(
        code,
        Code::WaitingForDeletion
            | Code::WaitingForNamespace
            | Code::WaitingForOthers
            | Code::NameConflict
            | Code::AdoptionRefused
            | Code::NameInvalid
            | Code::NamingFailed
            | Code::NamespaceMissing
            | Code::NamespaceClosed
            | Code::TooDeep
            | Code::MutationFailed
            | Code::NotLinked
            | Code::ReferenceInvalid
            | Code::TooManyRelated
            | Code::KindNotServed
    )
}

/// Whether an object is in sync, why, what to do, and what was tried.
pub(super) fn verdict(
    text: &mut String,
    is_in_step: bool,
    reason: &Reason,
    advice: Advice,
    attempts: Option<&AttemptsOverview>,
) {
    let head = SheetHead {
        in_sync: Some(is_in_step),
        cause: Cause::of(reason, advice),
    };
    head.show(text);
    let Some(attempts) = attempts else {
        return;
    };
    let next = match attempts.next_seconds {
        Some(seconds) => format!("the next in {}", span(seconds)),
        None => "the next after a change".to_owned(),
    };
    let made = format!(
        "{} in {} ({}), the last {} ago, {next}",
        attempts.attempts,
        span(attempts.since_seconds),
        attempts.code,
        span(attempts.last_seconds),
    );
    line(text, "attempts", made);
    if !attempts.detail.is_empty() && attempts.detail != reason.detail {
        line(text, "last answer", &attempts.detail);
    }
}

/// The writes that are due on the object and others.
pub(super) fn due_writes(text: &mut String, due: &[DueWrite], object: Option<&Key>) {
    if !due.is_empty() {
        text.push_str("  due writes\n");
    }
    for (number, write) in due.iter().enumerate() {
        let own = if Some(&write.object) == object {
            " (the object)"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "    {}. {} {}{own}",
            number + 1,
            write.verb,
            write.object
        );
        if let Some(refusal) = &write.refusal {
            let _ = writeln!(text, "       refused: {}", plain(refusal));
        }
        write_change(text, "         ", write);
    }
}

/// An object of a list that is out of sync.
pub(super) struct OutOfSync {
    pub(super) reason: Reason,
    pub(super) title: String,
    pub(super) tenant: String,
}

/// The objects that are out of sync, by reason and tenant, the most serious reason and the tenant with most objects
/// first. Of `total` objects, the others are in sync.
pub(super) fn by_reason(
    out_of_sync: Vec<OutOfSync>,
    total: usize,
    tenant_word: &str,
    advice: Advice,
) -> String {
    let mut text = String::new();
    let out = out_of_sync.len();
    let mut tenants: BTreeMap<String, usize> = BTreeMap::new();
    let mut reasons: BTreeMap<Code, Vec<OutOfSync>> = BTreeMap::new();
    for one in out_of_sync {
        *tenants.entry(one.tenant.clone()).or_default() += 1;
        reasons.entry(one.reason.code).or_default().push(one);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(code, objects)| Reverse((code.class(), objects.len())));
    for (code, objects) in &reasons {
        let of: BTreeSet<_> = objects.iter().map(|one| &one.tenant).collect();
        let many = match of.len() {
            1 => String::new(),
            many => format!(" in {many} {tenant_word}s"),
        };
        let _ = writeln!(
            text,
            "{code}: {} ({}{many})",
            code.sentence(),
            objects.len()
        );
        if let Some(advice) = advice(*code) {
            let _ = writeln!(text, "  what to do: {advice}");
        }
        for OutOfSync { title, reason, .. } in objects.iter().take(MOST_OBJECTS) {
            let colon = if reason.detail.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "  {title}{colon}{}", plain(&reason.detail));
        }
        more(&mut text, objects.len(), MOST_OBJECTS);
    }
    let mut tenants: Vec<_> = tenants.into_iter().collect();
    tenants.sort_by_key(|(_, count)| Reverse(*count));
    if tenants.len() > 1 {
        let _ = writeln!(text, "by {tenant_word}");
        for (tenant, count) in tenants.iter().take(MOST_TENANTS) {
            let _ = writeln!(text, "  {tenant}: {count}");
        }
        more(&mut text, tenants.len(), MOST_TENANTS);
    }
    let _ = writeln!(text, "{out} of {total} objects are out of sync");
    text
}

/// The line about those that are not shown.
pub(super) fn more(text: &mut String, all: usize, shown: usize) {
    if all > shown {
        let left = all - shown;
        let _ = writeln!(text, "  … and {left} more, which -o json shows");
    }
}

pub(super) fn reason_json(reason: &Reason, advice: Advice) -> Value {
    Cause::of(reason, advice).as_json()
}

pub(super) fn due_json(due: &[DueWrite]) -> Vec<Value> {
    let each = due.iter().map(|write| {
        json!({
            "verb": write.verb,
            "object": write.object.to_string(),
            "change": write.change,
            "differences": write.differences.as_ref().map(differences_json),
            "moreDifferences": write.differences.as_ref().map_or(0, |all| all.more),
            "refusal": write.refusal,
            "held": write.held,
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_due_write_waits_for_is_the_reason_if_the_process_knows_it() {
        let of = |found: Code, known: &str| {
            let attempts = AttemptsOverview {
                code: known.to_owned(),
                detail: "spec.size".to_owned(),
                ..AttemptsOverview::default()
            };
            let reason = known_reason(found.into(), Some(&attempts));
            (reason.code, reason.detail)
        };
        let known = |code| (code, "spec.size".to_owned());
        let found = |code| (code, String::new());
        assert_eq!(of(Code::Working, "Held"), known(Code::Held));
        assert_eq!(of(Code::Working, "Contested"), known(Code::Contested));
        assert_eq!(of(Code::Working, "InStep"), found(Code::Working));
        assert_eq!(of(Code::Working, "AdoptionRefused"), found(Code::Working));
        assert_eq!(of(Code::Working, "Unheard"), found(Code::Working));
        // What a server says now is newer.
        assert_eq!(of(Code::Invalid, "Forbidden"), found(Code::Invalid));
        let alone = known_reason(Code::Working.into(), None);
        assert_eq!(alone.code, Code::Working);
    }
}
