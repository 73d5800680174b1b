//! Slow work outside of the serving threads, so that connections, handshakes and small requests do not wait for another
//! request's table of a hundred thousand rows.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::status::Status;

/// The number of concurrent tasks, which also bounds their memory.
const AT_ONCE: usize = 2;

/// Work on fewer bytes of JSON than this is done in place.
pub(super) const SMALL: usize = 64 * 1024;

/// The permits for such work.
#[derive(Clone)]
pub(super) struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Aside {
    /// Runs a slow task when it has a permit. It continues, with its permit, even if nobody waits for it any more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let place = place.map_err(Status::internal)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(place);
            result
        });
        done.await.map_err(Status::internal)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn only_so_much_is_done_at_a_time_and_the_rest_has_its_turn() {
        let aside = Aside::default();
        let (let_go, held) = mpsc::channel::<()>();
        let (begun, beginnings) = mpsc::channel();
        let held = Arc::new(parking_lot::Mutex::new(held));
        let start = |name: usize| {
            let (aside, held, begun) = (aside.clone(), Arc::clone(&held), begun.clone());
            tokio::spawn(async move {
                let work = move || {
                    begun.send(name).unwrap();
                    held.lock().recv().unwrap();
                    name
                };
                aside.run(work).await.unwrap()
            })
        };
        let first = [start(0), start(1)];
        let wait = tokio::task::spawn_blocking(move || {
            let both = [beginnings.recv().unwrap(), beginnings.recv().unwrap()];
            (both, beginnings)
        });
        let (_, beginnings) = wait.await.unwrap();
        let third = aside.run(|| 2);
        tokio::pin!(third);
        assert!(third.as_mut().now_or_never().is_none(), "there was a place");
        let_go.send(()).unwrap();
        assert_eq!(third.await.unwrap(), 2);
        let_go.send(()).unwrap();
        for task in first {
            task.await.unwrap();
        }
        assert!(beginnings.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_panics_is_an_error_and_leaves_its_place() {
        let aside = Aside::default();
        for _ in 0..=AT_ONCE {
            let failed = aside.run(|| assert_eq!(1, 2)).await;
            assert_eq!(failed.unwrap_err().code, 500);
        }
        assert_eq!(aside.run(|| 1).await.unwrap(), 1);
    }
}
