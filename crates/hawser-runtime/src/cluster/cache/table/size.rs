//! How much a table holds.

use std::ops::AddAssign;

/// What a table holds, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub entries: usize,
    /// Of their bodies.
    pub bytes: usize,
    /// Objects that cannot be read whole.
    pub fragments: usize,
}

impl AddAssign for Size {
    fn add_assign(&mut self, more: Self) {
        self.entries += more.entries;
        self.bytes += more.bytes;
        self.fragments += more.fragments;
    }
}
