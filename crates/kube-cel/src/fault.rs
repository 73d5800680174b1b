//! Failures of an evaluation, and the limit of its work.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use kube_lang::go_regex::GoRegex;

#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An operator may still know better: `false && <error>` is false.
    Error(String),
    /// There is no going on.
    Exhausted,
}

impl Fault {
    pub(super) fn new(message: &str) -> Self {
        Self::Error(message.to_owned())
    }
}

pub(super) fn no_overload() -> Fault {
    Fault::new("no such overload")
}

/// Counts work in the units of the server, roughly: a call, a step along a path, ten bytes of text.
pub struct Meter {
    left: Cell<u64>,
    /// Patterns that were compiled and paid for: a loop may use one again and again.
    patterns: RefCell<Vec<Rc<GoRegex>>>,
}

/// The number of compiled patterns that are kept.
const PATTERNS: usize = 16;
/// The work that compiling a pattern takes.
const COMPILING: u64 = 5_000;

impl Meter {
    pub fn new(limit: u64) -> Self {
        Self {
            left: Cell::new(limit),
            patterns: RefCell::default(),
        }
    }

    pub fn left(&self) -> u64 {
        self.left.get()
    }

    pub(super) fn charge(&self, units: u64) -> Result<(), Fault> {
        let left = self.left.get().checked_sub(units);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(Fault::Exhausted)
    }

    /// For looking at, or making, so many bytes.
    pub(super) fn bytes(&self, count: usize) -> Result<(), Fault> {
        self.charge(count as u64 / 10)
    }

    /// A pattern that is not written out in the expression.
    pub(super) fn pattern(&self, text: &str) -> Result<Rc<GoRegex>, Fault> {
        let mut patterns = self.patterns.borrow_mut();
        if let Some(known) = patterns.iter().find(|known| known.as_str() == text) {
            return Ok(Rc::clone(known));
        }
        self.charge(COMPILING)?;
        let made = Rc::new(
            GoRegex::compile_small(text)
                .map_err(|why| Fault::Error(format!("error parsing regexp: {why}")))?,
        );
        if patterns.len() >= PATTERNS {
            patterns.remove(0);
        }
        patterns.push(Rc::clone(&made));
        Ok(made)
    }
}
