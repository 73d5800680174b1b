//! Many processes, tenants and objects: how the work is spread, what it costs, and what a lost process costs.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::dialect::Id;
use super::dice::Dice;
use super::leases::Leases;
use super::replica::{Mode, Replica};
use super::set_chance;
use super::world::{FEEDS, World};

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) passes: usize,
    /// Until everything was at rest, on virtual time.
    pub(super) time: Duration,
    /// The same on the clock of the machine.
    pub(super) cost: Duration,
}

pub(super) struct Fleet {
    pub(super) world: World,
    pub(super) replicas: Vec<Replica>,
    leases: Leases,
    ids: Vec<Id>,
    dice: Dice,
    now: Duration,
}

const SECOND: Duration = Duration::from_secs(1);
/// Nothing takes longer than this.
const LONGEST: usize = 600;

impl Fleet {
    pub(super) fn start(objects: usize, tenants: usize, replicas: usize, shards: usize) -> Self {
        set_chance(1);
        let mut world = World::default();
        let id = |number: usize| Id::new(&format!("w{}", number % tenants), &format!("o{number}"));
        let ids: Vec<Id> = (0..objects).map(id).collect();
        for (number, id) in ids.iter().enumerate() {
            world.put(
                &id.0.thing,
                &json!({"spec": {"size": number, "region": "north"}}),
            );
        }
        let now = SECOND;
        let replicas = (0..replicas).map(|number| {
            let identity = format!("r_{number}").into();
            let replica = Replica::start(identity, Mode::Shared(shards), now, 0);
            (0..tenants).for_each(|tenant| replica.route(&format!("w{tenant}")));
            replica
        });
        Self {
            world,
            replicas: replicas.collect(),
            leases: Leases::default(),
            ids,
            dice: Dice::new(1),
            now,
        }
    }

    /// Everything arrives, and all passes are made, until all objects have a process and nothing is left to do.
    pub(super) fn rest(&mut self) -> Measured {
        let (began, requests, started) = (self.now, self.world.requests, Instant::now());
        let mut passes = 0;
        for _ in 0..LONGEST {
            let before = passes;
            for at in 0..self.replicas.len() {
                self.hear(at);
                passes += self.work(at);
            }
            let is_worked_on = |id: &Id| self.replicas.iter().any(|it| it.works_on(id));
            let (fewest, most) = self.spread();
            let is_even = most - fewest <= 1;
            if passes == before && is_even && self.ids.iter().all(is_worked_on) {
                break;
            }
            self.now += SECOND;
            for replica in &mut self.replicas {
                replica.advance(self.now, &mut self.leases, false);
            }
        }
        Measured {
            requests: self.world.requests - requests,
            passes,
            time: self.now.saturating_sub(began),
            cost: started.elapsed(),
        }
    }

    fn hear(&mut self, at: usize) {
        for feed in 0..FEEDS {
            let replica = &mut self.replicas[at];
            if replica.wants_list(feed) {
                let events = self.world.logs[feed].len();
                replica.request_list(feed, events, self.world.version);
            }
            while replica.hear(feed, &self.world) {}
            replica.hear_beside(feed, &self.world);
        }
    }

    fn work(&mut self, at: usize) -> usize {
        let replica = &mut self.replicas[at];
        let mut passes = 0;
        loop {
            while replica.begin(&mut self.dice).is_some() {
                passes += 1;
                replica.work(&mut self.dice);
            }
            let waiting = std::mem::take(&mut *replica.waiting.lock());
            if waiting.is_empty() {
                return passes;
            }
            for sent in waiting {
                let answer = self.world.serve(&sent.about, &sent.request);
                *sent.slot.lock() = Some(answer);
            }
            replica.work(&mut self.dice);
        }
    }

    /// A process is killed.
    pub(super) fn lose(&mut self) {
        self.replicas.pop();
    }

    /// The fewest and the most shards of a process.
    pub(super) fn spread(&self) -> (usize, usize) {
        let held = || self.replicas.iter().map(Replica::held);
        (
            held().min().unwrap_or_default(),
            held().max().unwrap_or_default(),
        )
    }
}
