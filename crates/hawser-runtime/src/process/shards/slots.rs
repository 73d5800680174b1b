//! The shards of this process: which of them it may work on, each behind the fence of its Lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use crate::process::lease::{Fence, Fenced};

/// A change of the shards that this process works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChange {
    Opened(usize),
    Closed(usize),
}

/// The shards that a process works on.
#[derive(Debug)]
pub struct Shards {
    slots: Box<[Mutex<Slot>]>,
    /// The shards whose objects this process needs, now or soon; `None` until that is known.
    wanted: watch::Sender<Option<BTreeSet<usize>>>,
    /// Notified when work on a shard has ended.
    ended: Notify,
    changes: mpsc::UnboundedSender<ShardChange>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Set while work may be done. Each time that the shard is taken has a fence of its own, which closes for good.
    fence: Option<Fence>,
    /// Whether new work may begin.
    begins: bool,
    running: usize,
}

/// Work on a shard. It belongs to the time that the shard is held: when the shard is taken again, it may not write.
#[derive(Debug)]
pub struct ShardWork {
    shards: Arc<Shards>,
    shard: usize,
    fence: Fence,
}

impl Shards {
    /// Closed shards, and the changes to come.
    pub fn new(count: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<ShardChange>) {
        let (changes, heard) = mpsc::unbounded_channel();
        let shards = Self {
            slots: (0..count).map(|_| Mutex::default()).collect(),
            wanted: watch::Sender::default(),
            ended: Notify::new(),
            changes,
        };
        (Arc::new(shards), heard)
    }

    /// The shards whose objects this process needs, now or soon; `None` until that is known.
    pub fn wanted(&self) -> watch::Receiver<Option<BTreeSet<usize>>> {
        self.wanted.subscribe()
    }

    pub(super) fn want(&self, shards: BTreeSet<usize>) {
        self.wanted.send_if_modified(|wanted| {
            let is_news = wanted.as_ref() != Some(&shards);
            *wanted = Some(shards);
            is_news
        });
    }

    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The shards that new work may begin in.
    pub fn held(&self) -> Vec<usize> {
        let shards = 0..self.count();
        shards.filter(|shard| self.is_held(*shard)).collect()
    }

    pub fn is_held(&self, shard: usize) -> bool {
        self.slots.get(shard).is_some_and(|slot| slot.lock().begins)
    }

    /// Whether a write about something in this shard may begin now.
    pub fn check(&self, shard: usize) -> Result<(), Fenced> {
        let slot = self.slots.get(shard).ok_or(Fenced)?;
        slot.lock().fence.as_ref().map_or(Err(Fenced), Fence::check)
    }

    /// Begins work in a shard; `None` if this process does not hold it.
    pub fn begin(self: &Arc<Self>, shard: usize) -> Option<ShardWork> {
        let mut slot = self.slots.get(shard)?.lock();
        let fence = slot.fence.clone().filter(|_| slot.begins)?;
        slot.running += 1;
        Some(ShardWork {
            shards: Arc::clone(self),
            shard,
            fence,
        })
    }

    pub(super) fn open(&self, shard: usize, fence: &Fence) {
        let mut slot = self.slots[shard].lock();
        (slot.fence, slot.begins) = (Some(fence.clone()), true);
        drop(slot);
        // Nobody listens only while the process ends.
        let _ = self.changes.send(ShardChange::Opened(shard));
    }

    /// Begins no more work in a shard, and waits for what runs; returns whether that has ended in time.
    pub(super) async fn drain(&self, shard: usize, limit: Duration) -> bool {
        self.slots[shard].lock().begins = false;
        let idle = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if self.slots[shard].lock().running == 0 {
                    return;
                }
                ended.await;
            }
        };
        timeout(limit, idle).await.is_ok()
    }

    pub(super) fn close(&self, shard: usize) {
        let mut slot = self.slots[shard].lock();
        slot.begins = false;
        let was_open = slot.fence.take().is_some();
        drop(slot);
        if was_open {
            let _ = self.changes.send(ShardChange::Closed(shard));
        }
    }
}

impl ShardWork {
    /// Whether a write of this work may begin now.
    pub fn check(&self) -> Result<(), Fenced> {
        self.fence.check()
    }

    /// Outlives the work, for what is sent after it.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

impl Drop for ShardWork {
    fn drop(&mut self) {
        self.shards.slots[self.shard].lock().running -= 1;
        self.shards.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_is_drained_begins_nothing_and_finishes_what_runs() {
        let (shards, mut changes) = Shards::new(2);
        assert!(shards.begin(0).is_none());
        assert_eq!(shards.check(0), Err(Fenced));
        shards.open(0, &Fence::always_open());
        assert_eq!((shards.held(), shards.count()), (vec![0], 2));
        let work = shards.begin(0).unwrap();
        let drained = {
            let shards = Arc::clone(&shards);
            tokio::spawn(async move { shards.drain(0, Duration::from_secs(3)).await })
        };
        tokio::task::yield_now().await;
        assert!(shards.begin(0).is_none());
        assert_eq!((work.check(), shards.check(0)), (Ok(()), Ok(())));
        drop(work);
        assert!(drained.await.unwrap());
        shards.close(0);
        shards.close(0);
        assert_eq!(shards.check(0), Err(Fenced));
        assert_eq!(changes.recv().await, Some(ShardChange::Opened(0)));
        assert_eq!(changes.recv().await, Some(ShardChange::Closed(0)));
        assert!(changes.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_not_waited_for_for_ever() {
        let (shards, _changes) = Shards::new(1);
        shards.open(0, &Fence::always_open());
        let _work = shards.begin(0).unwrap();
        assert!(!shards.drain(0, Duration::from_secs(3)).await);
    }

    #[test]
    fn work_of_an_earlier_time_may_not_write_when_the_shard_is_taken_again() {
        let (shards, _changes) = Shards::new(1);
        let earlier = Fence::closed();
        shards.open(0, &earlier);
        let work = shards.begin(0).unwrap();
        shards.close(0);
        shards.open(0, &Fence::always_open());
        assert_eq!(shards.check(0), Ok(()));
        assert_eq!(work.check(), Err(Fenced));
    }
}
