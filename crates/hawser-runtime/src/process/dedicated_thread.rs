//! A separate thread for tasks that must not wait for anything else: leader election and probes.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// A thread with its own runtime, which ends with the last clone. Long computations do not belong there.
#[derive(Clone, Debug)]
pub struct DedicatedThread {
    handle: Handle,
    _end: Arc<DropGuard>,
}

impl DedicatedThread {
    pub fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let end = CancellationToken::new();
        let ended = end.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(ended.cancelled());
                // What waits for an address or a server is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            _end: Arc::new(end.drop_guard()),
        })
    }

    /// Runs a task there until the handle is dropped.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(self.handle.spawn(work))
    }

    /// Runs a future there and returns its result.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.spawn(work).await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Creates something whose tasks run there.
    pub fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let _here = self.handle.enter();
        make()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_is_apart_goes_on_while_everything_else_computes() {
        let apart = DedicatedThread::start("apart").unwrap();
        let (say, said) = mpsc::channel();
        let speaking = apart.spawn(async move {
            tokio::task::yield_now().await;
            say.send(thread::current().name().map(str::to_owned))
        });
        // The only thread of this runtime waits, and nothing else of it can go on.
        assert_eq!(said.recv().unwrap().as_deref(), Some("apart"));
        speaking.await.unwrap().unwrap();
        assert_eq!(apart.run(async { 1 }).await, 1);
    }

    #[tokio::test]
    async fn the_thread_ends_with_whoever_has_use_for_it() {
        let apart = DedicatedThread::start("apart").unwrap();
        let (held, end) = tokio::sync::oneshot::channel::<()>();
        let _waits = apart.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(apart.clone());
        assert_eq!(apart.run(async { 1 }).await, 1);
        drop(apart);
        assert!(end.await.is_err());
    }
}
