//! Where passes compute: apart from the threads that talk to servers, so many at a time, and fewer of one
//! workspace.
//!
//! What an object costs is bounded, and still a thousand times what most objects cost. Whoever computes for long
//! has a thread of the operating system meanwhile, which shares the processors out between it and everybody else.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// Workspaces that are kept in mind before those without a pass are dropped.
const KEPT: usize = 128;

/// Turns to compute.
pub struct Evaluation {
    turns: Semaphore,
    /// How many of them one workspace may have.
    share: usize,
    workspaces: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl Evaluation {
    /// With turns for the processors there are, and at least two, so that no workspace has all of them.
    pub fn new(processors: usize) -> Self {
        let turns = processors.max(2);
        Self {
            turns: Semaphore::new(turns),
            share: turns / 2,
            workspaces: Mutex::default(),
        }
    }

    /// Computes when it is this workspace's turn. Workspaces come in the order in which they asked.
    pub async fn run<T>(&self, workspace: &Arc<str>, work: impl FnOnce() -> T) -> T {
        let share = self.share_of(workspace);
        let proof = "no semaphore of an evaluation is ever closed";
        let _of_share = share.acquire().await.expect(proof);
        let _turn = self.turns.acquire().await.expect(proof);
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => block_in_place(work),
            // There is no other thread that could go on with everything else.
            _ => work(),
        }
    }

    fn share_of(&self, workspace: &Arc<str>) -> Arc<Semaphore> {
        let mut workspaces = self.workspaces.lock();
        if let Some(share) = workspaces.get(workspace).and_then(Weak::upgrade) {
            return share;
        }
        if workspaces.len() >= KEPT {
            workspaces.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.share));
        workspaces.insert(Arc::clone(workspace), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::mpsc::unbounded_channel;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_of_many_objects_of_one_workspace_holds_up_neither_another_one_nor_the_runtime() {
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
            "a second one of the same workspace began"
        );
        drop(long);
        assert_eq!(passes.join_all().await.len(), 32);
    }

    #[tokio::test]
    async fn workspaces_without_passes_are_forgotten() {
        let evaluation = Evaluation::new(2);
        for i in 0..10 * KEPT {
            evaluation.run(&i.to_string().into(), || ()).await;
        }
        assert!(evaluation.workspaces.lock().len() <= KEPT);
    }
}
