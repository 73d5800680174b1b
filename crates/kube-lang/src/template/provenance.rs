//! Provenance of a template's output: its author's text alone, or also values of the objects that it is given.
//!
//! Decided by reading the template, not by rendering it with an object, so that no object can mislead
//! it. What does not depend on objects is worked out by the engine itself, and of a condition that is
//! certain only the branch that is taken is read. Where something is not certain, the answer is that
//! objects have a say.

use super::{Engine, has_actions};

mod go;
mod handlebars;
mod words;

pub use words::{Data, Whose, Written};

/// What a template writes, whatever decides which of its branches is taken.
pub fn written(engine: Engine, text: &str, data: Data<'_>) -> Written {
    if !has_actions(text) {
        return Written::TEXT;
    }
    let (written, _) = super::within(super::MAX_WORK, || match engine {
        Engine::Handlebars => handlebars::written(text, data),
        Engine::Go | Engine::GoHtml => go::written(engine, text, data),
    });
    written
}

/// True if everything that a template writes is its author's text or a field that is its author's.
pub fn writes_only(engine: Engine, text: &str, data: Data<'_>) -> bool {
    written(engine, text, data).whose <= Whose::Whole
}

#[cfg(test)]
mod tests;
