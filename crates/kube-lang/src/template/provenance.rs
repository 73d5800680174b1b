//! Provenance of a template's output: its author's text alone, or also values of the objects that it is given.
//!
//! Decided by reading the template, not by rendering it with an object, so that no object can mislead
//! it. What does not depend on objects is worked out by the engine itself, and of a condition that is
//! certain only the branch that is taken is read. Where something is not certain, the answer is that
//! objects have a say.

use super::{Engine, has_actions};

mod go;
mod handlebars;

/// The number of nodes of one template that are read: definitions that use one another can be longer than their text.
const MAX_NODES: usize = 5_000;
/// The largest nesting of its blocks, with the definitions that they use and every `else if`.
const MAX_DEPTH: usize = 100;

/// The fields of a template's data that are known before it is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Fields that are in nobody's words but the author's and the workspace's.
    pub own: &'a [&'a str],
    /// Fields with the text that they have.
    pub given: &'a [(&'a str, &'a str)],
}

impl Data<'_> {
    fn given(&self, field: &str) -> Option<&str> {
        let mut given = self.given.iter();
        given.find_map(|(name, text)| (*name == field).then_some(*text))
    }
}

/// True if everything that a template writes is its author's text or a field that is its author's,
/// whatever decides which of its branches is taken.
pub fn writes_only(engine: Engine, text: &str, data: Data<'_>) -> bool {
    if !has_actions(text) {
        return true;
    }
    let (only, _) = super::within(super::MAX_WORK, || match engine {
        Engine::Handlebars => handlebars::writes_only(text, data),
        Engine::Go | Engine::GoHtml => go::writes_only(engine, text, data),
    });
    only
}

#[cfg(test)]
mod tests;
