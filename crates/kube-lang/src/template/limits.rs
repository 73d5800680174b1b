//! The limits of one rendering, and the work that it has left.

use std::cell::Cell;
use std::fmt;

/// The longest text that is rendered, and the longest a function returns.
pub(super) const MAX_OUTPUT: usize = 1 << 20;
/// The work of one rendering, in parts of the template that are gone through, calls, and units of 64 bytes or one element. A unit is a
/// microsecond or less.
pub const MAX_WORK: u64 = 250_000;

thread_local! {
    /// The remaining work of the rendering that runs on this thread; `None` once it is used up. Functions are shared
    /// between renderings and have no other place to count.
    pub(super) static WORK: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Text that does not grow beyond the limit.
pub(super) struct Bounded(pub(super) String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

/// Counts work of the running rendering.
pub(super) fn spend(units: u64) -> Result<(), String> {
    let left = WORK.get().and_then(|left| left.checked_sub(units));
    WORK.set(left);
    match left {
        Some(_) => Ok(()),
        None => Err("the template does too much work".to_owned()),
    }
}
