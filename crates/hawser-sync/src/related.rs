//! Phase five: the other links. Every link goes through the same phases; this file has what lies between them: waves,
//! gates, and links whose source is gone.

use kube_lang::object::Object;

use super::content::content;
use super::create::{adopt, create};
use super::delete::{Extent, retract, vanished};
use super::link::{Fate, Link, Source};
use super::locate::{Located, LocatedCopy, locate};
use super::pass::{Lookup, Pass, Turn, add_finalizer, drop_foreign_finalizer};
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
pub(super) fn turn(pass: &Pass<'_>, link: &Link, placed: bool) -> (Turn, bool) {
    let (key, is_unwanted) = match &link.source {
        Source::Refused(reason) => return (Turn::end(reason.clone()), false),
        Source::Live(key) => (key, false),
        Source::Unwanted(key) => (key, true),
    };
    if pass.subject.intent == Intent::Leave && !is_unwanted {
        return (Turn::end(Code::Kept), true);
    }
    // What is not wanted any more waits for nobody.
    if !placed && !is_unwanted {
        return (Turn::end(Code::WaitingForOthers), false);
    }
    let known = if is_unwanted && link.policy.source_finalizer.is_none() {
        Lookup::Absent
    } else {
        pass.lookup(key)
    };
    let source = match known {
        Lookup::Read(request) => return (Turn::read(request), false),
        Lookup::Absent => {
            if let Some(turn) = vanished(pass, link) {
                return (turn, false);
            }
            let fate = if is_unwanted {
                Fate::Delete
            } else {
                link.policy.source_gone
            };
            return (retract(pass, link, None, fate, Extent::Link), false);
        }
        Lookup::Present(source) if is_unwanted || source.in_deletion() => {
            let fate = link.policy.source_gone;
            return (
                retract(pass, link, Some(&source), fate, Extent::Link),
                false,
            );
        }
        Lookup::Present(source) => source,
    };
    if source.is_fragment() {
        return (Turn::too_deep(key), false);
    }
    if let Some(turn) = drop_foreign_finalizer(pass, link, key, &source) {
        return (turn, false);
    }
    let (turn, exists) = synced(pass, link, &source);
    // A hold that no memory tells of would stay once nothing leads here any more: what is refused is
    // not held, and what is about to be made is remembered first.
    let is_untold =
        pass.remembers() && link.policy.content.is_remembered() && pass.entry(link).is_none();
    match &link.policy.source_finalizer {
        Some(finalizer) if !is_untold && !source.has_finalizer(&finalizer.0) => {
            let mut held = Turn::step(add_finalizer(key, &source, finalizer), Effect::Accepted);
            held.memory = turn.memory;
            (held, false)
        }
        _ => (turn, exists),
    }
}

fn synced(pass: &Pass<'_>, link: &Link, source: &Object) -> (Turn, bool) {
    let refused = |reason: Reason| Turn::end(reason);
    let located = locate(pass, link, Some(source));
    if let Located::Missing { key, .. }
    | Located::Unclaimed { key, .. }
    | Located::Copy(LocatedCopy { key, .. }) = &located
        && let Err(reason) = link.rules.allows(key)
    {
        let exists = matches!(located, Located::Copy(_));
        return (refused(reason).of(key), exists);
    }
    match located {
        Located::Read(request) => (Turn::read(request), false),
        Located::Unplaced(reason) => (refused(reason), false),
        Located::Foreign { key, who } => (
            refused(Reason::new(Code::NameConflict, who)).of(&key),
            false,
        ),
        Located::Missing { key, .. } => (
            create(pass, link, source, &key).unwrap_or_else(refused),
            false,
        ),
        Located::Unclaimed { key, object } => {
            let turn = adopt(pass, link, source, &key, &object);
            (turn.unwrap_or_else(refused), false)
        }
        Located::Copy(copy) => (
            content(pass, link, source, &copy).unwrap_or_else(refused),
            true,
        ),
    }
}
