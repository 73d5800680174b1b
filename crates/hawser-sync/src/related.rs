//! Phase five: the other links. Every link goes through the same phases; here is what lies
//! between them: waves, gates, and what becomes of a link whose source is gone.

use std::sync::Arc;

use kube_lang::object::Object;

use super::content::{Copy, content};
use super::create::{adopt, create};
use super::delete::{Extent, retract, vanished};
use super::locate::{Located, locate};
use super::pass::{Pass, Sight, Turn, hold, shed};
use super::reason::{Class, Code, Reason};
use super::request::Effect;
use super::subject::{Fate, Gate, Intent, Link, Source};

/// The links of a subject in waves, lowest first.
pub(super) fn waves(links: &[Link]) -> Vec<Vec<&Link>> {
    let mut numbers: Vec<u8> = links.iter().map(|link| link.wave).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let wave = |n: &u8| links.iter().filter(|link| link.wave == *n).collect();
    numbers.iter().map(wave).collect()
}

/// What the links of the lower waves have come to.
#[derive(Clone, Copy)]
pub(super) struct Below {
    placed: bool,
    settled: bool,
}

impl Below {
    pub(super) fn nothing() -> Self {
        Self {
            placed: true,
            settled: true,
        }
    }

    pub(super) fn add(&mut self, turn: &Turn, exists: bool) {
        let class = turn.reason.code.class();
        self.placed &=
            exists || matches!(turn.reason.code, Code::Gone | Code::Kept | Code::NoSource);
        self.settled &= turn.ended() && matches!(class, Class::Settled | Class::Refused);
    }

    fn open(self, gate: Gate) -> bool {
        match gate {
            Gate::Placed => self.placed,
            Gate::Settled => self.settled,
        }
    }
}

/// The turn of a link of a living subject, and whether its copy exists.
pub(super) fn turn(pass: &Pass<'_>, link: &Link, below: Below) -> (Turn, bool) {
    if let Source::Refused(reason) = &link.source {
        return (Turn::end(reason.clone()), false);
    }
    if pass.subject.intent == Intent::Leave && !matches!(link.source, Source::Unwanted(_)) {
        return (Turn::end(Code::Kept), true);
    }
    // What is not wanted any more waits for nobody.
    if !below.open(link.policy.gate) && !matches!(link.source, Source::Unwanted(_)) {
        return (Turn::end(Code::WaitingForOthers), false);
    }
    let source = match source(pass, link) {
        Ok(Sight::Present(source)) => source,
        Ok(Sight::Look(request)) => return (Turn::look(request), false),
        Ok(Sight::Absent) => {
            if let Some(turn) = vanished(pass, link) {
                return (turn, false);
            }
            let fate = match link.source {
                Source::NotWanted | Source::Unwanted(_) => Fate::Delete,
                Source::Live(_) | Source::Rendered(_) | Source::Refused(_) => {
                    link.policy.source_gone
                }
            };
            return (retract(pass, link, None, fate, Extent::Link), false);
        }
        Err(dying) => {
            let fate = link.policy.source_gone;
            return (retract(pass, link, Some(&dying), fate, Extent::Link), false);
        }
    };
    if let (Source::Live(key), true) = (&link.source, source.is_fragment()) {
        return (Turn::too_deep(key), false);
    }
    if let Source::Live(key) = &link.source
        && let Some(turn) = shed(pass, link, key, &source)
    {
        return (turn, false);
    }
    if let (Source::Live(key), Some(finalizer)) = (&link.source, &link.policy.hold)
        && !source.has_finalizer(&finalizer.0)
    {
        let (turn, exists) = synced(pass, link, &source);
        // A hold that no memory tells of would stay once nothing leads here any more: what is refused is
        // not held, and what is about to be made is remembered first.
        let remembers = pass.remembers() && link.policy.content.is_remembered();
        if remembers && pass.entry(link).is_none() {
            return (turn, exists);
        }
        let mut held = Turn::step(hold(key, &source, finalizer), Effect::Accepted);
        held.memory = turn.memory;
        return (held, false);
    }
    synced(pass, link, &source)
}

/// The link's source; an error where it is in deletion.
fn source(pass: &Pass<'_>, link: &Link) -> Result<Sight, Arc<Object>> {
    Ok(match &link.source {
        Source::NotWanted | Source::Refused(_) => Sight::Absent,
        Source::Unwanted(_) if link.policy.hold.is_none() => Sight::Absent,
        Source::Unwanted(key) => match pass.see(key) {
            Sight::Present(object) => return Err(object),
            sight => sight,
        },
        Source::Rendered(object) => Sight::Present(Arc::clone(object)),
        Source::Live(key) => match pass.see(key) {
            Sight::Present(object) if object.in_deletion() => return Err(object),
            sight => sight,
        },
    })
}

fn synced(pass: &Pass<'_>, link: &Link, source: &Object) -> (Turn, bool) {
    let refused = |reason: Reason| Turn::end(reason);
    let located = locate(pass, link, Some(source));
    if let Located::Missing { key, .. } | Located::Unclaimed { key, .. } | Located::Copy { key, .. } =
        &located
        && let Err(reason) = link.rules.allows(key)
    {
        let exists = matches!(located, Located::Copy { .. });
        return (refused(reason).of(key), exists);
    }
    match located {
        Located::Look(request) => (Turn::look(request), false),
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
        Located::Copy {
            key,
            object,
            made,
            marked,
        } => {
            let copy = Copy {
                key,
                object,
                made,
                marked,
            };
            (
                content(pass, link, source, &copy).unwrap_or_else(refused),
                true,
            )
        }
    }
}
