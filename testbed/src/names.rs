//! Names that no other test uses, in this process or in one beside it.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A DNS label that begins with `what` and that nobody else gets: for namespaces, users, releases,
/// and as the first label of an API group.
pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{:x}-{count:x}", process::id())
}
