//! The size of a table.

use std::ops::AddAssign;
use std::time::Duration;

/// The size of a table, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub entries: usize,
    /// Bytes of the bodies, compressed.
    pub bytes: usize,
    /// Objects that cannot be read whole.
    pub fragments: usize,
    /// Objects that are left out, because too much is kept of their cluster.
    pub left_out: usize,
    /// Bytes of the cluster with the most, if there is a limit.
    pub largest: usize,
    /// The time since the server last sent anything.
    pub silence: Duration,
}

impl AddAssign for Size {
    fn add_assign(&mut self, more: Self) {
        self.entries += more.entries;
        self.bytes += more.bytes;
        self.fragments += more.fragments;
        self.left_out += more.left_out;
        self.largest = self.largest.max(more.largest);
        self.silence = self.silence.max(more.silence);
    }
}
