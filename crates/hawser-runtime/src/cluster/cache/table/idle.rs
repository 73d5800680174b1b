//! Objects in a table that nobody has read.

use std::collections::{HashMap, VecDeque};

use hawser_sync::Key;

/// Objects that have not been read, in the order in which they arrived.
#[derive(Default)]
pub(super) struct UnreadObjects {
    order: VecDeque<(Key, usize)>,
    known: HashMap<Key, usize>,
    pub(super) bytes: usize,
}

impl UnreadObjects {
    pub(super) fn push(&mut self, key: &Key, bytes: usize) {
        let known = self.known.get(key).copied().unwrap_or_default();
        // What grows counts anew: only the sum of all that is queued is a bound.
        if bytes > known {
            self.known.insert(key.clone(), bytes);
            self.bytes += bytes + Self::EACH;
            self.order.push_back((key.clone(), bytes));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Key> {
        let (key, bytes) = self.order.pop_front()?;
        self.bytes -= bytes + Self::EACH;
        if self.known.get(&key) == Some(&bytes) {
            self.known.remove(&key);
        }
        Some(key)
    }

    /// The overhead of an object beside its body, in bytes.
    const EACH: usize = 256;
}
