//! Many processes, tenants and objects on virtual time: how the work is spread, how fast it is done, and what a lost
//! process costs.
//!
//! A request takes [`ROUND_TRIP`], a list so much for each of its pages, and an event nothing. What the processor takes
//! is not modelled: `hack/bench` measures that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::dialect::Id;
use super::dice::Dice;
use super::leases::Leases;
use super::replica::{Beside, FeedState, Mode, Replica};
use super::set_chance;
use super::world::{FEEDS, World};

/// The time of a request, and of a page of a list.
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// The objects of a page.
const PAGE: usize = 500;
/// So often time passes between two looks at Leases.
const TICKS: usize = 100;
/// Nothing takes longer than this many seconds.
const LONGEST: usize = 10_000;

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) passes: usize,
    /// Until every object had a process, and nothing was left to do.
    pub(super) time: Duration,
    /// Changes of objects meanwhile: how many, and the longest time until the copy had one.
    pub(super) changes: usize,
    pub(super) slowest: Duration,
}

pub(super) struct Fleet {
    pub(super) world: World,
    pub(super) replicas: Vec<Replica>,
    leases: Leases,
    objects: usize,
    tenants: usize,
    dice: Dice,
    now: Duration,
    /// When the lists of processes arrive, by process and feed.
    lists: BTreeMap<(usize, usize), Duration>,
    /// A change that its copy does not have yet.
    changed: Option<(Id, usize, Duration)>,
}

impl Fleet {
    pub(super) fn start(objects: usize, tenants: usize, replicas: usize, shards: usize) -> Self {
        set_chance(1);
        let now = Duration::from_secs(1);
        let replicas = (0..replicas).map(|number| {
            let identity = format!("r_{number}").into();
            let replica = Replica::start(identity, Mode::Shared(shards), now, 0);
            (0..tenants).for_each(|tenant| replica.route(&format!("w{tenant}")));
            replica
        });
        let mut fleet = Self {
            world: World::default(),
            replicas: replicas.collect(),
            leases: Leases::default(),
            objects,
            tenants,
            dice: Dice::new(1),
            now,
            lists: BTreeMap::new(),
            changed: None,
        };
        for number in 0..objects {
            let content = json!({"spec": {"size": number, "region": "north"}});
            fleet.world.put(&fleet.id(number).0.thing, &content);
        }
        fleet.forget();
        fleet
    }

    fn id(&self, number: usize) -> Id {
        let tenant = number % self.tenants;
        Id::new(&format!("w{tenant}"), &format!("o{number}"))
    }

    /// Until every object has a process, and nothing is left to do. With `changing`, somebody changes an object that a
    /// process works on, again and again.
    pub(super) fn rest(&mut self, changing: bool) -> Measured {
        let (began, requests) = (self.now, self.world.requests);
        self.changed = None;
        let mut measured = Measured::default();
        for second in 0..LONGEST {
            for replica in &mut self.replicas {
                replica.advance(self.now, &mut self.leases, false);
            }
            for _ in 0..TICKS {
                measured.passes += self.tick();
                if changing {
                    self.change(second, &mut measured);
                }
            }
            let backlog: usize = self.replicas.iter().map(Replica::backlog).sum();
            if backlog <= usize::from(changing) && self.is_at_rest() {
                break;
            }
        }
        measured.requests = self.world.requests - requests;
        measured.time = self.now.saturating_sub(began);
        measured
    }

    /// Whether each object has a process, and all processes have as many shards.
    fn is_at_rest(&self) -> bool {
        let (fewest, most) = self.spread();
        let is_worked_on = |tenant| {
            let id = self.id(tenant);
            self.replicas.iter().any(|it| it.works_on(&id))
        };
        most - fewest <= 1 && (0..self.tenants).all(is_worked_on)
    }

    /// The time of a request passes. Returns the passes that began.
    fn tick(&mut self) -> usize {
        self.now += ROUND_TRIP;
        let mut passes = 0;
        for at in 0..self.replicas.len() {
            self.replicas[at].wake(self.now);
            self.hear(at);
            passes += self.work(at);
        }
        self.forget();
        passes
    }

    fn hear(&mut self, at: usize) {
        for feed in 0..FEEDS {
            let replica = &mut self.replicas[at];
            if replica.wants_list(feed) {
                let log = &self.world.logs[feed];
                replica.request_list(feed, log.len(), self.world.version);
                let pages = u32::try_from(log.objects() / PAGE).unwrap_or(u32::MAX);
                self.lists.insert((at, feed), self.now + ROUND_TRIP * pages);
            }
            let has_list = self
                .lists
                .get(&(at, feed))
                .is_some_and(|it| *it <= self.now);
            let of = &replica.feeds[feed];
            if has_list || matches!(of.state, FeedState::Following(_)) {
                while replica.hear(feed, &self.world) {}
            }
            if has_list {
                replica.hear_beside(feed, &self.world);
                self.lists.remove(&(at, feed));
            }
        }
    }

    /// Requests that were sent are answered, passes go on, and others begin.
    fn work(&mut self, at: usize) -> usize {
        let replica = &mut self.replicas[at];
        replica.work(&mut self.dice);
        let mut passes = 0;
        while replica.begin(&mut self.dice).is_some() {
            passes += 1;
        }
        replica.work(&mut self.dice);
        for sent in std::mem::take(&mut *replica.waiting.lock()) {
            let answer = self.world.serve(&sent.about, &sent.request);
            *sent.slot.lock() = Some(answer);
        }
        passes
    }

    /// Forgets events that every process has heard, or will see in a list.
    fn forget(&mut self) {
        for (feed, log) in self.world.logs.iter_mut().enumerate() {
            let needed = self.replicas.iter().flat_map(|replica| {
                let of = &replica.feeds[feed];
                let next = match of.state {
                    FeedState::Following(events) | FeedState::Listing { events, .. } => {
                        Some(events)
                    }
                    FeedState::Cold => None,
                };
                let beside = match of.beside {
                    Beside::Listing { events, .. } => Some(events),
                    Beside::Nothing | Beside::Due => None,
                };
                next.into_iter().chain(beside)
            });
            let needed = needed.min();
            log.forget(needed.unwrap_or(log.len()));
        }
    }

    /// Changes an object that a process works on, if the last change has arrived.
    fn change(&mut self, number: usize, measured: &mut Measured) {
        if let Some((id, size, since)) = &self.changed {
            let copy = self.world.get(&id.0.copy);
            if copy.is_none_or(|copy| copy.as_value()["spec"]["size"] != *size) {
                return;
            }
            let took = self.now.saturating_sub(*since);
            measured.slowest = measured.slowest.max(took);
            measured.changes += 1;
        }
        let chosen = self.dice.below(self.objects);
        let id = self.id(chosen);
        let has_copy = self.world.get(&id.0.copy).is_some();
        if has_copy && self.replicas.iter().any(|it| it.works_on(&id)) {
            let size = self.objects + number;
            let patch = json!({"spec": {"size": size}});
            self.world.patch(&id.0.thing, patch);
            self.changed = Some((id, size, self.now));
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
