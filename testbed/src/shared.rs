//! Servers that several tests share. They end when no test has used them for a while.
//!
//! Tests run in the order of their names, so those that share something are seldom all neighbours: it outlives its last
//! user a little.

use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::eventually::SOON;

/// The time for which something is kept without a user.
const KEPT: Duration = SOON;

/// Something that any number of tests use at the same time. The first one starts it.
pub struct Shared<T> {
    running: Mutex<Option<Arc<T>>>,
    /// Held while it starts.
    starting: tokio::sync::Mutex<()>,
    last_used: Mutex<Option<Instant>>,
}

/// The use of something shared.
pub struct Use<T: Send + Sync + 'static> {
    of: &'static Shared<T>,
    running: Arc<T>,
}

// === impl Shared ===

impl<T: Send + Sync + 'static> Shared<T> {
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            running: Mutex::new(None),
            starting: tokio::sync::Mutex::const_new(()),
            last_used: Mutex::new(None),
        }
    }

    /// Uses what runs, or starts it.
    pub async fn get(&'static self, start: impl AsyncFnOnce() -> Result<T>) -> Result<Use<T>> {
        let _starting = self.starting.lock().await;
        let running = self.running.lock().clone();
        let running = if let Some(running) = running {
            running
        } else {
            let started = Arc::new(start().await?);
            *self.running.lock() = Some(Arc::clone(&started));
            started
        };
        Ok(Use { of: self, running })
    }

    /// Ends it if it has no user and had none since this time.
    fn end(&self, since: Instant) {
        let mut running = self.running.lock();
        let is_used = running.as_ref().is_some_and(|it| Arc::strong_count(it) > 1);
        if !is_used && self.last_used.lock().is_none_or(|last| last <= since) {
            let ended = running.take();
            drop(running);
            drop(ended);
        }
    }
}

impl<T: Send + Sync + 'static> Deref for Use<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.running
    }
}

impl<T: Send + Sync + 'static> Drop for Use<T> {
    fn drop(&mut self) {
        let (of, now) = (self.of, Instant::now());
        *of.last_used.lock() = Some(now);
        thread::spawn(move || {
            thread::sleep(KEPT);
            of.end(now);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Something that counts how many of it have ended.
    struct Counted(&'static AtomicUsize);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn what_is_shared_is_started_once_and_ends_some_time_after_its_last_user() -> Result<()> {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        static SHARED: Shared<Counted> = Shared::new();
        let get = || SHARED.get(async || Ok(Counted(&ENDED)));
        let (one, two) = (get().await?, get().await?);
        assert!(Arc::ptr_eq(&one.running, &two.running));
        drop(one);
        let first = Instant::now();
        SHARED.end(first);
        assert_eq!(ENDED.load(Ordering::SeqCst), 0, "it is in use");
        drop(two);
        SHARED.end(first);
        assert_eq!(ENDED.load(Ordering::SeqCst), 0, "it was used since");
        SHARED.end(Instant::now());
        assert_eq!(ENDED.load(Ordering::SeqCst), 1);
        get().await?;
        Ok(())
    }
}
