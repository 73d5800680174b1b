//! How far a command is that tries many objects.

use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_runtime::overview::grouped;

/// The objects that are done, of those that there are.
#[derive(Debug, Default)]
pub struct ObjectProgress {
    done: AtomicUsize,
    /// 0 until all objects are listed.
    all: AtomicUsize,
}

impl ObjectProgress {
    /// All objects are listed.
    pub fn begin(&self, all: usize) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// One object is done.
    pub fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub fn in_words(&self) -> String {
        match self.all.load(Ordering::Relaxed) {
            0 => "reading from the servers…".to_owned(),
            all => {
                let done = self.done.load(Ordering::Relaxed);
                format!("{} of {} objects", grouped(done), grouped(all))
            }
        }
    }
}
