//! Phase five: the other links. Every link goes through the same phases; this file has the parts between them: waves,
//! gates, and links whose source is gone.

use super::content::content;
use super::create::{adopt, create};
use super::delete::{DeletionScope, retract, vanished};
use super::key::Key;
use super::link::{Fate, Link, Source};
use super::locate::{Located, locate};
use super::pass::{LinkDecision, Lookup, Pass, add_finalizer, drop_foreign_finalizer};
use super::reason::{Code, Reason};
use super::request::Effect;
use super::subject::Intent;

/// The links of a subject in waves, lowest first.
pub(super) fn waves(links: &[Link]) -> Vec<Vec<&Link>> {
    let mut numbers: Vec<u8> = links.iter().map(|link| link.wave).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let wave = |n: &u8| links.iter().filter(|link| link.wave == *n).collect();
    numbers.iter().map(wave).collect()
}

/// Decides about a link of a living subject; returns whether its copy exists. `placed`: all copies of the lower waves
/// exist.
pub(super) fn turn(pass: &Pass<'_>, link: &Link, placed: bool) -> (LinkDecision, bool) {
    let key = match &link.source {
        Source::Refused(reason) => return (LinkDecision::end(reason.clone()), false),
        // Deletions do not wait for other links.
        Source::Unwanted(key) => return (unwanted(pass, link, key), false),
        Source::Live(_) if pass.subject.intent == Intent::Leave => {
            return (LinkDecision::end(Code::Kept), true);
        }
        Source::Live(_) if !placed => return (LinkDecision::end(Code::WaitingForOthers), false),
        Source::Live(key) => key,
    };
    let source = match pass.lookup(key) {
        Lookup::Read(request) => return (LinkDecision::read(request), false),
        Lookup::Absent => return (without_source(pass, link, link.policy.source_gone), false),
        Lookup::Present(source) if source.in_deletion() => {
            let fate = link.policy.source_gone;
            let turn = retract(pass, link, Some(&source), fate, DeletionScope::Link);
            return (turn, false);
        }
        Lookup::Present(source) if source.is_fragment() => {
            return (LinkDecision::unread(key, &source), false);
        }
        Lookup::Present(source) => source,
    };
    if let Some(turn) = drop_foreign_finalizer(pass, link, key, &source) {
        return (turn, false);
    }
    let located = locate(pass, link, Some(&source));
    let copy = match &located {
        Located::Copy(copy) => Some(copy.key.clone()),
        _ => None,
    };
    let exists = copy.is_some();
    let turn = match located.place().map_or(Ok(()), |key| link.rules.allows(key)) {
        Err(reason) => Ok(LinkDecision {
            copy: located.place().cloned(),
            ..LinkDecision::end(reason)
        }),
        Ok(()) => match located {
            Located::Read(request) => Ok(LinkDecision::read(request)),
            Located::Unplaced(reason) => Err(reason),
            Located::Foreign { key, who } => {
                Ok(LinkDecision::end(Reason::new(Code::NameConflict, who)).of(&key))
            }
            Located::Missing { key, .. } => create(pass, link, &source, &key),
            Located::Unclaimed { key, object } => adopt(pass, link, &source, &key, &object),
            Located::Copy(copy) => content(pass, link, &source, &copy),
        },
    };
    let turn = turn.unwrap_or_else(|reason| LinkDecision {
        copy,
        ..LinkDecision::end(reason)
    });
    // A finalizer without a record in the memory would stay for ever once no entry leads to the source. So a refused
    // source gets no finalizer, and an intended copy is recorded before the finalizer is added.
    let is_untold =
        pass.remembers() && link.policy.content.is_remembered() && pass.entry(link).is_none();
    match &link.policy.source_finalizer {
        Some(finalizer) if !is_untold && !source.has_finalizer(&finalizer.0) => {
            let mut held =
                LinkDecision::step(add_finalizer(key, &source, finalizer), Effect::Accepted);
            held.memory = turn.memory;
            (held, false)
        }
        _ => (turn, exists),
    }
}

/// The turn of a copy whose source is no longer wanted.
fn unwanted(pass: &Pass<'_>, link: &Link, key: &Key) -> LinkDecision {
    let known = match link.policy.source_finalizer {
        None => Lookup::Absent,
        Some(_) => pass.lookup(key),
    };
    match known {
        Lookup::Read(request) => LinkDecision::read(request),
        Lookup::Absent => without_source(pass, link, Fate::Delete),
        Lookup::Present(source) => {
            let fate = link.policy.source_gone;
            retract(pass, link, Some(&source), fate, DeletionScope::Link)
        }
    }
}

/// The end of a copy whose source is gone.
fn without_source(pass: &Pass<'_>, link: &Link, fate: Fate) -> LinkDecision {
    vanished(pass, link).unwrap_or_else(|| retract(pass, link, None, fate, DeletionScope::Link))
}
