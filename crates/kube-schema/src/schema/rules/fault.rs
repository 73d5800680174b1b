//! Why an expression has no result, and how much work one may be.

use std::cell::Cell;

use super::value::Val;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// An operator may still know better: `false && <error>` is false.
    Error(String),
    /// There is no going on.
    Exhausted,
}

pub(super) type Answer<'a> = Result<Val<'a>, Fault>;

impl Fault {
    pub(super) fn new(message: &str) -> Self {
        Self::Error(message.to_owned())
    }
}

pub(super) fn no_overload() -> Fault {
    Fault::new("no such overload")
}

/// Counts work in the units of the server, roughly: a call, a step along a path, ten bytes of text.
pub(super) struct Meter(Cell<u64>);

impl Meter {
    pub(super) fn new(limit: u64) -> Self {
        Self(Cell::new(limit))
    }

    pub(super) fn left(&self) -> u64 {
        self.0.get()
    }

    pub(super) fn charge(&self, units: u64) -> Result<(), Fault> {
        let left = self.0.get().checked_sub(units);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(Fault::Exhausted)
    }

    /// For looking at, or making, so many bytes.
    pub(super) fn bytes(&self, count: usize) -> Result<(), Fault> {
        self.charge(count as u64 / 10)
    }
}
