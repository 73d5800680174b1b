//! Two processes that work on the same subject at the same time.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::json;

use super::super::model::{Cache, Front, World};
use super::super::request::{Answer, Request};
use super::super::{Cluster, run};
use super::with;

/// A process that shares both control planes with another one.
struct Process<'s> {
    world: &'s World,
    cache: Cache,
}

impl Process<'_> {
    async fn work(&self, front: &Front) {
        for _ in 0..3 {
            self.cache.deliver(self.world, |_| true);
            run(front, None, &self.cache, self).await;
        }
    }
}

impl Cluster for Process<'_> {
    async fn send(&self, request: &Request) -> Answer {
        // The other one may have its turn.
        let mut is_first = true;
        std::future::poll_fn(|_| {
            if std::mem::take(&mut is_first) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        let answer = self.world.send(request).await;
        self.cache.learn(request, &answer);
        answer
    }
}

/// Every bit of the order gives one of the two processes a turn.
fn work_in_turns(processes: &[Process<'_>; 2], front: &Front, order: u64) {
    let [first, second] = processes;
    let (mut first, mut second) = (pin!(first.work(front)), pin!(second.work(front)));
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = (0..64).map(|bit| order >> bit & 1 == 1);
    let mut done = [false; 2];
    while done != [true; 2] {
        let is_first = turns.next().unwrap_or(!done[0]);
        if is_first && !done[0] {
            done[0] = first.as_mut().poll(&mut context).is_ready();
        } else if !done[1] {
            done[1] = second.as_mut().poll(&mut context).is_ready();
        }
    }
}

#[test]
fn a_copy_that_two_processes_want_to_create_goes_with_its_object() {
    for content in [json!({}), json!({"data": {"k": "v"}})] {
        for seed in 1..1000_u64 {
            let order = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (stage, front) = with(|front| front.related = true);
            let (config, target) = front.config();
            stage.world.put(&config, &content);
            stage
                .world
                .put(&front.source(), &json!({"spec": {"size": 1}}));
            let world = &stage.world;
            let process = || Process {
                world,
                cache: Cache::default(),
            };
            work_in_turns(&[process(), process()], &front, order);
            stage.settle();
            assert!(world.get(&target).is_some(), "{content} {seed}");
            world.delete(&front.source());
            stage.settle();
            let left = (world.get(&target), stage.leftovers());
            assert_eq!(left, (None, BTreeSet::new()), "{content} {seed}");
        }
    }
}
