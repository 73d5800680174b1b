//! What is told about objects of every dialect: verdicts, attempts, due writes, and lists by reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::sheet::{Advice, Cause, SheetHead, line};
use crate::cli::output::{differences_json, write_change};
use crate::explain::DueWrite;
use hawser_runtime::overview::fetch::fetch;
use hawser_runtime::overview::site::ObjectPath;
use hawser_runtime::overview::{AttemptsOverview, ObjectAnswer, Role, plain, span};
use hawser_sync::reason::Class;
use hawser_sync::{Code, Key, Reason};

/// What the running process knows of objects, or why that is unknown.
pub(super) type Attempts = Result<Vec<Option<AttemptsOverview>>, String>;

/// Asks the page of the running process about objects; `None` stands for an object that is in sync.
pub(super) async fn attempts<'o>(
    page: &str,
    name: &str,
    objects: impl Iterator<Item = Option<ObjectPath<'o>>>,
) -> Attempts {
    let mut all = Vec::new();
    for object in objects {
        let Some(object) = object else {
            all.push(None);
            continue;
        };
        let answer = fetch::<ObjectAnswer>(page, &object.to_string()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.agent != name {
            let other = answer.agent;
            return Err(format!("{page} is the page of {other:?}, not of {name:?}"));
        }
        if answer.elsewhere {
            return Err(format!(
                "{page} is the page of a replica that does not hold the shard of the workspace"
            ));
        }
        if !matches!(answer.role, Role::Leading | Role::Sharing) {
            return Err(format!(
                "{page} is the page of a process that does not lead"
            ));
        }
        all.push(answer.attempts);
    }
    Ok(all)
}

/// The attempts of the object with this number.
pub(super) fn of_object(attempts: &Attempts, number: usize) -> Option<&AttemptsOverview> {
    attempts.as_ref().ok()?.get(number)?.as_ref()
}

/// The line about a page that did not answer.
pub(super) fn unknown_attempts(text: &mut String, attempts: &Attempts) {
    if let Err(problem) = attempts {
        let problem = plain(problem);
        let _ = writeln!(
            text,
            "attempts and back-off are unknown: {problem}. Forward the port of the page, or set --page"
        );
    }
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

/// The titles of objects that are out of sync by reason, the worst first. Of `total` objects, the others are in sync.
pub(super) fn by_reason(
    out_of_sync: impl Iterator<Item = (Reason, String)>,
    total: usize,
    advice: Advice,
) -> String {
    let mut text = String::new();
    let mut by_reason: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (reason, title) in out_of_sync {
        let worst_first = Reverse(reason.code.class());
        let of_reason = by_reason.entry((worst_first, reason.code)).or_default();
        of_reason.push((title, reason.detail));
    }
    for ((_, code), objects) in &by_reason {
        let _ = writeln!(text, "{code}: {} ({})", code.sentence(), objects.len());
        if let Some(advice) = advice(*code) {
            let _ = writeln!(text, "  what to do: {advice}");
        }
        for (title, detail) in objects {
            let colon = if detail.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "  {title}{colon}{}", plain(detail));
        }
    }
    let out: usize = by_reason.values().map(Vec::len).sum();
    let _ = writeln!(text, "{out} of {total} objects are out of sync");
    text
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
            "differences": write.differences.as_ref().map(|all| differences_json(all)),
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
