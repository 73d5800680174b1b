//! The threads on which passes compute: separate from the threads for requests, with a limit on concurrent computations,
//! and a lower one for each tenant.
//!
//! The cost of an object is bounded, but the bound is a thousand times the usual cost. A long computation has a thread
//! of the operating system, which shares the processors between it and everything else.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::shares::PermitShares;

/// The permits to compute.
pub struct Evaluation(PermitShares);

impl Evaluation {
    /// One permit for each processor, at least two, so that no tenant has all of them.
    pub fn new(processors: usize) -> Self {
        let turns = processors.max(2);
        Self(PermitShares::new(turns, turns / 2))
    }

    /// Computes when it is this tenant's turn. Tenants come in the order of their requests.
    pub async fn run<T>(&self, tenant: &Arc<str>, work: impl FnOnce() -> T) -> T {
        let _turn = self.0.acquire(tenant, 1).await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => block_in_place(work),
            // There is no other thread that could go on with everything else.
            _ => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use parking_lot::Mutex;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_of_many_objects_of_one_tenant_holds_up_neither_another_one_nor_the_runtime() {
        let evaluation = Arc::new(Evaluation::new(1));
        let (begin, mut begun) = unbounded_channel();
        // What computes for long ends when this is dropped.
        let (long, short) = mpsc::channel::<()>();
        let short = Arc::new(Mutex::new(short));
        let mut passes = JoinSet::new();
        for _ in 0..32 {
            let (evaluation, begin) = (Arc::clone(&evaluation), begin.clone());
            let short = Arc::clone(&short);
            passes.spawn(async move {
                let work = || {
                    begin.send(()).expect("the test listens");
                    let _ = short.lock().recv();
                };
                evaluation.run(&"a".into(), work).await;
            });
        }
        begun.recv().await.expect("one begins");
        // It has the only thread of the runtime; everything else goes on.
        let other = Arc::clone(&evaluation);
        let other = tokio::spawn(async move { other.run(&"b".into(), || 1).await });
        assert_eq!(other.await.unwrap(), 1);
        assert!(
            begun.try_recv().is_err(),
            "a second one of the same tenant began"
        );
        drop(long);
        assert_eq!(passes.join_all().await.len(), 32);
    }
}
