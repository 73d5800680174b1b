//! Whose words a template writes: its author's alone, or also those of the objects it is given.
//!
//! Decided by reading the template, not by rendering it with an object, so that no object can mislead
//! it. What does not depend on objects is worked out by the engine itself, and of a condition that is
//! certain only the branch that is taken is read. Where something is not certain, the answer is that
//! objects have a say.

use super::{Engine, has_actions};

mod go;
mod handlebars;

/// How much of one template is looked at: definitions that use one another can be longer than their text.
const MAX_NODES: usize = 5_000;
/// How deep its blocks nest, with the definitions that they use and every `else if`.
const MAX_DEPTH: usize = 100;

/// What is known of the data of a template before there is any.
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

/// Whether everything that a template writes is its author's text or a field that is its author's,
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
